//! Batch mode: one key after the other, no checkpoints, and everything visible at the end and once.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::{CheckpointFailureReason, NotEndedError, SchedulerError, TaskError};
use highwater::state::{CheckpointStorage, KeyCx};
use highwater::{FileSystemCheckpointStorage, MemoryStateBackend};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::killed_process;
use crate::pace::{Grants, Pace, Paced};
use crate::support::{
    Count, assert_counted, assert_counted_by, count, count_by, environment, storage, text, wait_until,
};

const NUMBERS: u64 = 3_000;

/// An environment for batch mode, without a restart strategy.
fn batch(name: &str, storage: Arc<dyn CheckpointStorage>) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend(MemoryStateBackend::new()).set_checkpoint_storage(storage);
    env.set_runtime_mode(RuntimeExecutionMode::Batch);
    env
}

/// Contract: U354.
#[test]
fn the_counts_are_those_of_a_stream() {
    for parallelism in [1, 3] {
        for memory in ["128 mb", "64 kb"] {
            let run = |mode| {
                let env = batch("counted", storage());
                env.set_runtime_mode(mode).set_parallelism(parallelism);
                env.configure(Configuration::from([("execution.sorted-inputs.memory", memory)]));
                let records = CollectedRecords::default();
                count_by(&env, 300, 20_000, None, &records, |_| Ok(()));
                let result = env.execute().unwrap();
                assert_eq!((result.outcome, result.status.restarts), (JobOutcome::Finished, 0));
                assert_eq!(result.status.records_read, 20_000);
                assert_counted_by(300, &records, 20_000);
                let mut counts = records.to_vec();
                counts.sort_unstable();
                counts
            };
            assert_eq!(run(RuntimeExecutionMode::Batch), run(RuntimeExecutionMode::Streaming));
        }
    }
}

#[test]
fn what_does_not_fit_into_memory_goes_where_temporary_files_are_to_be_and_leaves_nothing_there() {
    let run = |folders: &str| {
        let env = batch("spilled", storage());
        let settings = [("execution.sorted-inputs.memory", "64 kb"), ("io.tmp.dirs", folders)];
        env.set_parallelism(2).configure(Configuration::from(settings));
        let records = CollectedRecords::default();
        count(&env, 20_000, None, &records, |_| Ok(()));
        env.execute().map(|_| assert_counted(&records, 20_000))
    };
    let folder = tempfile::tempdir().unwrap();
    run(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let missing = folder.path().join("missing");
    let error = run(missing.to_str().unwrap()).unwrap_err();
    let JobError::Task { source: TaskError::SortedInput { operator, .. }, .. } = error.cause() else {
        panic!("{error:?}");
    };
    assert_eq!(operator, "counter");
    assert!(text(&error).contains(missing.to_str().unwrap()), "{error:?}");
}

/// Counts, looks how many keys have state, and tells the end of each key.
struct OneKey {
    count: ValueState<u64>,
    keys_max: Arc<AtomicU64>,
}

impl KeyedProcessFunction<u64, u64> for OneKey {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, _: &mut Collector<Count>) -> Result<()> {
        self.count.modify(cx, |count| *count.get_or_insert_default() += 1)?;
        let keys: Vec<u64> = cx.keyed_state().keys(self.count.slot(), &())?;
        self.keys_max.fetch_max(keys.len() as u64, Ordering::SeqCst);
        cx.register_event_time_timer(Timestamp::from_millis(i64::MAX - 1))?;
        Ok(())
    }

    fn on_timer(&mut self, _: Timestamp, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Count>) -> Result<()> {
        out.collect((*cx.current_key(), self.count.value(cx)?.unwrap_or(0)));
        Ok(())
    }
}

/// The most keys that had state at the same time in one subtask.
fn keys_in_memory(mode: RuntimeExecutionMode, parallelism: u32) -> u64 {
    let env = batch("one-key", storage());
    env.set_runtime_mode(mode).set_parallelism(parallelism);
    let (records, keys_max) = (CollectedRecords::default(), Arc::new(AtomicU64::new(0)));
    let keys = keys_max.clone();
    env.from_source(SequenceSource::new(0..2_000).with_splits(5).with_timestamps())
        .assign_timestamps(|number| *number as i64)
        .key_by_value(|number| number % 100)
        .process(move || OneKey { count: ValueState::default(), keys_max: keys.clone() })
        .uid("one-key")
        // What is behind a keyed function gets its records and the end of event time as ever.
        .map(|count| count)
        .key_by_value(|(key, _)| key % 10)
        .process(Last::default)
        .uid("last")
        .sink_to(CollectSink::new(records.clone()));
    env.execute().unwrap();
    let mut found = records.to_vec();
    found.sort_unstable();
    let largest = (0..10).map(|digit| (digit, 10 * 20));
    assert_eq!(found, largest.collect::<Vec<_>>(), "{mode} at {parallelism}");
    keys_max.load(Ordering::SeqCst)
}

