//! Tests of what follows a failed attempt.

use std::io::{self, ErrorKind};

use highwater_checkpoint::{CheckpointFailureReason, RestartStrategy};
use highwater_state_api::{BoxedError, CheckpointId, ObjectPath, StateError, StorageError};
use highwater_stream_api::CommitError;

use super::*;
use crate::log_test::log_of;

const ALWAYS: RestartStrategy = RestartStrategy::FixedDelay { attempts: u32::MAX, delay_ms: 5 };

struct Job {
    recovery: Recovery,
    board: StatusBoard,
}

impl Job {
    fn new(strategy: RestartStrategy, poison_record_action: PoisonRecordAction) -> Self {
        let recovery = Recovery::new(RestartSettings { strategy, poison_record_repeats: 3, poison_record_action });
        Self { recovery, board: StatusBoard::new(1) }
    }

    fn fail(&mut self, failure: Failure) -> Result<Duration, JobError> {
        let job = JobName::new("job").unwrap();
        self.recovery.on_failure(&job, Now::default(), &self.board, failure)
    }

    fn suspected(&self) -> Option<PoisonRecord> {
        self.board.status().suspected_poison_record
    }
}

fn user_error(text: &str) -> Failure {
    let source = TaskError::User { operator: "sum".to_owned(), activity: "process a record", source: text.into() };
    Failure::Task { task: "sum -> sink".to_owned(), source }
}

fn panic(message: &str) -> Failure {
    let task = "sum -> sink".to_owned();
    let source = TaskError::Panic { task: task.clone(), during: None, message: message.to_owned() };
    Failure::Task { task, source }
}

fn outage() -> Failure {
    Failure::Start(JobError::Storage(StorageError::NotFound { path: ObjectPath::new(["log"]) }))
}

/// A directory without permission is a mistake, unless the process has worked with it.
#[test]
fn a_storage_that_denies_the_first_start_is_not_asked_again() {
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        let denied = || {
            let error = StorageError::unavailable("list", &ObjectPath::new(["log"]), kind.into());
            Failure::Start(JobError::Storage(error))
        };
        let strategy = RestartStrategy::FixedDelay { attempts: 9, delay_ms: 5 };
        let mut job = Job::new(strategy, PoisonRecordAction::Report);
        assert!(matches!(job.fail(denied()), Err(JobError::Storage(_))));
        let mut job = Job::new(strategy, PoisonRecordAction::Report);
        job.fail(user_error("no")).unwrap();
        job.fail(denied()).unwrap();
    }
}

#[test]
fn the_error_names_the_strategy_that_gave_up_whatever_failed() {
    let strategy = RestartStrategy::FixedDelay { attempts: 1, delay_ms: 5 };
    let too_many = || {
        Failure::Coordinator(AttemptFailure::TooManyFailedCheckpoints {
            failed: 1,
            tolerated: 0,
            checkpoint: CheckpointId(1),
            failure: CheckpointFailureReason::Expired.into(),
        })
    };
    for failure in [|| user_error("no"), || panic("no"), outage, too_many] as [fn() -> Failure; 4] {
        let mut job = Job::new(strategy, PoisonRecordAction::Report);
        assert_eq!(job.fail(failure()).unwrap(), Duration::from_millis(5));
        let error = job.fail(failure()).unwrap_err();
        let text = "the restart strategy gives up: fixed-delay (restarts: 1, each after 5 ms)";
        assert_eq!(error.to_string(), text);
        assert!(matches!(&error, JobError::NotRestarted { strategy: found, .. } if *found == strategy), "{error:?}");
    }
}

/// Contract: O282.
#[test]
fn what_would_only_be_repeated_is_no_matter_of_the_strategy() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    let source = TaskError::State {
        operator: "sum".to_owned(),
        source: Box::new(StateError::Unbound { handle: "a state handle".to_owned() }),
    };
    let error = job.fail(Failure::Task { task: "sum".to_owned(), source }).unwrap_err();
    assert!(matches!(error, JobError::Task { restarts: 0, .. }), "{error:?}");
}

/// Contract: O282.
#[test]
fn a_record_that_fails_every_time_is_reported_and_the_strategy_decides() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    for (failures, suspected) in [(1, None), (2, None), (3, Some(3)), (4, Some(4))] {
        job.board.lock().status.restored_from = Some(CheckpointId(7));
        job.fail(user_error("no number")).unwrap();
        assert_eq!(job.suspected().map(|record| record.failures), suspected, "after {failures}");
    }
    assert_eq!(
        job.suspected(),
        Some(PoisonRecord {
            operator: "sum".to_owned(),
            error: "operator \"sum\" failed while it was to process a record: no number".to_owned(),
            checkpoint: Some(CheckpointId(7)),
            failures: 4,
        })
    );
}

