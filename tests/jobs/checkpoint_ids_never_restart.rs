//! Ids go on after every restore; a job that is to start from nothing gets another name and touches nothing of the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::CheckpointId;
use highwater::stream::{BoxedError, MasterTriggerRestoreHook};

use crate::killed_process;
use crate::pace::{Grants, Pace};
use crate::support::{NEVER, Notes, count, environment, files_below, storage, take_checkpoints, wait_until};

const NUMBERS: u64 = 1_000;

/// The job that is there first.
const OLD: &str = "counting";
/// The one that is started from nothing beside it.
const FRESH: &str = "counting-anew";

/// The job, whose checkpoints are taken when they are asked for. All of them are kept.
fn job(name: &str, directory: &Path, pace: Option<Pace>) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend(FsStateBackend::new(directory).unwrap());
    env.enable_checkpointing(NEVER).set_max_retained_checkpoints(10);
    count(&env, NUMBERS, pace, &CollectedRecords::default(), |_| Ok(()));
    env
}

/// Starts a job that reads so many numbers, takes so many checkpoints behind them, and waits.
fn start(name: &str, directory: &Path, numbers: u64, checkpoints: u64) -> JobHandle {
    let handle = job(name, directory, Some(Pace::up_to(numbers))).execute_async().unwrap();
    wait_until("the numbers are read", || handle.status().records_read == numbers);
    take_checkpoints(&handle, checkpoints);
    handle
}

/// The same, and cancels it.
fn run(name: &str, directory: &Path, numbers: u64, checkpoints: u64) -> JobStatus {
    let handle = start(name, directory, numbers, checkpoints);
    let monitor = handle.monitor();
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    monitor.status()
}

/// The same in a process of its own, which is killed: it starts `test` anew, which has to call [`wait_for_the_kill`].
fn kill(test: &str, name: &str, directory: &Path, numbers: u64, checkpoints: u64) {
    let (order, done) = (directory.join("order"), directory.join("done"));
    std::fs::write(&order, format!("{name} {numbers} {checkpoints}")).unwrap();
    let test = format!("checkpoint_ids_never_restart::{test}");
    killed_process::kill_when(&test, directory, "the checkpoints are complete", || done.exists());
    std::fs::remove_file(order).unwrap();
    std::fs::remove_file(done).unwrap();
}

