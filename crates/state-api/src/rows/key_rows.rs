//! The typed keys: which row a key has, and which key a row has.

use std::any::Any;
use std::hint::black_box;
use std::sync::Arc;

use super::index::{Index, NO_ROW};
use super::paged::{FrozenPaged, Paged};
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

    /// Gives a row back; it may not be in use.
    fn release(&mut self, row: u32);

    /// Freezes the keys of all rows.
    fn freeze(&mut self) -> Box<dyn FrozenKeys>;

    /// See [`Paged::fold`].
    fn fold(&mut self);

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

    /// Appends the serialised key of a row that was in use to `out`.
    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError>;
}

/// The keys of type `K`.
pub(crate) struct KeyRows<K> {
    index: Index,
    /// `None` where a row is not in use.
    keys: Paged<Option<K>>,
    /// Apart from the keys, because looking a key up does not need it.
    hashes: Paged<u32>,
    /// Rows below `row_count` that are not in use.
    free: Vec<u32>,
    row_count: u32,
    groups: OwnedGroups,
    serializer: Arc<dyn Serializer<K>>,
}

impl<K: Key> KeyRows<K> {
    pub(crate) fn new(serializer: Arc<dyn Serializer<K>>, groups: OwnedGroups, seed: u64) -> Self {
        Self {
            index: Index::new(seed),
            keys: Paged::new(),
            hashes: Paged::new(),
            free: Vec::new(),
            row_count: 0,
            groups,
            serializer,
        }
    }

    #[inline]
    fn holds(&self, row: u32, key: &K) -> bool {
        self.keys.read(row).is_some_and(|held| held.as_ref() == Some(key))
    }

    /// Finds or makes the row of a key. A row that is made is appended to `made`.
    #[inline]
    pub(crate) fn row(&mut self, key: &K, hash: KeyHash, made: &mut Vec<u32>) -> Result<u32, StateError> {
        let row = self.index.find(hash.0, |row| self.holds(row, key));
        if row == NO_ROW { self.make(key, hash, made) } else { Ok(row) }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, key: &K, hash: KeyHash, made: &mut Vec<u32>) -> Result<u32, StateError> {
        // Only here: a key that has a row was checked when the row was made.
        self.groups.check(self.groups.max_parallelism.group_of(hash))?;
        let row = self.free.pop().unwrap_or_else(|| {
            assert!(self.row_count < NO_ROW, "a subtask cannot have more than {NO_ROW} keys");
            self.row_count += 1;
            self.row_count - 1
        });
        *self.keys.write(row) = Some(key.clone());
        *self.hashes.write(row) = hash.0;
        self.index.insert(hash.0, row);
        made.push(row);
        Ok(row)
    }

    /// Finds or makes the rows of a batch of keys and writes them to `rows`.
    ///
    /// Three sweeps, none of which waits for one key's memory before it asks for the next key's: first the slots of the
    /// index, then the rows by hash alone, then the keys are compared.
    pub(crate) fn resolve<'k>(
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

    /// The key of a row; `None` when the row is not in use.
    pub(crate) fn key(&self, row: u32) -> Option<&K> {
        self.keys.read(row)?.as_ref()
    }

    /// The keys of all rows in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &K, KeyHash)> {
        (0..self.row_count).filter_map(|row| {
            let key = self.keys.read(row)?.as_ref()?;
            let hash = self.hashes.read(row)?;
            Some((row, key, KeyHash(*hash)))
        })
    }

    pub(crate) fn shared_serializer(&self) -> Arc<dyn Serializer<K>> {
        self.serializer.clone()
    }
}

impl<K: Key> KeyColumn for KeyRows<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        let key = self.keys.read(row).and_then(Option::as_ref).expect("only rows in use are asked for their keys");
        self.serializer.serialize(key, out)
    }

    fn hash(&self, row: u32) -> Option<KeyHash> {
        self.keys.read(row)?.as_ref()?;
        self.hashes.read(row).copied().map(KeyHash)
    }

    fn restore(
        &mut self,
        state: &str,
        group: KeyGroup,
        key: &[u8],
        hasher: &mut KeyHasher,
        made: &mut Vec<u32>,
    ) -> Result<u32, StateError> {
        let key = self.serializer.deserialize(key);
        let key = key.map_err(|source| StateError::Serializer { state: state.to_owned(), source })?;
        let hash = hasher.hash(&key)?;
        let found = self.groups.max_parallelism.group_of(hash);
        if found != group {
            return Err(StateError::Damaged(format!(
                "state {state:?}: a key of key group {found} was stored in key group {group}"
            )));
        }
        self.row(&key, hash, made)
    }

    fn release(&mut self, row: u32) {
        let Some(hash) = self.hash(row) else { return };
        self.index.remove(hash.0, row);
        *self.keys.write(row) = None;
        self.free.push(row);
    }

    fn freeze(&mut self) -> Box<dyn FrozenKeys> {
        Box::new(FrozenKeyRows {
            keys: self.keys.freeze(),
            hashes: self.hashes.freeze(),
            row_count: self.row_count,
            serializer: self.serializer.clone(),
        })
    }

    fn fold(&mut self) {
        self.keys.fold();
        self.hashes.fold();
    }

    fn forget(&mut self) {
        self.index.clear();
        self.keys = Paged::new();
        self.hashes = Paged::new();
        self.free.clear();
        self.row_count = 0;
    }

    fn len(&self) -> usize {
        self.index.len()
    }
}

struct FrozenKeyRows<K> {
    keys: FrozenPaged<Option<K>>,
    hashes: FrozenPaged<u32>,
    row_count: u32,
    serializer: Arc<dyn Serializer<K>>,
}

impl<K: Key> FrozenKeys for FrozenKeyRows<K> {
    fn row_count(&self) -> u32 {
        self.row_count
    }

    fn hash(&self, row: u32) -> Option<KeyHash> {
        self.keys.read(row)?.as_ref()?;
        self.hashes.read(row).copied().map(KeyHash)
    }

    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        let key = self.keys.read(row).and_then(Option::as_ref).expect("only rows in use are asked for their keys");
        self.serializer.serialize(key, out)
    }
}
