//! How a column is reached: the current row, and the byte tables behind it if there are any.

use super::index::NO_ROW;
use super::key_rows::{KeyColumn, OwnedGroups};
use crate::{At, ByteTables, KeyedStateBackend, Residence, SerializerError, StateError, TableId};

/// The current row of a call on a column. Small, because one is made for every call.
pub(crate) struct Access<'a> {
    /// The byte tables, if the rows are a cache of them.
    pub(crate) behind: Behind<'a>,
    /// The row.
    pub(crate) row: u32,
    /// Whether the rows are only a cache of the byte tables.
    pub(crate) is_cache: bool,
}

impl Access<'_> {
    /// Notes that the current row may have lost its last state.
    #[inline]
    pub(crate) fn note_emptied(&mut self) {
        self.behind.keys.emptied.push(self.row);
    }
}

/// The keys of all rows, and what is known of the rows whatever their columns.
pub(crate) struct Keys {
    pub(crate) groups: OwnedGroups,
    pub(crate) column: Box<dyn KeyColumn>,
    /// Rows that were made, or lost a state, in this batch.
    pub(crate) emptied: Vec<u32>,
    serialized: SerializedKey,
}

/// The serialised key of the row that was reached last.
struct SerializedKey {
    row: u32,
    bytes: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(groups: OwnedGroups, column: Box<dyn KeyColumn>) -> Self {
        let serialized = SerializedKey { row: NO_ROW, bytes: Vec::new() };
        Self { groups, column, emptied: Vec::new(), serialized }
    }

    /// As a cache: gives all rows back.
    pub(crate) fn forget(&mut self) {
        self.emptied.clear();
        self.column.forget();
        self.serialized.row = NO_ROW;
    }
}

/// The byte tables behind the rows, as the column of one table reaches them.
pub struct Behind<'a> {
    pub(crate) backend: &'a mut Box<dyn KeyedStateBackend>,
    pub(crate) keys: &'a mut Keys,
    pub(crate) table: TableId,
}

impl Behind<'_> {
    /// The byte tables, and the address in them of a row of state `state`, without a map key.
    pub(crate) fn reach(&mut self, state: &str, row: u32) -> Result<(&mut dyn ByteTables, At<'_>), StateError> {
        let Keys { groups, column, serialized, .. } = &mut *self.keys;
        let hash = column.hash(row).expect("only rows in use are reached");
        if serialized.row != row {
            serialized.row = NO_ROW;
            serialized.bytes.clear();
            column.serialize(row, &mut serialized.bytes).map_err(serializer_error(state))?;
            serialized.row = row;
        }
        let group = groups.max_parallelism.group_of(hash);
        let at = At { table: self.table, group, key: &serialized.bytes, namespace: &[], map_key: &[] };
        Ok((byte_tables(&mut **self.backend), at))
    }
}

/// The byte tables of a backend that is known to keep its state in bytes.
pub(crate) fn byte_tables(backend: &mut dyn KeyedStateBackend) -> &mut dyn ByteTables {
    match backend.residence() {
        Residence::Bytes(tables) => tables,
        Residence::Rows => unreachable!("a backend never changes where it keeps the state"),
    }
}

/// Names the state in an error of its serializer.
pub(crate) fn serializer_error(state: &str) -> impl FnOnce(SerializerError) -> StateError {
    |source| StateError::Serializer { state: state.to_owned(), source }
}

/// Why a column cannot be reached. One word, so that the way to the column stays in registers.
pub(crate) struct AccessError(Box<StateError>);

impl From<StateError> for AccessError {
    #[cold]
    fn from(error: StateError) -> Self {
        Self(Box::new(error))
    }
}

impl From<AccessError> for StateError {
    #[cold]
    fn from(error: AccessError) -> Self {
        *error.0
    }
}
