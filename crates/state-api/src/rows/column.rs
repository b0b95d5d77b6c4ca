//! Columns: one registered state each, over the rows of all keys.

use std::any::Any;
use std::sync::Arc;

pub(crate) use super::access::Access;
use super::access::Behind;
pub(crate) use super::map_column::MapColumn;
pub(crate) use super::value_column::ValueColumn;
use crate::{Key, Serializer, State, StateError};

/// One registered state, whatever its type.
pub trait Column: Any + Send {
    /// Gives the column the seed of its hash tables, before anything else.
    fn set_hash_seed(&mut self, _seed: u64) {}

    /// Takes a restored entry of a row. Fails when the bytes cannot be read, or when the row has this entry already.
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError>;

    /// Whether a row has no state in this column.
    fn is_empty_at(&self, row: u32) -> bool;

    /// Freezes the column as it is.
    fn freeze(&mut self) -> Box<dyn FrozenColumn>;

    /// Does a bounded part of the work that finished snapshots have left behind.
    fn fold(&mut self);

    /// Touches the cells of rows that are about to be used, when the column was used since the last call, so that
    /// their cache misses overlap.
    fn warm(&mut self, rows: &[u32]);

    /// As a cache: how many rows of its own the column has, beside those of the keys.
    fn own_rows(&self) -> usize {
        0
    }

    /// As a cache: writes what is newer than the byte tables into them.
    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError>;

    /// As a cache: gives all rows back.
    fn forget(&mut self);
}

/// A column as it was at a freeze.
pub trait FrozenColumn: Send {
    /// Visits the entries of a row as (map key, value).
    fn visit(&self, row: u32, buffers: &mut Buffers, visit: &mut RowVisitor<'_>) -> Result<(), StateError>;
}

/// Receives the serialised entries of one row: map key and value.
pub(crate) type RowVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<(), StateError> + 'v;

/// Memory to serialise into, used again and again.
#[derive(Default)]
pub struct Buffers {
    /// For a map key.
    pub(crate) map_key: Vec<u8>,
    /// For a value.
    pub(crate) value: Vec<u8>,
}

pub(crate) fn value_column<T: State>(name: String, serializer: Arc<dyn Serializer<T>>) -> Box<dyn Column> {
    Box::new(ValueColumn::new(name, serializer))
}

pub(crate) fn map_column<UK: Key, UV: State>(
    name: String,
    key: Arc<dyn Serializer<UK>>,
    value: Arc<dyn Serializer<UV>>,
) -> Box<dyn Column> {
    Box::new(MapColumn::new(name, key, value))
}
