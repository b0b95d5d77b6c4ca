//! User code may block the start of a job while its owner cancels: when it returns at last, none is called after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use highwater::connectors::{CollectedRecords, SequenceSource};
use highwater::prelude::*;
use highwater::state::{CheckpointId, CheckpointStorage};
use highwater::stream::{BoxedError, CommitError, MasterTriggerRestoreHook, SinkContext, SinkStart};

use crate::support::{Gate, environment, storage, wait_until};

/// User code of which the first call returns when the test says so; all are counted.
struct Blocking {
    calls: AtomicU64,
    gate: Arc<Gate>,
}

impl Blocking {
    /// With where the test hears that it was called, and what it lets it return with.
    fn new() -> (Arc<Self>, Receiver<()>, SyncSender<()>) {
        let (gate, entered, leave) = Gate::new();
        gate.close();
        (Arc::new(Self { calls: AtomicU64::new(0), gate }), entered, leave)
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.gate.pass();
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Cancels a job while its first call blocks, and panics if there is another one after it.
fn assert_that_nobody_is_called_after_a_cancel(
    env: StreamExecutionEnvironment,
    storage: &Arc<dyn CheckpointStorage>,
    blocking: &Blocking,
    (entered, leave): (Receiver<()>, SyncSender<()>),
) {
    let handle = env.execute_async().unwrap();
    drop(env);
    entered.recv().unwrap();
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    drop(leave);
    wait_until("nothing is left of the job", || Arc::strong_count(storage) == 1);
    assert_eq!(blocking.calls(), 1);
}

struct BlockingSink(CollectSink<u64>, Arc<Blocking>);

impl Sink for BlockingSink {
    type In = u64;
    type Transaction = <CollectSink<u64> as Sink>::Transaction;
    type Writer = <CollectSink<u64> as Sink>::Writer;

    fn start(&self, start: &SinkStart<'_>) -> std::result::Result<(), BoxedError> {
        self.1.call();
        self.0.start(start)
    }

    fn create_writer(&self, context: &SinkContext) -> std::result::Result<Self::Writer, BoxedError> {
        self.0.create_writer(context)
    }

    fn commit(&self, transaction: &Self::Transaction) -> std::result::Result<(), CommitError> {
        self.0.commit(transaction)
    }
}

/// Contract: O287.
#[test]
fn no_sink() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let (blocking, entered, leave) = Blocking::new();
    let env = environment("sinks", storage.clone());
    for name in ["a", "b"] {
        let sink = BlockingSink(CollectSink::new(CollectedRecords::default()), blocking.clone());
        env.from_source(SequenceSource::new(0..10)).uid(format!("{name}-source")).sink_to(sink).uid(name);
    }
    assert_that_nobody_is_called_after_a_cancel(env, &storage, &blocking, (entered, leave));
}

struct BlockingHook(&'static str, Arc<Blocking>);

impl MasterTriggerRestoreHook for BlockingHook {
    fn identifier(&self) -> &str {
        self.0
    }

    fn reset(&mut self) -> std::result::Result<(), BoxedError> {
        self.1.call();
        Ok(())
    }

    fn trigger_checkpoint(&mut self, _: CheckpointId, _: u64) -> std::result::Result<Option<Vec<u8>>, BoxedError> {
        Ok(None)
    }

    fn restore_checkpoint(&mut self, _: CheckpointId, _: Option<&[u8]>) -> std::result::Result<(), BoxedError> {
        self.1.call();
        Ok(())
    }
}

/// Contract: O287.
#[test]
fn no_hook() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let (blocking, entered, leave) = Blocking::new();
    let env = environment("hooks", storage.clone());
    for name in ["a", "b"] {
        env.add_master_hook(BlockingHook(name, blocking.clone())).unwrap();
    }
    env.from_source(SequenceSource::new(0..10)).sink_to(CollectSink::new(CollectedRecords::<u64>::default()));
    assert_that_nobody_is_called_after_a_cancel(env, &storage, &blocking, (entered, leave));
}
