//! Processes that are killed in the middle of checkpoints, again and again, leave no more on the disk than one of them.
//!
//! No process has a working directory of its own: what the dead can leave are unfinished checkpoints and temporary files
//! in the directory of the checkpoints, which they share with the living.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod support;

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use support::flights::{FlightsRun, completed, files_below};

const KILLS: usize = 20;

/// Every hour stays in the state, so that it gets files of its own.
const MUCH_STATE: [&str; 4] = ["--out-of-orderness", "744", "--parallelism", "2"];

/// The folder of a checkpoint.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    checkpoint: u64,
    attempt: u64,
    is_complete: bool,
}

/// The folders of a job's checkpoints, in ascending order.
fn checkpoints(job: &Path) -> Vec<Folder> {
    let entries = fs::read_dir(job).into_iter().flatten().map(|entry| entry.unwrap());
    let describe = |entry: DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let (checkpoint, attempt) = name.strip_prefix("chk-")?.split_once('-')?;
        let is_complete = entry.path().join("_metadata").exists();
        Some(Folder { checkpoint: checkpoint.parse().unwrap(), attempt: attempt.parse().unwrap(), is_complete })
    };
    let mut folders: Vec<Folder> = entries.filter_map(describe).collect();
    folders.sort();
    folders
}

/// Whether a checkpoint is being written, or was when the process died.
fn is_in_checkpoint(job: &Path) -> bool {
    checkpoints(job).last().is_some_and(|newest| !newest.is_complete)
}

/// The processes that left temporary files of the job.
fn processes_with_temporary_files(job: &Path) -> BTreeSet<String> {
    let names = files_below(job).into_keys().filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_prefix(".tmp-")?;
        Some(name.split('-').next()?.to_owned())
    });
    names.collect()
}

/// Counts the numbers of each last digit.
#[derive(Default)]
struct Count {
    count: ValueState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Count {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<(u64, u64)>) -> Result<()> {
        let count = self.count.value(cx)?.unwrap_or(0) + 1;
        self.count.update(cx, count)?;
        out.collect((*cx.current_key(), count));
        Ok(())
    }
}

/// A job that lives in this process and does not end.
fn live_job(checkpoints: &Path, records: &CollectedRecords<(u64, u64)>) -> JobHandle {
    let env = StreamExecutionEnvironment::new("live");
    env.set_state_backend(FsStateBackend::new(checkpoints).unwrap());
    env.enable_checkpointing(Duration::from_millis(20)).set_restart_strategy(RestartStrategy::None);
    env.from_source(Throttled::new(SequenceSource::new(0..u64::MAX), NonZeroU64::new(1_000)))
        .key_by_value(|number| number % 10)
        .process(Count::default)
        .uid("count")
        .sink_to(CollectSink::new(records.clone()));
    env.execute_async().unwrap()
}

fn wait_for_checkpoints(job: &JobHandle, checkpoints: u64) {
    let goal = job.status().checkpoints_completed + checkpoints;
    for _ in 0..30_000 {
        if job.status().checkpoints_completed >= goal {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the live job completes no checkpoint: {:?}", job.status());
}

/// Field case: R83.
#[test]
fn twenty_of_them_leave_what_one_leaves_and_the_living_keep_what_is_theirs() {
    let run = FlightsRun::of_example("flights");
    let flights = run.checkpoints().join("flights");
    let records = CollectedRecords::default();
    let live = live_job(&run.checkpoints(), &records);
    run.kill_with_state_files(&[&MUCH_STATE[..], &["--throttle", "6000", "--interval-ms", "100"]].concat());

    let slow = [&MUCH_STATE[..], &["--throttle", "200", "--interval-ms", "10"]].concat();
    let (mut kills, mut unfinished) = (1, 0);
    // A checkpoint that is seen to be written may be complete before the kill comes.
    while kills < KILLS || unfinished < KILLS / 4 {
        assert!(kills < 10 * KILLS, "only {unfinished} of {kills} processes were killed in a checkpoint");
        kills += 1;
        run.kill_when(&slow, |trace| completed(trace) > 0 && is_in_checkpoint(&flights));
        unfinished += usize::from(is_in_checkpoint(&flights));
        let left = checkpoints(&flights);
        // The checkpoint that the last process went on from, which it may have been about to delete; the rest is its own.
        let last_attempt = left.iter().map(|folder| folder.attempt).max().unwrap();
        let of_others = left.iter().filter(|folder| folder.attempt < last_attempt).count();
        assert!(of_others <= 1, "several processes have left checkpoints: {left:?}");
        let processes = processes_with_temporary_files(&flights);
        assert!(processes.len() <= 1, "temporary files of several processes: {processes:?}");
    }

    // The living was not disturbed.
    wait_for_checkpoints(&live, 2);
    let status = live.status();
    assert_eq!((status.checkpoints_failed, status.restarts), (0, 0));
    let monitor = live.monitor();
    live.cancel();
    assert!(matches!(live.wait(), Err(JobError::Cancelled)));
    let again = live_job(&run.checkpoints(), &records);
    wait_for_checkpoints(&again, 2);
    assert_eq!(again.status().restored_from, monitor.status().last_checkpoint);
    again.cancel();
    assert!(again.wait().is_err());
    let mut found = records.to_vec();
    found.sort_unstable();
    let of_digit = |digit| found.iter().filter(|(other, _)| *other == digit).count() as u64;
    let expected: Vec<_> = (0..10).flat_map(|digit| (1..=of_digit(digit)).map(move |n| (digit, n))).collect();
    assert_eq!(found, expected);

    // A process that ends by itself leaves nothing that is not needed.
    run.finish(&MUCH_STATE);
    run.assert_golden();
    assert_eq!(processes_with_temporary_files(&flights), BTreeSet::new());
    let left = checkpoints(&flights);
    assert!(left.len() <= 1 && left.iter().all(|folder| folder.is_complete), "{left:?}");
}
