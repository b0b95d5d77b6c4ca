//! Checkpoints are deleted while others restore, fail beside complete ones, or are deleted in part by a process that dies:
//! what is restored is always a whole one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::CheckpointFailureReason;
use highwater::state::CheckpointStorage;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use tempfile::TempDir;

use crate::pace::{Grants, Pace};
use crate::support::{Count, assert_counted, count, environment, files_below, wait_until};

const NUMBERS: u64 = 2_000;
/// Tells the process that is to be killed where to write; the test starts itself anew with it.
const DIRECTORY: &str = "HIGHWATER_TEST_DIRECTORY";
const NAME: &str = "nothing_is_restored_in_part::a_process_that_dies_while_it_deletes_leaves_the_rest_to_the_next_one";

fn files(directory: &Path) -> Arc<dyn CheckpointStorage> {
    Arc::new(FileSystemCheckpointStorage::new(directory).unwrap().with_inline_bytes_max(0).unwrap())
}

/// A job that takes checkpoints only when it is asked, at this point of its input.
fn asked(
    storage: Arc<dyn CheckpointStorage>,
    grants: &Grants,
    records: &CollectedRecords<Count>,
) -> StreamExecutionEnvironment {
    let env = environment("whole", storage);
    env.enable_checkpointing(Duration::from_secs(3_600)).set_tolerable_checkpoint_failures(u32::MAX).set_parallelism(4);
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), records, |_| Ok(()));
    env
}

/// The ids of the checkpoints that are there, in ascending order.
fn ids(directory: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(directory.join("whole")) else { return Vec::new() };
    let id = |name: String| name.strip_prefix("chk-")?.split('-').next()?.parse().ok();
    let mut ids: Vec<u64> = entries.filter_map(|entry| id(entry.unwrap().file_name().into_string().unwrap())).collect();
    ids.sort_unstable();
    ids
}

/// Starts the job on the storage, and lets it finish.
fn finish(storage: Arc<dyn CheckpointStorage>, records: &CollectedRecords<Count>) -> JobStatus {
    let env = environment("whole", storage);
    env.enable_checkpointing(Duration::from_secs(3_600));
    count(&env, NUMBERS, None, records, |_| Ok(()));
    env.execute().unwrap().status
}

/// Contract: J206.
/// Field case: R21.
#[test]
fn a_checkpoint_that_cannot_be_published_leaves_the_one_before_it() {
    let folder = TempDir::new().unwrap();
    let faults = Faults::default();
    let (grants, records) = (Grants::new(NUMBERS / 2), CollectedRecords::default());
    let env = asked(Arc::new(FaultyStorage::new(files(folder.path()), faults.clone())), &grants, &records);
    // The write is given up after four waits, which are 1.5 s together: the fifth would end behind the timeout.
    env.set_checkpoint_timeout(Duration::from_secs(3));
    let handle = env.execute_async().unwrap();
    for id in [1, 2] {
        assert_eq!(handle.trigger_checkpoint().wait().unwrap().0, id);
    }
    wait_until("only the second one is kept", || ids(folder.path()) == [2]);
    let kept = files_below(&folder.path().join("whole"));
    faults.arm(When::every(Operation::Create).named("_metadata"), Fault::FailBefore);
    let failure = handle.trigger_checkpoint().wait().unwrap_err();
    assert_eq!(failure.reason, CheckpointFailureReason::FinalizeCheckpointFailure, "{failure}");
    wait_until("the files of the third one are gone", || ids(folder.path()) == [2]);
    let left = files_below(&folder.path().join("whole"));
    assert!(kept.iter().all(|(path, content)| left.get(path) == Some(content)), "the second one is not what it was");
    faults.clear();
    assert_eq!(handle.trigger_checkpoint().wait().unwrap().0, 4);
    wait_until("only the fourth one is kept", || ids(folder.path()) == [4]);
    grants.add_all();
    assert_eq!(handle.wait().unwrap().status.restarts, 0);
    assert_counted(&records, NUMBERS);
}

/// Field case: R31.
#[test]
fn a_checkpoint_that_is_deleted_under_its_reader_is_not_restored() {
    let folder = TempDir::new().unwrap();
    let (grants, records) = (Grants::new(NUMBERS / 4), CollectedRecords::default());
    let first = asked(files(folder.path()), &grants, &records).execute_async().unwrap();
    (1..=5).for_each(|id| assert_eq!(first.trigger_checkpoint().wait().unwrap().0, id));
    // The reader has read in the log that 5 is the newest; before it reads 5, the job completes 6 and deletes 5.
    let (coordinator, directory) = (first.checkpoint_coordinator(), folder.path().to_owned());
    let go_on = move || {
        assert_eq!(pollster::block_on(coordinator.trigger_checkpoint()).unwrap().0, 6);
        wait_until("the fifth one is deleted", || ids(&directory) == [6]);
    };
    let faults = Faults::default();
    faults.arm(When::next(Operation::Read).named("_metadata"), Fault::Delay(Arc::new(go_on)));
    let status = finish(Arc::new(FaultyStorage::new(files(folder.path()), faults)), &records);
    assert_eq!(status.restored_from.map(|id| id.0), Some(6));
    first.cancel();
    first.wait().unwrap_err();
    assert_counted(&records, NUMBERS);
}

