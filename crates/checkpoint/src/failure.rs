//! Why a checkpoint did not complete, or was never begun: Flink's reasons, one by one, and what follows from each.
//!
//! What a reason means stands in one table, so that it can be read as one and no rule hides in the code that fails.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a checkpoint did not complete, or was never begun. Flink's `CheckpointFailureReason`.
///
/// All of Flink's are here, with what would follow from each. Those that nothing can lead to yet say which capability they
/// come with ([`CheckpointFailureReason::comes_with`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CheckpointFailureReason {
    /// A periodic checkpoint was asked for while periodic checkpoints are stopped, or none are configured.
    PeriodicSchedulerShutdown,
    /// More requests wait than the queue takes, and this one was of the least worth.
    TooManyCheckpointRequests,
    /// A periodic checkpoint was asked for within the minimum pause.
    MinimumTimeBetweenCheckpoints,
    /// A periodic checkpoint was asked for while a subtask does not run (other requests wait until it does), or any while
    /// one has ended and checkpoints after the end of tasks are turned off.
    NotAllRequiredTasksRunning,
    /// A checkpoint or a savepoint of a job in batch mode, which exchanges whole results.
    BlockingOutputExist,
    /// The storage could not make the place for the checkpoint ready.
    IoException,
    /// A subtask was asked while it was still dealing with what it was restored with.
    DeclinedTaskNotReady,
    /// A subtask was asked after it had been told to stop.
    DeclinedTaskClosing,
    /// The barrier of a newer checkpoint came to a subtask before all barriers of this one had.
    DeclinedSubsumed,
    /// The barriers of the checkpoint were not in line at a subtask within the timeout, counted there from the first one
    /// on. The coordinator, which counts from the trigger on, expires it before; so this frees the channels of a subtask
    /// that has not heard of that.
    DeclinedTimeOut,
    /// More bytes wait behind barriers than the alignment may hold. Blocked channels buffer nothing; records in flight that
    /// an unaligned checkpoint captures do.
    DeclinedAlignmentLimitExceeded,
    /// A subtask further up has given the checkpoint up and has said so in the stream.
    DeclinedOnCancellationBarrier,
    /// An input ended during the alignment, and checkpoints after the end of tasks are turned off.
    DeclinedInputEndOfStream,
    /// The synchronous half of a subtask's snapshot failed.
    Declined,
    /// The asynchronous half of a subtask's snapshot failed.
    AsyncException,
    /// Another subtask that writes to the same file of records in flight has failed.
    ChannelStateSharedStreamException,
    /// Not every subtask acknowledged within the timeout.
    Expired,
    /// A newer checkpoint completed first.
    Subsumed,
    /// The attempt ended.
    CoordinatorShutdown,
    /// Periodic checkpoints were stopped, and with them everything that was pending.
    CoordinatorSuspend,
    /// Some tasks are being restarted.
    JobFailoverRegion,
    /// A subtask was told to take the checkpoint and does not exist in this attempt.
    TaskCheckpointFailure,
    /// A subtask was told how the checkpoint ended and does not exist in this attempt.
    UnknownTaskCheckpointNotificationFailure,
    /// A task failed while the checkpoint was pending.
    TaskFailure,
    /// A part of the checkpoint that is taken before the subtasks are asked failed: a split enumerator, a hook.
    TriggerCheckpointFailure,
    /// The metadata could not be written, or does not fit the job.
    FinalizeCheckpointFailure,
}

/// What a reason means.
struct Meaning {
    reason: CheckpointFailureReason,
    name: &'static str,
    text: &'static str,
    /// Raised before there is a pending checkpoint, in Flink.
    is_preflight: bool,
    /// Counts toward the failures that are tolerated.
    counts: bool,
    /// Follows from something else, of which people are told besides, or which they have wanted.
    follows: bool,
    /// The capability that can raise it; `None` when it can be raised already.
    comes_with: Option<&'static str>,
}

