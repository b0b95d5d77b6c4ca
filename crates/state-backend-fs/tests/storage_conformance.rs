//! The file system checkpoint storage passes the storage suite, also behind the wrappers that tests use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::sync::Arc;

use highwater_conformance::storage::StorageUnderTest;
use highwater_conformance::{Faults, FaultyStorage, Recording, RecordingStorage, storage_conformance};
use highwater_state_api::CheckpointStorage;
use highwater_state_backend_fs::FileSystemCheckpointStorage;

/// Files in a new folder, which is gone during an outage, as the mount of a disk may be.
fn in_a_new_folder<S: CheckpointStorage + 'static>(
    wrap: impl Fn(FileSystemCheckpointStorage) -> S + 'static,
) -> StorageUnderTest {
    let folder = tempfile::tempdir().unwrap();
    let (root, gone) = (folder.path().join("checkpoints"), folder.path().join("gone"));
    let opened = root.clone();
    StorageUnderTest::reopened_by(move || wrap(FileSystemCheckpointStorage::new(&opened).unwrap()))
        .with_outage(move |lasts| {
            let (from, to) = if lasts { (&root, &gone) } else { (&gone, &root) };
            if from.exists() {
                fs::rename(from, to).unwrap();
            }
        })
        .keeping(folder)
}

storage_conformance!(|| in_a_new_folder(|storage| storage));

mod made_to_fail {
    use super::*;

    storage_conformance!(|| {
        let faults = Faults::default();
        let set_outage = faults.clone();
        in_a_new_folder(move |storage| FaultyStorage::new(Arc::new(storage), faults.clone()))
            .with_outage(move |lasts| set_outage.set_outage(lasts))
    });
}

mod recorded {
    use super::*;

    storage_conformance!(|| {
        in_a_new_folder(|storage| RecordingStorage::new(Arc::new(storage), Recording::default()))
    });
}