/// Field case: R31.
#[test]
fn a_checkpoint_whose_reader_has_claimed_the_job_is_not_deleted() {
    let folder = TempDir::new().unwrap();
    let (grants, records) = (Grants::new(NUMBERS / 4), CollectedRecords::default());
    let first = asked(files(folder.path()), &grants, &records).execute_async().unwrap();
    (1..=5).for_each(|id| assert_eq!(first.trigger_checkpoint().wait().unwrap().0, id));
    // In the middle of the reading, the job tries to complete another one.
    let coordinator = first.checkpoint_coordinator();
    let go_on = move || assert!(pollster::block_on(coordinator.trigger_checkpoint()).is_err(), "the job is another's");
    let faults = Faults::default();
    faults.arm(When::nth(Operation::ReadRange, 2), Fault::Delay(Arc::new(go_on)));
    let status = finish(Arc::new(FaultyStorage::new(files(folder.path()), faults.clone())), &records);
    assert_eq!((status.restored_from.map(|id| id.0), faults.remaining()), (Some(5), 0));
    assert!(matches!(first.wait().unwrap_err().cause(), JobError::Coordinator(_)));
    assert_counted(&records, NUMBERS);
}

/// Field case: R33.
///
/// Contract: J199.
#[test]
fn a_checkpoint_that_fails_takes_nothing_of_the_one_before_with_it() {
    let folder = TempDir::new().unwrap();
    let faults = Faults::default();
    let (grants, records) = (Grants::new(NUMBERS / 2), CollectedRecords::default());
    let env = asked(Arc::new(FaultyStorage::new(files(folder.path()), faults.clone())), &grants, &records);
    env.set_checkpoint_timeout(Duration::from_secs(2));
    let handle = env.execute_async().unwrap();
    assert_eq!(handle.trigger_checkpoint().wait().unwrap().0, 1);
    let kept = files_below(&folder.path().join("whole"));
    // One of the tasks fails when others have written their state.
    faults.arm(When::every(Operation::Finish).named("counter-3"), Fault::FailBefore);
    handle.trigger_checkpoint().wait().unwrap_err();
    wait_until("the second one is gone", || ids(folder.path()) == [1]);
    let left = files_below(&folder.path().join("whole"));
    assert!(kept.iter().all(|(path, content)| left.get(path) == Some(content)), "the first one is not what it was");
    handle.cancel();
    handle.wait().unwrap_err();
    assert_eq!(finish(files(folder.path()), &records).restored_from.map(|id| id.0), Some(1));
    assert_counted(&records, NUMBERS);
}

/// A process that does not outlive a test that fails.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The files of the first checkpoint.
fn first_checkpoint(directory: &Path) -> Vec<PathBuf> {
    let is_first = |path: &PathBuf| path.parent().unwrap().file_name().unwrap().to_string_lossy().starts_with("chk-1-");
    files_below(&directory.join("whole")).into_keys().filter(is_first).collect()
}

/// The process that is killed: completes two checkpoints, deletes two files of the first one, and waits for its end.
fn delete_two_files(directory: &Path) {
    let faults = Faults::default();
    let folder = directory.to_owned();
    let delete_two = move || {
        let files = first_checkpoint(&folder);
        for path in &files[..2] {
            fs::remove_file(path).unwrap();
        }
        fs::write(folder.join("files"), files.len().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    };
    faults.arm(When::next(Operation::DeleteFolder), Fault::Delay(Arc::new(delete_two)));
    let storage = Arc::new(FaultyStorage::new(files(directory), faults));
    let handle = asked(storage, &Grants::new(NUMBERS / 2), &CollectedRecords::default()).execute_async().unwrap();
    wait_until("every subtask has state", || {
        let status = handle.status();
        let counters = status.subtasks.iter().filter(|it| it.operator.as_str() == "counter");
        counters.filter(|it| it.records_in > 0).count() == 4
    });
    handle.trigger_checkpoint().wait().unwrap();
    handle.trigger_checkpoint().wait().unwrap();
    let _ = handle.wait();
}

/// Field case: R35.
#[test]
fn a_process_that_dies_while_it_deletes_leaves_the_rest_to_the_next_one() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return delete_two_files(Path::new(&directory));
    }
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME]).env(DIRECTORY, folder.path());
    let mut process = KilledOnDrop(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    wait_until("the first checkpoint is deleted in part", || {
        assert!(process.0.try_wait().unwrap().is_none(), "the process ended by itself");
        fs::read_to_string(folder.path().join("files")).is_ok_and(|number| !number.is_empty())
    });
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let there_were: usize = fs::read_to_string(folder.path().join("files")).unwrap().parse().unwrap();
    assert!(there_were >= 5, "{there_were}");
    assert_eq!((first_checkpoint(folder.path()).len(), ids(folder.path())), (there_were - 2, vec![1, 2]));
    let env = asked(files(folder.path()), &Grants::new(0), &CollectedRecords::default());
    let handle = env.execute_async().unwrap();
    wait_until("the job is restored", || handle.status().restored_from.map(|id| id.0) == Some(2));
    wait_until("what was left of the first one is gone", || ids(folder.path()) == [2]);
    handle.cancel();
    handle.wait().unwrap_err();
    let status = finish(files(folder.path()), &CollectedRecords::default());
    assert_eq!(status.restored_from.map(|id| id.0), Some(2));
}
