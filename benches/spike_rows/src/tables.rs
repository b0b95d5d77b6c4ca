//! Design (T): one hash table a key group, shared with the snapshot and cloned whole by the first write after it.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::workload::{BATCH, Contender, Frozen, KEY_GROUPS, Key, Value, key_group};

/// The table of one key group.
///
/// `Arc::make_mut` on each access would pay a locked instruction a record, so who owns the table is in the variant.
enum Group<K, V> {
    Owned(HashTable<(K, V)>),
    Shared(Arc<HashTable<(K, V)>>),
}

/// Heap state as 128 copy-on-write tables.
pub(crate) struct Tables<K, V> {
    groups: Vec<Group<K, V>>,
    hashes: Vec<u64>,
    found: Vec<(u32, u32)>,
}

/// The bucket of a key that was not there when the batch was resolved.
const ABSENT: u32 = u32::MAX;

/// Spreads the 32-bit key hash: hashbrown takes the tag from the top bits and the place from the low ones.
#[inline]
fn spread(hash: u32) -> u64 {
    let product = u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 32)
}

impl<K: Key, V: Value> Group<K, V> {
    #[inline]
    fn table(&self) -> &HashTable<(K, V)> {
        match self {
            Group::Owned(table) => table,
            Group::Shared(table) => table,
        }
    }

    #[inline]
    fn table_mut(&mut self) -> &mut HashTable<(K, V)> {
        if let Group::Shared(shared) = self {
            *self = Group::Owned(Self::take_or_copy(shared));
        }
        match self {
            Group::Owned(table) => table,
            Group::Shared(_) => unreachable!("the variant was replaced above"),
        }
    }

    /// Takes the table back when the reader is gone, copies it otherwise.
    #[cold]
    #[inline(never)]
    fn take_or_copy(shared: &mut Arc<HashTable<(K, V)>>) -> HashTable<(K, V)> {
        match Arc::get_mut(shared) {
            Some(table) => std::mem::take(table),
            None => HashTable::clone(shared),
        }
    }
}

impl<K: Key, V: Value> Tables<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            groups: (0..KEY_GROUPS).map(|_| Group::Owned(HashTable::new())).collect(),
            hashes: Vec::with_capacity(BATCH),
            found: Vec::with_capacity(BATCH),
        }
    }

    #[inline]
    fn modify(&mut self, key: &K, update: impl FnOnce(&mut V), first: impl FnOnce() -> V) {
        let hash = key.hash32();
        let spread_hash = spread(hash);
        let table = self.groups[key_group(hash)].table_mut();
        match table.find_mut(spread_hash, |entry| entry.0 == *key) {
            Some(entry) => update(&mut entry.1),
            None => {
                table.insert_unique(spread_hash, (key.clone(), first()), |entry| spread(entry.0.hash32()));
            }
        }
    }
}

impl<K: Key, V: Value> Contender<K, V> for Tables<K, V> {
    fn fill(&mut self, keys: &[K], first: u64) {
        for (j, key) in (first..).zip(keys) {
            self.modify(key, |value| *value = V::first(j), || V::first(j));
        }
    }

    fn each(&mut self, keys: &[K]) {
        for key in keys {
            self.modify(key, V::bump, || V::first(1));
        }
    }

    /// Finds the bucket of each key first; the update goes by bucket number and compares the key again,
    /// since an insertion in between may have moved the table.
    fn batch(&mut self, keys: &[K]) {
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| {
            let hash = key.hash32();
            u64::from(hash) << 32 | key_group(hash) as u64
        }));
        self.found.clear();
        for (key, packed) in keys.iter().zip(&self.hashes) {
            let group = *packed as u32;
            let table = self.groups[group as usize].table();
            let bucket = table.find_bucket_index(spread((*packed >> 32) as u32), |entry| entry.0 == *key);
            self.found.push((group, bucket.map_or(ABSENT, |bucket| bucket as u32)));
        }
        for (at, key) in keys.iter().enumerate() {
            let (group, bucket) = self.found[at];
            let table = self.groups[group as usize].table_mut();
            match table.get_bucket_mut(bucket as usize) {
                Some(entry) if entry.0 == *key => entry.1.bump(),
                _ => self.modify(key, V::bump, || V::first(1)),
            }
        }
    }

    fn freeze(&mut self) -> Option<Box<dyn Frozen>> {
        let mut tables = Vec::with_capacity(self.groups.len());
        for group in &mut self.groups {
            if let Group::Owned(table) = group {
                *group = Group::Shared(Arc::new(std::mem::take(table)));
            }
            if let Group::Shared(table) = group {
                tables.push(Arc::clone(table));
            }
        }
        Some(Box::new(FrozenTables { tables }))
    }

    fn sum(&self) -> u64 {
        let entries = self.groups.iter().flat_map(|group| group.table().iter());
        entries.fold(0, |sum, entry| sum.wrapping_add(entry.1.number()))
    }

    fn describe(&self) -> String {
        let capacity: usize = self.groups.iter().map(|group| group.table().num_buckets()).sum();
        let bytes = capacity * (size_of::<(K, V)>() + 1);
        format!("{capacity} buckets, {bytes} bytes in tables")
    }
}

/// The tables as they were at the freeze.
struct FrozenTables<K, V> {
    tables: Vec<Arc<HashTable<(K, V)>>>,
}

impl<K: Key, V: Value> Frozen for FrozenTables<K, V> {
    fn sum(&self) -> u64 {
        let entries = self.tables.iter().flat_map(|table| table.iter());
        entries.fold(0, |sum, entry| sum.wrapping_add(entry.1.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_what_it_was_given() {
        let mut tables = Tables::<u64, u64>::new();
        let keys: Vec<u64> = (0..1000).collect();
        tables.fill(&keys, 0);
        let before = tables.sum();
        let reader = tables.freeze().expect("this design has snapshots");
        tables.batch(&keys);
        tables.each(&keys);
        assert_eq!(reader.sum(), before);
        assert_eq!(tables.sum(), before + 2000);
    }
}
