//! The peer (B): a bare hashbrown map with its default hasher, no key groups and no snapshots.

use hashbrown::HashMap;

use crate::workload::{Contender, Frozen, Key, Value};

/// A bare map.
pub(crate) struct Bare<K, V> {
    map: HashMap<K, V>,
}

impl<K: Key, V: Value> Bare<K, V> {
    pub(crate) fn new() -> Self {
        Self { map: HashMap::new() }
    }

    #[inline]
    fn modify(&mut self, key: &K) {
        match self.map.get_mut(key) {
            Some(value) => value.bump(),
            None => {
                self.map.insert(key.clone(), V::first(1));
            }
        }
    }
}

impl<K: Key, V: Value> Contender<K, V> for Bare<K, V> {
    fn fill(&mut self, keys: &[K], first: u64) {
        for (j, key) in (first..).zip(keys) {
            self.map.insert(key.clone(), V::first(j));
        }
    }

    fn each(&mut self, keys: &[K]) {
        for key in keys {
            self.modify(key);
        }
    }

    /// A lookup of each key brings its lines into the cache, then the update finds them there.
    fn batch(&mut self, keys: &[K]) {
        let present = keys.iter().filter(|key| self.map.contains_key(*key)).count();
        std::hint::black_box(present);
        self.each(keys);
    }

    fn freeze(&mut self) -> Option<Box<dyn Frozen>> {
        None
    }

    fn sum(&self) -> u64 {
        self.map.values().fold(0, |sum, value| sum.wrapping_add(value.number()))
    }

    fn describe(&self) -> String {
        format!("capacity {}, {} bytes an entry", self.map.capacity(), size_of::<(K, V)>())
    }
}
