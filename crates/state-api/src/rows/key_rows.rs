//! The typed keys: which row a key has, and which key a row has.

use std::any::Any;
use std::hint::black_box;
use std::sync::Arc;

use super::access::serializer_error;
use super::index::{Index, NO_ROW};
use super::key_cell::{Bare, KeyCell, has_niche};
use super::paged::{FrozenPaged, Paged};
use super::round_trip::{RoundTrip, check_key, check_written_key, key_error};
use crate::{
    Key, KeyGroup, KeyGroupRange, KeyHash, KeyHasher, MaxParallelism, Serializer, SerializerError, StateError,
};

/// The key groups of the subtask whose keys these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnedGroups {
    pub(crate) max_parallelism: MaxParallelism,
    pub(crate) range: KeyGroupRange,
}

impl OwnedGroups {
    pub(crate) fn check(&self, group: KeyGroup) -> Result<(), StateError> {
        if self.range.contains(group) { Ok(()) } else { Err(StateError::ForeignKeyGroup { group, range: self.range }) }
    }
}

/// The keys of all rows, whatever their type.
pub(crate) trait KeyColumn: Send {
    /// For the typed side.
    fn as_any(&self) -> &dyn Any;

    /// For the typed side, once a batch.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Appends the serialised key of a row in use to `out`.
    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError>;

    /// The hash of the key of a row; `None` when the row is not in use.
    fn hash(&self, row: u32) -> Option<KeyHash>;

    /// Shows the key of a row in use.
    fn with_key(&self, row: u32, see: &mut dyn FnMut(&dyn Any));

    /// Finds or makes the row of a serialised key of group `group`, for a restored entry of state `state`. Rows that
    /// are made are appended to `made`.
    fn restore(
        &mut self,
        state: &str,
        group: KeyGroup,
        key: &[u8],
        hasher: &mut KeyHasher,
        made: &mut Vec<u32>,
    ) -> Result<u32, StateError>;

    /// Checks that a serialised key is one and belongs to `group`; for a restored entry of state `state`.
    fn check_group(&self, state: &str, group: KeyGroup, key: &[u8], hasher: &mut KeyHasher) -> Result<(), StateError>;

    /// Gives a row back; it may not be in use.
    fn release(&mut self, row: u32);

    /// Freezes the keys of all rows.
    fn freeze(&mut self) -> Box<dyn FrozenKeys>;

    /// See [`Paged::fold`].
    fn fold(&mut self) -> bool;

    /// Gives all rows back.
    fn forget(&mut self);

    /// How many rows are in use.
    fn len(&self) -> usize;
}

/// The keys as they were at a freeze.
pub(crate) trait FrozenKeys: Send {
    /// Rows from 0 up to this number may have been in use.
    fn row_count(&self) -> u32;

    /// The hash of the key of a row; `None` when the row was not in use.
    fn hash(&self, row: u32) -> Option<KeyHash>;

    /// Appends the serialised key of a row that was in use to `out`, for the entries of state `state`. Fails when the key is
    /// not read as it is written.
    fn serialize(&self, state: &str, row: u32, out: &mut Vec<u8>) -> Result<(), StateError>;
}

/// The keys of type `K`, kept in cells of type `C`.
pub(crate) struct KeyRows<K, C> {
    index: Index,
    cells: Paged<C>,
    /// The hashes of the keys; `None` where a row is not in use. Apart from the keys, because a record does not look
    /// at them.
    hashes: Paged<Option<u32>>,
    /// Rows below `row_count` that are not in use.
    free: Vec<u32>,
    row_count: u32,
    groups: OwnedGroups,
    round_trip: RoundTrip,
    /// Behind byte tables a key is its bytes, and one that is read as another would be taken for it: each is checked.
    is_cache: bool,
    serializer: Arc<dyn Serializer<K>>,
}

/// Empty keys of type `K`, in the cells that suit the type.
pub(crate) fn key_column<K: Key>(
    serializer: Arc<dyn Serializer<K>>,
    groups: OwnedGroups,
    seed: u64,
    is_cache: bool,
) -> Box<dyn KeyColumn> {
    if has_niche::<K>() {
        Box::new(KeyRows::<K, Option<K>>::new(serializer, groups, seed, is_cache))
    } else {
        Box::new(KeyRows::<K, Bare<K>>::new(serializer, groups, seed, is_cache))
    }
}

