//! The state backend of the file system preset passes the keyed suite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use highwater_conformance::backend_conformance;
use highwater_state_api::{BackendPairing, KeyedBackendParameters, KeyedStateBackend, StateBackend, StateError};
use highwater_state_backend_fs::FsStateBackend;
use tempfile::TempDir;

/// The state backend as a job gets it.
#[derive(Debug)]
struct OfPreset(BackendPairing, TempDir);

impl OfPreset {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self(FsStateBackend::new(folder.path()).unwrap().into(), folder)
    }
}

impl StateBackend for OfPreset {
    fn name(&self) -> &str {
        self.0.state_backend.name()
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        self.0.state_backend.create_keyed_backend(parameters)
    }
}

backend_conformance!(OfPreset::new);

#[test]
fn the_preset_is_heap_state_and_files() {
    let OfPreset(pairing, _folder) = OfPreset::new();
    assert_eq!(pairing.state_backend.name(), "hashmap");
    assert!(pairing.checkpoint_storage.is_durable());
    assert!(FsStateBackend::new("s3://bucket").is_err());
}
