//! What people read of a directory that is gone names it: the paths of objects alone do not say where to look.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::error::Error;

use highwater_state_api::{CheckpointStorage, ObjectPath, StorageError};
use highwater_state_backend_fs::FileSystemCheckpointStorage;
use pollster::block_on;

#[test]
fn whatever_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("checkpoints");
    let storage = FileSystemCheckpointStorage::new(&root).unwrap();
    std::fs::remove_dir(&root).unwrap();
    let (path, log) = (ObjectPath::new(["job", "log", "1"]), ObjectPath::new(["job", "log"]));
    let errors: [StorageError; 9] = [
        block_on(storage.initialize_location(&log)).unwrap_err(),
        block_on(storage.create(&path)).map(|_| ()).unwrap_err(),
        block_on(storage.create_if_absent(&path, "1".into())).unwrap_err(),
        block_on(storage.read_range(&path, 0, 1)).unwrap_err(),
        block_on(storage.list_folders(&log)).unwrap_err(),
        block_on(storage.delete_folder(&log)).unwrap_err(),
        block_on(storage.read(&path)).unwrap_err(),
        block_on(storage.list(&log)).unwrap_err(),
        block_on(storage.delete(&path)).unwrap_err(),
    ];
    for error in errors {
        let cause = error.source().unwrap().to_string();
        assert!(cause.starts_with(&format!("in {}: ", root.display())), "{error}: {cause}");
    }
}
