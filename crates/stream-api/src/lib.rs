//! What users and connectors implement: functions, sources and sinks, and what they are given to work with.
//!
//! * [`Data`] and [`Timestamp`]: records and event time. [`Collector`]: where output goes.
//! * [`KeyedProcessFunction`] with [`KeyedContext`]: state and timers by key. [`KeySelector`]: how keys are found.
//! * [`ProcessFunction`] with [`ProcessContext`]: state that belongs to a subtask, on streams without a key.
//! * [`Source`], [`SplitEnumerator`], [`SourceReader`]: input with replay positions.
//! * [`Sink`], [`SinkWriter`]: output with two-phase commit.
//! * [`MasterTriggerRestoreHook`]: what takes part in checkpoints for the whole job.
//! * [`WatermarkStrategy`]: how event time advances.

mod collector;
mod data;
mod hooks;
mod key_selector;
mod keyed;
mod master_hook;
mod process;
mod sink;
mod source;
mod watermark;

pub use collector::Collector;
pub use data::{Data, Timestamp};
pub use highwater_state_api::{
    BoxedError, CheckpointListener, CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext,
    ListCheckpointed, ListCheckpointedFunction,
};
pub use key_selector::{ByReference, ByValue, KeySelector};
pub use keyed::{KeyedContext, KeyedProcessFunction, KeyedProcessHooks, TimerRegistry};
pub use master_hook::MasterTriggerRestoreHook;
pub use process::{ProcessContext, ProcessFunction, ProcessHooks};
pub use sink::{CommitError, Sink, SinkContext, SinkStart, SinkWriter};
pub use source::{Boundedness, PollContext, Polled, Source, SourceReader, SplitAssignment, SplitEnumerator};
pub use watermark::WatermarkStrategy;

/// The result of user code.
pub type Result<T, E = BoxedError> = std::result::Result<T, E>;
