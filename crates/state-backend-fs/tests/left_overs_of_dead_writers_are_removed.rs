//! A writer that died leaves a temporary file. It blocks nobody, is never an object, and goes with the next write.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::path::Path;

use highwater_state_api::{CheckpointStorage, ObjectPath};
use highwater_state_backend_fs::FileSystemCheckpointStorage;
use pollster::block_on;

fn object(path: &str) -> ObjectPath {
    ObjectPath::parse(path).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Every name that a process of this id could take next.
fn litter(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for number in 0..300 {
        fs::write(folder.join(format!(".tmp-{}-{number}", std::process::id())), "half a check").unwrap();
    }
    fs::write(folder.join(".tmp-1-0"), "half a check").unwrap();
}

/// Field case: R43.
#[test]
fn a_checkpoint_completes_among_left_overs_and_none_remains() {
    let folder = tempfile::tempdir().unwrap();
    let chk = folder.path().join("job/chk-6");
    litter(&chk);
    let storage = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    assert!(block_on(storage.list(&object("job"))).unwrap().is_empty());
    let mut upload = block_on(storage.create(&object("job/chk-6/state"))).unwrap();
    block_on(upload.write("state".into())).unwrap();
    block_on(upload.finish()).unwrap();
    block_on(storage.create_if_absent(&object("job/chk-6/metadata"), "metadata".into())).unwrap();
    assert_eq!(names(&chk), ["metadata", "state"]);
}

/// Field case: R43.
#[test]
fn names_that_are_taken_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let chk = folder.path().join("job/chk-6");
    let storage = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    block_on(storage.create_if_absent(&object("job/chk-6/first"), "first".into())).unwrap();
    // After the folder was cleaned: now they are really in the way.
    litter(&chk);
    for number in 0..10 {
        block_on(storage.create_if_absent(&object("job/chk-6").join(&number.to_string()), "x".into())).unwrap();
    }
    assert_eq!(block_on(storage.list(&object("job"))).unwrap().len(), 11);
    block_on(storage.delete_folder(&object("job/chk-6"))).unwrap();
    assert!(!chk.exists());
}

#[test]
fn a_living_writer_keeps_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let first = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    let mut upload = block_on(first.create(&object("job/state"))).unwrap();
    let second = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    block_on(second.create_if_absent(&object("job/other"), "other".into())).unwrap();
    block_on(upload.write("state".into())).unwrap();
    block_on(upload.finish()).unwrap();
    assert_eq!(names(&folder.path().join("job")), ["other", "state"]);
}

#[test]
fn what_others_keep_in_the_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    fs::create_dir(folder.path().join("job")).unwrap();
    fs::write(folder.path().join("job/.nfs0001"), "theirs").unwrap();
    fs::create_dir(folder.path().join("job/.tmp-folder")).unwrap();
    block_on(storage.create_if_absent(&object("job/a"), "a".into())).unwrap();
    assert_eq!(block_on(storage.list(&object("job"))).unwrap(), [object("job/a")]);
    assert_eq!(names(&folder.path().join("job")), [".nfs0001", ".tmp-folder", "a"]);
}

#[test]
fn a_folder_in_which_a_writer_left_nothing_but_a_temporary_file_can_be_found() {
    let directory = tempfile::tempdir().unwrap();
    let storage = FileSystemCheckpointStorage::new(directory.path()).unwrap();
    let job = ObjectPath::new(["job"]);
    fs::create_dir_all(directory.path().join("job/chk-3-1")).unwrap();
    fs::write(directory.path().join("job/chk-3-1/.tmp-1-1"), "half of a state").unwrap();
    fs::create_dir_all(directory.path().join("job/chk-4-1")).unwrap();
    assert!(pollster::block_on(storage.list(&job)).unwrap().is_empty());
    let folders = pollster::block_on(storage.list_folders(&job)).unwrap();
    assert_eq!(folders, [job.join("chk-3-1"), job.join("chk-4-1")]);
    for folder in folders {
        pollster::block_on(storage.delete_folder(&folder)).unwrap();
    }
    assert_eq!(fs::read_dir(directory.path().join("job")).unwrap().count(), 0);
}
