//! The entries of a broadcast state.

use std::sync::Arc;

use super::cell::{Cell, FrozenElements};
use super::snapshot::{elements, write_element};
use crate::rows::map_entries::{FrozenMapEntries, MapEntries};
use crate::rows::round_trip::{check_map_key, check_round_trip};
use crate::{Key, Serializer, SerializerError, State, StateError};

/// The map entries are those of a keyed map state with a single row.
const ROW: u32 = 0;

/// The entries. Their pages are shared with snapshots, as those of keyed map state are.
pub(super) struct BroadcastCell<K, V> {
    entries: MapEntries<K, V>,
    name: String,
    key_serializer: Arc<dyn Serializer<K>>,
    value_serializer: Arc<dyn Serializer<V>>,
}

impl<K: Key, V: State> BroadcastCell<K, V> {
    pub(super) fn new(
        name: String,
        key_serializer: Arc<dyn Serializer<K>>,
        value_serializer: Arc<dyn Serializer<V>>,
        hash_seed: u64,
    ) -> Self {
        Self { entries: MapEntries::new(hash_seed), name, key_serializer, value_serializer }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.find(ROW, key).and_then(|entry| self.entries.value(entry))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = std::iter::successors(self.entries.first(ROW), |entry| self.entries.next(*entry));
        entries.filter_map(|entry| Some((self.entries.key(entry), self.entries.value(entry)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sets the value of a key, or changes nothing.
    pub(super) fn put(&mut self, key: K, value: V) -> Result<(), StateError> {
        self.check(&key, &value)?;
        self.set(key, value);
        Ok(())
    }

    /// Sets the values of all these keys, or changes nothing. Of equal keys the last counts.
    pub(super) fn put_all(&mut self, entries: Vec<(K, V)>) -> Result<(), StateError> {
        entries.iter().try_for_each(|(key, value)| self.check(key, value))?;
        entries.into_iter().for_each(|(key, value)| self.set(key, value));
        Ok(())
    }

    fn check(&self, key: &K, value: &V) -> Result<(), StateError> {
        check_map_key(&self.name, &*self.key_serializer, key)?;
        check_round_trip(&self.name, &*self.value_serializer, value).map(|_| ())
    }

    fn set(&mut self, key: K, value: V) {
        match self.entries.find(ROW, &key) {
            Some(entry) => self.entries.set_value(entry, Some(value)),
            None => {
                self.entries.insert(ROW, key, Some(value));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.find(ROW, key) {
            self.entries.remove(entry);
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut next = self.entries.first(ROW);
        while let Some(entry) = next {
            next = self.entries.next(entry);
            if self.entries.value(entry).is_some_and(|value| !keep(self.entries.key(entry), value)) {
                self.entries.remove(entry);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.forget();
    }
}

fn failed(state: &str) -> impl FnOnce(SerializerError) -> StateError {
    |source| StateError::Serializer { state: state.to_owned(), source }
}

impl<K: Key, V: State> Cell for BroadcastCell<K, V> {
    fn handle() -> String {
        crate::error::handle_of::<super::BroadcastState<K, V>>()
    }

    fn load(&mut self, content: &[u8]) -> Result<u64, StateError> {
        let (mut strings, mut count) = (elements(content), 0);
        while let Some(key) = strings.next() {
            let key = self.key_serializer.deserialize(key?).map_err(failed(&self.name))?;
            let value = strings
                .next()
                .unwrap_or_else(|| Err(StateError::Damaged("an entry has a key and no value".to_owned())))?;
            let value = self.value_serializer.deserialize(value).map_err(failed(&self.name))?;
            if self.get(&key).is_some() {
                return Err(StateError::Damaged("a key is there twice".to_owned()));
            }
            self.set(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn freeze(&mut self) -> (u64, Box<dyn FrozenElements>) {
        let frozen = FrozenEntries {
            entries: Some(self.entries.freeze()),
            serialized: Vec::new(),
            name: self.name.clone(),
            key_serializer: self.key_serializer.clone(),
            value_serializer: self.value_serializer.clone(),
        };
        (self.len() as u64, Box::new(frozen))
    }

    fn fold(&mut self) {
        self.entries.fold();
    }
}

struct FrozenEntries<K, V> {
    /// `None` once they have been serialised, all at the first call: their order is that of their bytes. So a broadcast state
    /// that is being written is in memory as bytes too.
    entries: Option<FrozenMapEntries<K, V>>,
    /// In descending order of key: the next one is the last.
    serialized: Vec<(Vec<u8>, Vec<u8>)>,
    name: String,
    key_serializer: Arc<dyn Serializer<K>>,
    value_serializer: Arc<dyn Serializer<V>>,
}

impl<K: Key, V: State> FrozenElements for FrozenEntries<K, V> {
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError> {
        if let Some(entries) = self.entries.take() {
            for (_, key, value) in entries.of_row(ROW) {
                let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
                self.key_serializer.serialize(key, &mut key_bytes).map_err(failed(&self.name))?;
                self.value_serializer.serialize(value, &mut value_bytes).map_err(failed(&self.name))?;
                self.serialized.push((key_bytes, value_bytes));
            }
            // Equal states have equal bytes, in whatever order their entries were put.
            self.serialized.sort_unstable_by(|one, other| other.cmp(one));
            // Restored keys were not checked, and what is written here could not be read.
            if self.serialized.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                let reason = "two keys are written as the same bytes".to_owned();
                return Err(StateError::NotRoundTrip { state: self.name.clone(), reason });
            }
        }
        let start = out.len();
        while out.len() - start < bytes_max {
            let Some((key, value)) = self.serialized.pop() else { return Ok(true) };
            write_element(&key, out);
            write_element(&value, out);
        }
        Ok(self.serialized.is_empty())
    }
}
