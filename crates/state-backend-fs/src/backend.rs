//! The preset: state on the heap, checkpoints in the file system.

use std::path::Path;
use std::sync::Arc;

use highwater_state_api::BackendPairing;
use highwater_state_kit::HeapStateBackend;

use crate::{FileSystemCheckpointStorage, LocationError};

/// Keeps working state on the heap and checkpoints in a directory.
///
/// The familiar pairing of [`HeapStateBackend`] and [`FileSystemCheckpointStorage`]; hand it to a job as it is.
#[derive(Debug, Clone)]
pub struct FsStateBackend {
    storage: FileSystemCheckpointStorage,
}

impl FsStateBackend {
    /// With checkpoints in the directory at `location`.
    ///
    /// # Errors
    /// Those of [`FileSystemCheckpointStorage::new`].
    pub fn new(location: impl AsRef<Path>) -> Result<Self, LocationError> {
        FileSystemCheckpointStorage::new(location).map(|storage| Self { storage })
    }
}

impl From<FsStateBackend> for BackendPairing {
    fn from(preset: FsStateBackend) -> Self {
        Self { state_backend: Arc::new(HeapStateBackend), checkpoint_storage: Arc::new(preset.storage) }
    }
}