/// Contract: O282.
#[test]
fn a_record_that_fails_every_time_ends_the_job_that_is_to_fail_then() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Fail);
    job.fail(panic("no number")).unwrap();
    job.fail(panic("no number")).unwrap();
    match job.fail(panic("no number")).unwrap_err() {
        JobError::PoisonRecord { operator, checkpoint: None, failures: 3, source } => {
            assert_eq!(operator, "sum -> sink");
            assert!(matches!(*source, TaskError::Panic { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert!(job.suspected().is_some());
}

/// Contract: O282.
#[test]
fn the_log_says_as_an_error_what_is_suspected() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    job.board.lock().status.restored_from = Some(CheckpointId(7));
    let mut logs = [(); 3].map(|()| log_of(|| assert!(job.fail(user_error("no number")).is_ok())));
    let suspicion = logs[2].lines().next().unwrap().to_owned();
    for text in ["ERROR", "operator=\"sum\"", "checkpoint=7", "failures=3", "no number"] {
        assert!(suspicion.contains(text), "{suspicion} does not say {text}");
    }
    logs[2] = logs[2].lines().skip(1).collect();
    for log in logs {
        assert!(log.contains("WARN") && !log.contains("ERROR"), "{log}");
    }
}

/// Contract: O282.
#[test]
fn an_outage_in_between_says_nothing_about_the_record() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    for failure in [user_error("a"), outage(), user_error("a"), outage(), user_error("a")] {
        job.fail(failure).unwrap();
    }
    assert_eq!(job.suspected().map(|record| record.failures), Some(3));
}

/// Contract: O282.
#[test]
fn a_job_that_gets_on_is_under_no_suspicion() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    let fail_thrice = |job: &mut Job| (0..3).for_each(|_| assert!(job.fail(user_error("a")).is_ok()));
    fail_thrice(&mut job);
    assert!(job.suspected().is_some());
    job.board.lock().completed(CheckpointId(8));
    assert_eq!(job.suspected(), None);

    fail_thrice(&mut job);
    assert_eq!(job.suspected().and_then(|record| record.checkpoint), Some(CheckpointId(8)));
    job.fail(user_error("another")).unwrap();
    assert_eq!(job.suspected(), None);
}

fn uncommitted(cause: CommitError) -> Failure {
    let (operator, transaction) = ("sink".to_owned(), "part-1".into());
    let source = TaskError::Commit {
        operator,
        subtask: 1,
        transaction,
        checkpoint: CheckpointId(7),
        tries: 10,
        cause: cause.into(),
    };
    Failure::Task { task: "sum -> sink".to_owned(), source }
}

/// Contract: R318.
#[test]
fn a_target_that_fails_is_no_record_that_does() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Fail);
    for _ in 0..10 {
        assert!(job.fail(uncommitted(CommitError::Retryable("no answer".into()))).is_ok());
        assert_eq!(job.suspected(), None);
    }
}

/// Contract: O282.
#[test]
fn a_full_disk_is_no_record_that_fails_and_a_record_that_cannot_be_sorted_is_one() {
    let failure = |source| {
        let source = TaskError::SortedInput { operator: "sum".to_owned(), source };
        Failure::Task { task: "sum -> sink".to_owned(), source }
    };
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    for _ in 0..10 {
        let full = io::Error::new(io::ErrorKind::StorageFull, "the temporary file could not be written in /tmp");
        assert!(job.fail(failure(full.into())).is_ok());
        assert_eq!(job.suspected(), None);
    }
    let errors: [fn() -> BoxedError; 2] = [
        || "a record is read as another one".into(),
        || io::Error::new(io::ErrorKind::InvalidData, "a record has 4 GiB or more").into(),
    ];
    for error in errors {
        (0..3).for_each(|_| assert!(job.fail(failure(error())).is_ok()));
        assert!(job.suspected().is_some());
    }
}

/// Contract: R316, R318.
#[test]
fn a_transaction_that_is_lost_or_stays_unknown_ends_the_job_and_the_error_says_how_to_go_on() {
    for error in [|| CommitError::Lost("gone".into()), || CommitError::Unknown("gone".into())] {
        let error = Job::new(ALWAYS, PoisonRecordAction::Report).fail(uncommitted(error())).unwrap_err();
        let text = chain_of(&error);
        for part in
            ["subtask 1 of operator \"sink\"", "part-1", "checkpoint 7", "10 times", "start the job again", "gone"]
        {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}

#[test]
fn a_hook_that_cannot_start_ends_the_job_only_at_its_first_start() {
    let mut job = Job::new(ALWAYS, PoisonRecordAction::Report);
    let refuses = || {
        let (hook, source) = ("session".to_owned(), "no session".into());
        Failure::Start(JobError::HookStart { hook, source })
    };
    assert!(matches!(job.fail(refuses()), Err(JobError::HookStart { .. })));
    job.fail(user_error("a")).unwrap();
    assert!(job.fail(refuses()).is_ok());
}
