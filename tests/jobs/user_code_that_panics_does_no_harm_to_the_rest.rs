//! A panic in user code, wherever it is called, becomes an error with its message, and leaves nothing running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater::connectors::{CollectedRecords, SequenceReader, SequenceSplit};
use highwater::prelude::*;
use highwater::runtime::TaskError;
use highwater::stream::{Boundedness, BoxedError, CommitError, SinkContext, SplitAssignment, SplitEnumerator};
use serde::{Deserialize, Serialize, Serializer};

use crate::pace::{Pace, Paced};
use crate::support::{environment, storage, wait_until};

/// A number whose `Serialize` panics while it is told to.
#[derive(Clone, Deserialize)]
struct Grumpy(u64);

static GRUMPY: AtomicBool = AtomicBool::new(false);

impl Serialize for Grumpy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let on_io_thread = std::thread::current().name().is_some_and(|name| name.ends_with("-io"));
        assert!(!(on_io_thread && GRUMPY.swap(false, Ordering::SeqCst)), "not in the mood");
        self.0.serialize(serializer)
    }
}

#[derive(Default)]
struct Keeps {
    last: ValueState<Grumpy>,
}

impl KeyedProcessFunction<u64, u64> for Keeps {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        let last = ValueStateDescriptor::new("last").opaque_schema("grumpy", 1);
        self.last = cx.keyed_state_store()?.get_state(&last)?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        self.last.update(cx, Grumpy(number))?;
        out.collect(number);
        Ok(())
    }
}

/// Contract: L234.
#[test]
fn while_a_snapshot_is_written_it_declines_the_checkpoint() {
    let env = environment("grumpy", storage());
    env.set_tolerable_checkpoint_failures(5);
    let records = CollectedRecords::default();
    GRUMPY.store(true, Ordering::SeqCst);
    env.from_source(Paced::new(SequenceSource::new(0..1_000), Some(Pace::PerCheckpoint(100))))
        .key_by_value(|number| number % 10)
        .process(Keeps::default)
        .uid("keeps")
        .sink_to(CollectSink::new(records.clone()));
    let result = env.execute().unwrap();
    assert_eq!((result.status.checkpoints_failed, result.status.restarts), (1, 0));
    assert_eq!(records.len(), 1_000);
}

/// When an enumerator panics.
#[derive(Clone, Copy, PartialEq)]
enum When {
    /// It is asked for its second split.
    Asked,
    /// It is dropped.
    Dropped,
}

/// Numbers whose enumerator panics.
struct Panicking(SequenceSource, When);

struct PanickingEnumerator<E> {
    inner: E,
    when: When,
    asked: u64,
}

impl<E> Drop for PanickingEnumerator<E> {
    fn drop(&mut self) {
        assert!(self.when != When::Dropped, "not without my splits");
    }
}

impl Source for Panicking {
    type Out = u64;
    type Split = SequenceSplit;
    type Enumerator = PanickingEnumerator<<SequenceSource as Source>::Enumerator>;
    type Reader = SequenceReader;

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        Ok(PanickingEnumerator { inner: self.0.create_enumerator()?, when: self.1, asked: 0 })
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        Ok(PanickingEnumerator { inner: self.0.restore_enumerator(state)?, when: self.1, asked: 0 })
    }

    fn create_reader(&self, subtask: u32) -> Result<SequenceReader, BoxedError> {
        self.0.create_reader(subtask)
    }
}

impl<E: SplitEnumerator> SplitEnumerator for PanickingEnumerator<E> {
    type Split = E::Split;

    fn next_split(&mut self, subtask: u32) -> Result<SplitAssignment<E::Split>, BoxedError> {
        self.asked += 1;
        assert!(self.when != When::Asked || self.asked < 2, "no second split");
        self.inner.next_split(subtask)
    }

    fn add_splits_back(&mut self, splits: Vec<E::Split>) {
        self.inner.add_splits_back(splits);
    }

    fn snapshot(&self) -> Result<Vec<u8>, BoxedError> {
        self.inner.snapshot()
    }
}

