//! Functions on keyed streams: state and timers of the key of the record at hand.

use std::marker::PhantomData;

use highwater_state_api::{
    BoxedError, Key, KeyCx, KeyHash, KeyedState, ListCheckpointed, ListCheckpointedFunction, OperatorCx, OperatorState,
    State, StateError, TaskInfo,
};

use crate::hooks::{hooks, hooks_of, list_checkpointed_hooks};
use crate::{Collector, Data, Timestamp};

/// A function on a keyed stream. One value serves all keys of a subtask; what differs by key is in state.
///
/// A restart makes a new value, so fields that are not state start anew.
pub trait KeyedProcessFunction<K: Key, In: Data>: Send + 'static {
    /// What the function emits.
    type Out: Data;

    hooks!();

    /// Called for each record.
    fn process(
        &mut self,
        record: In,
        cx: &mut KeyedContext<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError>;

    /// Called for each timer that is due, with the timer's key as the current key.
    fn on_timer(
        &mut self,
        _timestamp: Timestamp,
        _cx: &mut KeyedContext<'_, K>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError> {
        Ok(())
    }
}

hooks_of! {
    /// The hooks of a [`KeyedProcessFunction`], for those who run it.
    KeyedProcessHooks<K: Key, In: Data> for KeyedProcessFunction<K, In>
}

/// Event-time timers of an operator keyed by `K`. Implemented by the runtime.
pub trait TimerRegistry<K> {
    /// Registers a timer of the current key of `state`. The same key and time again is the same timer.
    fn register(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError>;

    /// Deletes a timer of the current key of `state`; there need not be one.
    fn delete(&mut self, state: &mut KeyedState, timestamp: Timestamp) -> Result<(), StateError>;
}

/// What a keyed function sees while it works on a record or a timer.
pub struct KeyedContext<'a, K> {
    state: &'a mut KeyedState,
    operator: &'a mut OperatorState,
    timers: &'a mut dyn TimerRegistry<K>,
    task: TaskInfo,
    timestamp: Timestamp,
    watermark: Timestamp,
    late_records: &'a mut u64,
    of: PhantomData<fn() -> K>,
}

impl<'a, K: Key> KeyedContext<'a, K> {
    /// Made by the runtime for each call; a key of type `K` must be current in `state`.
    pub fn new(
        state: &'a mut KeyedState,
        operator: &'a mut OperatorState,
        timers: &'a mut dyn TimerRegistry<K>,
        task: TaskInfo,
        timestamp: Timestamp,
        watermark: Timestamp,
        late_records: &'a mut u64,
    ) -> Self {
        Self { state, operator, timers, task, timestamp, watermark, late_records, of: PhantomData }
    }

    /// Which subtask of the operator this is, from 0.
    pub fn subtask(&self) -> u32 {
        self.task.subtask
    }

    /// How many subtasks the operator has.
    pub fn parallelism(&self) -> u32 {
        self.task.parallelism
    }

    /// The key of the record or timer at hand.
    pub fn current_key(&self) -> &K {
        self.state.current_key().expect("the runtime makes a key of type K current before it makes a context")
    }

    /// The stable hash of the current key.
    pub fn current_key_hash(&self) -> KeyHash {
        self.state.current_key_hash().expect("the runtime makes a key current before it makes a context")
    }

    /// The time of the record or timer at hand.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// How far event time has come: no record at or before it is expected any more.
    pub fn current_watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Registers an event-time timer for the current key. Registering it twice fires it once.
    ///
    /// It fires when the watermark reaches `timestamp`. If it already has, the timer fires when the watermark next moves,
    /// or, set while timers fire, with these.
    ///
    /// The watermark follows the records, so records later than `timestamp` may be processed before the timer fires. A
    /// function that counts by the hour must not let them into the hour that is about to end: make the hour part of the
    /// key, or the map key of a [`MapState`](highwater_state_api::MapState).
    pub fn register_event_time_timer(&mut self, timestamp: Timestamp) -> Result<(), StateError> {
        self.timers.register(self.state, timestamp)
    }

    /// Deletes an event-time timer of the current key; there need not be one.
    pub fn delete_event_time_timer(&mut self, timestamp: Timestamp) -> Result<(), StateError> {
        self.timers.delete(self.state, timestamp)
    }

    /// Counts a record that came too late to be used, so that it is dropped in sight and not silently.
    pub fn count_late_record(&mut self) {
        *self.late_records += 1;
    }
}

impl<K: Key> KeyCx for KeyedContext<'_, K> {
    fn keyed_state(&mut self) -> &mut KeyedState {
        self.state
    }
}

/// State that belongs to the subtask, whatever the key: broadcast states, for instance.
impl<K: Key> OperatorCx for KeyedContext<'_, K> {
    fn operator_state(&mut self) -> &mut OperatorState {
        self.operator
    }
}

impl<K, In, F, T> KeyedProcessFunction<K, In> for ListCheckpointedFunction<F, T>
where
    K: Key,
    In: Data,
    F: KeyedProcessFunction<K, In> + ListCheckpointed<T>,
    T: State,
{
    type Out = F::Out;

    list_checkpointed_hooks!(KeyedProcessFunction<K, In>);

    fn process(
        &mut self,
        record: In,
        cx: &mut KeyedContext<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError> {
        self.function_mut().process(record, cx, out)
    }

    fn on_timer(
        &mut self,
        timestamp: Timestamp,
        cx: &mut KeyedContext<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError> {
        self.function_mut().on_timer(timestamp, cx, out)
    }
}
