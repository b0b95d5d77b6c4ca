//! How a column is reached: the current row, and the byte tables behind it if there are any.

use std::ops::ControlFlow;

use super::index::NO_ROW;
use super::key_rows::{KeyColumn, OwnedGroups};
use super::namespaces::Namespaces;
use crate::{At, ByteTables, Entry, KeyedStateBackend, Prefix, Residence, SerializerError, StateError, TableId};

/// Entries that are removed from the byte tables between two scans.
const ENTRIES_REMOVED: usize = 4096;

/// The current row of a call on a column. Small, because one is made for every call.
pub struct Access<'a> {
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
        match &mut self.behind.namespaces {
            None => self.behind.keys.emptied.push(self.row),
            Some(namespaces) => namespaces.emptied.push(self.row),
        }
    }
}

/// The keys of all rows, and what is known of the rows whatever their columns.
pub(crate) struct Keys {
    pub(crate) groups: OwnedGroups,
    pub(crate) column: Box<dyn KeyColumn>,
    /// Rows that were made, or lost a state, in this batch.
    pub(crate) emptied: Vec<u32>,
    /// As a cache: a call of the byte tables has failed. What the rows and the bytes say together is not known since.
    pub(crate) has_failed: bool,
    serialized: SerializedKey,
    serialized_namespace: Vec<u8>,
}

/// The serialised key of the row that was reached last.
struct SerializedKey {
    row: u32,
    bytes: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(groups: OwnedGroups, column: Box<dyn KeyColumn>) -> Self {
        let serialized = SerializedKey { row: NO_ROW, bytes: Vec::new() };
        Self { groups, column, emptied: Vec::new(), has_failed: false, serialized, serialized_namespace: Vec::new() }
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
    /// The namespaces whose rows the column is over; `None` when it is over those of the keys.
    pub(crate) namespaces: Option<&'a mut Namespaces>,
    pub(crate) table: TableId,
}

impl Behind<'_> {
    /// The byte tables, and the address in them of a row of state `state`, without a map key.
    pub(crate) fn reach(&mut self, state: &str, row: u32) -> Result<(Tables<'_>, At<'_>), StateError> {
        let Keys { groups, column, has_failed, serialized, serialized_namespace, .. } = &mut *self.keys;
        serialized_namespace.clear();
        let key_row = match &self.namespaces {
            None => row,
            Some(namespaces) => {
                let rows = &*namespaces.rows;
                rows.serialize(row, serialized_namespace).map_err(serializer_error(state))?;
                rows.key_row(row).expect("only rows in use are reached")
            }
        };
        let hash = column.hash(key_row).expect("only rows in use are reached");
        if serialized.row != key_row {
            serialized.row = NO_ROW;
            serialized.bytes.clear();
            column.serialize(key_row, &mut serialized.bytes).map_err(serializer_error(state))?;
            serialized.row = key_row;
        }
        let group = groups.max_parallelism.group_of(hash);
        let (key, namespace) = (&serialized.bytes[..], &serialized_namespace[..]);
        let at = At { table: self.table, group, key, namespace, map_key: &[] };
        Ok((Tables { tables: byte_tables(&mut **self.backend), has_failed }, at))
    }

    /// The byte tables.
    pub(crate) fn tables(&mut self) -> Tables<'_> {
        Tables { tables: byte_tables(&mut **self.backend), has_failed: &mut self.keys.has_failed }
    }

    /// Removes all entries of a row of state `state` from the byte tables.
    pub(crate) fn remove_entries(&mut self, state: &str, row: u32) -> Result<(), StateError> {
        let (mut tables, at) = self.reach(state, row)?;
        let mut map_keys: Vec<Vec<u8>> = Vec::new();
        loop {
            map_keys.clear();
            tables.scan(prefix_of(at), &mut |found| {
                map_keys.push(found.at.map_key.to_vec());
                if map_keys.len() < ENTRIES_REMOVED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for map_key in &map_keys {
                tables.remove(At { map_key, ..at })?;
            }
            if map_keys.len() < ENTRIES_REMOVED {
                return Ok(());
            }
        }
    }
}

/// The byte tables, with a memory for failures: after one nobody knows what was done, and no snapshot may be taken.
pub(crate) struct Tables<'a> {
    pub(crate) tables: &'a mut dyn ByteTables,
    pub(crate) has_failed: &'a mut bool,
}

impl Tables<'_> {
    pub(crate) fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        self.tables.get(at, out).inspect_err(|_| *self.has_failed = true)
    }

    pub(crate) fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        self.tables.put(at, value).inspect_err(|_| *self.has_failed = true)
    }

    pub(crate) fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        self.tables.remove(at).inspect_err(|_| *self.has_failed = true)
    }

    pub(crate) fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        self.tables.scan(prefix, visit).inspect_err(|_| *self.has_failed = true)
    }
}

/// The entries of the key and namespace of an address.
pub(crate) fn prefix_of(at: At<'_>) -> Prefix<'_> {
    Prefix::Namespace { table: at.table, group: at.group, key: at.key, namespace: at.namespace }
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
