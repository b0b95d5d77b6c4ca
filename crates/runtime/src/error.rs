//! What can go wrong in a task and in a job.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use highwater_checkpoint::{AttemptFailure, RestartStrategy};
use highwater_state_api::{BoxedError, CheckpointId, ConfigError, OperatorUid, StateError, StorageError};
use highwater_stream_api::CommitError;

use crate::threads::message_of;

/// An error of one task. It ends the attempt; the restart strategy decides what follows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// User code returned an error.
    #[error("operator {operator:?} failed while it was to {activity}")]
    User {
        /// The operator's uid.
        operator: String,
        /// What it was asked to do.
        activity: &'static str,
        /// What it said.
        #[source]
        source: BoxedError,
    },
    /// State could not be read or written.
    #[error("state of operator {operator:?} failed")]
    State {
        /// The operator's uid.
        operator: String,
        /// The cause.
        #[source]
        source: Box<StateError>,
    },
    /// A prepared transaction could not be committed. It stays in the snapshots, and is committed first when the job is
    /// started again. The text says what can be done when the target does not know it or has lost it.
    #[error(
        "subtask {subtask} of operator {operator:?} could not commit a transaction of checkpoint {checkpoint}, tried {}: {}{}; the \
         transaction is {transaction}",
        times(*tries),
        chain_of(&**cause),
        what_to_do(cause)
    )]
    Commit {
        /// The uid of the sink.
        operator: String,
        /// The subtask that was to commit it.
        subtask: u32,
        /// The transaction: how it shows itself with `Debug`, cut where that is long.
        transaction: Box<str>,
        /// The checkpoint that it belongs to.
        checkpoint: CheckpointId,
        /// How often it was tried in this attempt.
        tries: u32,
        /// The cause. It is in the text, where it comes before the transaction, which may be long; so it is no
        /// [`source`](std::error::Error::source), or it would be said twice.
        cause: Box<CommitError>,
    },
    /// Another process has claimed the job, so that the task did not do what it was about to.
    #[error("another attempt has claimed the job in log record {sequence}")]
    Fenced {
        /// Number of its claim.
        sequence: u64,
    },
    /// Records in flight could not be encoded or decoded.
    #[error("records in flight: {0}")]
    InFlight(String),
    /// The input of an operator in batch mode could not be sorted by key.
    #[error("the input of operator {operator:?} could not be sorted")]
    SortedInput {
        /// The operator's uid.
        operator: String,
        /// The cause: the temporary file, or a record that cannot be written or read.
        #[source]
        source: BoxedError,
    },
    /// A batch holds records of another type than its consumer takes.
    #[error("a batch does not hold records of type {expected}")]
    OtherRecordType {
        /// The type that the consumer takes.
        expected: &'static str,
    },
    /// The task panicked.
    #[error("task {task} panicked{}: {message}", during.as_ref().map_or_else(String::new, ToString::to_string))]
    Panic {
        /// The task.
        task: String,
        /// Which of its operators was at work; `None` when none was.
        during: Option<Box<OperatorCall>>,
        /// The panic's message.
        message: String,
    },
}

/// What an operator of a task was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorCall {
    /// The operator's uid.
    pub operator: String,
    /// What it was asked to do.
    pub activity: &'static str,
}

/// As a part of a sentence about the task.
impl fmt::Display for OperatorCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " in operator {:?} while it was to {}", self.operator, self.activity)
    }
}

impl TaskError {
    pub(crate) fn in_flight(error: bincode::Error) -> Self {
        Self::InFlight(error.to_string())
    }

    /// Whether another attempt is bound to fail in the same way: then the job ends at once.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::State { source, .. } => is_mistake(source),
            Self::User { source, .. } => source.downcast_ref().is_some_and(is_mistake),
            Self::Commit { cause, .. } => !matches!(**cause, CommitError::Retryable(_)),
            Self::OtherRecordType { .. } | Self::Fenced { .. } => true,
            Self::InFlight(_) | Self::SortedInput { .. } | Self::Panic { .. } => false,
        }
    }

    /// Whether it says nothing about records, as the storage does not: the target of a sink failed, or the disk that a batch is
    /// sorted on.
    pub(crate) fn is_of_another_system(&self) -> bool {
        match self {
            Self::Commit { .. } => true,
            Self::SortedInput { source, .. } => {
                let of_disk = source.downcast_ref::<io::Error>();
                of_disk.is_some_and(|error| error.kind() != io::ErrorKind::InvalidData)
            }
            _ => false,
        }
    }

    /// The uid of the operator that failed, if it is known which it was.
    pub fn operator(&self) -> Option<&str> {
        match self {
            Self::User { operator, .. }
            | Self::State { operator, .. }
            | Self::Commit { operator, .. }
            | Self::SortedInput { operator, .. } => Some(operator),
            Self::Panic { during, .. } => during.as_ref().map(|call| call.operator.as_str()),
            Self::InFlight(_) | Self::OtherRecordType { .. } | Self::Fenced { .. } => None,
        }
    }

    pub(crate) fn user(operator: &OperatorUid, activity: &'static str) -> impl FnOnce(BoxedError) -> Self {
        move |source| Self::User { operator: operator.to_string(), activity, source }
    }

    pub(crate) fn state(operator: &OperatorUid) -> impl FnOnce(StateError) -> Self {
        move |source| Self::State { operator: operator.to_string(), source: Box::new(source) }
    }
}

fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// What the owner of a job can do about a transaction that stops it.
fn what_to_do(error: &CommitError) -> &'static str {
    match error {
        CommitError::Retryable(_) => "",
        CommitError::Unknown(_) => {
            "; the job has stopped, and the transaction stays in its checkpoints. Look into the target of the sink whether \
             the transaction is there. If the target can tell by now, start the job again: it commits the transaction first. \
             If not, bring about by hand what the transaction was to do, unless it is there, and let `commit` of the sink \
             return `Ok` for this transaction when the job is started again"
        }
        CommitError::Lost(_) => {
            "; the job has stopped, and the transaction stays in its checkpoints. Look into the target of the sink what has \
             become of the transaction. If it can be put back, do so and start the job again: it commits the transaction \
             first. If not, its records have to be brought in by hand or given up: then let `commit` of the sink return \
             `Ok` for this transaction when the job is started again"
        }
    }
}

/// Whether it is the program or the checkpoint that is wrong, and not the moment.
fn is_mistake(error: &StateError) -> bool {
    matches!(
        error,
        StateError::Unbound { .. }
            | StateError::ForeignHandle { .. }
            | StateError::NotKeyed { .. }
            | StateError::RawStream(_)
            | StateError::TooManyStates
            | StateError::NotTaken { .. }
            | StateError::BlankName { .. }
            | StateError::ReservedName { .. }
            | StateError::OtherRedistribution { .. }
            | StateError::OtherKind { .. }
            | StateError::OtherSchema { .. }
            | StateError::OtherType { .. }
            | StateError::Untraceable { .. }
            | StateError::KeyHash(_)
            | StateError::KeyNotRoundTrip { .. }
            | StateError::OtherKeyType { .. }
            | StateError::Damaged(_)
    )
}

