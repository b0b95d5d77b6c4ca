//! The file system checkpoint storage passes the storage suite, also behind the wrappers that tests use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;

use highwater_conformance::storage::StorageUnderTest;
use highwater_conformance::{Faults, FaultyStorage, Recording, RecordingStorage, storage_conformance};
use highwater_state_backend_fs::FileSystemCheckpointStorage;

fn in_a_new_folder() -> StorageUnderTest {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("checkpoints");
    StorageUnderTest::reopened_by(move || FileSystemCheckpointStorage::new(&root).unwrap()).keeping(folder)
}

storage_conformance!(in_a_new_folder);

mod behind_wrappers {
    use super::*;

    fn wrapped() -> StorageUnderTest {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        let open = move || {
            let storage = Arc::new(FileSystemCheckpointStorage::new(&root).unwrap());
            let faulty = Arc::new(FaultyStorage::new(storage, Faults::default()));
            RecordingStorage::new(faulty, Recording::default())
        };
        StorageUnderTest::reopened_by(open).keeping(folder)
    }

    storage_conformance!(wrapped);
}
