//! Two pipelines in one job that no record goes between: when a task of one fails, the other one goes on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::checkpoint::CheckpointFailureReason;
use highwater::prelude::*;
use highwater::runtime::CheckpointStatsStatus;
use highwater::state::{CheckpointId, CheckpointStorage};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::killed_process;
use crate::pace::{Grants, Pace, Paced};
use crate::support::{Count, NEVER, environment, files_below, storage, take_checkpoints, text, wait_until};

const NUMBERS: u64 = 600;
/// What the pipelines may read before the test goes on.
const FIRST: u64 = 300;
const KEYS: u64 = 10;
const PARALLELISM: u32 = 2;

/// What happens to one of the counters of a pipeline, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    Error,
    Panic,
    /// When it takes a snapshot: so a checkpoint is pending.
    PanicInSnapshot,
}

/// What the test knows and decides about a pipeline.
#[derive(Clone)]
struct Pipeline {
    name: &'static str,
    numbers: u64,
    grants: Grants,
    mishap: Arc<Mutex<Option<Mishap>>>,
    /// How often counters were initialised.
    initialized: Arc<AtomicU64>,
    directory: PathBuf,
}

/// Counts the numbers of each key.
struct Counter {
    count: ValueState<u64>,
    pipeline: Pipeline,
}

impl Counter {
    /// Whether it is this that happens now.
    fn happens(&self, mishap: Mishap) -> bool {
        self.pipeline.mishap.lock().unwrap().take_if(|planned| *planned == mishap).is_some()
    }
}

impl KeyedProcessFunction<u64, u64> for Counter {
    type Out = Count;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.pipeline.initialized.fetch_add(1, Ordering::SeqCst);
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Count>) -> Result<()> {
        if self.happens(Mishap::Error) {
            return Err("as planned".into());
        }
        assert!(!self.happens(Mishap::Panic), "as planned");
        let count = self.count.value(cx)?.unwrap_or(0) + 1;
        self.count.update(cx, count)?;
        out.collect((*cx.current_key(), count));
        Ok(())
    }

    fn snapshot_state(&mut self, _: &mut dyn FunctionSnapshotContext) -> Result<()> {
        assert!(!self.happens(Mishap::PanicInSnapshot), "as planned");
        Ok(())
    }
}

impl Pipeline {
    fn new(name: &'static str, numbers: u64, folder: &Path) -> Self {
        Self {
            name,
            numbers,
            grants: Grants::new(FIRST.min(numbers)),
            mishap: Arc::default(),
            initialized: Arc::default(),
            directory: folder.join(name),
        }
    }

    fn describe(&self, env: &StreamExecutionEnvironment) {
        let (name, pipeline) = (self.name, self.clone());
        let source = SequenceSource::new(0..self.numbers).with_splits(7);
        env.from_source(Paced::new(source, Some(Pace::Granted(self.grants.clone()))))
            .uid(format!("{name}-source"))
            .key_by_value(|number| number % KEYS)
            .process(move || Counter { count: ValueState::default(), pipeline: pipeline.clone() })
            .uid(format!("{name}-counter"))
            .sink_to(FileSink::csv::<Count>(&self.directory))
            .uid(format!("{name}-sink"));
    }

    /// What counters that run have taken in.
    fn counted(&self, handle: &JobHandle) -> u64 {
        let uid = format!("{}-counter", self.name);
        let status = handle.status();
        let counters = status.subtasks.iter().filter(|subtask| subtask.operator.as_str() == uid);
        counters.map(|counter| counter.records_in).sum()
    }

    /// How often all counters were initialised.
    fn initialized(&self) -> u64 {
        self.initialized.load(Ordering::SeqCst) / u64::from(PARALLELISM)
    }

    /// Lets it fail soon.
    fn fail(&self, mishap: Mishap) {
        *self.mishap.lock().unwrap() = Some(mishap);
        self.grants.add(1);
    }

    /// Waits until all its readers and counters are gone; before they were there it had so many clones.
    fn wait_until_stopped(&self, clones: usize) {
        wait_until("nothing of it runs", || self.grants.clones() == clones);
    }

