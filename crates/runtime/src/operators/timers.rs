//! Event-time timers of a keyed operator.
//!
//! What counts is a map state like any other, so that timers are snapshotted, restored and rescaled with the keys they
//! belong to. The queue in order of time beside it is made from that state and never snapshotted.

use std::collections::BTreeMap;

use highwater_state_api::{Key, KeyHash, KeyedState, KeyedStateStore, MapState, MapStateDescriptor, StateError};
use highwater_stream_api::{TimerRegistry, Timestamp};

/// Name of the state that holds the timers, as Flink has it.
const TIMER_STATE: &str = "_timer_state/event_user-timers";

/// The timers of one keyed operator subtask.
pub(crate) struct EventTimeTimers<K> {
    registered: MapState<i64, ()>,
    /// Keys in order of time. May hold timers that have been deleted, and some twice: the state decides.
    queue: BTreeMap<i64, Vec<(K, KeyHash)>>,
}

impl<K: Key> EventTimeTimers<K> {
    /// The timers that are in `state`.
    pub(crate) fn open(state: &mut KeyedState) -> Result<Self, StateError> {
        let store: &mut dyn KeyedStateStore = state;
        let registered = store.get_map_state(&MapStateDescriptor::new(TIMER_STATE))?;
        let mut queue: BTreeMap<i64, Vec<(K, KeyHash)>> = BTreeMap::new();
        state.for_each_map_entry::<K, i64, ()>(&registered, |key, hash, timestamp, ()| {
            queue.entry(*timestamp).or_default().push((key.clone(), hash));
        })?;
        Ok(Self { registered, queue })
    }

    /// Takes the next timer at or before `watermark` and makes its key current in `state`.
    pub(crate) fn pop(
        &mut self,
        watermark: Timestamp,
        state: &mut KeyedState,
    ) -> Result<Option<Timestamp>, StateError> {
        while let Some(mut first) = self.queue.first_entry() {
            let timestamp = *first.key();
            if Timestamp::from_raw(timestamp) > watermark {
                return Ok(None);
            }
            let Some((key, hash)) = first.get_mut().pop() else {
                first.remove();
                continue;
            };
            state.set_current_key(&key, hash)?;
            if self.registered.contains(state, &timestamp)? {
                self.registered.remove(state, &timestamp)?;
                return Ok(Some(Timestamp::from_raw(timestamp)));
            }
        }
        Ok(None)
    }
}

impl<K: Key> TimerRegistry<K> for EventTimeTimers<K> {
    fn register(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError> {
        let raw = timestamp.to_raw();
        if !self.registered.contains(state, &raw)? {
            self.registered.put(state, raw, ())?;
            let key: K = state.current_key::<K>()?.clone();
            let hash = state.current_key_hash()?;
            self.queue.entry(raw).or_default().push((key, hash));
        }
        Ok(())
    }

    fn delete(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError> {
        self.registered.remove(state, &timestamp.to_raw())
    }
}

#[cfg(test)]
#[path = "timers_test.rs"]
mod timers_test;
