//! Sources that end at different times: what has finished is in the checkpoints as finished, and no restore runs it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use highwater::MemoryCheckpointStorage;
use highwater::checkpoint::{CheckpointFailureReason, CheckpointMetadata, OperatorState, decode_metadata};
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::FinishedOperatorError;
use highwater::state::{CheckpointStorage, ObjectPath};
use highwater::stream::BoxedError;
use pollster::block_on;

use crate::pace::{Grants, Pace, Paced};
use crate::support::{Notes, environment, storage, text, wait_for_checkpoints, wait_until};

const SHORT: u64 = 10;
const LONG: u64 = 600;

/// A source that notes whenever something is made of it.
struct Watched {
    source: SequenceSource,
    notes: Notes<&'static str>,
}

impl Source for Watched {
    type Out = u64;
    type Split = <SequenceSource as Source>::Split;
    type Enumerator = <SequenceSource as Source>::Enumerator;
    type Reader = <SequenceSource as Source>::Reader;

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        self.notes.note("an enumerator is made");
        self.source.create_enumerator()
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        self.notes.note("an enumerator is restored");
        self.source.restore_enumerator(state)
    }

    fn create_reader(&self, subtask: u32) -> Result<Self::Reader, BoxedError> {
        self.notes.note("a reader is made");
        self.source.create_reader(subtask)
    }
}

/// Counts the numbers of each key, and notes when it is initialised.
struct Watching {
    count: ValueState<u64>,
    notes: Notes<&'static str>,
    fails: Arc<AtomicBool>,
}

impl KeyedProcessFunction<u64, u64> for Watching {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.notes.note("a function is initialised");
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<(u64, u64)>) -> Result<()> {
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err("once".into());
        }
        let count = self.count.value(cx)?.unwrap_or(0) + 1;
        self.count.update(cx, count)?;
        out.collect((*cx.current_key(), count));
        Ok(())
    }
}

/// What a job with a short and a long pipeline writes, and what is noted of the short one.
#[derive(Clone)]
struct Run {
    short: CollectedRecords<(u64, u64)>,
    long: CollectedRecords<(u64, u64)>,
    notes: Notes<&'static str>,
    grants: Grants,
    /// Makes the long one fail, once.
    fails: Arc<AtomicBool>,
}

impl Run {
    fn new() -> Self {
        let (short, long, notes) = (CollectedRecords::default(), CollectedRecords::default(), Notes::new());
        Self { short, long, notes, grants: Grants::new(LONG / 2), fails: Arc::default() }
    }

    fn describe(&self, env: &StreamExecutionEnvironment, parallelism: u32) {
        env.set_parallelism(parallelism);
        let watching = |notes: Notes<&'static str>, fails: Arc<AtomicBool>| {
            move || Watching { count: ValueState::default(), notes: notes.clone(), fails: fails.clone() }
        };
        let source = SequenceSource::new(0..SHORT).with_splits(3);
        // The step without a uid has no state, and has finished with those before it.
        env.from_source(Watched { source, notes: self.notes.clone() })
            .uid("short")
            .rebalance()
            .map(|number| number)
            .key_by_value(|number| number % 3)
            .process(watching(self.notes.clone(), Arc::default()))
            .uid("short-counter")
            .sink_to(CollectSink::new(self.short.clone()))
            .uid("short-sink");
        let source = SequenceSource::new(0..LONG).with_splits(3);
        env.from_source(Paced::new(source, Some(Pace::Granted(self.grants.clone()))))
            .uid("long")
            .key_by_value(|number| number % 7)
            .process(watching(Notes::new(), self.fails.clone()))
            .uid("long-counter")
            .sink_to(CollectSink::new(self.long.clone()))
            .uid("long-sink");
    }

    /// Each key was counted once for each of its numbers.
    fn assert_complete(&self) {
        for (records, numbers, keys) in [(&self.short, SHORT, 3), (&self.long, LONG, 7)] {
            let mut found = records.to_vec();
            found.sort_unstable();
            let of_key = |key: u64| (key..numbers).step_by(keys as usize).count() as u64;
            let expected: Vec<_> = (0..keys).flat_map(|key| (1..=of_key(key)).map(move |n| (key, n))).collect();
            assert_eq!(found, expected);
        }
    }
}

/// The newest checkpoint of which there is metadata.
fn newest(storage: &MemoryCheckpointStorage, job: &str) -> Option<CheckpointMetadata> {
    let objects = block_on(storage.list(&ObjectPath::new([job]))).unwrap();
    // What has been subsumed meanwhile is gone.
    let read = |path: &ObjectPath| Some(decode_metadata(&block_on(storage.read(path)).ok()?).unwrap());
    let all = objects.iter().filter(|path| path.name() == "_metadata").filter_map(read);
    all.max_by_key(|metadata| metadata.checkpoint)
}

