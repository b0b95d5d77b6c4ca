//! Functions on streams without a key: operator state, and records as they come.

use highwater_state_api::{
    BoxedError, ListCheckpointed, ListCheckpointedFunction, OperatorCx, OperatorState, State, TaskInfo,
};

use crate::hooks::{hooks, hooks_of, list_checkpointed_hooks};
use crate::{Collector, Data, Timestamp};

/// A function on a stream without a key. Its state belongs to the subtask: lists and broadcast states, or, with
/// [`ListCheckpointedFunction`], fields of its own.
///
/// A restart makes a new value, so fields that are not state start anew.
pub trait ProcessFunction<In: Data>: Send + 'static {
    /// What the function emits.
    type Out: Data;

    hooks!();

    /// Called for each record.
    fn process(
        &mut self,
        record: In,
        cx: &mut ProcessContext<'_>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError>;
}

hooks_of! {
    /// The hooks of a [`ProcessFunction`], for those who run it.
    ProcessHooks<In: Data> for ProcessFunction<In>
}

/// What a function without a key sees while it works on a record.
pub struct ProcessContext<'a> {
    state: &'a mut OperatorState,
    task: TaskInfo,
    timestamp: Timestamp,
    watermark: Timestamp,
}

impl<'a> ProcessContext<'a> {
    /// Made by the runtime for each call.
    pub fn new(state: &'a mut OperatorState, task: TaskInfo, timestamp: Timestamp, watermark: Timestamp) -> Self {
        Self { state, task, timestamp, watermark }
    }

    /// Which subtask of the operator this is, from 0.
    pub fn subtask(&self) -> u32 {
        self.task.subtask
    }

    /// How many subtasks the operator has.
    pub fn parallelism(&self) -> u32 {
        self.task.parallelism
    }

    /// The time of the record at hand.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// How far event time has come: no record at or before it is expected any more.
    pub fn current_watermark(&self) -> Timestamp {
        self.watermark
    }
}

impl OperatorCx for ProcessContext<'_> {
    fn operator_state(&mut self) -> &mut OperatorState {
        self.state
    }
}

impl<In, F, T> ProcessFunction<In> for ListCheckpointedFunction<F, T>
where
    In: Data,
    F: ProcessFunction<In> + ListCheckpointed<T>,
    T: State,
{
    type Out = F::Out;

    list_checkpointed_hooks!(ProcessFunction<In>);

    fn process(
        &mut self,
        record: In,
        cx: &mut ProcessContext<'_>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxedError> {
        self.function_mut().process(record, cx, out)
    }
}