    /// The names of the files that are not committed.
    fn uncommitted(&self) -> Vec<String> {
        let names =
            files_below(&self.directory).into_keys().filter_map(|path| path.file_name()?.to_str().map(String::from));
        names.filter(|name| name.starts_with('.') && name.contains("part-")).collect()
    }

    /// Panics unless everything was counted once and is committed.
    fn assert_counted(&self) {
        let mut found = Vec::new();
        for (path, content) in files_below(&self.directory) {
            if path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("part-")) {
                for line in String::from_utf8(content).unwrap().lines() {
                    let (key, count) = line.split_once(',').unwrap();
                    found.push((key.parse::<u64>().unwrap(), count.parse::<u64>().unwrap()));
                }
            }
        }
        found.sort_unstable();
        let of_key = |key: u64| (key..self.numbers).step_by(KEYS as usize).count() as u64;
        let expected: Vec<Count> = (0..KEYS).flat_map(|key| (1..=of_key(key)).map(move |n| (key, n))).collect();
        assert_eq!(found, expected, "{}", self.name);
    }
}

/// Two pipelines, and checkpoints when they are asked for.
struct Job {
    env: StreamExecutionEnvironment,
    left: Pipeline,
    right: Pipeline,
}

impl Job {
    fn new(storage: Arc<dyn CheckpointStorage>, folder: &Path) -> Self {
        Self::with_right(storage, folder, NUMBERS)
    }

    fn with_right(storage: Arc<dyn CheckpointStorage>, folder: &Path, right: u64) -> Self {
        let env = environment("two-regions", storage);
        env.set_parallelism(PARALLELISM).enable_checkpointing(NEVER);
        let (left, right) = (Pipeline::new("left", NUMBERS, folder), Pipeline::new("right", right, folder));
        left.describe(&env);
        right.describe(&env);
        Self { env, left, right }
    }

    /// Runs until both have counted what they may, with a checkpoint before and one after.
    fn start(&self) -> JobHandle {
        let handle = self.env.execute_async().unwrap();
        take_checkpoints(&handle, 1);
        for pipeline in [&self.left, &self.right] {
            wait_until("the first numbers are counted", || pipeline.counted(&handle) == FIRST.min(pipeline.numbers));
        }
        take_checkpoints(&handle, 1);
        handle
    }

    /// Lets both go on to the end, and looks at what they have written.
    fn finish(&self, handle: JobHandle) -> JobStatus {
        self.left.grants.add_all();
        self.right.grants.add_all();
        let result = handle.wait().unwrap();
        assert_eq!(result.outcome, JobOutcome::Finished);
        self.left.assert_counted();
        self.right.assert_counted();
        result.status
    }
}

fn wait_for_restarts(handle: &JobHandle, restarts: u32) {
    wait_until("the region is restarted", || handle.status().restarts == restarts);
}

/// Contract: O275.
#[test]
fn and_checkpoints_that_are_pending_fail_for_that_reason() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(storage(), folder.path());
    let handle = job.start();
    job.right.grants.add(50);
    wait_until("the right one has gone on", || job.right.counted(&handle) == FIRST + 50);
    job.left.fail(Mishap::PanicInSnapshot);
    let failure = handle.trigger_checkpoint().wait().unwrap_err();
    assert_eq!(failure.reason, CheckpointFailureReason::JobFailoverRegion);
    wait_for_restarts(&handle, 1);
    let failed = handle.checkpoint_stats().latest_failed.unwrap();
    let CheckpointStatsStatus::Failed(failure) = &failed.status else { panic!("{failed}") };
    assert_eq!(failure.reason, CheckpointFailureReason::JobFailoverRegion);
    assert!(failure.message.starts_with("left-counter"), "{failure}");

    // Nobody has touched the right one: what it has counted is still there, and it goes on from it.
    wait_until("the left one is there again", || job.left.initialized() == 2);
    assert_eq!(job.right.initialized(), 1);
    job.right.grants.add(50);
    wait_until("the right one goes on", || job.right.counted(&handle) == FIRST + 100);
    // What the dead attempt of the left one has left open goes at once; what the right one has open is of that attempt, too.
    let first = |name: &String| name.contains("part-00000001-");
    wait_until("what was open is aborted", || !job.left.uncommitted().iter().any(first));
    assert!(job.right.uncommitted().iter().all(first) && !job.right.uncommitted().is_empty());

    let next = handle.trigger_checkpoint().wait().unwrap();
    assert!(next > failed.checkpoint, "{next} after {}", failed.checkpoint);
    let status = job.finish(handle);
    assert_eq!((status.restarts, status.regional_restarts, status.checkpoints_failed), (1, 1, 1));
    assert_eq!(status.restored_from, Some(CheckpointId(2)));
    assert!(status.records_replayed <= 1, "{status:?}");
    assert_eq!((job.left.initialized(), job.right.initialized()), (2, 1));
}

