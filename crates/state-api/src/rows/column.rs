//! Columns: one registered state each, over the rows of all keys.

use std::any::Any;

pub(crate) use super::access::Access;
use super::access::Behind;
pub(crate) use super::accumulating_column::{Accumulate, AccumulatingColumn};
pub(crate) use super::list_column::ListColumn;
pub(crate) use super::map_column::MapColumn;
pub(crate) use super::value_column::ValueColumn;
use crate::StateError;

/// One registered state, whatever its type.
pub trait Column: Any + Send {
    /// Gives the column the seed of its hash tables, before anything else.
    fn set_hash_seed(&mut self, _seed: u64) {}

    /// Takes a restored entry of a row. Fails when the bytes cannot be read, or when the row has this entry already.
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError>;

    /// Every restored entry has been taken.
    fn finish_load(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    /// As a cache of lists: chunks that are written from now on have this position or a larger one, which are after those
    /// of all chunks that were restored.
    fn set_next_position(&mut self, _position: u64) {}

    /// Whether a row has no state in this column.
    fn is_empty_at(&self, row: u32) -> bool;

    /// Freezes the column as it is.
    fn freeze(&mut self) -> Box<dyn FrozenColumn>;

    /// Does a bounded part of the work that finished snapshots have left behind; whether there is more.
    fn fold(&mut self) -> bool;

    /// Touches the cells of rows that are about to be used, when the column was used since the last call, so that
    /// their cache misses overlap.
    fn warm(&mut self, rows: &[u32]);

    /// As a cache: how many rows of its own the column has, beside those of the keys.
    fn own_rows(&self) -> usize {
        0
    }

    /// Merges the state of the source rows into that of the current row and removes it from them. None of the sources is
    /// the current row. When a function fails, nothing has changed. Only called for kinds that can be merged.
    fn merge(&mut self, _access: &mut Access<'_>, _sources: &[u32]) -> Result<(), StateError> {
        unreachable!("the kind of this state cannot be merged")
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
