//! Dropping the state of all keys at once.

use std::ops::ControlFlow;

use super::KeyedState;
use crate::{At, KeyGroup, Prefix, StateError, TableId};

/// Entries that are removed from the byte tables between two scans.
const ENTRIES_REMOVED: usize = 4096;

impl KeyedState {
    /// Drops the state of all keys and namespaces, also what was restored and is not registered. No key is current
    /// afterwards, the resolved batch has ended, and handles stay what they are. Snapshots that were taken before keep what
    /// they have.
    ///
    /// Costs as much as there is state, and so little where it is that of one key. Fails when the byte tables do.
    pub fn clear(&mut self) -> Result<(), StateError> {
        self.nothing_is_current();
        self.batch.clear();
        self.single_keys = 0;
        self.rows.clear();
        if self.is_cache {
            for table in 0..self.rows.tables.len() {
                self.clear_byte_table(table)?;
            }
        }
        Ok(())
    }

    fn clear_byte_table(&mut self, number: usize) -> Result<(), StateError> {
        let (table, (_, mut behind)) = (TableId(number as u16), self.column_and_behind(number));
        let mut tables = behind.tables();
        loop {
            let mut found = Vec::new();
            tables.scan(Prefix::Table(table), &mut |entry| {
                found.push(OwnedAddress::of(entry.at));
                if found.len() < ENTRIES_REMOVED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for at in &found {
                tables.remove(at.borrow(table))?;
            }
            if found.len() < ENTRIES_REMOVED {
                return Ok(());
            }
        }
    }
}

/// The address of an entry of a known table, apart from the scan that has found it.
struct OwnedAddress {
    group: KeyGroup,
    key: Vec<u8>,
    namespace: Vec<u8>,
    map_key: Vec<u8>,
}

impl OwnedAddress {
    fn of(at: At<'_>) -> Self {
        let At { group, key, namespace, map_key, .. } = at;
        Self { group, key: key.to_vec(), namespace: namespace.to_vec(), map_key: map_key.to_vec() }
    }

    fn borrow(&self, table: TableId) -> At<'_> {
        At { table, group: self.group, key: &self.key, namespace: &self.namespace, map_key: &self.map_key }
    }
}

#[cfg(test)]
mod tests {
    use crate::rows::fixture_test::{EVERY_WAY, Written, all, hash, open, request, store};
    use crate::{
        KeyedState, KeyedStateStore, ListStateDescriptor, MapStateDescriptor, StateError, ValueStateDescriptor,
    };

    fn set_key(state: &mut KeyedState, key: u32) {
        state.set_current_key(&key, hash(&key)).unwrap();
    }

    #[test]
    fn nothing_is_left_of_any_key_and_handles_go_on() {
        for held in EVERY_WAY {
            let mut state = open::<u32>(held, all());
            let count = store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
            let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
            let map = store(&mut state).get_map_state(&MapStateDescriptor::<u32, u32>::new("map")).unwrap();
            let windows: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
            let in_window = windows.get_state(&ValueStateDescriptor::<u32>::new("in-window")).unwrap();
            let fill = |state: &mut KeyedState, keys: std::ops::Range<u32>| {
                for key in keys {
                    set_key(state, key);
                    state.set_current_namespace(&u64::from(key % 3)).unwrap();
                    count.modify(state, |count| *count.get_or_insert(0) += 1).unwrap();
                    list.add(state, key).unwrap();
                    map.put(state, key, key).unwrap();
                    in_window.update(state, key).unwrap();
                }
                state.end_batch().unwrap();
            };
            fill(&mut state, 0..5_000);
            let before = state.freeze(&request()).unwrap();
            state.clear().unwrap();
            assert!(matches!(count.value(&mut state), Err(StateError::NoCurrentKey { .. })), "{held:?}");
            assert_eq!(state.rows.keys.column.len(), 0);
            let nothing = Written::of(state.freeze(&request()).unwrap()).entries();
            assert_eq!(nothing.len(), 0, "{held:?}");
            set_key(&mut state, 7);
            assert_eq!(list.get(&mut state).unwrap(), [0u32; 0], "{held:?}");
            assert!(!map.contains(&mut state, &7).unwrap(), "{held:?}");

            fill(&mut state, 7..9);
            assert_eq!(Written::of(state.freeze(&request()).unwrap()).entries().len(), 2 * 4, "{held:?}");
            set_key(&mut state, 8);
            assert_eq!(count.value(&mut state).unwrap(), Some(1), "{held:?}");
            assert_eq!(list.get(&mut state).unwrap(), [8], "{held:?}");
            assert_eq!(Written::of(before).entries().len(), 5_000 * 4, "a snapshot from before, {held:?}");
        }
    }

    #[test]
    fn what_was_restored_and_not_registered_is_dropped_too() {
        for held in EVERY_WAY {
            let mut state = open::<u32>(held, all());
            let count = store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
            set_key(&mut state, 7);
            count.update(&mut state, 1).unwrap();
            let mut restored = Written::of(state.freeze(&request()).unwrap()).reopen::<u32>(held);
            restored.clear().unwrap();
            assert_eq!(Written::of(restored.freeze(&request()).unwrap()).entries().len(), 0, "{held:?}");
            let count = store(&mut restored).get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
            set_key(&mut restored, 7);
            assert_eq!(count.value(&mut restored).unwrap(), None, "{held:?}");
        }
    }
}