fn finished(metadata: &CheckpointMetadata) -> Vec<&str> {
    metadata.operators.iter().filter(|operator| operator.finished).map(|operator| operator.uid.as_str()).collect()
}

/// Waits until the short pipeline has finished in a complete checkpoint.
fn wait_for_the_short_to_finish(handle: &JobHandle, storage: &MemoryCheckpointStorage, job: &str) {
    let has_finished = |metadata: CheckpointMetadata| finished(&metadata).contains(&"short-sink");
    wait_until("the short pipeline has finished", || newest(storage, job).is_some_and(has_finished));
    wait_for_checkpoints(handle, handle.status().checkpoints_completed + 2);
}

fn stopped_when_the_short_has_finished(storage: &Arc<MemoryCheckpointStorage>, job: &str, run: &Run) {
    let env = environment(job, storage.clone());
    run.describe(&env, 2);
    let handle = env.execute_async().unwrap();
    wait_for_the_short_to_finish(&handle, storage, job);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    assert!(run.short.len() == SHORT as usize && run.long.len() < LONG as usize);
}

/// Contract: P290.
#[test]
fn at_any_parallelism() {
    for parallelism in [1, 2, 3] {
        let (storage, run) = (storage(), Run::new());
        stopped_when_the_short_has_finished(&storage, "not-again", &run);
        let metadata = newest(&storage, "not-again").unwrap();
        assert_eq!(finished(&metadata), ["short", "flat-map-1", "short-counter", "short-sink"]);
        let is_empty = |operator: &OperatorState| operator.subtasks.is_empty() && operator.enumerator.is_none();
        assert!(metadata.operators.iter().all(|operator| operator.finished == is_empty(operator)));
        assert!(!run.notes.take().is_empty());

        let env = environment("not-again", storage);
        run.describe(&env, parallelism);
        run.grants.add_all();
        let result = env.execute().unwrap();
        assert!(result.status.restored_from >= Some(metadata.checkpoint));
        assert_eq!(run.notes.take(), [""; 0], "nothing of what has finished was called");
        run.assert_complete();
    }
}

/// Contract: O275, P290.
#[test]
fn and_not_after_a_failure_of_a_task_that_still_runs() {
    let (storage, run) = (storage(), Run::new());
    let env = environment("failing", storage.clone());
    run.describe(&env, 2);
    let handle = env.execute_async().unwrap();
    wait_for_the_short_to_finish(&handle, &storage, "failing");
    run.notes.take();
    run.fails.store(true, Ordering::Relaxed);
    run.grants.add_all();
    assert_eq!(handle.wait().unwrap().status.restarts, 1);
    assert_eq!(run.notes.take(), [""; 0]);
    run.assert_complete();
}

/// Contract: P292.
#[test]
fn and_is_not_put_behind_one_that_still_runs() {
    let (storage, run) = (storage(), Run::new());
    let running = environment("put-behind", storage.clone());
    run.describe(&running, 2);
    let running = running.execute_async().unwrap();
    wait_for_the_short_to_finish(&running, &storage, "put-behind");
    let env = environment("put-behind", storage);
    let watching = || Watching { count: ValueState::default(), notes: Notes::new(), fails: Arc::default() };
    env.from_source(SequenceSource::new(0..LONG))
        .uid("long")
        .key_by_value(|number| number % 7)
        .process(watching)
        .uid("short-counter")
        .sink_to(CollectSink::default())
        .uid("short-sink");
    env.from_source(SequenceSource::new(0..SHORT))
        .uid("short")
        .map(|n| (n, n))
        .sink_to(CollectSink::default())
        .uid("long-sink");
    let other = SequenceSource::new(0..1);
    env.from_source(other)
        .uid("other")
        .key_by_value(|_| 0)
        .process(watching)
        .uid("long-counter")
        .sink_to(CollectSink::default())
        .uid("other-sink");
    let error = env.execute().unwrap_err();
    let JobError::Restore { source, .. } = &error else { panic!("{error:?}") };
    let Some(FinishedOperatorError::BehindRunning { ended, running: behind }) = source.downcast_ref() else {
        panic!("{}", text(&error))
    };
    assert_eq!((ended.as_str(), behind.as_str()), ("short-counter", "long"));
    // It was refused before it had claimed the job.
    run.grants.add_all();
    let result = running.wait().unwrap();
    assert_eq!((result.outcome, result.status.restarts), (JobOutcome::Finished, 0));
    run.assert_complete();
}

/// Keeps a number of its own, and puts out nothing.
struct Member {
    own: u64,
    members: OperatorListState<u64>,
    restored: Notes<Vec<u64>>,
}

