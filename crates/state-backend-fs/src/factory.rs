//! The file system checkpoint storage by name.

use std::sync::Arc;

use highwater_state_api::{
    CheckpointStorage, CheckpointStorageFactory, ConfigError, ConfigNotices, Configuration, options,
};

use crate::FileSystemCheckpointStorage;

/// Makes a [`FileSystemCheckpointStorage`] for a configuration, under the name `filesystem`.
///
/// It needs `execution.checkpointing.dir` and heeds `execution.checkpointing.data-inline-threshold`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystemCheckpointStorageFactory;

impl CheckpointStorageFactory for FileSystemCheckpointStorageFactory {
    fn identifier(&self) -> &str {
        "filesystem"
    }

    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
        let threshold = configuration.get_optional(&options::DATA_INLINE_THRESHOLD, notices)?;
        let Some(directory) = configuration.find(&options::CHECKPOINT_DIRECTORY, notices) else {
            let key = options::CHECKPOINT_DIRECTORY.key().to_owned();
            let needed_by = format!("the checkpoint storage `{}`", self.identifier());
            return Err(ConfigError::Missing { key, needed_by });
        };
        let storage = FileSystemCheckpointStorage::new(directory.value).map_err(|error| ConfigError::Unusable {
            key: directory.key.to_owned(),
            value: directory.value.to_owned(),
            source: error.into(),
        })?;
        Ok(match threshold {
            Some(threshold) => Arc::new(storage.with_inline_bytes_max(threshold.bytes)?),
            None => Arc::new(storage),
        })
    }
}