/// One line a reason, in the order of the enum.
const MEANINGS: [Meaning; 26] = {
    use CheckpointFailureReason::*;
    const fn row(
        reason: CheckpointFailureReason,
        name: &'static str,
        is_preflight: bool,
        counts: bool,
        text: &'static str,
    ) -> Meaning {
        Meaning { reason, name, text, is_preflight, counts, follows: false, comes_with: None }
    }
    const fn later(capability: &'static str, meaning: Meaning) -> Meaning {
        Meaning { comes_with: Some(capability), ..meaning }
    }
    const fn follows(meaning: Meaning) -> Meaning {
        Meaning { follows: true, ..meaning }
    }
    const PREFLIGHT: bool = true;
    const PENDING: bool = false;
    const COUNTS: bool = true;
    const FREE: bool = false;
    #[rustfmt::skip]
    let rows = [
        row(PeriodicSchedulerShutdown, "PERIODIC_SCHEDULER_SHUTDOWN", PREFLIGHT, FREE, "periodic checkpoints are stopped"),
        row(TooManyCheckpointRequests, "TOO_MANY_CHECKPOINT_REQUESTS", PREFLIGHT, FREE, "too many requests for checkpoints wait"),
        row(MinimumTimeBetweenCheckpoints, "MINIMUM_TIME_BETWEEN_CHECKPOINTS", PREFLIGHT, FREE, "the minimum pause between checkpoints is not over"),
        row(NotAllRequiredTasksRunning, "NOT_ALL_REQUIRED_TASKS_RUNNING", PREFLIGHT, FREE, "not every task that has to take part is running"),
        row(BlockingOutputExist, "BLOCKING_OUTPUT_EXIST", PREFLIGHT, FREE, "the job has blocking exchanges"),
        row(IoException, "IO_EXCEPTION", PREFLIGHT, COUNTS, "the storage failed while the checkpoint was begun"),
        row(DeclinedTaskNotReady, "CHECKPOINT_DECLINED_TASK_NOT_READY", PENDING, FREE, "a subtask was not ready"),
        row(DeclinedTaskClosing, "CHECKPOINT_DECLINED_TASK_CLOSING", PENDING, FREE, "a subtask was about to end"),
        row(DeclinedSubsumed, "CHECKPOINT_DECLINED_SUBSUMED", PENDING, FREE, "the barrier of a newer checkpoint came to a subtask first"),
        row(DeclinedTimeOut, "CHECKPOINT_DECLINED_TIME_OUT", PENDING, COUNTS, "the barriers were not in line at a subtask within the timeout"),
        later("unaligned checkpoints", row(DeclinedAlignmentLimitExceeded, "CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED", PENDING, FREE, "more records waited behind barriers than allowed")),
        row(DeclinedOnCancellationBarrier, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", PENDING, FREE, "a subtask further up has given it up"),
        row(DeclinedInputEndOfStream, "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", PENDING, FREE, "an input ended while its barrier was awaited"),
        row(Declined, "CHECKPOINT_DECLINED", PENDING, COUNTS, "a subtask could not take its snapshot"),
        row(AsyncException, "CHECKPOINT_ASYNC_EXCEPTION", PENDING, COUNTS, "a subtask could not write its snapshot"),
        later("unaligned checkpoints", row(ChannelStateSharedStreamException, "CHANNEL_STATE_SHARED_STREAM_EXCEPTION", PENDING, FREE, "another subtask failed to write to the file of records in flight that it shares")),
        row(Expired, "CHECKPOINT_EXPIRED", PENDING, COUNTS, "it was not complete within the timeout"),
        follows(row(Subsumed, "CHECKPOINT_SUBSUMED", PENDING, FREE, "a newer checkpoint completed first")),
        follows(row(CoordinatorShutdown, "CHECKPOINT_COORDINATOR_SHUTDOWN", PENDING, FREE, "the attempt ended")),
        follows(row(CoordinatorSuspend, "CHECKPOINT_COORDINATOR_SUSPEND", PENDING, FREE, "checkpoints were stopped")),
        follows(row(JobFailoverRegion, "JOB_FAILOVER_REGION", PENDING, FREE, "tasks are being restarted")),
        row(TaskCheckpointFailure, "TASK_CHECKPOINT_FAILURE", PENDING, FREE, "a subtask that does not exist was asked to take part"),
        row(UnknownTaskCheckpointNotificationFailure, "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE", PENDING, FREE, "a subtask that does not exist was told how it ended"),
        follows(row(TaskFailure, "TASK_FAILURE", PENDING, FREE, "a task failed")),
        row(TriggerCheckpointFailure, "TRIGGER_CHECKPOINT_FAILURE", PENDING, FREE, "it could not be begun"),
        row(FinalizeCheckpointFailure, "FINALIZE_CHECKPOINT_FAILURE", PENDING, COUNTS, "it could not be finalized"),
    ];
    rows
};

impl CheckpointFailureReason {
    /// Every reason there is.
    pub fn all() -> impl Iterator<Item = Self> {
        MEANINGS.iter().map(|meaning| meaning.reason)
    }

    /// The name that Flink gives it.
    pub fn name(self) -> &'static str {
        self.meaning().name
    }

    /// Whether Flink raises it before there is a pending checkpoint. Here [`CheckpointFailureReason::IoException`] is raised when
    /// there is one, of which no subtask has heard yet.
    pub fn is_preflight(self) -> bool {
        self.meaning().is_preflight
    }

    /// Whether it counts toward the failures that are tolerated. Being overtaken, stopped or too early says nothing about
    /// health.
    pub fn counts(self) -> bool {
        self.meaning().counts
    }

    /// Whether it follows from something else, of which people are told besides, or which they have wanted: then it is no
    /// warning.
    pub fn follows(self) -> bool {
        self.meaning().follows
    }

    /// The capability that can raise it; `None` when it can be raised already.
    pub fn comes_with(self) -> Option<&'static str> {
        self.meaning().comes_with
    }

    fn meaning(self) -> &'static Meaning {
        &MEANINGS[self as usize]
    }
}

