//! The checkpoint protocol as pure machines.
//!
//! A machine is a value: events go in, actions come out, time is an argument and a deadline is an answer. Nothing in
//! this crate reads a clock, draws a random number, waits, spawns or logs, and nothing depends on an iteration order
//! that is not fixed.
//!
//! * For a job: [`Coordinator`] takes [`Event`]s and answers with [`Action`]s; [`Restarter`] decides after a failure, and
//!   [`PoisonRecordDetector`] recognises one that comes again and again.
//! * For a subtask: [`Aligner`] at its inputs, [`SubtaskCheckpoints`] for its snapshots, [`CommitLedger`] for what a
//!   transactional sink has prepared.
//! * For a start: [`LogView`] replays the job log, [`claim_record`] makes the next claim, [`redistribute()`] assigns the
//!   state of a checkpoint to the subtasks of a job.
//! * For whoever holds a job and whoever waits for it: [`Lease`] and [`Silence`].
//! * On disk: [`paths`], [`encode_metadata`], [`encode_log_record`] and their inverses. Defined in `docs/format`.

mod aborted;
mod action;
mod aligner;
mod backoff;
mod barrier_handler;
mod cleaner;
mod commit_ledger;
mod config;
mod coordinator;
mod envelope;
mod event;
mod failure;
mod failure_count;
mod job_log;
mod lease;
mod log_format;
mod log_numbers;
mod log_writer;
mod metadata;
mod metadata_v1;
mod metadata_v2;
mod metrics;
mod operator_shares;
pub mod paths;
mod pending;
mod redistribute;
mod request;
mod restart;
mod retention;
mod settling;
mod stats;
mod subtask_checkpoints;
mod task_progress;
mod tracker;
mod trigger;
mod vocabulary;

pub use action::{Action, AttemptFailure, StorageLane};
pub use aligner::{AbandonReason, Aligner, AlignerAction, AlignerEvent};
pub use backoff::wait_ms as retry_wait_ms;
pub use barrier_handler::{BarrierHandler, CheckpointingMode};
pub use cleaner::{Discard, DiscardId};
pub use commit_ledger::{COMMIT_TRIES_MAX, CommitFailure, CommitLedger, TransactionId, TransactionState};
pub use config::{CoordinatorConfig, OperatorPlan, TaskPlan};
pub use coordinator::Coordinator;
pub use envelope::{FileKind, FormatError};
pub use event::{Acknowledgement, Decline, Event};
pub use failure::{CheckpointFailure, CheckpointFailureReason};
pub use job_log::{
    AttemptStart, CHECKPOINT_ID_MAX, Claim, CompletedCheckpoint, LogError, LogView, SEQUENCE_MAX, claim_record,
    orphaned_checkpoints,
};
pub use lease::{Lease, Silence, renewal_interval_ms};
pub use log_format::{decode_log_record, encode_log_record};
pub use log_numbers::successors;
pub use metadata::{decode_metadata, decode_metadata_with_hooks, encode_metadata, encode_metadata_with_hooks};
pub use metrics::CheckpointMetrics;
pub use operator_shares::{OperatorStatePiece, OperatorStateShare};
pub use redistribute::{
    Assignment, HaveEnded, OperatorTarget, RedistributeError, RestoredOperator, RestoredSource, RestoredSubtask,
    redistribute, unclaimed_operators,
};
pub use request::{CheckpointRequest, RequestId};
pub use restart::{
    ExponentialDelay, PoisonRecord, PoisonRecordDetector, RestartDecision, RestartStrategy, Restarter, TaskFailure,
};
pub use stats::{
    CheckpointStats, CheckpointStatsCounts, CheckpointStatsSnapshot, CheckpointStatsStatus, CheckpointStatsTracker,
    SubtaskStateStats, TaskStateStats,
};
pub use subtask_checkpoints::{Begin, Ended, SubtaskCheckpoints};
pub use tracker::{BarrierTracker, TRACKED_MAX};
pub use vocabulary::{
    CheckpointMetadata, EnumeratorState, HookState, LogRecord, Now, OperatorSnapshot, OperatorState, SubtaskSnapshot,
};

#[cfg(test)]
mod aligner_test;
#[cfg(test)]
mod commit_ledger_test;
#[cfg(test)]
mod coordinator_property_test;
#[cfg(test)]
mod coordinator_test;
#[cfg(test)]
mod failover_test;
#[cfg(test)]
mod finished_inputs_test;
#[cfg(test)]
mod finished_tasks_test;
#[cfg(test)]
mod format_test;
#[cfg(test)]
mod job_log_test;
#[cfg(test)]
mod log_answers_test;
#[cfg(test)]
mod reasons_test;
#[cfg(test)]
mod redistribute_test;
#[cfg(test)]
mod requests_test;
#[cfg(test)]
mod retention_test;
#[cfg(test)]
mod script_test;
#[cfg(test)]
mod stray_test;
#[cfg(test)]
mod subtask_checkpoints_test;
#[cfg(test)]
mod tracker_test;