impl ProcessFunction<u64> for Member {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.members = cx.operator_state_store().get_union_list_state(&ListStateDescriptor::new("members"))?;
        let mut members = self.members.get(cx)?;
        members.sort_unstable();
        self.restored.note(members);
        Ok(self.members.update(cx, [self.own])?)
    }

    fn process(&mut self, _: u64, _: &mut ProcessContext<'_>, _: &mut Collector<u64>) -> Result<()> {
        Ok(())
    }
}

/// Contract: P291.
#[test]
fn and_what_ended_subtasks_had_in_a_union_list_is_kept_while_others_run() {
    let (storage, restored) = (storage(), Notes::new());
    let numbers = Arc::new(AtomicU64::new(0));
    let describe = |env: &StreamExecutionEnvironment, parallelism, grants: &Grants| {
        env.set_parallelism(parallelism);
        let (numbers, restored) = (numbers.clone(), restored.clone());
        // One split: whoever gets none has ended at once.
        let source = SequenceSource::new(0..LONG).with_splits(1);
        env.from_source(Paced::new(source, Some(Pace::Granted(grants.clone()))))
            .process(move || Member {
                own: numbers.fetch_add(1, Ordering::Relaxed),
                members: OperatorListState::default(),
                restored: restored.clone(),
            })
            .uid("members")
            .sink_to(CollectSink::default());
    };
    let env = environment("partly-ended", storage.clone());
    describe(&env, 3, &Grants::new(1));
    let handle = env.execute_async().unwrap();
    let is_partly_ended = |metadata: CheckpointMetadata| {
        let members = metadata.operators.iter().find(|operator| operator.uid.as_str() == "members").unwrap();
        members.subtasks.iter().filter(|subtask| subtask.ended).count() == 2
    };
    wait_until("two of three have ended", || newest(&storage, "partly-ended").is_some_and(is_partly_ended));
    wait_for_checkpoints(&handle, handle.status().checkpoints_completed + 2);
    handle.cancel();
    assert!(handle.wait().is_err());
    assert_eq!(restored.take(), vec![Vec::<u64>::new(); 3]);

    let env = environment("partly-ended", storage);
    let grants = Grants::new(1);
    grants.add_all();
    describe(&env, 2, &grants);
    env.execute().unwrap();
    assert_eq!(restored.take(), vec![vec![0, 1, 2]; 2]);
}

/// Contract: P295.
#[test]
fn or_there_are_no_checkpoints_until_all_have_ended_if_they_are_turned_off() {
    let (storage, run) = (storage(), Run::new());
    let env = environment("turned-off", storage.clone());
    env.enable_checkpoints_after_tasks_finish(false);
    run.describe(&env, 1);
    let handle = env.execute_async().unwrap();
    let is_refused = || {
        let asked = handle.trigger_checkpoint().wait();
        asked.is_err_and(|failure| failure.reason == CheckpointFailureReason::NotAllRequiredTasksRunning)
    };
    wait_until("the short one has ended", is_refused);
    let completed = handle.status().checkpoints_completed;
    let long = |status: JobStatus| {
        status.subtasks.iter().filter(|it| it.operator.as_str() == "long").map(|it| it.records_in).sum::<u64>()
    };
    while long(handle.status()) < LONG - 20 {
        let before = long(handle.status());
        run.grants.add(10);
        wait_until("the long one goes on", || long(handle.status()) > before);
        assert!(is_refused());
        assert!(newest(&storage, "turned-off").is_none_or(|metadata| finished(&metadata).is_empty()));
    }
    run.grants.add_all();
    let status = handle.wait().unwrap().status;
    // One may have been under way when the short one ended, and there is the last.
    assert!(status.checkpoints_completed <= completed + 2, "{status:?}");
    run.assert_complete();
}

/// Field case: R97.
#[test]
fn and_its_last_rows_are_committed_once_however_far_the_next_checkpoint_is() {
    let env = environment("far", storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    let records = CollectedRecords::default();
    env.from_source(SequenceSource::new(0..10)).sink_to(CollectSink::new(records.clone()));
    env.execute().unwrap();
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, Vec::from_iter(0..10));

    let run = Run::new();
    let env = environment("far-apart", storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    run.describe(&env, 2);
    let handle = env.execute_async().unwrap();
    let records_in = |uid: &str| {
        let subtasks = handle.status().subtasks;
        subtasks
            .iter()
            .filter(|subtask| subtask.operator.as_str() == uid)
            .map(|subtask| subtask.records_in)
            .sum::<u64>()
    };
    wait_until("the short one has processed its last record", || records_in("short-counter") == SHORT);
    assert_eq!(run.short.len(), 0, "nothing is visible without a checkpoint");
    run.grants.add_all();
    assert_eq!(handle.wait().unwrap().status.checkpoints_completed, 1);
    run.assert_complete();
}