#[test]
fn in_an_enumerator_it_fails_the_task_and_the_other_tasks_stop() {
    let env = environment("panicking", storage());
    env.set_restart_strategy(RestartStrategy::None);
    let seen = Arc::new(AtomicU64::new(0));
    let counter = seen.clone();
    env.from_source(Throttled::new(SequenceSource::new(0..1_000_000), std::num::NonZeroU64::new(10_000)))
        .uid("endless")
        .map(move |number| {
            counter.fetch_add(1, Ordering::SeqCst);
            number
        })
        .sink_to(CollectSink::<u64>::default())
        .uid("endless-sink");
    env.from_source(Panicking(SequenceSource::new(0..10).with_splits(2), When::Asked))
        .uid("panicking")
        .sink_to(CollectSink::<u64>::default())
        .uid("panicking-sink");
    let holders = Arc::strong_count(&seen);
    let error = env.execute().unwrap_err();
    let JobError::Task { source: TaskError::User { operator, activity, source }, .. } = error.cause() else {
        panic!("the task did not fail: {error:?}");
    };
    assert_eq!((operator.as_str(), *activity), ("panicking", "find the next split"));
    assert_eq!(source.to_string(), "panicked: no second split");
    // Every subtask has a clone of the function, and with it of the counter.
    assert_eq!(Arc::strong_count(&seen), holders, "a task lives on although its job has ended");
}

/// A function without a key that panics in one of its hooks, if it is told which.
struct PanicsIn(&'static str);

impl PanicsIn {
    fn called(&self, hook: &str) -> Result<()> {
        assert_ne!(self.0, hook, "boom");
        Ok(())
    }
}

impl ProcessFunction<u64> for PanicsIn {
    type Out = u64;

    fn initialize_state(&mut self, _cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.called("initialize_state")
    }

    fn snapshot_state(&mut self, _cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        self.called("snapshot_state")
    }

    fn notify_checkpoint_complete(&mut self, _checkpoint: CheckpointId) -> Result<()> {
        self.called("notify_checkpoint_complete")
    }

    fn process(&mut self, number: u64, _cx: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        self.called("process")
    }
}

#[test]
fn in_a_hook_it_fails_the_task_with_the_operator_and_what_it_was_to_do() {
    for (hook, doing) in [
        ("initialize_state", "be opened and initialise its state"),
        ("process", "work on its input"),
        ("snapshot_state", "snapshot its state"),
        ("notify_checkpoint_complete", "hear of a complete checkpoint"),
    ] {
        let env = environment("hooks", storage());
        env.set_restart_strategy(RestartStrategy::None);
        env.from_source(SequenceSource::new(0..10))
            .uid("numbers")
            .process(|| PanicsIn("nothing"))
            .uid("first")
            .process(move || PanicsIn(hook))
            .uid("second")
            .process(|| PanicsIn("nothing"))
            .uid("third")
            .sink_to(CollectSink::<u64>::default())
            .uid("sink");
        let error = env.execute().unwrap_err();
        let JobError::Task { source, .. } = error.cause() else { panic!("the task did not fail: {error:?}") };
        assert_eq!(source.operator(), Some("second"), "{error:?}");
        let text = source.to_string();
        assert!(text.contains(&format!(" panicked in operator \"second\" while it was to {doing}: ")), "{text}");
        assert!(text.contains("boom"), "{text}");
    }
}

#[test]
fn a_cancel_is_never_lost() {
    for _ in 0..20 {
        let env = environment("cancelled", storage());
        let seen = Arc::new(AtomicU64::new(0));
        let counter = seen.clone();
        env.from_source(Throttled::new(SequenceSource::new(0..1_000_000), std::num::NonZeroU64::new(10_000)))
            .map(move |number| {
                counter.fetch_add(1, Ordering::SeqCst);
                number
            })
            .sink_to(CollectSink::<u64>::default());
        let holders = Arc::strong_count(&seen);
        let handle = env.execute_async().unwrap();
        // The job has its copy of the description now, also if its tasks are not made yet.
        wait_until("a task of the job is there", || Arc::strong_count(&seen) > holders);
        for _ in 0..100 {
            handle.trigger_checkpoint();
        }
        handle.cancel();
        drop(handle);
        wait_until("no task of the job is left", || Arc::strong_count(&seen) == holders);
    }
}

/// Numbers whose source panics, as often as it is told to, when an attempt makes what is named.
struct PanicsAtTheStart {
    source: SequenceSource,
    makes: &'static str,
    times: Arc<AtomicU64>,
}

impl PanicsAtTheStart {
    fn made(&self, what: &str) {
        let is_left = |times: u64| times.checked_sub(1);
        let panics = what == self.makes && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left).is_ok();
        assert!(!panics, "not today");
    }
}