/// Calls something on keys by their type; fails with [`StateError::OtherKeyType`] when they have another.
macro_rules! typed {
    ($keys:expr, $key:ty, $rows:ident => $call:expr) => {
        if has_niche::<$key>() {
            let rows = $keys.as_any_mut().downcast_mut::<KeyRows<$key, Option<$key>>>();
            rows.ok_or_else(other_key_type::<$key>).and_then(|$rows| $call)
        } else {
            let rows = $keys.as_any_mut().downcast_mut::<KeyRows<$key, Bare<$key>>>();
            rows.ok_or_else(other_key_type::<$key>).and_then(|$rows| $call)
        }
    };
}

#[cold]
fn other_key_type<K>() -> StateError {
    StateError::OtherKeyType { key: std::any::type_name::<K>() }
}

/// Finds or makes the row of a key. A row that is made is appended to `made`.
#[inline]
pub(crate) fn row<K: Key>(
    keys: &mut dyn KeyColumn,
    key: &K,
    hash: KeyHash,
    made: &mut Vec<u32>,
) -> Result<u32, StateError> {
    typed!(keys, K, rows => rows.row(key, hash, made))
}

/// Finds or makes the rows of a batch of keys and writes them to `rows`. Rows that are made are appended to `made`.
pub(crate) fn resolve<'k, K: Key>(
    keys: &mut dyn KeyColumn,
    batch: impl Iterator<Item = (&'k K, KeyHash)> + Clone,
    rows: &mut Vec<u32>,
    made: &mut Vec<u32>,
) -> Result<(), StateError> {
    typed!(keys, K, typed => typed.resolve(batch, rows, made))
}

/// The key of a row; `None` when there is no such row.
pub(crate) fn key<K: Key>(keys: &dyn KeyColumn, row: u32) -> Result<Option<&K>, StateError> {
    if has_niche::<K>() {
        let rows = keys.as_any().downcast_ref::<KeyRows<K, Option<K>>>().ok_or_else(other_key_type::<K>)?;
        Ok(rows.cells.read(row).map(KeyCell::key))
    } else {
        let rows = keys.as_any().downcast_ref::<KeyRows<K, Bare<K>>>().ok_or_else(other_key_type::<K>)?;
        Ok(rows.cells.read(row).map(KeyCell::key))
    }
}

/// Visits every row in use with its key.
pub(crate) fn for_each<K: Key>(
    keys: &mut dyn KeyColumn,
    visit: impl FnMut(u32, &K, KeyHash),
) -> Result<(), StateError> {
    typed!(keys, K, rows => {
        rows.for_each(visit);
        Ok(())
    })
}

/// The serializer of the keys.
pub(crate) fn serializer<K: Key>(keys: &mut dyn KeyColumn) -> Result<Arc<dyn Serializer<K>>, StateError> {
    typed!(keys, K, rows => Ok(rows.serializer.clone()))
}

impl<K: Key, C: KeyCell<K>> KeyRows<K, C> {
    fn new(serializer: Arc<dyn Serializer<K>>, groups: OwnedGroups, seed: u64, is_cache: bool) -> Self {
        Self {
            index: Index::new(seed),
            cells: Paged::new(),
            hashes: Paged::new(),
            free: Vec::new(),
            row_count: 0,
            groups,
            round_trip: RoundTrip::default(),
            is_cache,
            serializer,
        }
    }

    #[inline]
    fn holds(&self, row: u32, key: &K) -> bool {
        self.cells.read(row).is_some_and(|cell| cell.holds(key))
    }

    #[inline]
    fn row(&mut self, key: &K, hash: KeyHash, made: &mut Vec<u32>) -> Result<u32, StateError> {
        let row = self.index.find(hash.0, |row| self.holds(row, key));
        if row == NO_ROW { self.make(key, hash, made) } else { Ok(row) }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, key: &K, hash: KeyHash, made: &mut Vec<u32>) -> Result<u32, StateError> {
        // Only here: a key that has a row was checked when the row was made.
        self.groups.check(self.groups.max_parallelism.group_of(hash))?;
        let check = || check_key(&*self.serializer, key).map_err(key_error("key"));
        if self.is_cache {
            check()?;
        } else {
            self.round_trip.check(check)?;
        }
        let row = self.free.pop().unwrap_or_else(|| {
            assert!(self.row_count < NO_ROW, "a subtask cannot have more than {NO_ROW} keys");
            self.row_count += 1;
            self.row_count - 1
        });
        *self.cells.write_or(row, || C::vacant(key)) = C::holding(key.clone());
        *self.hashes.write(row) = Some(hash.0);
        self.index.insert(hash.0, row);
        made.push(row);
        Ok(row)
    }