/// An error of a job: it has ended, or never began.
///
/// What could have been followed by a restart, but was not because of the restart strategy, is a
/// [`JobError::NotRestarted`]; [`JobError::cause`] looks behind it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The job was described in a way that cannot run. A mistake in the program; nothing was started.
    #[error("the job cannot run: {0}")]
    Invalid(String),
    /// The job is to be run in batch mode, and the input of a source does not end. Nothing was started.
    #[error(
        "the job cannot run in batch mode: source {operator:?} is unbounded, or does not say that it is not \
         (`Source::boundedness`); `execution.runtime-mode: AUTOMATIC` would run it as a stream"
    )]
    UnboundedSource {
        /// The uid of the source.
        operator: String,
    },
    /// There is a mistake in the configuration. Nothing was started.
    #[error("the configuration cannot be used")]
    Configuration(#[from] ConfigError),
    /// State of a checkpoint does not fit the job.
    #[error("checkpoint {checkpoint} cannot be restored")]
    Restore {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The cause.
        #[source]
        source: BoxedError,
    },
    /// The checkpoint storage failed while the job was starting. Nothing was started: a storage that fails is never
    /// taken for one that is empty.
    #[error("the checkpoint storage failed at the start of the job")]
    Storage(#[from] StorageError),
    /// What is in the job log cannot be.
    #[error("the job log is damaged")]
    Log(#[source] BoxedError),
    /// A sink or a source refused to start.
    #[error("operator {operator:?} cannot start")]
    Start {
        /// The operator's uid.
        operator: String,
        /// The cause.
        #[source]
        source: BoxedError,
    },
    /// A hook of the application could not be restored or reset.
    #[error("hook {hook:?} cannot start")]
    HookStart {
        /// The identifier of the hook.
        hook: String,
        /// The cause.
        #[source]
        source: BoxedError,
    },
    /// The transactions of a sink may be over before they can be committed. Nothing was started.
    #[error(
        "the transactions of sink {operator:?} are over after {} ms, and with one restart it may take {} before they are \
         committed, {explanation}: make the transaction timeout of the sink longer, or the checkpoint interval \
         (`enable_checkpointing`), the checkpoint timeout (`set_checkpoint_timeout`), the delays of the restart strategy \
         (`set_restart_strategy`, `restart-strategy.*`) or the lease (`set_lease_duration`) shorter",
        timeout.as_millis(),
        needed.map_or("any time".to_owned(), |needed| format!("{} ms", needed.as_millis()))
    )]
    TransactionTimeout {
        /// The uid of the sink.
        operator: String,
        /// For how long the sink says that its target keeps transactions.
        timeout: Duration,
        /// For how long they may have to be kept; `None` without checkpoints at an interval, when it is until the end of
        /// the input, whenever that is.
        needed: Option<Duration>,
        /// How that adds up.
        explanation: String,
    },
    /// A task failed. Alone, not as the cause of another: another attempt would only have repeated it.
    #[error("task {task} failed (restarts before: {restarts})")]
    Task {
        /// The task.
        task: String,
        /// How often the job was restarted before.
        restarts: u32,
        /// The cause.
        #[source]
        source: TaskError,
    },
    /// The restart strategy has allowed no other restart.
    #[error("the restart strategy gives up: {strategy}")]
    NotRestarted {
        /// The strategy.
        strategy: RestartStrategy,
        /// What ended the last attempt.
        #[source]
        source: Box<JobError>,
    },
    /// The same failure came again and again without a checkpoint in between, so that one record probably causes it each
    /// time, and the job is configured to end then (`restart-strategy.poison-record.action: fail`).
    #[error(
        "operator {operator:?} has failed {failures} times in the same way, each time on from {}: probably because of one \
         record",
        checkpoint.map_or("the beginning".to_owned(), |checkpoint| format!("checkpoint {checkpoint}"))
    )]
    PoisonRecord {
        /// The uid of the operator, or the name of its task when it is not known which of its operators failed.
        operator: String,
        /// The checkpoint behind which the record is; `None` when the job has not completed any.
        checkpoint: Option<CheckpointId>,
        /// How often it has failed, one after the other.
        failures: u32,
        /// The last failure.
        #[source]
        source: Box<TaskError>,
    },
    /// The coordinator ended the attempt.
    #[error("the attempt was ended by its coordinator")]
    Coordinator(#[source] AttemptFailure),
    /// A standby has waited for whoever ran the job, and that one has ended it and dropped its checkpoints, as its
    /// [`ExternalizedCheckpointRetention`](crate::ExternalizedCheckpointRetention) says. Nothing was started.
    #[error(
        "the process that ran the job has ended it and has dropped its checkpoints: when this one is started again, the job \
         begins from nothing"
    )]
    Dropped,
    /// The job was cancelled, and of each of its checkpoints it is known whether it is complete. Where they were to be deleted and the
    /// storage has not answered, they may still be dropped later: the log of the process has said so. Whether the job had just
    /// finished, and its storage has not told, the next start says.
    #[error("the job was cancelled")]
    Cancelled,
    /// The job was cancelled while the record that makes a checkpoint complete was being appended to the job log, and the storage has
    /// not told what became of it. Nothing is lost: the next start reads the log, which has the record or never will.
    #[error(
        "the job was cancelled before its storage had told whether checkpoint {checkpoint} is complete: the job log decides when the \
         job is started again, which goes on from it or from the one before"
    )]
    CancelledUndecided {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// A thread of the job could not be started or was lost.
    #[error("the job's threads failed: {0}")]
    Threads(String),
}

impl JobError {
    /// What went wrong: this error, or the one that a restart strategy gave up on.
    pub fn cause(&self) -> &JobError {
        match self {
            Self::NotRestarted { source, .. } => source.cause(),
            other => other,
        }
    }

    /// The checkpoint about which only the job log will tell whether it is complete.
    pub(crate) fn undecided(&self) -> Option<CheckpointId> {
        match self {
            Self::CancelledUndecided { checkpoint } => Some(*checkpoint),
            _ => None,
        }
    }
}

/// The error, its causes and what to do in one line, not the fields: `fn main() -> Result<()>` prints `Debug`, and what a user sees
/// there has to say what went wrong.
impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain_of(self))?;
        match self.cause() {
            Self::Restore { .. } => f.write_str("; to begin without its state, give the job another name"),
            _ => Ok(()),
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = text_of(error);
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&text_of(cause));
        source = cause.source();
    }
    text
}

