//! The preset: state on the heap, checkpoints in memory.

use std::sync::Arc;

use highwater_state_api::BackendPairing;
use highwater_state_kit::HeapStateBackend;

use crate::MemoryCheckpointStorage;

/// Keeps working state on the heap and checkpoints in the memory of the process.
///
/// The familiar pairing of [`HeapStateBackend`] and [`MemoryCheckpointStorage`]; hand it to a job as it is.
#[derive(Debug, Clone, Default)]
pub struct MemoryStateBackend {
    backend: HeapStateBackend,
    storage: MemoryCheckpointStorage,
}

impl MemoryStateBackend {
    /// With states of up to [`crate::STATE_BYTES_MAX`] bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes states of up to this many bytes.
    pub fn with_state_bytes_max(self, state_bytes_max: u64) -> Self {
        Self { storage: self.storage.with_state_bytes_max(state_bytes_max), ..self }
    }

    /// Whether snapshots are serialised beside the records, as by default, or before the task goes on:
    /// [`HeapStateBackend`] says what that means. Not set, the configuration of the cluster decides.
    pub fn with_asynchronous_snapshots(self, asynchronous: bool) -> Self {
        Self { backend: self.backend.with_asynchronous_snapshots(asynchronous), ..self }
    }
}

impl From<MemoryStateBackend> for BackendPairing {
    fn from(preset: MemoryStateBackend) -> Self {
        Self { state_backend: Arc::new(preset.backend), checkpoint_storage: Arc::new(preset.storage) }
    }
}