/// Sums counts by the last digit of their key, and tells the sum at the end.
#[derive(Default)]
struct Last {
    sum: ValueState<u64>,
}

impl KeyedProcessFunction<u64, Count> for Last {
    type Out = Count;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.sum = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("sum"))?;
        Ok(())
    }

    fn process(&mut self, (_, n): Count, cx: &mut KeyedContext<'_, u64>, _: &mut Collector<Count>) -> Result<()> {
        self.sum.modify(cx, |sum| *sum.get_or_insert_default() += n)?;
        Ok(cx.register_event_time_timer(Timestamp::MAX)?)
    }

    fn on_timer(&mut self, _: Timestamp, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Count>) -> Result<()> {
        out.collect((*cx.current_key(), self.sum.value(cx)?.unwrap_or(0)));
        Ok(())
    }
}

/// Contract: U354.
#[test]
fn memory_holds_the_state_of_one_key() {
    for parallelism in [1, 3] {
        assert_eq!(keys_in_memory(RuntimeExecutionMode::Batch, parallelism), 1);
        assert!(keys_in_memory(RuntimeExecutionMode::Streaming, parallelism) > 10, "the count counts nothing");
    }
}

/// Contract: U354.
#[test]
fn a_checkpoint_is_refused_and_nothing_is_visible_before_the_end() {
    let env = batch("refused", storage());
    // What concerns checkpoints does not count: there would be one every 10 ms.
    env.enable_checkpointing(Duration::from_millis(10)).set_max_retained_checkpoints(3);
    let (grants, records) = (Grants::new(NUMBERS / 2), CollectedRecords::default());
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_until("half of the input is read", || handle.status().records_read == NUMBERS / 2);
    let failure = handle.trigger_checkpoint().wait().unwrap_err();
    assert_eq!(failure.reason, CheckpointFailureReason::BlockingOutputExist);
    let message = "the job has blocking exchanges: in batch mode no checkpoints are taken but the last one, when all input \
                   has ended";
    assert_eq!(failure.to_string(), message);
    let started = handle.checkpoint_coordinator().start_checkpoint_scheduler();
    assert_eq!(started, Err(SchedulerError::NoInterval));
    assert_eq!((handle.status().checkpoints_completed, records.len()), (0, 0));
    grants.add_all();
    let status = handle.wait().unwrap().status;
    assert_eq!(status.checkpoints_completed, 1, "the final checkpoint is there, and no other");
    assert_counted(&records, NUMBERS);
}

#[test]
fn settings_of_checkpoints_are_named_as_without_effect() {
    let env = batch("explained", storage());
    env.enable_checkpointing(Duration::from_secs(1));
    env.configure(Configuration::from([
        ("execution.checkpointing.timeout", "1 ms"),
        ("state.checkpoints.num-retained", "7"),
        ("execution.checkpointing.dir", "/tmp/elsewhere"),
    ]));
    env.from_source(SequenceSource::new(0..1)).sink_to(CollectSink::<u64>::default());
    let explained = env.explain_configuration().unwrap();
    let notices: Vec<&str> = explained.lines().filter(|line| line.contains("has no effect")).collect();
    assert_eq!(
        notices,
        [
            "Note: `execution.checkpointing.interval, execution.checkpointing.timeout, state.checkpoints.num-retained` has \
             no effect: in batch mode no checkpoints are taken but the last one, when all input has ended."
        ]
    );
    assert!(explained.contains("execution.runtime-mode: BATCH  (code)"), "{explained}");
    assert!(explained.contains("Note: the job is run in batch mode: "), "{explained}");
    assert_eq!(env.execute().unwrap().outcome, JobOutcome::Finished, "a timeout of 1 ms does not count");
}

/// Fails once at this number, in the first attempt.
fn fail_once_at(failing: u64) -> impl Fn(u64) -> Result<()> + Clone + Send + Sync + 'static {
    let has_failed = Arc::new(AtomicBool::new(false));
    move |number| {
        let fails = number == failing && !has_failed.swap(true, Ordering::SeqCst);
        if fails { Err("as planned".into()) } else { Ok(()) }
    }
}

