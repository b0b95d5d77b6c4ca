//! Transactions that a dead attempt left open hold up whoever reads the target with committed records only: they are aborted
//! when the next attempt runs, and not when its first checkpoint is complete.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::prelude::*;
use highwater::state::{Attempt, CheckpointId};
use highwater::stream::{CommitError, SinkContext, SinkWriter};
use serde::{Deserialize, Serialize};

use crate::pace::{Grants, Pace, Paced};
use crate::support::{environment, storage, wait_until};

const NUMBERS: u64 = 400;

/// Names a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Name {
    attempt: Attempt,
    subtask: u32,
    number: u64,
}

#[derive(Default)]
struct Target {
    /// Transactions that are open or prepared. A reader of committed records waits for the first of them to end.
    unfinished: BTreeMap<Name, Vec<u64>>,
    committed: Vec<u64>,
    /// How many commits find their transaction gone that has not been committed.
    lost: u64,
    ended: Vec<Name>,
}

#[derive(Clone, Default)]
struct TargetSink {
    target: Arc<Mutex<Target>>,
    /// The next aborts fail, as when the target cannot be reached.
    abort_fails: Arc<AtomicBool>,
}

struct Writer {
    target: Arc<Mutex<Target>>,
    open: Name,
}

impl Sink for TargetSink {
    type In = u64;
    type Transaction = Name;
    type Writer = Writer;

    fn create_writer(&self, cx: &SinkContext) -> Result<Writer> {
        let open = Name { attempt: cx.attempt, subtask: cx.subtask, number: 0 };
        self.target.lock().unwrap().unfinished.insert(open, Vec::new());
        Ok(Writer { target: self.target.clone(), open })
    }

    fn commit(&self, name: &Name) -> Result<(), CommitError> {
        let target = &mut *self.target.lock().unwrap();
        match target.unfinished.remove(name) {
            Some(numbers) => {
                target.committed.extend(numbers);
                target.ended.push(*name);
            }
            None if target.ended.contains(name) => {}
            None => target.lost += 1,
        }
        Ok(())
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<()> {
        if self.abort_fails.swap(false, Ordering::SeqCst) {
            return Err("the target cannot be reached".into());
        }
        self.target.lock().unwrap().unfinished.retain(|name, _| name.attempt >= attempt);
        Ok(())
    }
}

impl SinkWriter for Writer {
    type In = u64;
    type Transaction = Name;

    fn write(&mut self, number: u64, _: Timestamp) -> Result<()> {
        self.target.lock().unwrap().unfinished.get_mut(&self.open).ok_or("the transaction was aborted")?.push(number);
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Option<Name>> {
        let prepared = self.open;
        self.open.number += 1;
        self.target.lock().unwrap().unfinished.insert(self.open, Vec::new());
        Ok(Some(prepared))
    }
}

/// Passes numbers on; refuses snapshots or fails when it is told to.
#[derive(Clone, Default)]
struct Switched {
    refuses: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

impl KeyedProcessFunction<u64, u64> for Switched {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err("the machine is gone".into());
        }
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, _: &mut dyn FunctionSnapshotContext) -> Result<()> {
        if self.refuses.load(Ordering::SeqCst) { Err("not now".into()) } else { Ok(()) }
    }
}

fn start(env: &StreamExecutionEnvironment, grants: &Grants, switched: &Switched, sink: &TargetSink) -> JobHandle {
    let switched = switched.clone();
    let source = SequenceSource::new(0..NUMBERS).with_splits(4);
    env.from_source(Paced::new(source, Some(Pace::Granted(grants.clone()))))
        .key_by_value(|number| *number)
        .process(move || switched.clone())
        .uid("switched")
        .sink_to(sink.clone())
        .uid("target");
    env.execute_async().unwrap()
}

/// Runs four subtasks up to checkpoint 5, two failed checkpoints and open transactions behind them; then the job fails.
fn leave_transactions_open(env: &StreamExecutionEnvironment, sink: &TargetSink) {
    env.set_parallelism(4).set_restart_strategy(RestartStrategy::None).set_tolerable_checkpoint_failures(10);
    env.enable_checkpointing(Duration::from_secs(3_600));
    let (grants, switched) = (Grants::new(20), Switched::default());
    let handle = start(env, &grants, &switched, sink);
    for expected in 1..=5 {
        assert_eq!(handle.trigger_checkpoint().wait().unwrap(), CheckpointId(expected));
        grants.add(20);
    }
    switched.refuses.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        handle.trigger_checkpoint().wait().unwrap_err();
        grants.add(20);
    }
    switched.fails.store(true, Ordering::SeqCst);
    grants.add(1);
    handle.wait().unwrap_err();
    let unfinished = sink.target.lock().unwrap().unfinished.keys().filter(|name| name.attempt == Attempt(1)).count();
    assert!(unfinished >= 4, "an open transaction of each subtask");
}

fn goes_on(sink: &TargetSink, when_aborted: impl FnOnce(&JobHandle, &dyn Fn() -> bool)) {
    let storage = storage();
    leave_transactions_open(&environment("left-open", storage.clone()), sink);
    let committed = sink.target.lock().unwrap().committed.len();

    let env = environment("left-open", storage);
    env.set_parallelism(2).enable_checkpointing(Duration::from_secs(3_600));
    let grants = Grants::new(0);
    let handle = start(&env, &grants, &Switched::default(), sink);
    let are_aborted = || {
        let target = sink.target.lock().unwrap();
        target.unfinished.len() == 2 && target.unfinished.keys().all(|name| name.attempt > Attempt(1))
    };
    when_aborted(&handle, &are_aborted);
    assert!(are_aborted());
    assert_eq!(sink.target.lock().unwrap().committed.len(), committed, "what was not complete became visible");
    grants.add_all();
    handle.wait().unwrap();
    let target = sink.target.lock().unwrap();
    let mut visible = target.committed.clone();
    visible.sort_unstable();
    assert_eq!((visible, target.lost), ((0..NUMBERS).collect::<Vec<u64>>(), 0));
}

/// Contract: R315, R320.
/// Field case: R89.
#[test]
fn before_any_checkpoint_of_the_next_attempt_also_at_half_the_parallelism() {
    goes_on(&TargetSink::default(), |handle, are_aborted| {
        wait_until("the transactions are aborted", are_aborted);
        assert_eq!(handle.status().checkpoints_completed, 0);
    });
}

/// Contract: R315.
#[test]
fn and_once_more_when_that_failed() {
    let sink = TargetSink::default();
    sink.abort_fails.store(true, Ordering::SeqCst);
    goes_on(&sink, |handle, are_aborted| {
        wait_until("the first try has failed", || !sink.abort_fails.load(Ordering::SeqCst));
        assert!(!are_aborted());
        handle.trigger_checkpoint().wait().unwrap();
        wait_until("the second try is done", are_aborted);
    });
}
