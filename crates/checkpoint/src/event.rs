//! Events: everything that can happen to the coordinator of one attempt. One sentence a variant.

use highwater_state_api::{Attempt, CheckpointId, JobName, OperatorUid, StateHandle, SubtaskId};

use crate::{
    CheckpointFailure, CheckpointMetrics, CheckpointRequest, DiscardId, EnumeratorState, HookState, LogRecord,
    RequestId, SubtaskSnapshot,
};

/// What happened. Goes into [`crate::Coordinator::on_event`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Time went on; sent when the deadline of the coordinator has come.
    Tick,
    /// A subtask has restored its state and processes records.
    SubtaskRunning {
        /// The subtask.
        subtask: SubtaskId,
    },
    /// A subtask has processed all input that there will ever be.
    SubtaskEnded {
        /// The subtask.
        subtask: SubtaskId,
    },
    /// A subtask has ended, and has carried out all effects outside the job that complete checkpoints up to this one
    /// allow: every transaction is known to be committed. Sent after each `NotifyComplete` once the subtask has ended.
    ///
    /// A task has finished when all its subtasks have settled a checkpoint that was triggered after they had ended.
    /// The job counts as finished, and `LogRecord::Finished` may be appended, only when every subtask has settled the
    /// final checkpoint: a start that finds that record commits nothing any more. A notification may be lost, so
    /// `NotifyComplete` of the final checkpoint is repeated, at a pause, until all have settled.
    SubtaskSettled {
        /// The subtask.
        subtask: SubtaskId,
        /// The newest checkpoint whose effects are carried out.
        checkpoint: CheckpointId,
    },
    /// Somebody asks for a checkpoint; answered by `RequestCompleted` or `RequestFailed`, whatever happens. It waits until
    /// every subtask runs and until there is room.
    CheckpointRequested {
        /// The request.
        id: RequestId,
        /// What is asked for.
        request: CheckpointRequest,
    },
    /// A source has begun to work through a backlog, or the last that did has done so.
    BacklogChanged {
        /// Whether some source does.
        is_processing_backlog: bool,
    },
    /// Periodic checkpoints are to be taken again, from now on. They are when the attempt begins.
    SchedulerStarted,
    /// No periodic checkpoints are to be taken, and what is pending or waits is to be given up. The final checkpoint is
    /// taken all the same.
    SchedulerStopped,
    /// Answers `InitializeLocation`: the place for a checkpoint is ready.
    LocationInitialized {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Answers `InitializeLocation`: the storage has failed.
    LocationFailed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why, for people.
        cause: String,
    },
    /// Answers `SnapshotEnumerators`: one of them could not be snapshotted.
    EnumeratorFailed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The source.
        operator: OperatorUid,
        /// Why, for people.
        cause: String,
    },
    /// Answers `SnapshotEnumerators`: the split enumerators were snapshotted.
    EnumeratorsSnapshotted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// One state for each source.
        states: Vec<EnumeratorState>,
    },
    /// Answers `TriggerHooks`: every hook has taken part.
    HooksTriggered {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What those have in the checkpoint that have something.
        states: Vec<HookState>,
    },
    /// Answers `TriggerHooks`: a hook has failed, or could not be called.
    HookFailed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The hook; `None` when it is no fault of a hook, as when nobody knows whether another process has the job.
        identifier: Option<String>,
        /// Why, for people.
        cause: String,
    },
    /// A subtask has taken part in a checkpoint: its snapshot is durable.
    Acknowledged(Acknowledgement),
    /// A subtask cannot take part in a checkpoint.
    Declined(Decline),
    /// Answers `WriteMetadata`: the metadata is durable.
    MetadataWritten {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Where the metadata is.
        metadata: StateHandle,
    },
    /// Answers `WriteMetadata`: the metadata could not be written.
    MetadataFailed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why, for people.
        cause: String,
    },
    /// Answers `AppendLog`: the record is durable under its number.
    LogAppended {
        /// The number.
        sequence: u64,
    },
    /// Answers `AppendLog`: another record has that number.
    LogTaken {
        /// The number.
        sequence: u64,
    },
    /// Answers `AppendLog`: the record may or may not be there.
    LogUnknown {
        /// The number.
        sequence: u64,
        /// Why, for people.
        cause: String,
    },
    /// Answers `ReadLog`: what is there under the number; `None` when nothing is.
    LogRead {
        /// The number.
        sequence: u64,
        /// The record.
        record: Option<LogRecord>,
    },
    /// Answers `ReadLog`: it could not be found out.
    LogReadFailed {
        /// The number.
        sequence: u64,
        /// Why, for people.
        cause: String,
    },
    /// Answers `Discard`: it is gone.
    Discarded {
        /// The deletion.
        id: DiscardId,
    },
    /// Answers `Discard`: it may still be there, wholly or in part.
    DiscardFailed {
        /// The deletion.
        id: DiscardId,
    },
    /// Another process has claimed the job, as somebody of this attempt has found who was about to act.
    Fenced {
        /// Number of its claim.
        sequence: u64,
    },
    /// The lease has run out, and the job log cannot be read, which would tell whether somebody else has claimed the job.
    LeaseExpired {
        /// How long the lease is.
        lease_ms: u64,
        /// Why the log cannot be read, for people.
        cause: String,
    },
    /// A task has failed, and the attempt with it: nothing will complete any more.
    TaskFailed {
        /// The subtask.
        subtask: SubtaskId,
        /// Why, for people.
        cause: String,
    },
    /// A task has failed, and only its region is to be restarted: nothing new is begun, and what is being appended to the job
    /// log is decided. Then the next attempt takes over the tasks that go on, see [`crate::Coordinator::taking_over`].
    RegionFailed {
        /// The subtask.
        subtask: SubtaskId,
        /// Why, for people.
        cause: String,
    },
    /// The attempt ends, because the job is cancelled for instance: nothing will complete any more.
    Shutdown,
}

/// A subtask has taken part in a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Acknowledgement {
    /// The job it belongs to.
    pub job: JobName,
    /// The attempt it belongs to.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The subtask.
    pub subtask: SubtaskId,
    /// What it snapshotted.
    pub snapshot: SubtaskSnapshot,
    /// What it measured.
    pub metrics: CheckpointMetrics,
}

/// A subtask cannot take part in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decline {
    /// The job it belongs to.
    pub job: JobName,
    /// The attempt it belongs to.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The subtask.
    pub subtask: SubtaskId,
    /// Why.
    pub failure: CheckpointFailure,
}