/// Contract: O275.
#[test]
fn also_after_an_error_or_a_panic_and_then_the_other_one() {
    for mishap in [Mishap::Error, Mishap::Panic] {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new(storage(), folder.path());
        let handle = job.start();
        job.left.fail(mishap);
        wait_for_restarts(&handle, 1);
        job.right.grants.add(20);
        take_checkpoints(&handle, 1);
        job.right.fail(mishap);
        wait_for_restarts(&handle, 2);
        job.left.fail(mishap);
        wait_for_restarts(&handle, 3);
        let status = job.finish(handle);
        assert_eq!((status.restarts, status.regional_restarts), (3, 3));
        assert_eq!((job.left.initialized(), job.right.initialized()), (3, 2));
    }
}

/// Each attempt begins with what the one before could not delete.
///
/// Contract: M243, O275.
#[test]
fn though_every_deletion_hangs() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let wait = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::every(Operation::DeleteFolder), Fault::Delay(Arc::new(wait)));
    let job = Job::new(Arc::new(FaultyStorage::new(storage(), faults)), folder.path());
    let handle = job.start();
    for restarts in 1..=5 {
        take_checkpoints(&handle, 4);
        job.left.fail(Mishap::Error);
        wait_for_restarts(&handle, restarts);
        wait_until("the left one is there again", || job.left.initialized() == u64::from(restarts) + 1);
    }
    take_checkpoints(&handle, 4);
    drop(release);
    let status = job.finish(handle);
    assert_eq!((status.restarts, status.regional_restarts, job.right.initialized()), (5, 5, 1));
}

/// Contract: O274, O275.
#[test]
fn from_nothing_when_no_checkpoint_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(storage(), folder.path());
    let handle = job.env.execute_async().unwrap();
    for pipeline in [&job.left, &job.right] {
        wait_until("the first numbers are counted", || pipeline.counted(&handle) == FIRST);
    }
    job.left.grants.add(NUMBERS);
    wait_until("the left one has counted all", || job.left.counted(&handle) == NUMBERS);
    job.right.fail(Mishap::Error);
    wait_for_restarts(&handle, 1);
    let status = job.finish(handle);
    assert_eq!((status.regional_restarts, status.restored_from), (1, None));
    assert_eq!((job.left.initialized(), job.right.initialized()), (1, 2));
}

/// While the region waits for its restart, sources of the others are given splits, and their input may end.
///
/// Contract: O275, O276.
#[test]
fn while_the_others_read_on_and_a_job_that_is_cancelled_then_goes_on_whole() {
    let (storage, folder) = (storage(), tempfile::tempdir().unwrap());
    let job = Job::new(storage.clone(), folder.path());
    job.env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 3_600_000 });
    let clones = job.left.grants.clones();
    let handle = job.start();
    job.left.fail(Mishap::Error);
    job.left.wait_until_stopped(clones);
    job.right.grants.add_all();
    wait_until("the right one has counted all", || job.right.counted(&handle) == NUMBERS);
    assert_eq!(handle.status().restarts, 0, "the wait is not over");
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));

    let job = Job::new(storage, folder.path());
    let status = job.finish(job.env.execute_async().unwrap());
    assert_eq!(status.restored_from, Some(CheckpointId(2)));
}

