//! Whatever name its directory has, and however it is written, a job writes there, finds its checkpoint again and
//! deletes what is superseded.

use std::fs;
use std::path::Path;
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::Pace;
use crate::support::{assert_counted, count, wait_for_checkpoints};

const NUMBERS: u64 = 600;

fn environment(name: &str, directory: &str) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend_registry(default_registry());
    env.configure(Configuration::from([
        ("execution.checkpointing.dir", directory),
        ("execution.checkpointing.data-inline-threshold", "0"),
    ]));
    env.enable_checkpointing(Duration::from_millis(10));
    env
}

/// Starts, stops and ends a job with checkpoints in `directory`, whose files are then under `folder`.
fn run(name: &str, directory: &str, folder: &Path) {
    let records = CollectedRecords::default();
    let env = environment(name, directory);
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 2);
    handle.cancel();
    assert!(handle.wait().is_err(), "{directory:?}");

    let env = environment(name, directory);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let result = env.execute().unwrap();
    assert!(result.status.restored_from.is_some(), "{directory:?}: the checkpoint was not found again");
    assert_counted(&records, NUMBERS);
    assert_eq!(checkpoints(&folder.join(name)), 0, "{directory:?}: a finished job keeps no checkpoint");
}

fn checkpoints(job: &Path) -> usize {
    let entries = fs::read_dir(job).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.starts_with("chk-")).count()
}

/// Field case: R107.
#[test]
fn however_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let text = root.display().to_string();
    for name in ["with space", "ümläut", "a%20b", "new/and/deep"] {
        run("job", &format!("{text}/{name}"), &root.join(name));
    }
    run("job", &format!("{text}/trailing/"), &root.join("trailing"));
    run("job", &format!("file://{text}/of%20a%20uri/%C3%A4"), &root.join("of a uri/ä"));
}

/// Field case: R107.
#[cfg(unix)]
#[test]
fn through_a_link_and_where_the_path_is_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir(root.join("real")).unwrap();
    std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
    run("job", &root.join("link").display().to_string(), &root.join("real"));
    let odd = root.join(OsStr::from_bytes(b"not \xff text"));
    run("job", &format!("file://{}/not%20%ff%20text", root.display()), &odd);
}

/// Field case: R107.
#[test]
fn relative_to_where_the_process_runs() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    run("job", name, folder.path());
}

/// Field case: R107.
#[test]
fn beside_a_job_whose_name_begins_like_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().display().to_string();
    run("job2", &directory, folder.path());
    let of_job2 = || crate::support::files_below(&folder.path().join("job2"));
    let before = of_job2();
    run("job", &directory, folder.path());
    assert!(of_job2() == before, "job has touched what job2 keeps");
}