    /// Three sweeps, none of which waits for one key's memory before it asks for the next key's: first the places in
    /// the index, then the rows by hash alone, then the keys are compared.
    fn resolve<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k K, KeyHash)> + Clone,
        rows: &mut Vec<u32>,
        made: &mut Vec<u32>,
    ) -> Result<(), StateError> {
        black_box(keys.clone().fold(0, |all, (_, hash)| all ^ self.index.touch(hash.0)));
        rows.clear();
        rows.extend(keys.clone().map(|(_, hash)| self.index.find(hash.0, |_| true)));
        for (row, (key, hash)) in rows.iter_mut().zip(keys) {
            if *row == NO_ROW || !self.holds(*row, key) {
                *row = self.row(key, hash, made)?;
            }
        }
        Ok(())
    }

    /// Reads a serialised key of `group`, for an entry of state `state`.
    fn read(
        &self,
        state: &str,
        group: KeyGroup,
        key: &[u8],
        hasher: &mut KeyHasher,
    ) -> Result<(K, KeyHash), StateError> {
        let key = self.serializer.deserialize(key).map_err(serializer_error(state))?;
        let hash = hasher.hash(&key)?;
        let found = self.groups.max_parallelism.group_of(hash);
        if found == group {
            return Ok((key, hash));
        }
        let what = format!("state {state:?}: a key of key group {found} was stored in key group {group}");
        Err(StateError::Damaged(what))
    }

    fn for_each(&self, mut visit: impl FnMut(u32, &K, KeyHash)) {
        for row in 0..self.row_count {
            if let (Some(Some(hash)), Some(cell)) = (self.hashes.read(row), self.cells.read(row)) {
                visit(row, cell.key(), KeyHash(*hash));
            }
        }
    }
}

impl<K: Key, C: KeyCell<K>> KeyColumn for KeyRows<K, C> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        let cell = self.cells.read(row).expect("only rows in use are asked for their keys");
        self.serializer.serialize(cell.key(), out)
    }

    fn hash(&self, row: u32) -> Option<KeyHash> {
        self.hashes.read(row).copied().flatten().map(KeyHash)
    }

    fn with_key(&self, row: u32, see: &mut dyn FnMut(&dyn Any)) {
        see(self.cells.read(row).expect("only rows in use are asked for their keys").key());
    }

    fn restore(
        &mut self,
        state: &str,
        group: KeyGroup,
        key: &[u8],
        hasher: &mut KeyHasher,
        made: &mut Vec<u32>,
    ) -> Result<u32, StateError> {
        let (key, hash) = self.read(state, group, key, hasher)?;
        self.row(&key, hash, made)
    }

    fn check_group(&self, state: &str, group: KeyGroup, key: &[u8], hasher: &mut KeyHasher) -> Result<(), StateError> {
        self.read(state, group, key, hasher).map(|_| ())
    }

    fn release(&mut self, row: u32) {
        let Some(hash) = self.hash(row) else { return };
        self.index.remove(hash.0, row);
        *self.hashes.write(row) = None;
        if has_niche::<K>() {
            self.cells.write_or(row, || unreachable!("the row was in use")).vacate();
        }
        self.free.push(row);
    }

    fn freeze(&mut self) -> Box<dyn FrozenKeys> {
        Box::new(FrozenKeyRows {
            cells: self.cells.freeze(),
            hashes: self.hashes.freeze(),
            row_count: self.row_count,
            serializer: self.serializer.clone(),
        })
    }

    fn fold(&mut self) -> bool {
        self.cells.fold() | self.hashes.fold()
    }

    fn forget(&mut self) {
        self.index.clear();
        self.cells = Paged::new();
        self.hashes = Paged::new();
        self.free.clear();
        self.row_count = 0;
    }

    fn len(&self) -> usize {
        self.index.len()
    }
}

struct FrozenKeyRows<K, C> {
    cells: FrozenPaged<C>,
    hashes: FrozenPaged<Option<u32>>,
    row_count: u32,
    serializer: Arc<dyn Serializer<K>>,
}

impl<K: Key, C: KeyCell<K>> FrozenKeys for FrozenKeyRows<K, C> {
    fn row_count(&self) -> u32 {
        self.row_count
    }

    fn hash(&self, row: u32) -> Option<KeyHash> {
        self.hashes.read(row).copied().flatten().map(KeyHash)
    }

    fn serialize(&self, state: &str, row: u32, out: &mut Vec<u8>) -> Result<(), StateError> {
        let key = self.cells.read(row).expect("only rows in use are asked for their keys").key();
        let start = out.len();
        self.serializer.serialize(key, out).map_err(serializer_error(state))?;
        check_written_key(&*self.serializer, key, &out[start..]).map_err(key_error("key"))
    }
}
