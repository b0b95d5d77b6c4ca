//! The state backend of the file system preset passes the suite, with asynchronous and with synchronous snapshots.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use highwater_conformance::backend_conformance;
use highwater_conformance::keyed::BackendUnderTest;
use highwater_state_api::BackendPairing;
use highwater_state_backend_fs::FsStateBackend;

/// State is on the heap: the folder is not needed once there is the backend.
fn preset() -> FsStateBackend {
    FsStateBackend::new(tempfile::tempdir().unwrap().path()).unwrap()
}

backend_conformance!(|| BackendUnderTest::of(preset()));

mod synchronous {
    use super::*;

    backend_conformance!(|| BackendUnderTest::of(preset().with_asynchronous_snapshots(false)));
}

#[test]
fn the_preset_is_heap_state_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let pairing = BackendPairing::from(FsStateBackend::new(folder.path()).unwrap());
    assert_eq!(pairing.state_backend.name(), "hashmap");
    assert!(pairing.checkpoint_storage.is_durable());
    assert!(FsStateBackend::new("s3://bucket").is_err());
}