/// Contract: O276.
#[test]
fn until_the_restart_strategy_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(storage(), folder.path());
    job.env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 1 });
    let handle = job.start();
    job.left.fail(Mishap::Error);
    wait_for_restarts(&handle, 1);
    job.right.fail(Mishap::Panic);
    let error = handle.wait().unwrap_err();
    let expected = "the restart strategy gives up: fixed-delay (restarts: 1, each after 1 ms): task right-counter -> \
                    right-sink failed (restarts before: 1): ";
    assert!(text(&error).starts_with(expected), "{}", text(&error));
    assert!(matches!(error.cause(), JobError::Task { .. }));
}

/// The wait for the first restart is not over by then: nothing is left of it.
///
/// Contract: O275.
#[test]
fn and_the_failure_of_another_region_meanwhile_is_one_of_the_whole_job() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(storage(), folder.path());
    job.env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 3_600_000 });
    let clones = job.left.grants.clones();
    let handle = job.start();
    job.left.fail(Mishap::Error);
    job.left.wait_until_stopped(clones);
    job.right.fail(Mishap::Error);
    let error = handle.wait().unwrap_err();
    assert!(matches!(error.cause(), JobError::Task { task, .. } if task.starts_with("right-")), "{error:?}");
}

/// Contract: O275.
#[test]
fn and_one_that_has_finished_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::with_right(storage(), folder.path(), 10);
    let handle = job.start();
    job.right.grants.add_all();
    let has_finished = |handle: &JobHandle| {
        take_checkpoints(handle, 1);
        let latest = handle.checkpoint_stats().latest_completed.unwrap();
        latest.tasks.iter().any(|task| task.subtasks.is_empty())
    };
    wait_until("the right one has finished", || has_finished(&handle));
    job.left.fail(Mishap::Error);
    wait_for_restarts(&handle, 1);
    take_checkpoints(&handle, 1);
    let latest = handle.checkpoint_stats().latest_completed.unwrap();
    assert!(latest.tasks.iter().any(|task| task.subtasks.is_empty()), "{latest}");
    let status = job.finish(handle);
    assert_eq!(status.regional_restarts, 1);
    assert_eq!((job.left.initialized(), job.right.initialized()), (2, 1));
}

/// A task that has ended takes part in the checkpoints of the attempt that takes it over, and finishes there.
///
/// Contract: O275.
#[test]
fn and_one_that_has_ended_ends_in_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(storage(), folder.path());
    let handle = job.start();
    job.right.grants.add_all();
    wait_until("the right one has counted all", || job.right.counted(&handle) == NUMBERS);
    job.left.fail(Mishap::Panic);
    wait_for_restarts(&handle, 1);
    let status = job.finish(handle);
    assert_eq!(status.regional_restarts, 1);
    assert_eq!((job.left.initialized(), job.right.initialized()), (2, 1));
}

/// Contract: O273, O275.
#[test]
fn unless_the_whole_job_is_to_be_restarted() {
    for by_code in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new(storage(), folder.path());
        if by_code {
            job.env.set_failover_strategy(FailoverStrategy::Full);
        } else {
            job.env.configure(Configuration::from([("jobmanager.execution.failover-strategy", "full")]));
        }
        let handle = job.start();
        job.left.fail(Mishap::PanicInSnapshot);
        let failure = handle.trigger_checkpoint().wait().unwrap_err();
        assert_ne!(failure.reason, CheckpointFailureReason::JobFailoverRegion);
        wait_for_restarts(&handle, 1);
        let status = job.finish(handle);
        assert_eq!((status.restarts, status.regional_restarts), (1, 0));
        assert_eq!((job.left.initialized(), job.right.initialized()), (2, 2));
    }
}

/// Those that go on would be ahead of the others: everything goes back.
///
/// Contract: M246.
#[test]
fn unless_it_has_to_go_back_to_an_older_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let job = Job::new(storage(), folder.path());
    job.env.set_state_backend(FsStateBackend::new(&checkpoints).unwrap());
    job.env.set_max_retained_checkpoints(3).set_fall_back_to_older_checkpoint(true);
    let handle = job.start();
    for (path, _) in files_below(&checkpoints).iter().filter(|(path, _)| path.ends_with("chk-2-1/_metadata")) {
        std::fs::write(path, "damaged").unwrap();
    }
    job.left.fail(Mishap::Error);
    wait_for_restarts(&handle, 1);
    wait_until("both are there again", || (job.left.initialized(), job.right.initialized()) == (2, 2));
    let status = handle.status();
    assert_eq!((status.regional_restarts, status.restored_from), (0, Some(CheckpointId(1))));
    assert_eq!(status.damaged_checkpoints.len(), 1);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}

