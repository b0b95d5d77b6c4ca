//! The file system checkpoint storage by name.

use std::path::Path;
use std::sync::Arc;

use highwater_state_api::{
    CheckpointStorage, CheckpointStorageFactory, ConfigError, ConfigNotices, Configuration, MemorySize, Setting,
    options,
};

use crate::uri::path_of;
use crate::{FileSystemCheckpointStorage, LocationError};

/// Makes a [`FileSystemCheckpointStorage`] for a configuration, under the name `filesystem`.
///
/// It needs `execution.checkpointing.dir` and heeds `execution.checkpointing.data-inline-threshold`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystemCheckpointStorageFactory;

impl FileSystemCheckpointStorageFactory {
    /// The directory, and from how many bytes on state has a file of its own, if that is set.
    fn read<'c>(
        &self,
        configuration: &'c Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<(Setting<'c>, Option<MemorySize>), ConfigError> {
        let threshold = configuration.get_optional(&options::DATA_INLINE_THRESHOLD, notices)?;
        let Some(directory) = configuration.find(&options::CHECKPOINT_DIRECTORY, notices) else {
            let key = options::CHECKPOINT_DIRECTORY.key().to_owned();
            let needed_by = format!("the checkpoint storage `{}`", self.identifier());
            return Err(ConfigError::Missing { key, needed_by });
        };
        Ok((directory, threshold))
    }
}

impl CheckpointStorageFactory for FileSystemCheckpointStorageFactory {
    fn identifier(&self) -> &str {
        "filesystem"
    }

    fn check_config(&self, configuration: &Configuration, notices: &mut ConfigNotices) -> Result<(), ConfigError> {
        let (directory, _) = self.read(configuration, notices)?;
        path_of(Path::new(directory.value)).map(|_| ()).map_err(|error| unusable(directory, error))
    }

    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
        let (directory, threshold) = self.read(configuration, notices)?;
        let storage = FileSystemCheckpointStorage::new(directory.value).map_err(|error| unusable(directory, error))?;
        Ok(match threshold {
            Some(threshold) => Arc::new(storage.with_inline_bytes_max(threshold.bytes)?),
            None => Arc::new(storage),
        })
    }
}

fn unusable(directory: Setting<'_>, error: LocationError) -> ConfigError {
    ConfigError::Unusable { key: directory.key.to_owned(), value: directory.value.to_owned(), source: error.into() }
}
