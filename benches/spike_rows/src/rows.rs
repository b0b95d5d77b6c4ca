//! Design (R): one index from keys to dense rows; keys and values are columns of copy-on-write pages.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::index::{NO_ROW, RowIndex};
use crate::pages::{Column, Layer};
use crate::workload::{BATCH, Contender, Frozen, Key, Value, key_group};

/// What a key page holds for one key; the variants differ in bytes and in what a snapshot can read.
pub(crate) trait KeyCell<K>: Clone + Default + Send + Sync + 'static {
    fn new(hash: u32, key: K) -> Self;
    fn matches(&self, key: &K) -> bool;
    /// The 32-bit key hash, stored or computed.
    fn hash32(&self) -> u32;
}

impl<K: Key> KeyCell<K> for Option<K> {
    fn new(_hash: u32, key: K) -> Self {
        Some(key)
    }

    #[inline]
    fn matches(&self, key: &K) -> bool {
        self.as_ref() == Some(key)
    }

    #[inline]
    fn hash32(&self) -> u32 {
        self.as_ref().map_or(0, Key::hash32)
    }
}

/// A key without a mark of vacancy: what is vacant is known elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Plain<K>(K);

impl<K: Key> KeyCell<K> for Plain<K> {
    fn new(_hash: u32, key: K) -> Self {
        Self(key)
    }

    #[inline]
    fn matches(&self, key: &K) -> bool {
        self.0 == *key
    }

    #[inline]
    fn hash32(&self) -> u32 {
        self.0.hash32()
    }
}

/// A key with its hash beside it.
#[derive(Clone, Default)]
pub(crate) struct Hashed<K> {
    hash: u32,
    key: K,
}

impl<K: Key> KeyCell<K> for Hashed<K> {
    fn new(hash: u32, key: K) -> Self {
        Self { hash, key }
    }

    #[inline]
    fn matches(&self, key: &K) -> bool {
        self.key == *key
    }

    #[inline]
    fn hash32(&self) -> u32 {
        self.hash
    }
}

/// How a batch is resolved, to see what each sweep is worth.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sweeps {
    /// Touch slots, then search by tag alone, then compare keys and touch values, then update.
    Split,
    /// Search with key comparison at once (no touch of the slots), then update.
    Joined,
}

/// Heap state as rows.
pub(crate) struct Rows<K, V, C, I, const P: usize> {
    index: I,
    keys: Column<C, P>,
    values: Column<Option<V>, P>,
    row_count: u32,
    free: Vec<u32>,
    sweeps: Sweeps,
    hashes: Vec<u32>,
    rows: Vec<u32>,
    key: PhantomData<K>,
}

impl<K: Key, V: Value, C: KeyCell<K>, I: RowIndex, const P: usize> Rows<K, V, C, I, P> {
    pub(crate) fn new(load_percent: usize, sweeps: Sweeps) -> Self {
        Self {
            index: I::new(load_percent),
            keys: Column::new(),
            values: Column::new(),
            row_count: 0,
            free: Vec::new(),
            sweeps,
            hashes: Vec::with_capacity(BATCH),
            rows: Vec::with_capacity(BATCH),
            key: PhantomData,
        }
    }

    #[inline]
    fn find(&self, hash: u32, key: &K) -> u32 {
        self.index.find(hash, |row| self.keys.get(row as usize).matches(key))
    }

    #[inline]
    fn find_or_insert(&mut self, hash: u32, key: &K) -> u32 {
        let row = self.find(hash, key);
        if row == NO_ROW { self.insert(hash, key) } else { row }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, hash: u32, key: &K) -> u32 {
        let row = self.free.pop().unwrap_or_else(|| {
            self.keys.reserve(self.row_count as usize);
            self.values.reserve(self.row_count as usize);
            self.row_count += 1;
            self.row_count - 1
        });
        *self.keys.get_mut(row as usize) = C::new(hash, key.clone());
        self.index.insert(hash, row);
        row
    }

    /// Takes the key out; its row is used again.
    #[cfg(test)]
    fn remove(&mut self, key: &K) -> bool {
        let hash = key.hash32();
        let row = self.find(hash, key);
        if row == NO_ROW {
            return false;
        }
        self.index.remove(hash, row);
        *self.keys.get_mut(row as usize) = C::default();
        *self.values.get_mut(row as usize) = None;
        self.free.push(row);
        true
    }

    #[inline]
    fn bump(&mut self, row: u32) {
        match self.values.get_mut(row as usize) {
            Some(value) => value.bump(),
            vacant => *vacant = Some(V::first(1)),
        }
    }

    fn settle(&mut self) {
        self.keys.settle();
        self.values.settle();
    }

