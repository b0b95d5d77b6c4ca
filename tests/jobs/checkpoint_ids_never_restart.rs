//! Ids go on after every restore; a job that is to start from nothing gets another name and touches nothing of the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::CheckpointId;

use crate::pace::Pace;
use crate::support::{count, files_below, wait_for_checkpoints, wait_until};

/// Runs a job that takes `checkpoints` checkpoints, each when it is asked to, and stops it. All of them are kept.
fn run(name: &str, directory: &Path, checkpoints: u64) -> JobStatus {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend(FsStateBackend::new(directory).unwrap());
    env.enable_checkpointing(Duration::from_secs(3_600)).set_max_retained_checkpoints(10);
    count(&env, 1_000, Some(Pace::up_to(100)), &CollectedRecords::default(), |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_until("a record is read", || handle.status().records_read > 0);
    for number in 1..=checkpoints {
        handle.trigger_checkpoint();
        wait_for_checkpoints(&handle, number);
    }
    let monitor = handle.monitor();
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    monitor.status()
}

/// The files of the checkpoints of a job.
fn checkpoints(directory: &Path, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let log = directory.join(name).join("log");
    let mut files = files_below(&directory.join(name));
    files.retain(|path, _| !path.starts_with(&log));
    files
}

/// Field case: R25.
#[test]
fn after_a_restore_from_checkpoint_three_the_next_is_four() {
    let folder = tempfile::tempdir().unwrap();
    let status = run("counting", folder.path(), 3);
    assert_eq!(status.last_checkpoint, Some(CheckpointId(3)));
    let first = checkpoints(folder.path(), "counting");
    assert_eq!(first.len(), 3, "three checkpoints with their metadata: {:?}", first.keys());

    let status = run("counting", folder.path(), 1);
    assert_eq!((status.restored_from, status.last_checkpoint), (Some(CheckpointId(3)), Some(CheckpointId(4))));
    let second = checkpoints(folder.path(), "counting");
    assert!(first.iter().all(|(path, content)| second.get(path) == Some(content)), "an old checkpoint was changed");
    assert_eq!(second.len(), 4);
}

/// Field case: R25.
#[test]
fn a_fresh_start_under_another_name_leaves_the_old_checkpoints_and_is_restored_from_its_own() {
    let folder = tempfile::tempdir().unwrap();
    run("counting", folder.path(), 3);
    let old = checkpoints(folder.path(), "counting");

    let status = run("counting-anew", folder.path(), 2);
    assert_eq!((status.restored_from, status.last_checkpoint), (None, Some(CheckpointId(2))));
    let status = run("counting-anew", folder.path(), 1);
    assert_eq!((status.restored_from, status.last_checkpoint), (Some(CheckpointId(2)), Some(CheckpointId(3))));
    assert!(checkpoints(folder.path(), "counting") == old, "the checkpoints of the first job were touched");
}

/// Field case: R25.
#[test]
fn a_log_that_was_removed_to_start_afresh_is_refused_and_a_removed_folder_is_not() {
    let folder = tempfile::tempdir().unwrap();
    run("counting", folder.path(), 3);
    let old = checkpoints(folder.path(), "counting");
    std::fs::remove_dir_all(folder.path().join("counting/log")).unwrap();

    let env = StreamExecutionEnvironment::new("counting");
    env.set_state_backend(FsStateBackend::new(folder.path()).unwrap());
    count(&env, 10, None, &CollectedRecords::default(), |_| Ok(()));
    let error = env.execute().unwrap_err();
    assert!(matches!(error, JobError::Log(_)), "{error:?}");
    assert!(format!("{error:?}").contains("remove the folder to start from nothing"), "{error:?}");
    assert!(checkpoints(folder.path(), "counting") == old, "checkpoints were touched");

    std::fs::remove_dir_all(folder.path().join("counting")).unwrap();
    let status = run("counting", folder.path(), 1);
    assert_eq!((status.restored_from, status.last_checkpoint), (None, Some(CheckpointId(1))));
}
