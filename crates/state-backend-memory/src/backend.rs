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
    storage: MemoryCheckpointStorage,
}

impl MemoryStateBackend {
    /// With states of up to [`crate::STATE_BYTES_MAX`] bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes states of up to this many bytes.
    pub fn with_state_bytes_max(self, state_bytes_max: u64) -> Self {
        Self { storage: self.storage.with_state_bytes_max(state_bytes_max) }
    }
}

impl From<MemoryStateBackend> for BackendPairing {
    fn from(preset: MemoryStateBackend) -> Self {
        Self { state_backend: Arc::new(HeapStateBackend), checkpoint_storage: Arc::new(preset.storage) }
    }
}