/// What the process does that is killed.
fn wait_for_the_kill(directory: &Path) {
    let order = std::fs::read_to_string(directory.join("order")).unwrap();
    let [name, numbers, checkpoints] = order.split(' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let handle = start(name, directory, numbers.parse().unwrap(), checkpoints.parse().unwrap());
    std::fs::write(directory.join("done"), "").unwrap();
    drop(handle.wait());
}

/// The files of the checkpoints of a job.
fn checkpoints(directory: &Path, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let log = directory.join(name).join("log");
    let mut files = files_below(&directory.join(name));
    files.retain(|path, _| !path.starts_with(&log));
    files
}

/// Contract: M239.
/// Field case: R25.
#[test]
fn after_a_kill_and_a_restore_from_checkpoint_three_the_next_is_four() {
    if let Some(directory) = killed_process::directory() {
        return wait_for_the_kill(&directory);
    }
    let folder = tempfile::tempdir().unwrap();
    kill("after_a_kill_and_a_restore_from_checkpoint_three_the_next_is_four", OLD, folder.path(), 100, 3);
    let first = checkpoints(folder.path(), OLD);
    assert_eq!(first.len(), 3, "three checkpoints with their metadata: {:?}", first.keys());

    let status = run(OLD, folder.path(), 100, 1);
    assert_eq!((status.restored_from, status.last_checkpoint), (Some(CheckpointId(3)), Some(CheckpointId(4))));
    let second = checkpoints(folder.path(), OLD);
    assert!(first.iter().all(|(path, content)| second.get(path) == Some(content)), "an old checkpoint was changed");
    assert_eq!(second.len(), 4);
}

/// Both jobs have a checkpoint 2. How much there was left to read says whose was restored.
///
/// Contract: M239.
/// Field case: R25.
#[test]
fn a_fresh_start_that_is_killed_goes_on_from_its_own_newest_checkpoint_and_leaves_the_old_ones() {
    if let Some(directory) = killed_process::directory() {
        return wait_for_the_kill(&directory);
    }
    let this = "a_fresh_start_that_is_killed_goes_on_from_its_own_newest_checkpoint_and_leaves_the_old_ones";
    let folder = tempfile::tempdir().unwrap();
    kill(this, OLD, folder.path(), 100, 3);
    let old = files_below(&folder.path().join(OLD));
    assert_eq!(checkpoints(folder.path(), OLD).len(), 3);

    kill(this, FRESH, folder.path(), 300, 2);
    assert_eq!(checkpoints(folder.path(), FRESH).len(), 2);
    assert!(files_below(&folder.path().join(OLD)) == old, "a file of the first job was touched");

    let restored = job(FRESH, folder.path(), None).execute().unwrap();
    assert_eq!(restored.status.restored_from, Some(CheckpointId(2)));
    assert_eq!(restored.status.records_read, NUMBERS - 300);
    assert!(files_below(&folder.path().join(OLD)) == old, "a file of the first job was touched");

    let restored = job(OLD, folder.path(), None).execute().unwrap();
    assert_eq!(restored.status.restored_from, Some(CheckpointId(3)));
    assert_eq!(restored.status.records_read, NUMBERS - 100);
}

/// Hears of checkpoints, and does not take part in the second.
struct Hook(Notes<u64>);

impl MasterTriggerRestoreHook for Hook {
    fn identifier(&self) -> &str {
        "hook"
    }

    fn trigger_checkpoint(&mut self, checkpoint: CheckpointId, _: u64) -> Result<Option<Vec<u8>>, BoxedError> {
        self.0.note(checkpoint.0);
        if checkpoint.0 == 2 { Err("as planned".into()) } else { Ok(None) }
    }

    fn restore_checkpoint(&mut self, _: CheckpointId, _: Option<&[u8]>) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// Of one that has failed nothing is left, but hooks and statistics know of it.
///
/// Contract: J190.
#[test]
fn not_even_those_of_failed_ones_are_used_again_after_a_restart() {
    let (notes, grants) = (Notes::new(), Grants::new(NUMBERS / 2));
    let env = environment("failing", storage());
    env.enable_checkpointing(NEVER).set_tolerable_checkpoint_failures(5);
    env.add_master_hook(Hook(notes.clone())).unwrap();
    let is_to_fail = Arc::new(AtomicBool::new(false));
    let fail = is_to_fail.clone();
    let fails = move |_| if fail.swap(false, Ordering::Relaxed) { Err("as planned".into()) } else { Ok(()) };
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &CollectedRecords::default(), fails);
    let handle = env.execute_async().unwrap();
    take_checkpoints(&handle, 1);
    handle.trigger_checkpoint().wait().unwrap_err();
    is_to_fail.store(true, Ordering::Relaxed);
    grants.add(1);
    wait_until("the job is restarted", || handle.status().restarts == 1);
    take_checkpoints(&handle, 1);
    handle.cancel();
    handle.wait().unwrap_err();
    assert_eq!(notes.take(), [1, 2, 3]);
}

/// Field case: R25.
#[test]
fn a_log_that_was_removed_to_start_afresh_is_refused_and_a_removed_folder_is_not() {
    let folder = tempfile::tempdir().unwrap();
    run(OLD, folder.path(), 100, 3);
    let old = checkpoints(folder.path(), OLD);
    std::fs::remove_dir_all(folder.path().join("counting/log")).unwrap();

    let error = job(OLD, folder.path(), None).execute().unwrap_err();
    assert!(matches!(error, JobError::Log(_)), "{error:?}");
    assert!(format!("{error:?}").contains("remove the folder to start from nothing"), "{error:?}");
    assert!(checkpoints(folder.path(), OLD) == old, "checkpoints were touched");

    std::fs::remove_dir_all(folder.path().join(OLD)).unwrap();
    let status = run(OLD, folder.path(), 100, 1);
    assert_eq!((status.restored_from, status.last_checkpoint), (None, Some(CheckpointId(1))));
}