/// Nobody can tell then what the region is to go on from; for another attempt of the whole job its claim decides.
///
/// Contract: O275.
#[test]
fn unless_the_record_of_a_checkpoint_hangs_on_its_way_into_the_log() {
    let (faults, folder) = (Faults::default(), tempfile::tempdir().unwrap());
    let job = Job::new(Arc::new(FaultyStorage::new(storage(), faults.clone())), folder.path());
    job.env.set_checkpoint_timeout(Duration::from_secs(5));
    let (left_clones, right_clones) = (job.left.grants.clones(), job.right.grants.clones());
    let handle = job.start();
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let hang = move || {
        let _ = released.lock().unwrap().recv();
    };
    let hang = Fault::Delay(Arc::new(hang));
    // It is tried twice.
    (1..=2).for_each(|nth| faults.arm(When::nth(Operation::CreateIfAbsent, nth), hang.clone()));
    handle.trigger_checkpoint();
    wait_until("the record is on its way", || faults.remaining() == 1);
    job.left.fail(Mishap::Error);
    job.left.wait_until_stopped(left_clones);
    job.right.wait_until_stopped(right_clones);
    drop(release);
    wait_for_restarts(&handle, 1);
    let status = job.finish(handle);
    assert_eq!((status.regional_restarts, status.restored_from), (0, Some(CheckpointId(3))));
    assert_eq!((job.left.initialized(), job.right.initialized()), (2, 2));
}

/// Contract: O275, O288.
#[test]
fn and_after_a_kill_the_whole_job_goes_on_from_what_both_attempts_have_left() {
    const THIS: &str =
        "a_region_is_restarted_alone::and_after_a_kill_the_whole_job_goes_on_from_what_both_attempts_have_left";
    let job_in = |folder: &Path| {
        let job = Job::new(storage(), folder);
        job.env.set_state_backend(FsStateBackend::new(folder.join("checkpoints")).unwrap());
        job
    };
    if let Some(folder) = killed_process::directory() {
        let job = job_in(&folder);
        let handle = job.start();
        job.left.fail(Mishap::PanicInSnapshot);
        handle.trigger_checkpoint().wait().unwrap_err();
        wait_for_restarts(&handle, 1);
        take_checkpoints(&handle, 1);
        job.right.grants.add(70);
        job.left.grants.add(30);
        wait_until("the right one has gone on", || job.right.counted(&handle) == FIRST + 70);
        std::fs::write(folder.join("done"), "").unwrap();
        drop(handle.wait());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    killed_process::kill_when(THIS, folder.path(), "the region was restarted", || done.exists());
    let job = job_in(folder.path());
    let status = job.finish(job.env.execute_async().unwrap());
    assert_eq!(status.regional_restarts, 0);
    assert!(status.restored_from > Some(CheckpointId(2)), "{status:?}");
}

/// The lease is renewed through the restart, though that takes longer than it lasts.
///
/// Contract: O275.
#[test]
fn and_whoever_stands_by_does_not_take_over_meanwhile() {
    let (storage, folder, lease) = (storage(), tempfile::tempdir().unwrap(), Duration::from_secs(2));
    let job = Job::new(storage.clone(), folder.path());
    job.env.set_standby(true).set_lease_duration(lease);
    job.env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 3_000 });
    let handle = job.start();
    let other = Job::new(storage, folder.path());
    other.env.set_standby(true).set_lease_duration(lease);
    let other = other.env.execute_async().unwrap();
    job.left.fail(Mishap::Error);
    wait_for_restarts(&handle, 1);
    assert_eq!(other.status().attempt, None);
    assert_eq!(job.finish(handle).regional_restarts, 1);
    assert_eq!(other.wait().unwrap().outcome, JobOutcome::AlreadyFinished);
}
