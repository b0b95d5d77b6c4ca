//! A queue that forgets what is acknowledged: it is told of a record when a checkpoint with it is complete, and never before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs};

use highwater::connectors::{CollectedRecords, SplitQueue};
use highwater::prelude::*;
use highwater::state::CheckpointId;
use highwater::stream::{BoxedError, PollContext, Polled, SourceReader};

const RECORDS: u64 = 10;
/// Where the process that is going to be killed finds its directory.
const DIRECTORY: &str = "HIGHWATER_TEST_QUEUE";

/// A queue as a directory: a file for each record that is not acknowledged.
#[derive(Clone)]
struct Queue(PathBuf);

impl Queue {
    fn filled(directory: &Path) -> Self {
        let queue = Self(directory.join("queue"));
        fs::create_dir(&queue.0).unwrap();
        (1..=RECORDS).for_each(|record| fs::write(queue.0.join(record.to_string()), "").unwrap());
        queue
    }

    fn records(&self) -> BTreeSet<u64> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(&self.0).unwrap().map(|entry| name(entry).parse().unwrap()).collect()
    }

    fn acknowledge(&self, record: u64) {
        match fs::remove_file(self.0.join(record.to_string())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

/// What was read from the queue and is not known to be acknowledged. The queue delivers it again after a restart.
type Unacknowledged = BTreeSet<u64>;

struct QueueReader {
    queue: Queue,
    unacknowledged: Unacknowledged,
    has_split: bool,
    /// What may be acknowledged when a checkpoint is complete.
    read_before: BTreeMap<CheckpointId, Unacknowledged>,
}

impl Source for Queue {
    type Out = u64;
    type Split = Unacknowledged;
    type Enumerator = SplitQueue<Unacknowledged>;
    type Reader = QueueReader;

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::new([Unacknowledged::new()]))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::restore(state)?)
    }

    fn create_reader(&self, _: u32) -> Result<QueueReader, BoxedError> {
        let (unacknowledged, read_before) = Default::default();
        Ok(QueueReader { queue: self.clone(), unacknowledged, has_split: false, read_before })
    }
}

impl SourceReader for QueueReader {
    type Out = u64;
    type Split = Unacknowledged;

