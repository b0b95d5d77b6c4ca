//! The preset: state on the heap, checkpoints in the file system.

use std::path::Path;
use std::sync::Arc;

use highwater_state_api::{BackendPairing, ConfigError};
use highwater_state_kit::HeapStateBackend;

use crate::{FileSystemCheckpointStorage, LocationError};

/// Keeps working state on the heap and checkpoints in a directory.
///
/// The familiar pairing of [`HeapStateBackend`] and [`FileSystemCheckpointStorage`]; hand it to a job as it is.
#[derive(Debug, Clone)]
pub struct FsStateBackend {
    backend: HeapStateBackend,
    storage: FileSystemCheckpointStorage,
}

impl FsStateBackend {
    /// With checkpoints in the directory at `location`.
    ///
    /// # Errors
    /// Those of [`FileSystemCheckpointStorage::new`].
    pub fn new(location: impl AsRef<Path>) -> Result<Self, LocationError> {
        let storage = FileSystemCheckpointStorage::new(location)?;
        Ok(Self { backend: HeapStateBackend::new(), storage })
    }

    /// Whether snapshots are serialised beside the records, as by default, or before the task goes on:
    /// [`HeapStateBackend`] says what that means. Not set, the configuration of the cluster decides.
    pub fn with_asynchronous_snapshots(self, asynchronous: bool) -> Self {
        Self { backend: self.backend.with_asynchronous_snapshots(asynchronous), ..self }
    }

    /// Keeps state of up to this many bytes inside the metadata of its checkpoint. Not set, the configuration of the
    /// cluster decides, or else it is [`highwater_state_api::INLINE_BYTES_MAX`].
    ///
    /// # Errors
    /// Those of [`FileSystemCheckpointStorage::with_inline_bytes_max`].
    pub fn with_inline_bytes_max(self, inline_bytes_max: u64) -> Result<Self, ConfigError> {
        Ok(Self { storage: self.storage.with_inline_bytes_max(inline_bytes_max)?, ..self })
    }
}

impl From<FsStateBackend> for BackendPairing {
    fn from(preset: FsStateBackend) -> Self {
        Self { state_backend: Arc::new(preset.backend), checkpoint_storage: Arc::new(preset.storage) }
    }
}