impl Source for PanicsAtTheStart {
    type Out = u64;
    type Split = SequenceSplit;
    type Enumerator = <SequenceSource as Source>::Enumerator;
    type Reader = SequenceReader;

    fn boundedness(&self) -> Boundedness {
        self.made("its boundedness");
        Boundedness::ContinuousUnbounded
    }

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        self.made("the enumerator");
        self.source.create_enumerator()
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        self.made("the restored enumerator");
        self.source.restore_enumerator(state)
    }

    fn create_reader(&self, subtask: u32) -> Result<SequenceReader, BoxedError> {
        self.made("the reader");
        self.source.create_reader(subtask)
    }
}

#[test]
fn when_a_source_is_made_it_names_the_source_and_ends_the_job_only_at_its_first_start() {
    for makes in ["its boundedness", "the enumerator", "the reader"] {
        let env = environment("first", storage());
        let source = PanicsAtTheStart { source: SequenceSource::new(0..10), makes, times: Arc::new(AtomicU64::new(1)) };
        env.from_source(source).uid("numbers").sink_to(CollectSink::<u64>::default());
        let error = env.execute().unwrap_err();
        let JobError::Start { operator, source } = &error else { panic!("{error:?}") };
        assert_eq!((operator.as_str(), source.to_string().as_str()), ("numbers", "panicked: not today"), "{makes}");
    }
    for makes in ["the restored enumerator", "the reader"] {
        let env = environment("again", storage());
        let (times, has_failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let source = PanicsAtTheStart { source: SequenceSource::new(0..1_000), makes, times: times.clone() };
        let records = CollectedRecords::default();
        env.from_source(Paced::new(source, Some(Pace::PerCheckpoint(100))))
            .uid("numbers")
            .map(move |number| {
                if number == 900 && !has_failed.swap(true, Ordering::SeqCst) {
                    times.store(2, Ordering::SeqCst);
                    panic!("as planned");
                }
                number
            })
            .sink_to(CollectSink::new(records.clone()));
        let result = env.execute().unwrap();
        assert_eq!((result.status.restarts, records.len()), (3, 1_000), "{makes}");
    }
}

#[test]
fn when_an_enumerator_is_dropped_it_changes_nothing_about_how_the_job_ends() {
    let clinging = |fails: bool| {
        let env = environment("clinging", storage());
        env.set_restart_strategy(RestartStrategy::None);
        let records = CollectedRecords::default();
        env.from_source(Panicking(SequenceSource::new(0..10), When::Dropped))
            .uid("numbers")
            .map(move |number| {
                assert!(!fails, "as planned");
                number
            })
            .sink_to(CollectSink::new(records.clone()));
        (env.execute(), records.len())
    };
    let (finished, records) = clinging(false);
    assert_eq!((finished.unwrap().outcome, records), (JobOutcome::Finished, 10));
    let error = clinging(true).0.unwrap_err();
    assert!(matches!(error.cause(), JobError::Task { source: TaskError::Panic { .. }, .. }), "{error:?}");
}

/// A sink that panics when it is asked how long its transactions live.
struct Timeless(CollectSink<u64>);

impl Sink for Timeless {
    type In = u64;
    type Transaction = <CollectSink<u64> as Sink>::Transaction;
    type Writer = <CollectSink<u64> as Sink>::Writer;

    fn create_writer(&self, cx: &SinkContext) -> Result<Self::Writer, BoxedError> {
        self.0.create_writer(cx)
    }

    fn commit(&self, transaction: &Self::Transaction) -> Result<(), CommitError> {
        self.0.commit(transaction)
    }

    fn transaction_timeout(&self) -> Option<std::time::Duration> {
        panic!("who can tell")
    }
}

#[test]
fn when_a_sink_is_asked_for_its_transaction_timeout_it_refuses_the_start_and_names_the_sink() {
    let env = environment("timeless", storage());
    env.from_source(SequenceSource::new(0..10)).uid("numbers").sink_to(Timeless(CollectSink::default())).uid("sink");
    let error = env.execute().unwrap_err();
    let JobError::Start { operator, source } = &error else { panic!("{error:?}") };
    assert_eq!((operator.as_str(), source.to_string().as_str()), ("sink", "panicked: who can tell"));
}
