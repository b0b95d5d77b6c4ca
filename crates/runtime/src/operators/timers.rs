//! Event-time timers of a keyed operator.
//!
//! What counts is a map state like any other, so that timers are snapshotted, restored and rescaled with the keys they
//! belong to. The queue in order of time beside it is made from that state and never snapshotted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use highwater_state_api::{Key, KeyHash, KeyedState, MapState, MapStateDescriptor, StateError};
use highwater_stream_api::{TimerRegistry, Timestamp};

/// Name of the state that holds the timers, as Flink has it.
const TIMER_STATE: &str = "_timer_state/event_user-timers";

/// The timers of one keyed operator subtask.
pub(crate) struct EventTimeTimers<K> {
    registered: MapState<i64, ()>,
    /// The keys by time and hash: exactly the timers that are registered. Nearly always one key for each entry.
    queue: BTreeMap<(i64, KeyHash), Vec<K>>,
}

impl<K: Key> EventTimeTimers<K> {
    /// The timers that are in `state`.
    pub(crate) fn open(state: &mut KeyedState) -> Result<Self, StateError> {
        let registered = state.reserved_map_state(&MapStateDescriptor::new(TIMER_STATE))?;
        let mut queue: BTreeMap<(i64, KeyHash), Vec<K>> = BTreeMap::new();
        state.for_each_map_entry::<K, i64, ()>(&registered, |key, hash, timestamp, ()| {
            queue.entry((*timestamp, hash)).or_default().push(key.clone());
        })?;
        Ok(Self { registered, queue })
    }

    /// Takes the next timer at or before `watermark` and makes its key current in `state`.
    pub(crate) fn pop(
        &mut self,
        watermark: Timestamp,
        state: &mut KeyedState,
    ) -> Result<Option<Timestamp>, StateError> {
        let Some(mut first) = self.queue.first_entry() else { return Ok(None) };
        let (timestamp, hash) = *first.key();
        if Timestamp::from_raw(timestamp) > watermark {
            return Ok(None);
        }
        let key = first.get_mut().pop().expect("an entry without a key is removed with its last key");
        if first.get().is_empty() {
            first.remove();
        }
        state.set_current_key(&key, hash)?;
        self.registered.remove(state, &timestamp)?;
        Ok(Some(Timestamp::from_raw(timestamp)))
    }

    /// How many timers are queued.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.queue.values().map(Vec::len).sum()
    }
}

impl<K: Key> TimerRegistry<K> for EventTimeTimers<K> {
    fn register(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError> {
        let raw = timestamp.to_raw();
        if !self.registered.contains(state, &raw)? {
            self.registered.put(state, raw, ())?;
            let key = state.current_key::<K>()?.clone();
            self.queue.entry((raw, state.current_key_hash()?)).or_default().push(key);
        }
        Ok(())
    }

    fn delete(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError> {
        let raw = timestamp.to_raw();
        self.registered.remove(state, &raw)?;
        let at = (raw, state.current_key_hash()?);
        let key = state.current_key::<K>()?;
        if let Entry::Occupied(mut keys) = self.queue.entry(at) {
            keys.get_mut().retain(|queued| queued != key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "timers_test.rs"]
mod timers_test;
