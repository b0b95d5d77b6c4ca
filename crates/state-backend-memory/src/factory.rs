//! The memory checkpoint storage by name.

use std::sync::Arc;

use highwater_state_api::{CheckpointStorage, CheckpointStorageFactory, ConfigError, ConfigNotices, Configuration};

use crate::MemoryCheckpointStorage;

/// Makes a [`MemoryCheckpointStorage`] for a configuration, under Flink's name `jobmanager`; a new one at each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryCheckpointStorageFactory;

impl CheckpointStorageFactory for MemoryCheckpointStorageFactory {
    fn identifier(&self) -> &str {
        "jobmanager"
    }

    fn create_from_config(
        &self,
        _: &Configuration,
        _: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
        Ok(Arc::new(MemoryCheckpointStorage::new()))
    }
}