#[test]
fn without_a_restart_strategy_a_failure_ends_the_job() {
    let env = batch("hopeless", storage());
    env.enable_checkpointing(Duration::from_millis(10));
    let records = CollectedRecords::default();
    count(&env, NUMBERS, None, &records, fail_once_at(1_500));
    let error = env.execute().unwrap_err();
    assert!(text(&error).contains("as planned"), "{error:?}");
    assert!(records.is_empty());
}

#[test]
fn after_a_failure_all_input_is_read_again() {
    for parallelism in [1, 3] {
        let env = batch("restarted", storage());
        env.set_parallelism(parallelism);
        env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 1 });
        let records = CollectedRecords::default();
        count(&env, NUMBERS, None, &records, fail_once_at(1_500));
        let status = env.execute().unwrap().status;
        assert_eq!((status.restarts, status.restored_from), (1, None));
        assert_eq!(status.records_read, 2 * NUMBERS, "the function fails after all input was read");
        assert_counted(&records, NUMBERS);
    }
}

#[test]
fn a_source_without_end_is_refused_by_name() {
    let unbounded = |env: &StreamExecutionEnvironment| {
        let numbers = Unbounded(SequenceSource::new(0..10));
        env.from_source(SequenceSource::new(0..1)).uid("bounded").sink_to(CollectSink::<u64>::default()).uid("one");
        env.from_source(numbers).uid("clicks").sink_to(CollectSink::<u64>::default()).uid("two");
    };
    let env = batch("unbounded", storage());
    unbounded(&env);
    let error = env.execute().unwrap_err();
    assert!(matches!(&error, JobError::UnboundedSource { operator } if operator == "clicks"), "{error:?}");
    assert!(error.to_string().contains(r#"source "clicks" is unbounded"#), "{error}");
    assert!(matches!(env.explain_configuration(), Err(JobError::UnboundedSource { .. })));

    // By itself such a job is a stream.
    env.set_runtime_mode(RuntimeExecutionMode::Automatic).enable_checkpointing(Duration::from_secs(60));
    assert_eq!(is_batch(&env), Some(false));
    assert_eq!(env.execute().unwrap().outcome, JobOutcome::Finished);
}

/// Says nothing about whether it ends.
struct Unbounded(SequenceSource);

impl Source for Unbounded {
    type Out = u64;
    type Split = <SequenceSource as Source>::Split;
    type Enumerator = <SequenceSource as Source>::Enumerator;
    type Reader = <SequenceSource as Source>::Reader;

    fn create_enumerator(&self) -> Result<Self::Enumerator> {
        self.0.create_enumerator()
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator> {
        self.0.restore_enumerator(state)
    }

    fn create_reader(&self, subtask: u32) -> Result<Self::Reader> {
        self.0.create_reader(subtask)
    }
}

/// Whether the job, as it is configured, would be run as a batch.
fn is_batch(env: &StreamExecutionEnvironment) -> Option<bool> {
    Some(env.explain_configuration().ok()?.contains("the job is run in batch mode"))
}

#[test]
fn the_mode_is_configured_and_automatic_is_batch_where_all_input_ends() {
    for (mode, expected) in
        [("STREAMING", Some(false)), ("batch", Some(true)), ("Automatic", Some(true)), ("sometimes", None)]
    {
        let env = environment("configured", storage());
        env.configure(Configuration::from([("execution.runtime-mode", mode)]));
        let throttled = Throttled::new(SequenceSource::new(0..10), NonZeroU64::new(1_000_000));
        env.from_source(throttled).sink_to(CollectSink::<u64>::default());
        assert_eq!(is_batch(&env), expected, "{mode}");
        match env.execute() {
            Ok(result) => assert!(expected.is_some(), "{mode}: {:?}", result.outcome),
            Err(JobError::Configuration(error)) => {
                assert_eq!(expected, None);
                assert!(error.to_string().contains("STREAMING, BATCH or AUTOMATIC"), "{error}");
            }
            Err(error) => panic!("{mode}: {error:?}"),
        }
    }
}

#[test]
fn a_checkpoint_of_a_stream_is_refused() {
    let storage = storage();
    let env = environment("other-mode", storage.clone());
    let records = CollectedRecords::default();
    count(&env, NUMBERS, Some(Pace::up_to(100)), &records, |_| Ok(()));
    let restored = crate::support::run_and_cancel(&env, 1);
    assert!(restored.checkpoints_completed > 0);

    let env = batch("other-mode", storage.clone());
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let error = env.execute().unwrap_err();
    let JobError::Restore { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.downcast_ref::<NotEndedError>().is_some(), "{error:?}");

    // As a stream it goes on: nothing was lost.
    let env = environment("other-mode", storage);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    assert!(env.execute().unwrap().status.restored_from.is_some());
    assert_counted(&records, NUMBERS);
}

/// The lines in the files of the sink that are committed: those whose names have no dot in front.
fn committed_lines(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_committed = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("part-");
    let paths = entries.map(|entry| entry.unwrap().path()).filter(is_committed);
    let texts: Vec<String> = paths.map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut lines: Vec<String> = texts.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
    lines.sort_unstable();
    lines
}

/// Counts numbers into files below `directory`, and so are the checkpoints.
fn job_in_files(directory: &Path, pace: Option<Pace>, faults: Faults) -> StreamExecutionEnvironment {
    let files = FileSystemCheckpointStorage::new(directory.join("checkpoints")).unwrap();
    let env = batch("killed", Arc::new(FaultyStorage::new(Arc::new(files), faults)));
    env.set_parallelism(2);
    env.from_source(Paced::new(SequenceSource::new(0..NUMBERS).with_splits(4), pace))
        .key_by_value(|number| number % 10)
        .process(|| OneKey { count: ValueState::default(), keys_max: Arc::default() })
        .uid("counter")
        .map(|(key, count)| format!("{key}: {count}"))
        .sink_to(FileSink::lines(directory.join("out")));
    env
}

/// The record of the log that makes the final checkpoint count: the first one is the claim.
const FINAL_RECORD: &str = "00000000000000000002";

/// The process that is killed: comes to the instant that the name of its directory says, tells so, and waits for its end.
fn wait_to_be_killed(directory: &Path) {
    let (faults, here) = (Faults::default(), directory.join("here"));
    let wait_for_the_end = move || {
        fs::write(&here, "").unwrap();
        loop {
            std::thread::park();
        }
    };
    let instant = directory.file_name().unwrap().to_string_lossy().into_owned();
    let final_record = |operation| When::next(operation).named(FINAL_RECORD);
    match &*instant {
        "while-it-reads" => {
            let handle = job_in_files(directory, Some(Pace::up_to(NUMBERS / 2)), faults).execute_async().unwrap();
            wait_until("half of the input is read", || handle.status().records_read == NUMBERS / 2);
            return wait_for_the_end();
        }
        "before-the-record" => {
            faults.arm(final_record(Operation::CreateIfAbsent), Fault::Delay(Arc::new(wait_for_the_end)));
        }
        // It is there, and the process does not know.
        "behind-the-record" => {
            faults.arm(final_record(Operation::CreateIfAbsent), Fault::FailAfter);
            faults.arm(final_record(Operation::Read), Fault::Delay(Arc::new(wait_for_the_end)));
        }
        other => panic!("{other}"),
    }
    let _ = job_in_files(directory, None, faults).execute();
}

/// Contract: U354.
#[test]
fn killed_at_any_instant_it_is_exact_when_it_is_started_again() {
    if let Some(directory) = killed_process::directory() {
        return wait_to_be_killed(&directory);
    }
    let name = "a_batch_is_processed_key_by_key::killed_at_any_instant_it_is_exact_when_it_is_started_again";
    let folder = tempfile::tempdir().unwrap();
    for instant in ["while-it-reads", "before-the-record", "behind-the-record"] {
        let directory = folder.path().join(instant);
        fs::create_dir(&directory).unwrap();
        killed_process::kill_when(name, &directory, instant, || directory.join("here").exists());
        assert_eq!(committed_lines(&directory.join("out")), [""; 0], "visible before the end, killed {instant}");

        let has_ended = instant == "behind-the-record";
        let mut log: Vec<_> = fs::read_dir(directory.join("checkpoints/killed/log")).unwrap().collect();
        log.retain(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(log.len(), if has_ended { 2 } else { 1 }, "{instant}: {log:?}");
        let folders = fs::read_dir(directory.join("checkpoints/killed")).unwrap();
        let checkpoints =
            folders.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("chk-1-"));
        assert_eq!(checkpoints.count(), if instant == "while-it-reads" { 0 } else { 1 }, "{instant}");

        let result = job_in_files(&directory, None, Faults::default()).execute().unwrap();
        assert_eq!(result.status.restored_from.is_some(), has_ended, "{instant}");
        assert_eq!(result.status.records_read, if has_ended { 0 } else { NUMBERS }, "{instant}");
        let expected: Vec<String> = (0..10).map(|key| format!("{key}: {}", NUMBERS / 10)).collect();
        assert_eq!(committed_lines(&directory.join("out")), expected, "{instant}");
        let again = job_in_files(&directory, None, Faults::default()).execute().unwrap();
        assert_eq!(again.outcome, JobOutcome::AlreadyFinished, "{instant}");
    }
}
