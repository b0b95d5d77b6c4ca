//! How a column is reached: the current row, and the byte tables behind it if there are any.

use super::index::NO_ROW;
use super::key_rows::KeyColumn;
use crate::{At, ByteTables, KeyedStateBackend, MaxParallelism, Residence, SerializerError, StateError, TableId};

/// The current row of a call on a column.
pub(crate) struct Access<'a> {
    /// The row.
    pub(crate) row: u32,
    /// Whether the rows are only a cache of the byte tables.
    pub(crate) is_cache: bool,
    /// Where a row goes that may have lost its last state.
    pub(crate) emptied: &'a mut Vec<u32>,
    /// The byte tables, if the rows are a cache of them.
    pub(crate) behind: Behind<'a>,
}

/// The byte tables behind the rows, as the column of one table reaches them.
pub struct Behind<'a> {
    pub(crate) backend: &'a mut dyn KeyedStateBackend,
    pub(crate) table: TableId,
    pub(crate) max_parallelism: MaxParallelism,
    pub(crate) keys: &'a dyn KeyColumn,
    pub(crate) key_bytes: &'a mut KeyBytes,
}

/// The serialised key of the row that was reached last.
pub(crate) struct KeyBytes {
    row: u32,
    bytes: Vec<u8>,
}

impl KeyBytes {
    pub(crate) fn new() -> Self {
        Self { row: NO_ROW, bytes: Vec::new() }
    }

    /// To be called when rows get other keys.
    pub(crate) fn forget(&mut self) {
        self.row = NO_ROW;
    }
}

impl Behind<'_> {
    /// The byte tables, and the address in them of a row of state `state`, without a map key.
    pub(crate) fn reach(&mut self, state: &str, row: u32) -> Result<(&mut dyn ByteTables, At<'_>), StateError> {
        let group = self.max_parallelism.group_of(self.keys.hash(row).expect("only rows in use are reached"));
        let key = &mut *self.key_bytes;
        if key.row != row {
            key.row = NO_ROW;
            key.bytes.clear();
            self.keys.serialize(row, &mut key.bytes).map_err(serializer_error(state))?;
            key.row = row;
        }
        let at = At { table: self.table, group, key: &key.bytes, namespace: &[], map_key: &[] };
        Ok((byte_tables(self.backend), at))
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