    /// Fills `self.rows` with the row of each key, inserting those that are absent.
    fn resolve(&mut self, keys: &[K]) {
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(Key::hash32));
        self.rows.clear();
        if self.sweeps == Sweeps::Split {
            // No branch here depends on what is loaded, so the misses overlap.
            let touched = self.hashes.iter().fold(0, |all, hash| all ^ self.index.touch(*hash));
            std::hint::black_box(touched);
            // By tag alone: the slots are in the cache now, the keys are not.
            self.rows.extend(self.hashes.iter().map(|hash| self.index.find(*hash, |_| true)));
            let mut present = 0;
            for (row, key) in self.rows.iter_mut().zip(keys) {
                if *row != NO_ROW {
                    present += usize::from(self.values.get(*row as usize).is_some());
                    if !self.keys.get(*row as usize).matches(key) {
                        *row = NO_ROW;
                    }
                }
            }
            std::hint::black_box(present);
        } else {
            for (at, key) in keys.iter().enumerate() {
                let row = self.find(self.hashes[at], key);
                self.rows.push(row);
            }
        }
        for (at, key) in keys.iter().enumerate() {
            if self.rows[at] == NO_ROW {
                self.rows[at] = self.find_or_insert(self.hashes[at], key);
            }
        }
    }

    /// How many rows each key group has: the pass over the keys that a snapshot makes before it writes.
    pub(crate) fn count_key_groups(&self) -> Vec<u32> {
        let mut counts = vec![0; crate::workload::KEY_GROUPS];
        for row in 0..self.row_count as usize {
            counts[key_group(self.keys.get(row).hash32())] += 1;
        }
        counts
    }
}

impl<K: Key, V: Value, C: KeyCell<K>, I: RowIndex, const P: usize> Contender<K, V> for Rows<K, V, C, I, P> {
    fn fill(&mut self, keys: &[K], first: u64) {
        self.settle();
        for (j, key) in (first..).zip(keys) {
            let row = self.find_or_insert(key.hash32(), key);
            *self.values.get_mut(row as usize) = Some(V::first(j));
        }
    }

    fn each(&mut self, keys: &[K]) {
        self.settle();
        for key in keys {
            let row = self.find_or_insert(key.hash32(), key);
            self.bump(row);
        }
    }

    fn batch(&mut self, keys: &[K]) {
        self.settle();
        self.resolve(keys);
        for at in 0..self.rows.len() {
            self.bump(self.rows[at]);
        }
    }

    fn freeze(&mut self) -> Option<Box<dyn Frozen>> {
        self.settle();
        Some(Box::new(FrozenRows::<C, V, P> {
            keys: self.keys.freeze(),
            values: self.values.freeze(),
            row_count: self.row_count as usize,
        }))
    }

    fn sum(&self) -> u64 {
        let values = (0..self.row_count as usize).filter_map(|row| self.values.get(row).as_ref());
        values.fold(0, |sum, value| sum.wrapping_add(value.number()))
    }

    fn describe(&self) -> String {
        let capacity = self.index.capacity();
        let load = f64::from(self.row_count) / capacity as f64;
        let bytes = capacity * 8 + self.row_count as usize * (size_of::<C>() + size_of::<Option<V>>());
        format!("load {load:.3}, {:.2} probes, {bytes} bytes in index and pages", self.index.mean_probes())
    }
}

/// The rows as they were at the freeze.
struct FrozenRows<C, V, const P: usize> {
    #[expect(
        dead_code,
        reason = "a snapshot writes the keys too; holding them makes the freeze and the copies honest"
    )]
    keys: Arc<Layer<C, P>>,
    values: Arc<Layer<Option<V>, P>>,
    row_count: usize,
}

impl<C: Send + Sync, V: Value, const P: usize> Frozen for FrozenRows<C, V, P> {
    fn sum(&self) -> u64 {
        let values = (0..self.row_count).filter_map(|row| self.values.get(row).and_then(Option::as_ref));
        values.fold(0, |sum, value| sum.wrapping_add(value.number()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::Index;
    use crate::lines::Lines;
    use crate::workload::u;

    #[test]
    fn random_operations_agree_with_a_map() {
        agrees_with_a_map::<Index>();
        agrees_with_a_map::<Lines>();
    }

    fn agrees_with_a_map<I: RowIndex>() {
        let mut rows = Rows::<u64, u64, Option<u64>, I, 64>::new(75, Sweeps::Split);
        let mut model = BTreeMap::new();
        let mut readers: Vec<(Box<dyn Frozen>, u64)> = Vec::new();
        for step in 0..2000 {
            let keys: Vec<u64> = (0..20).map(|i| u(1, step * 20 + i) % 3000).collect();
            if step % 3 == 0 {
                for key in &keys {
                    assert_eq!(rows.remove(key), model.remove(key).is_some());
                }
            } else {
                rows.batch(&keys);
                for key in keys {
                    *model.entry(key).or_insert(0) += 1;
                }
            }
            let expected: u64 = model.values().sum();
            assert_eq!(rows.sum(), expected, "step {step}");
            if step % 50 == 0 {
                readers.push((rows.freeze().expect("this design has snapshots"), expected));
            }
            if step % 70 == 0 {
                readers.remove((u(2, step) % readers.len() as u64) as usize);
            }
            for (reader, expected) in &readers {
                assert_eq!(reader.sum(), *expected);
            }
        }
    }
}
