//! Temporary files of a killed writer are in nobody's way: the job goes on, and none of them remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::Pace;
use crate::support::{NEVER, assert_counted, count, take_checkpoints};

const NUMBERS: u64 = 3_000;

fn environment(directory: &Path, interval: Duration) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new("littered");
    env.set_state_backend(FsStateBackend::new(directory).unwrap().with_inline_bytes_max(0).unwrap());
    env.enable_checkpointing(interval);
    env
}

fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(temporary_files(&path));
        } else if path.file_name().unwrap().to_string_lossy().starts_with(".tmp-") {
            found.push(path);
        }
    }
    found
}

/// Every name that a process of this id could take next, and some of another that is dead.
fn litter(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for number in 0..2_000 {
        fs::write(folder.join(format!(".tmp-{}-{number}", std::process::id())), "half a state").unwrap();
    }
    fs::write(folder.join(".tmp-1-1"), "half a state").unwrap();
}

/// Field case: R43.
#[test]
fn a_job_completes_its_next_checkpoint_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let records = CollectedRecords::default();
    let env = environment(folder.path(), NEVER);
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    take_checkpoints(&handle, 5);
    let monitor = handle.monitor();
    handle.cancel();
    assert!(handle.wait().is_err());
    let last = monitor.status().last_checkpoint.unwrap().0;

    let job = folder.path().join("littered");
    litter(&job.join("log"));
    litter(&job);
    // What the attempt that was killed had begun to write.
    let attempt = monitor.status().attempt.unwrap();
    litter(&job.join(format!("chk-{}-{attempt}", last + 1)));

    let env = environment(folder.path(), Duration::from_millis(10));
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let result = env.execute().unwrap();
    assert_eq!(result.status.restored_from.map(|checkpoint| checkpoint.0), Some(last));
    assert_eq!(result.status.checkpoints_failed, 0);
    assert_counted(&records, NUMBERS);
    assert_eq!(temporary_files(folder.path()), Vec::<PathBuf>::new());
}
