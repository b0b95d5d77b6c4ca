//! A sink's commits that fail, on the clock of the test.

use std::sync::Mutex;

use bytes::Bytes;
use highwater_checkpoint::COMMIT_TRIES_MAX;
use highwater_state_api::operator_state::OperatorStatePart;
use highwater_state_api::{Attempt, BoxedError, JobName, MaxParallelism, OperatorUid, RestoredElements, RowSettings};
use highwater_state_kit::HeapStateBackend;
use serde::{Deserialize, Serialize};

use super::*;
use crate::batch::Batch;
use crate::operator::{RestoredOperator, RestoredOperatorState};

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

fn context() -> OperatorContext {
    OperatorContext {
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
    }
}

fn opened_on(fails: fn(u32) -> Option<CommitError>) -> SinkOperator<Target> {
    let mut operator = SinkOperator::new(Arc::new(Target { fails: Some(fails), ..Target::default() }));
    operator.open(context()).unwrap();
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

/// Prepares what was written since the last time, and notes what is committed.
#[derive(Default)]
struct Records {
    committed: Mutex<Vec<Vec<u64>>>,
    /// Whom its last writer is made for.
    made_for: Mutex<Option<SinkContext>>,
}

impl Sink for Records {
    type In = u64;
    type Transaction = Vec<u64>;
    type Writer = RecordsWriter;

    fn create_writer(&self, cx: &SinkContext) -> Result<RecordsWriter, BoxedError> {
        *self.made_for.lock().unwrap() = Some(cx.clone());
        Ok(RecordsWriter::default())
    }

    fn commit(&self, transaction: &Vec<u64>) -> Result<(), CommitError> {
        self.committed.lock().unwrap().push(transaction.clone());
        Ok(())
    }
}

#[derive(Default)]
struct RecordsWriter {
    open: Vec<u64>,
}

impl SinkWriter for RecordsWriter {
    type In = u64;
    type Transaction = Vec<u64>;

    fn write(&mut self, record: u64, _: Timestamp) -> Result<(), BoxedError> {
        self.open.push(record);
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Option<Vec<u64>>, BoxedError> {
        Ok((!self.open.is_empty()).then(|| std::mem::take(&mut self.open)))
    }
}

fn snapshot(operator: &mut SinkOperator<Records>, checkpoint: u64) -> RestoredOperator {
    let barrier = Barrier { checkpoint: CheckpointId(checkpoint), triggered_at_ms: 0 };
    let frozen = operator.freeze(barrier).unwrap();
    let mut content = Vec::new();
    let parts = frozen.operator.unwrap().write_to(&mut content).unwrap();
    let restored = |part: OperatorStatePart| {
        let range = part.offset as usize..(part.offset + part.length) as usize;
        let content = Bytes::copy_from_slice(&content[range]);
        let elements = vec![RestoredElements { elements: part.elements, content, is_carried: true }];
        RestoredOperatorState { meta: part.meta, elements }
    };
    RestoredOperator {
        checkpoint: CheckpointId(checkpoint),
        keyed: Vec::new(),
        raw_keyed: Vec::new(),
        operator: parts.into_iter().map(restored).collect(),
        watermark: Timestamp::MIN,
        finished: frozen.snapshot.ended,
    }
}

/// Contract: R317.
#[test]
fn after_the_end_of_input_a_snapshot_has_no_open_transaction_and_can_be_restored() {
    let open = |restored: Option<RestoredOperator>| {
        let mut operator = SinkOperator::new(Arc::new(Records::default()));
        let restored_checkpoint = restored.as_ref().map(|restored| restored.checkpoint);
        operator.open(OperatorContext { restored_checkpoint, restored, ..context() }).unwrap();
        operator
    };
    let committed = |operator: &SinkOperator<Records>| operator.sink.committed.lock().unwrap().clone();
    let mut operator = open(None);
    operator.accept(Box::new(Batch::new(vec![1u64, 2, 3], vec![Timestamp::NONE; 3]))).unwrap();
    assert_eq!(operator.run(&Limits::unlimited(Duration::ZERO)).unwrap(), Ran::Done);
    operator.finish().unwrap();

    // What was open is prepared by the first snapshot after the end, so that its restore commits all of it.
    let first = snapshot(&mut operator, 7);
    assert_eq!(committed(&open(Some(first))), [[1, 2, 3]]);
    operator.notify_complete(CheckpointId(7), Duration::ZERO).unwrap();
    assert_eq!(committed(&operator), [[1, 2, 3]]);
    // There is nothing left for another one, nor for its restore.
    let second = snapshot(&mut operator, 8);
    assert!(second.operator.iter().all(|state| state.elements.iter().all(|elements| elements.elements == 0)));
    let mut restored = open(Some(second));
    assert!(restored.is_settled());
    restored.finish().unwrap();
    snapshot(&mut restored, 9);
    restored.notify_complete(CheckpointId(9), Duration::ZERO).unwrap();
    assert!(committed(&restored).is_empty());
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

#[test]
fn a_writer_hears_which_sink_and_subtask_it_is_made_for_and_where_that_goes_on() {
    let made_for = |restored: Option<RestoredOperator>| {
        let mut operator = SinkOperator::new(Arc::new(Records::default()));
        operator.open(OperatorContext { subtask: 2, parallelism: 3, restored, ..context() }).unwrap();
        let context = operator.sink.made_for.lock().unwrap().clone().unwrap();
        (context.operator.to_string(), context.subtask, context.parallelism, context.restored, operator)
    };
    let (uid, subtask, parallelism, restored, mut operator) = made_for(None);
    assert_eq!((uid.as_str(), subtask, parallelism, restored), (context().uid.as_str(), 2, 3, None));
    let snapshot = snapshot(&mut operator, 7);
    assert_eq!(made_for(Some(snapshot)).3, Some(CheckpointId(7)));
}