/// The text of one error, which may be the user's: that it cannot be written must not end whoever tells of it.
fn text_of(error: &dyn std::error::Error) -> String {
    let text = catch_unwind(AssertUnwindSafe(|| error.to_string()));
    text.unwrap_or_else(|panic| format!("an error whose text panics: {}", message_of(panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Speechless;

    impl fmt::Display for Speechless {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }

    impl std::error::Error for Speechless {}

    #[test]
    fn an_error_whose_text_panics_can_be_told_of() {
        let error = TaskError::User { operator: "sum".to_owned(), activity: "process", source: Box::new(Speechless) };
        let text = "operator \"sum\" failed while it was to process: an error whose text panics: no words";
        assert_eq!(chain_of(&error), text);
    }

    fn too_large() -> TaskError {
        TaskError::User { operator: "sum".to_owned(), activity: "process", source: "too large".into() }
    }

    #[test]
    fn the_cause_of_a_commit_that_failed_comes_before_its_transaction_and_once() {
        let error = |tries, cause| TaskError::Commit {
            operator: "target".to_owned(),
            subtask: 1,
            transaction: "Letter { name: \"7-1-0\" }".into(),
            checkpoint: CheckpointId(7),
            tries,
            cause: Box::new(cause),
        };
        let retryable = error(10, CommitError::Retryable("connection refused".into()));
        assert_eq!(
            chain_of(&retryable),
            "subtask 1 of operator \"target\" could not commit a transaction of checkpoint 7, tried 10 times: the commit failed and \
             may be tried again: connection refused; the transaction is Letter { name: \"7-1-0\" }"
        );
        let lost = chain_of(&error(1, CommitError::Lost("it is not there".into())));
        let parts = ["tried once: the transaction cannot be committed: it is not there; the job has stopped", "Letter"];
        let places = parts.map(|part| lost.find(part).unwrap_or_else(|| panic!("{part} is not in {lost}")));
        assert!(places.is_sorted(), "{lost}");
        assert_eq!(lost.matches("it is not there").count(), 1, "{lost}");
    }

    #[test]
    fn what_a_program_does_wrong_is_not_tried_again() {
        let uid = OperatorUid::new("sum").unwrap();
        let state = |error| TaskError::state(&uid)(error).is_permanent();
        assert!(state(StateError::TooManyStates));
        assert!(!state(StateError::Backend("the disk is full".into())));
        // Also when it comes through user code.
        let user = |error: StateError| TaskError::user(&uid, "initialise its state")(error.into()).is_permanent();
        assert!(user(StateError::TooManyStates));
        assert!(!user(StateError::Failed));
    }

    #[test]
    fn debug_of_a_job_error_is_its_chain() {
        let task = JobError::Task { task: "sum 0".to_owned(), restarts: 3, source: too_large() };
        let strategy = RestartStrategy::FixedDelay { attempts: 3, delay_ms: 10 };
        let error = JobError::NotRestarted { strategy, source: Box::new(task) };
        assert_eq!(
            format!("{error:?}"),
            "the restart strategy gives up: fixed-delay (restarts: 3, each after 10 ms): \
             task sum 0 failed (restarts before: 3): operator \"sum\" failed while it was to process: too large"
        );
        assert!(matches!(error.cause(), JobError::Task { restarts: 3, .. }));
    }

    #[test]
    fn debug_of_an_error_of_a_restore_ends_with_what_to_do() {
        let error = JobError::Restore { checkpoint: CheckpointId(3), source: "its metadata is gone".into() };
        assert_eq!(
            format!("{error:?}"),
            "checkpoint 3 cannot be restored: its metadata is gone; to begin without its state, give the job another name"
        );
    }

    #[test]
    fn a_panic_says_which_operator_was_at_work_if_one_was() {
        let panic = |during| TaskError::Panic { task: "sum 0".to_owned(), during, message: "boom".to_owned() };
        let call = OperatorCall { operator: "sum".to_owned(), activity: "work on its input" };
        let error = panic(Some(Box::new(call)));
        assert_eq!(
            error.to_string(),
            "task sum 0 panicked in operator \"sum\" while it was to work on its input: boom"
        );
        assert_eq!(error.operator(), Some("sum"));
        assert_eq!(panic(None).to_string(), "task sum 0 panicked: boom");
    }

    #[test]
    fn a_poison_record_is_named_by_all_that_is_known_of_it() {
        let at = |checkpoint| {
            JobError::PoisonRecord {
                operator: "sum".to_owned(),
                checkpoint,
                failures: 3,
                source: Box::new(too_large()),
            }
            .to_string()
        };
        assert_eq!(
            at(Some(CheckpointId(7))),
            "operator \"sum\" has failed 3 times in the same way, each time on from checkpoint 7: probably because of one \
             record"
        );
        assert!(at(None).contains("each time on from the beginning: "));
    }
}
