//! A process that is killed in its very first checkpoint leaves state of some subtasks: no start takes that for a
//! checkpoint, and all input is read from the beginning.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::CheckpointStorage;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use tempfile::TempDir;

use crate::killed_process;
use crate::pace::{Pace, Paced};
use crate::support::wait_until;

const NAME: &str = "a_crash_in_the_first_checkpoint_leaves_nothing::at_the_old_and_at_another_parallelism";
/// Two partitions, 1..=1000 and 1001..=2000.
const NUMBERS: u64 = 2_000;

/// Sums numbers by their last digit.
#[derive(Default)]
struct Summing {
    sum: ValueState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Summing {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.sum = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("sum"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<(u64, u64)>) -> Result<()> {
        let sum = self.sum.value(cx)?.unwrap_or(0) + number;
        self.sum.update(cx, sum)?;
        out.collect((*cx.current_key(), sum));
        Ok(())
    }
}

fn job(
    storage: Arc<dyn CheckpointStorage>,
    parallelism: u32,
    pace: Option<Pace>,
    records: &CollectedRecords<(u64, u64)>,
) -> StreamExecutionEnvironment {
    let env = crate::support::environment("sums", storage);
    env.enable_checkpointing(Duration::from_secs(3_600)).set_parallelism(parallelism);
    // With so many key groups each of three subtasks has some of the ten keys.
    env.set_max_parallelism(64);
    let source = SequenceSource::new(1..NUMBERS + 1).with_splits(2);
    env.from_source(Paced::new(source, pace))
        .key_by_value(|number| number % 10)
        .process(Summing::default)
        .uid("sums")
        .sink_to(CollectSink::new(records.clone()));
    env
}

fn files(directory: &Path) -> FileSystemCheckpointStorage {
    FileSystemCheckpointStorage::new(directory).unwrap().with_inline_bytes_max(0).unwrap()
}

/// The process that is killed: writes the state of subtasks 0 and 1 and then waits for its end.
fn write_two_of_three(directory: &Path) {
    let faults = Faults::default();
    let wait_for_the_end = || loop {
        std::thread::park();
    };
    let third = When::next(Operation::Create).named("sums-2");
    faults.arm(third, Fault::Delay(Arc::new(wait_for_the_end)));
    let storage = Arc::new(FaultyStorage::new(Arc::new(files(directory)), faults));
    let handle = job(storage, 3, Some(Pace::up_to(NUMBERS / 2)), &CollectedRecords::default()).execute_async().unwrap();
    let has_state = |status: JobStatus| {
        status.subtasks.iter().filter(|it| it.operator.as_str() == "sums" && it.records_in > 0).count() == 3
    };
    wait_until("every subtask has state", || has_state(handle.status()));
    handle.trigger_checkpoint();
    let _ = handle.wait();
}

/// What a process left that was killed when the state of two of three subtasks was on disk.
fn crashed() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    killed_process::kill_when(NAME, folder.path(), "the state of two subtasks is on disk", || {
        state_files(folder.path()) == ["sums-0", "sums-1"]
    });
    folder
}

/// The names of the objects of the summing operator in the only checkpoint, if there is one.
fn state_files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory.join("sums")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let checkpoints: Vec<PathBuf> =
        paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("chk-1-")).collect();
    let [checkpoint] = &checkpoints[..] else { return Vec::new() };
    let names = fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("sums-")).collect();
    names.sort_unstable();
    names
}

/// Field case: R47.
///
/// Contract: T346.
#[test]
fn at_the_old_and_at_another_parallelism() {
    if let Some(directory) = killed_process::directory() {
        return write_two_of_three(&directory);
    }
    for parallelism in [3, 2] {
        let crashed = crashed();
        let records = CollectedRecords::default();
        let result = job(Arc::new(files(crashed.path())), parallelism, None, &records).execute().unwrap();
        assert_eq!(result.status.restored_from, None, "state without a checkpoint was restored");
        assert_eq!(result.status.records_read, NUMBERS, "all input is read from the beginning");
        let mut sums = BTreeMap::new();
        for (key, sum) in records.to_vec() {
            let last: &mut u64 = sums.entry(key).or_default();
            *last = sum.max(*last);
        }
        let expected = (0..10).map(|key| (key, if key == 0 { 201_000 } else { 199_000 + 200 * key }));
        assert_eq!(sums, expected.collect(), "parallelism {parallelism}");
        assert_eq!(sums.values().sum::<u64>(), 2_001_000);
        assert_eq!(state_files(crashed.path()), Vec::<String>::new(), "what the crash left is deleted");
    }
}
