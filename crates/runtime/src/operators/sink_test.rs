//! A sink's commits that fail, on the clock of the test.

use std::sync::Mutex;

use highwater_checkpoint::COMMIT_TRIES_MAX;
use highwater_state_api::{Attempt, BoxedError, JobName, MaxParallelism, OperatorUid, RowSettings};
use highwater_state_kit::HeapStateBackend;
use serde::{Deserialize, Serialize};

use super::*;

/// Prepares its checkpoints, with a long text each. Commits fail by the number of the try.
#[derive(Default)]
struct Target {
    commits: Mutex<u32>,
    fails: Option<fn(u32) -> Option<CommitError>>,
}

struct Writer;

impl Sink for Target {
    type In = u64;
    type Transaction = (CheckpointId, String);
    type Writer = Writer;

    fn create_writer(&self, _: &SinkContext) -> Result<Writer, BoxedError> {
        Ok(Writer)
    }

    fn commit(&self, _: &Self::Transaction) -> Result<(), CommitError> {
        let mut commits = self.commits.lock().unwrap();
        *commits += 1;
        self.fails.and_then(|fails| fails(*commits)).map_or(Ok(()), Err)
    }
}

impl SinkWriter for Writer {
    type In = u64;
    type Transaction = (CheckpointId, String);

    fn write(&mut self, _: u64, _: Timestamp) -> Result<(), BoxedError> {
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Self::Transaction>, BoxedError> {
        Ok(Some((checkpoint, "ä".repeat(1_000))))
    }
}

fn opened_on(fails: fn(u32) -> Option<CommitError>) -> SinkOperator<Target> {
    let mut operator = SinkOperator::new(Arc::new(Target { fails: Some(fails), ..Target::default() }));
    let context = OperatorContext {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(2),
        uid: OperatorUid::new("target").unwrap(),
        subtask: 1,
        parallelism: 2,
        max_parallelism: MaxParallelism::new(8).unwrap(),
        state_backend: Arc::new(HeapStateBackend::new()),
        row_settings: RowSettings { cached_rows_max: 0, hash_seed: 1 },
        now: Duration::ZERO,
        fence: Default::default(),
        restored_checkpoint: None,
        restored: None,
    };
    operator.open(context).unwrap();
    operator
}

/// Takes a checkpoint and follows the timers until its transaction is committed or the attempt fails.
fn commit(operator: &mut SinkOperator<Target>) -> Result<(), TaskError> {
    operator.freeze(Barrier { checkpoint: CheckpointId(7), triggered_at_ms: 0 }).unwrap();
    operator.notify_complete(CheckpointId(7), Duration::ZERO)?;
    for _ in 0..100 {
        let Some(timer) = operator.next_timer() else { return Ok(()) };
        operator.on_timer(timer)?;
    }
    panic!("a commit is tried without end");
}

fn prepared(operator: &SinkOperator<Target>) -> usize {
    operator.opened.as_ref().unwrap().ledger.snapshot().count()
}

#[test]
fn a_target_that_does_not_know_is_asked_again() {
    let mut operator = opened_on(|tries| (tries < 4).then(|| CommitError::Unknown("perhaps".into())));
    commit(&mut operator).unwrap();
    assert_eq!(*operator.sink.commits.lock().unwrap(), 4);
    assert!(operator.is_settled() && prepared(&operator) == 0);
}

/// Contract: R314, R316, R318.
#[test]
fn whatever_a_commit_fails_with_the_transaction_is_named_and_kept() {
    type Case = (fn(u32) -> Option<CommitError>, u32, bool);
    let cases: [Case; 4] = [
        (|_| Some(CommitError::Retryable("no answer".into())), COMMIT_TRIES_MAX, false),
        (|_| Some(CommitError::Unknown("perhaps".into())), COMMIT_TRIES_MAX, true),
        (|_| Some(CommitError::Lost("gone".into())), 1, true),
        (
            |tries| {
                let error = if tries < 3 { CommitError::Retryable } else { CommitError::Lost };
                Some(error("no answer, then gone".into()))
            },
            3,
            true,
        ),
    ];
    for (fails, expected_tries, stops_the_job) in cases {
        let mut operator = opened_on(fails);
        let error = commit(&mut operator).unwrap_err();
        assert_eq!(error.is_permanent(), stops_the_job, "{error}");
        let TaskError::Commit { operator: uid, subtask: 1, transaction, checkpoint: CheckpointId(7), tries, .. } =
            error
        else {
            panic!("{error:?}");
        };
        assert_eq!((uid.as_str(), tries), ("target", expected_tries));
        assert!(transaction.starts_with("(CheckpointId(7), \"ää") && transaction.ends_with("ä…"), "{transaction}");
        assert_eq!(transaction.chars().count(), DESCRIPTION_CHARS_MAX + 1);
        assert_eq!(prepared(&operator), 1, "it is in the next snapshot");
    }
}

/// Its note is left out when there is none, which cannot be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LeavesOut {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    note: Option<u64>,
}

#[test]
fn a_list_of_a_connector_that_could_not_be_read_again_is_not_written() {
    let write = |note| frozen_list("_sink_transactions", [LeavesOut { number: 1, note }].into_iter());
    assert!(write(Some(2)).is_ok());
    let error = write(None).err().expect("its restore would fail");
    assert!(matches!(&error, StateError::NotRoundTrip { state, .. } if state == "_sink_transactions"), "{error}");
    assert!(error.to_string().contains("skip_serializing_if"), "{error}");
}