    fn add_split(&mut self, split: Unacknowledged) -> Result<(), BoxedError> {
        self.has_split = true;
        self.unacknowledged.extend(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<u64>) -> Result<Polled, BoxedError> {
        for record in self.queue.records().into_iter().take(cx.records_max) {
            if self.unacknowledged.insert(record) {
                out.collect(record);
            }
        }
        Ok(Polled::Idle(Some(cx.now + Duration::from_millis(1))))
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<Unacknowledged>, BoxedError> {
        self.read_before.insert(checkpoint, self.unacknowledged.clone());
        Ok(self.has_split.then(|| self.unacknowledged.clone()).into_iter().collect())
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        let later = self.read_before.split_off(&CheckpointId(checkpoint.0 + 1));
        for record in std::mem::replace(&mut self.read_before, later).into_values().flatten() {
            self.queue.acknowledge(record);
            self.unacknowledged.remove(&record);
            self.read_before.values_mut().for_each(|read| {
                read.remove(&record);
            });
        }
        Ok(())
    }
}

/// Passes records on, tells how many came, and handles a snapshot as the test wants.
struct Watched<F> {
    seen: Arc<Mutex<Vec<u64>>>,
    on_snapshot: F,
}

impl<F: Fn(CheckpointId) -> Result<()> + Send + 'static> KeyedProcessFunction<u64, u64> for Watched<F> {
    type Out = u64;

    fn process(&mut self, record: u64, _: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        self.seen.lock().unwrap().push(record);
        out.collect(record);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        (self.on_snapshot)(cx.checkpoint())
    }
}

fn start(
    directory: &Path,
    queue: &Queue,
    records: &CollectedRecords<u64>,
    seen: &Arc<Mutex<Vec<u64>>>,
    on_snapshot: impl Fn(CheckpointId) -> Result<()> + Clone + Send + Sync + 'static,
) -> JobHandle {
    let env = StreamExecutionEnvironment::new("queue");
    env.set_state_backend(FsStateBackend::new(directory.join("checkpoints")).unwrap());
    env.enable_checkpointing(Duration::from_secs(3_600)).set_restart_strategy(RestartStrategy::None);
    env.set_tolerable_checkpoint_failures(1);
    let seen = seen.clone();
    env.from_source(queue.clone())
        .key_by_value(|record| *record)
        .process(move || Watched { seen: seen.clone(), on_snapshot: on_snapshot.clone() })
        .uid("watched")
        .sink_to(CollectSink::new(records.clone()));
    env.execute_async().unwrap()
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain until {what}");
}

/// Reads the queue and hangs in the snapshot of checkpoint 1. Does not return.
fn hang_in_a_checkpoint(directory: &Path) {
    let (queue, seen) = (Queue(directory.join("queue")), Arc::default());
    let marker = directory.join("checkpoint-1-is-pending");
    let handle = start(directory, &queue, &CollectedRecords::default(), &seen, move |_| {
        fs::write(&marker, "").unwrap();
        loop {
            std::thread::park();
        }
    });
    wait_until("every record is processed", || seen.lock().unwrap().len() as u64 == RECORDS);
    let _ = handle.trigger_checkpoint().wait();
}

/// Contract: R311.
/// Field case: R95.
#[test]
fn also_when_the_process_is_killed_and_the_first_checkpoint_declined() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return hang_in_a_checkpoint(Path::new(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let queue = Queue::filled(directory);
    let all: BTreeSet<u64> = (1..=RECORDS).collect();

    // Killed while checkpoint 1 is pending.
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "also_when_the_process_is_killed_and_the_first_checkpoint_declined"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("checkpoint 1 is pending", || directory.join("checkpoint-1-is-pending").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(queue.records(), all, "something was acknowledged that no checkpoint has");

    // The next checkpoint is declined, the one after that completes.
    let declines = Arc::new(AtomicBool::new(true));
    let (records, seen) = (CollectedRecords::default(), Arc::default());
    let refuses = declines.clone();
    let on_snapshot = move |_| if refuses.load(Ordering::SeqCst) { Err("not now".into()) } else { Ok(()) };
    let handle = start(directory, &queue, &records, &seen, on_snapshot);
    wait_until("every record is processed", || seen.lock().unwrap().len() as u64 == RECORDS);
    handle.trigger_checkpoint().wait().unwrap_err();
    assert_eq!(queue.records(), all, "something was acknowledged by a checkpoint that was declined");
    declines.store(false, Ordering::SeqCst);
    handle.trigger_checkpoint().wait().unwrap();
    wait_until("everything is acknowledged", || queue.records().is_empty());
    wait_until("everything is visible", || records.to_vec().len() as u64 == RECORDS);

    // A delivery that is repeated is known by what the checkpoint has of it.
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, all.into_iter().collect::<Vec<_>>());
}

/// Field case: R95.
#[test]
fn what_is_delivered_again_is_not_counted_again() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::filled(folder.path());
    let (records, seen) = (CollectedRecords::default(), Arc::default());
    let handle = start(folder.path(), &queue, &records, &seen, |_| Ok(()));
    wait_until("every record is processed", || seen.lock().unwrap().len() as u64 == RECORDS);
    handle.trigger_checkpoint().wait().unwrap();
    wait_until("everything is acknowledged", || queue.records().is_empty());
    handle.cancel();
    handle.wait().unwrap_err();
    // The acknowledgement was lost on its way: the queue has the records still.
    (1..=RECORDS).for_each(|record| fs::write(queue.0.join(record.to_string()), "").unwrap());
    let handle = start(folder.path(), &queue, &records, &seen, |_| Ok(()));
    // The first one can be before the reader has its split back; then nothing is acknowledged with it.
    wait_until("everything is acknowledged", || {
        handle.trigger_checkpoint().wait().unwrap();
        queue.records().is_empty()
    });
    handle.cancel();
    handle.wait().unwrap_err();
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, (1..=RECORDS).collect::<Vec<_>>());
}
