//! Actions: everything that the coordinator of one attempt asks its shell to do. One sentence a variant.

use std::collections::BTreeSet;

use highwater_state_api::{CheckpointId, ObjectPath, SubtaskId};

use crate::{CheckpointFailure, CheckpointMetadata, Discard, DiscardId, HookState, LogRecord, RequestId};

/// What is to be done. Comes out of [`crate::Coordinator::on_event`]; to be carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make the place for a checkpoint ready; answered by `LocationInitialized` or `LocationFailed`.
    InitializeLocation {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The folder that everything of it goes to.
        folder: ObjectPath,
    },
    /// Snapshot the split enumerators and hold back what they say to readers that have not yet passed the checkpoint;
    /// answered by `EnumeratorsSnapshotted` or `EnumeratorFailed`.
    SnapshotEnumerators {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Have the hooks of the application take part; answered by `HooksTriggered` or `HookFailed`.
    TriggerHooks {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// When it was triggered, on the wall clock, in milliseconds since the epoch.
        triggered_at_ms: u64,
    },
    /// Tell subtasks to take the checkpoint and to send its barrier: the sources, and all others whose upstream tasks have
    /// finished. Answered by each subtask whose task has not finished with `Acknowledged` or `Declined`, or not at all.
    TriggerSubtasks {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// When it was triggered, on the wall clock, in milliseconds since the epoch.
        triggered_at_ms: u64,
        /// Who is told.
        subtasks: Vec<SubtaskId>,
        /// The tasks that have finished, by index: nothing is asked of them.
        finished: BTreeSet<u32>,
    },
    /// Let subtasks go whose tasks have finished: nothing is asked of them and nothing is told to them any more.
    FinishSubtasks {
        /// Who may go.
        subtasks: Vec<SubtaskId>,
    },
    /// Write the metadata of a checkpoint durably; answered by `MetadataWritten` or `MetadataFailed`.
    WriteMetadata {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Where to.
        path: ObjectPath,
        /// What to write.
        metadata: Box<CheckpointMetadata>,
        /// What hooks have in the checkpoint, to be written with it.
        hooks: Vec<HookState>,
    },
    /// Create a record of the job log if its number is free; answered by `LogAppended`, `LogTaken` or `LogUnknown`.
    AppendLog {
        /// The number.
        sequence: u64,
        /// The record.
        record: LogRecord,
    },
    /// Read what is in the job log under a number; answered by `LogRead` or `LogReadFailed`.
    ReadLog {
        /// The number.
        sequence: u64,
    },
    /// Tell people that a call of the job log was not answered: what became of an append is unknown, and nothing completes
    /// meanwhile.
    ReportLogSilence {
        /// The number that was asked about.
        sequence: u64,
        /// How long the answer was waited for.
        waited_ms: u64,
    },
    /// A request for a checkpoint has failed: to whoever asked.
    RequestFailed {
        /// The request.
        request: RequestId,
        /// Why.
        failure: CheckpointFailure,
    },
    /// The checkpoint that was asked for is complete: to whoever asked.
    RequestCompleted {
        /// The request.
        request: RequestId,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Tell every subtask that has not been let go that a checkpoint is complete. Only now may effects outside the job happen.
    NotifyComplete {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// A checkpoint is complete whose record was being appended when the attempt ended: for people, since no subtask is told any
    /// more.
    NoteComplete {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Tell every subtask that a checkpoint will never complete.
    NotifyAborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        failure: CheckpointFailure,
        /// The newest complete checkpoint, be it of an earlier attempt: whoever was not told hears of it by this.
        latest_complete: Option<CheckpointId>,
    },
    /// Tell every subtask that a complete checkpoint, which may be one of an earlier attempt, is no longer kept because
    /// newer ones are: nothing will be restored from it.
    NotifySubsumed {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Delete something that nothing can need any more; answered by `Discarded` or `DiscardFailed`. What is gone already is
    /// deleted.
    Discard {
        /// The deletion.
        id: DiscardId,
        /// What is to go.
        discard: Discard,
    },
    /// The job is done: its last checkpoint is complete, every subtask has settled it, and the log says so. Also said of an attempt
    /// that is over, when it hears so late.
    Finished,
    /// The attempt must end.
    Fail(AttemptFailure),
}

/// Storage work that shares its threads with nothing but its like: where one kind hangs, the others go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageLane {
    /// The job log. An attempt has a few calls under way at most, however many are not answered.
    Log,
    /// Deleting, which neither a checkpoint nor a start waits for.
    CleanUp,
    /// Everything else that checkpoints need, hooks too.
    Checkpoints,
}

impl Action {
    /// Beside which other work it is carried out. It has a meaning only for storage work and the calls of hooks.
    pub fn lane(&self) -> StorageLane {
        match self {
            Self::AppendLog { .. } | Self::ReadLog { .. } => StorageLane::Log,
            Self::Discard { .. } => StorageLane::CleanUp,
            Self::InitializeLocation { .. }
            | Self::SnapshotEnumerators { .. }
            | Self::TriggerHooks { .. }
            | Self::TriggerSubtasks { .. }
            | Self::FinishSubtasks { .. }
            | Self::WriteMetadata { .. }
            | Self::ReportLogSilence { .. }
            | Self::RequestFailed { .. }
            | Self::RequestCompleted { .. }
            | Self::NotifyComplete { .. }
            | Self::NoteComplete { .. }
            | Self::NotifyAborted { .. }
            | Self::NotifySubsumed { .. }
            | Self::Finished
            | Self::Fail(_) => StorageLane::Checkpoints,
        }
    }
}

/// Why the coordinator ends its attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptFailure {
    /// Another process has claimed the job. This attempt must neither publish, delete nor commit, nor be restarted.
    #[error(
        "another attempt has claimed the job in log record {sequence}: this one is fenced. Nothing is lost: whoever has the \
         job now goes on from the last complete checkpoint, and this process has stopped and changes nothing any more. \
         Start it again only as a standby, which waits for its turn (`set_standby`, `high-availability.standby`), or to take \
         the job away from the other one"
    )]
    Fenced {
        /// Number of the record that was taken.
        sequence: u64,
    },
    /// The lease could not be renewed before it ran out, and the log cannot be read: another process may have taken over.
    #[error(
        "the lease of {lease_ms} ms has run out, and whether another process has claimed the job is unknown: {cause}"
    )]
    LeaseExpired {
        /// How long the lease is.
        lease_ms: u64,
        /// Why the log cannot be read, for people.
        cause: String,
    },
    /// More checkpoints failed in a row than are tolerated.
    #[error("{failed} checkpoints failed in a row, {tolerated} are tolerated; the last one, {checkpoint}: {failure}")]
    TooManyFailedCheckpoints {
        /// How many failed.
        failed: u32,
        /// How many are tolerated.
        tolerated: u32,
        /// The last one.
        checkpoint: CheckpointId,
        /// Why it failed.
        failure: CheckpointFailure,
    },
    /// For as long as a checkpoint may take, the log has not told what became of an append: its record may be there.
    #[error(
        "the outcome of appending log record {sequence} has been unknown for {waited_ms} ms, the next attempt reads the \
         log: {cause}"
    )]
    LogUnavailable {
        /// Number of the record.
        sequence: u64,
        /// For how long its outcome has been unknown.
        waited_ms: u64,
        /// Why it was unknown the last time, for people.
        cause: String,
    },
}
