//! A job whose result is known: running counts of numbers by their last digit.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::CheckpointStorage;
use highwater::{MemoryCheckpointStorage, MemoryStateBackend};
use std::num::NonZeroU64;

use crate::pace::{Pace, Paced};

/// Numbers by last digit: digit and how many of it there were so far.
pub(crate) type Count = (u64, u64);

/// Storage that outlives a job, as a directory would.
pub(crate) fn storage() -> Arc<MemoryCheckpointStorage> {
    Arc::new(MemoryCheckpointStorage::new())
}

/// An environment with frequent checkpoints in `storage`.
pub(crate) fn environment(name: &str, storage: Arc<dyn CheckpointStorage>) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend(MemoryStateBackend::new()).set_checkpoint_storage(storage);
    env.enable_checkpointing(Duration::from_millis(10));
    env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 5, delay_ms: 1 });
    env
}

/// Counts the numbers below `numbers` by their last digit, at this pace if there is one, and calls `visit` for each.
pub(crate) fn count(
    env: &StreamExecutionEnvironment,
    numbers: u64,
    pace: Option<Pace>,
    records: &CollectedRecords<Count>,
    visit: impl Fn(u64) -> Result<()> + Clone + Send + Sync + 'static,
) {
    count_by(env, 10, numbers, pace, records, visit);
}

/// The same by the remainder of a division by `keys`.
pub(crate) fn count_by(
    env: &StreamExecutionEnvironment,
    keys: u64,
    numbers: u64,
    pace: Option<Pace>,
    records: &CollectedRecords<Count>,
    visit: impl Fn(u64) -> Result<()> + Clone + Send + Sync + 'static,
) {
    let source = SequenceSource::new(0..numbers).with_splits(7);
    env.from_source(Paced::new(source, pace))
        .key_by_value(move |number| number % keys)
        .process(move || Counter { count: ValueState::default(), visit: visit.clone() })
        .uid("counter")
        .sink_to(CollectSink::new(records.clone()));
}

struct Counter<V> {
    count: ValueState<u64>,
    visit: V,
}

impl<V: Fn(u64) -> Result<()> + Send + 'static> KeyedProcessFunction<u64, u64> for Counter<V> {
    type Out = Count;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Count>) -> Result<()> {
        (self.visit)(number)?;
        let count = self.count.modify(cx, |count| {
            let count = count.get_or_insert_default();
            *count += 1;
            *count
        })?;
        out.collect((*cx.current_key(), count));
        Ok(())
    }
}

/// Panics unless each digit was counted once for each of its numbers: 1, 2, 3, … without a gap or a repetition.
pub(crate) fn assert_counted(records: &CollectedRecords<Count>, numbers: u64) {
    assert_counted_by(10, records, numbers);
}

/// The same for what [`count_by`] counts.
pub(crate) fn assert_counted_by(keys: u64, records: &CollectedRecords<Count>, numbers: u64) {
    let mut found = records.to_vec();
    found.sort_unstable();
    let of_key = |key: u64| (key..numbers).step_by(keys as usize).count() as u64;
    let expected: Vec<Count> = (0..keys).flat_map(|key| (1..=of_key(key)).map(move |n| (key, n))).collect();
    assert!(found == expected, "{} of {} counts are right", count_right(&found, &expected), expected.len());
}

/// How many of the counts were found once.
fn count_right(found: &[Count], expected: &[Count]) -> usize {
    let mut times = BTreeMap::<Count, u64>::new();
    found.iter().for_each(|count| *times.entry(*count).or_default() += 1);
    expected.iter().filter(|count| times.get(count) == Some(&1)).count()
}

/// Waits until the job has completed `checkpoints` checkpoints.
pub(crate) fn wait_for_checkpoints(handle: &JobHandle, checkpoints: u64) {
    wait_until("the checkpoints are complete", || handle.status().checkpoints_completed >= checkpoints);
}

/// An interval that no test comes to the end of: for checkpoints that are asked for.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// Takes checkpoints, one after the other, of a job that takes none by itself. So none is under way when it is cancelled:
/// such a one may become complete without the job's hearing of it.
pub(crate) fn take_checkpoints(handle: &JobHandle, checkpoints: u64) {
    let before = handle.status().checkpoints_completed;
    for number in before + 1..=before + checkpoints {
        handle.trigger_checkpoint();
        wait_for_checkpoints(handle, number);
    }
}

/// Waits until something is true that will be.
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain until {what}");
}

/// Every file below a directory with its content; of a job that runs, those that have not gone meanwhile.
pub(crate) fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
            continue;
        }
        match std::fs::read(&path) {
            Ok(content) => drop(files.insert(path, content)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    files
}

/// Where user code waits for the test, once.
pub(crate) struct Gate {
    is_closed: AtomicBool,
    enter: SyncSender<()>,
    left: Mutex<Receiver<()>>,
}

impl Gate {
    /// An open gate, and where the test hears who waits and lets go.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>, SyncSender<()>) {
        let (enter, entered) = sync_channel(0);
        let (leave, left) = sync_channel(0);
        (Arc::new(Self { is_closed: AtomicBool::new(false), enter, left: Mutex::new(left) }), entered, leave)
    }

    /// From now on whoever comes next waits; those after it do not.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn pass(&self) {
        if self.is_closed.swap(false, Ordering::SeqCst) {
            // When the test is over nobody waits.
            let _ = self.enter.send(());
            let _ = self.left.lock().unwrap().recv();
        }
    }
}

/// What functions note for the test to look at.
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn note(&self, note: T) {
        self.0.lock().unwrap().push(note);
    }

    /// Takes what was noted so far.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Runs a job until it has completed `checkpoints` checkpoints, and cancels it. How it stood in the end: one more checkpoint
/// may be complete by then, of which it has not heard.
pub(crate) fn run_and_cancel(env: &StreamExecutionEnvironment, checkpoints: u64) -> JobStatus {
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, checkpoints);
    handle.cancel();
    let monitor = handle.monitor();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    monitor.status()
}

/// Numbers that do not end before the test does, a few a millisecond.
pub(crate) fn endless(splits: u32) -> Throttled<SequenceSource> {
    Throttled::new(SequenceSource::new(0..u64::MAX / 2).with_splits(splits), NonZeroU64::new(5_000))
}

/// An error with its causes.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", text(source)),
        None => error.to_string(),
    }
}