/// What it means, for people.
impl fmt::Display for CheckpointFailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning().text)
    }
}

/// Why one checkpoint failed. Flink's `CheckpointException`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFailure {
    /// The kind of reason.
    pub reason: CheckpointFailureReason,
    /// What else is known, for people: who, where, the error of the storage. May be empty.
    pub message: String,
}

impl CheckpointFailure {
    /// A failure about which more is known than its reason.
    pub fn new(reason: CheckpointFailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Whether it counts toward the failures that are tolerated.
    pub fn counts(&self) -> bool {
        self.reason.counts()
    }
}

impl From<CheckpointFailureReason> for CheckpointFailure {
    fn from(reason: CheckpointFailureReason) -> Self {
        Self { reason, message: String::new() }
    }
}

/// The text of the reason is always there, and first.
impl fmt::Display for CheckpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for CheckpointFailure {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_line_in_the_table() {
        for (index, reason) in CheckpointFailureReason::all().enumerate() {
            assert_eq!(reason as usize, index, "{reason:?}");
            assert_eq!(reason.meaning().reason, reason);
        }
        let names: BTreeSet<_> = CheckpointFailureReason::all().map(CheckpointFailureReason::name).collect();
        assert_eq!(names.len(), MEANINGS.len());
    }

    /// Contract: L230.
    #[test]
    fn what_each_reason_means() {
        let mut table = String::new();
        for reason in CheckpointFailureReason::all() {
            let when = if reason.is_preflight() { "before it is pending" } else { "while it is pending" };
            let counts = if reason.counts() { "counts" } else { "does not count" };
            let later = reason.comes_with().map(|later| format!("  (comes with {later})")).unwrap_or_default();
            let follows = if reason.follows() { "follows" } else { "" };
            table += &format!("{:<45} {when:<21} {counts:<15} {follows:<8} {reason}{later}\n", reason.name());
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_failure_says_its_reason_and_then_what_else_is_known() {
        let reason = CheckpointFailureReason::Expired;
        assert_eq!(CheckpointFailure::from(reason).to_string(), "it was not complete within the timeout");
        let failure = CheckpointFailure::new(reason, "counter (1) has not acknowledged");
        assert_eq!(failure.to_string(), "it was not complete within the timeout: counter (1) has not acknowledged");
    }
}
