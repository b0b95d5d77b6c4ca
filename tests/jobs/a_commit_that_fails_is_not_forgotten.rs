//! Whatever fails when a transaction is committed, its records become visible once, also after restarts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use highwater::prelude::*;
use highwater::state::{Attempt, CheckpointId};
use highwater::stream::{CommitError, SinkContext, SinkWriter};
use serde::{Deserialize, Serialize};

use crate::pace::{Pace, Paced};
use crate::support::{environment, storage};

const NUMBERS: u64 = 2_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Transaction {
    attempt: Attempt,
    subtask: u32,
    checkpoint: CheckpointId,
}

/// Commits that were tried.
#[derive(Debug, Clone, Copy, Default)]
struct Tried {
    /// This one included.
    commits: u64,
    /// Before this one.
    failed: u64,
}

/// What is outside the job.
#[derive(Default)]
struct Outside {
    prepared: BTreeMap<Transaction, Vec<u64>>,
    committed: BTreeMap<Transaction, Vec<u64>>,
    tried: Tried,
    /// Decides by what was tried so far and the transaction whether the commit fails.
    fails: Option<fn(Tried, &Transaction) -> bool>,
}

#[derive(Clone, Default)]
struct FlakySink(Arc<Mutex<Outside>>);

struct FlakyWriter {
    cx: SinkContext,
    outside: Arc<Mutex<Outside>>,
    open: Vec<u64>,
}

impl Sink for FlakySink {
    type In = u64;
    type Transaction = Transaction;
    type Writer = FlakyWriter;

    fn create_writer(&self, cx: &SinkContext) -> Result<FlakyWriter> {
        Ok(FlakyWriter { cx: cx.clone(), outside: self.0.clone(), open: Vec::new() })
    }

    fn commit(&self, transaction: &Transaction) -> Result<(), CommitError> {
        let mut outside = self.0.lock().unwrap();
        outside.tried.commits += 1;
        if outside.fails.is_some_and(|fails| fails(outside.tried, transaction)) {
            outside.tried.failed += 1;
            return Err(CommitError::Retryable("as planned".into()));
        }
        if outside.committed.contains_key(transaction) {
            return Ok(());
        }
        let records = outside.prepared.remove(transaction);
        let records = records.ok_or_else(|| CommitError::Lost(format!("{transaction:?} is gone").into()))?;
        outside.committed.insert(transaction.clone(), records);
        Ok(())
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<()> {
        self.0.lock().unwrap().prepared.retain(|transaction, _| transaction.attempt >= attempt);
        Ok(())
    }
}

impl SinkWriter for FlakyWriter {
    type In = u64;
    type Transaction = Transaction;

    fn write(&mut self, record: u64, _: Timestamp) -> Result<()> {
        self.open.push(record);
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Transaction>> {
        if self.open.is_empty() {
            return Ok(None);
        }
        let transaction = Transaction { attempt: self.cx.attempt, subtask: self.cx.subtask, checkpoint };
        let records = std::mem::take(&mut self.open);
        self.outside.lock().unwrap().prepared.insert(transaction.clone(), records);
        Ok(Some(transaction))
    }
}

/// Passes numbers on and returns what is visible in the end. With `fail_task` the task fails once, when a commit has.
fn run(fail_task: bool, fails: fn(Tried, &Transaction) -> bool) -> (Vec<u64>, JobResult) {
    let env = environment("flaky", storage());
    env.set_parallelism(2).set_restart_strategy(RestartStrategy::FixedDelay { attempts: 50, delay_ms: 1 });
    let sink = FlakySink::default();
    sink.0.lock().unwrap().fails = Some(fails);
    let source = Paced::new(SequenceSource::new(0..NUMBERS).with_splits(4), Some(Pace::PerCheckpoint(100)));
    let has_failed = Arc::new(AtomicBool::new(!fail_task));
    let outside = sink.0.clone();
    env.from_source(source)
        .flat_map(move |number, out: &mut Collector<u64>| {
            if outside.lock().unwrap().tried.failed > 0 && !has_failed.swap(true, Ordering::SeqCst) {
                return Err("as planned".into());
            }
            out.collect(number);
            Ok(())
        })
        .sink_to(sink.clone());
    let result = env.execute().unwrap();
    let outside = sink.0.lock().unwrap();
    assert!(outside.prepared.is_empty(), "left behind: {:?}", outside.prepared.keys());
    let mut visible: Vec<u64> = outside.committed.values().flatten().copied().collect();
    visible.sort_unstable();
    (visible, result)
}

fn all() -> Vec<u64> {
    (0..NUMBERS).collect()
}

/// Contract: R314.
#[test]
fn when_it_fails_now_and_then() {
    let (visible, result) = run(false, |tried, _| tried.commits % 5 == 0);
    assert_eq!(visible, all());
    assert_eq!(result.status.restarts, 0, "a commit that may be tried again costs no restart");
}

/// Contract: R314, R315.
#[test]
fn when_it_fails_for_one_subtask_also_after_a_restart() {
    // When the task fails, a transaction of subtask 1 waits to be tried again. In the next attempt it still fails for a
    // while, and meanwhile no checkpoint may say that everything of the attempt before is committed.
    let (visible, result) = run(true, |tried, transaction| {
        transaction.subtask == 1 && transaction.attempt == Attempt(1) && tried.failed < 5
    });
    assert_eq!(visible, all());
    assert_eq!(result.status.restarts, 1);
}
