//! State backends and checkpoint storages by name: factories, and the registry that finds them for a configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::options::{CHECKPOINT_DIRECTORY, CHECKPOINT_STORAGE, STATE_BACKEND};
use crate::{
    BackendPairing, CheckpointStorage, ConfigError, ConfigNotice, ConfigNotices, Configuration, Setting, StateBackend,
};

/// Makes a state backend from a configuration.
pub trait StateBackendFactory: Send + Sync + fmt::Debug {
    /// The name under which a configuration asks for it, such as `hashmap`. Upper and lower case do not matter.
    fn identifier(&self) -> &str;

    /// Makes the backend. What is deprecated in the configuration goes to `notices`.
    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn StateBackend>, ConfigError>;
}

/// Makes a checkpoint storage from a configuration.
pub trait CheckpointStorageFactory: Send + Sync + fmt::Debug {
    /// The name under which a configuration asks for it, such as `filesystem`. Upper and lower case do not matter.
    fn identifier(&self) -> &str;

    /// Makes the storage. What is deprecated in the configuration goes to `notices`.
    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError>;
}

/// A factory that cannot be registered. A mistake in the program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is taken.
    #[error("a {kind} named {identifier:?} is registered already")]
    NameTaken {
        /// What was to be registered.
        kind: &'static str,
        /// Its name.
        identifier: String,
    },
    /// The name is empty or blank.
    #[error("a {kind} cannot be registered without a name")]
    BlankName {
        /// What was to be registered.
        kind: &'static str,
    },
}

/// A name that used to stand for a backend and a storage together.
struct LegacyName {
    name: &'static str,
    backend: &'static str,
    storage: &'static str,
}

const IN_MEMORY: &str = "jobmanager";
const IN_FILES: &str = "filesystem";

const LEGACY_NAMES: [LegacyName; 3] = [
    LegacyName { name: "jobmanager", backend: "hashmap", storage: IN_MEMORY },
    LegacyName { name: "memory", backend: "hashmap", storage: IN_MEMORY },
    LegacyName { name: "filesystem", backend: "hashmap", storage: IN_FILES },
];

/// Names that mean something to people who come from Flink, also where nothing is registered under them.
const NAMES_IN_FLINK: [&str; 5] = ["hashmap", "rocksdb", "forst", IN_MEMORY, IN_FILES];

/// The state backends and checkpoint storages that a configuration can ask for by name.
///
/// A value, filled by visible calls: two registries know nothing of each other. What is not registered cannot be found,
/// and what is no factory cannot be registered:
///
/// ```compile_fail,E0277
/// # use highwater_state_api::StateBackendRegistry;
/// StateBackendRegistry::new().register_state_backend("no factory");
/// ```
#[derive(Debug, Clone, Default)]
pub struct StateBackendRegistry {
    backends: BTreeMap<String, Arc<dyn StateBackendFactory>>,
    storages: BTreeMap<String, Arc<dyn CheckpointStorageFactory>>,
}

impl StateBackendRegistry {
    /// A registry in which nothing is registered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a state backend under its identifier.
    ///
    /// # Errors
    /// [`RegistryError`] when the name is taken, also as one of Flink's legacy names; the registry is unchanged.
    pub fn register_state_backend(
        &mut self,
        factory: impl StateBackendFactory + 'static,
    ) -> Result<&mut Self, RegistryError> {
        let name = free_name("state backend", factory.identifier(), |name| {
            self.backends.contains_key(name) || legacy_name(name).is_some()
        })?;
        self.backends.insert(name, Arc::new(factory));
        Ok(self)
    }

    /// Registers a checkpoint storage under its identifier.
    ///
    /// # Errors
    /// [`RegistryError`] when the name is taken; the registry is unchanged.
    pub fn register_checkpoint_storage(
        &mut self,
        factory: impl CheckpointStorageFactory + 'static,
    ) -> Result<&mut Self, RegistryError> {
        let name = free_name("checkpoint storage", factory.identifier(), |name| self.storages.contains_key(name))?;
        self.storages.insert(name, Arc::new(factory));
        Ok(self)
    }

    /// Makes the state backend and the checkpoint storage that a configuration asks for.
    ///
    /// # Errors
    /// Those of [`StateBackendRegistry::load_state_backend`] and [`StateBackendRegistry::load_checkpoint_storage`].
    pub fn load(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<BackendPairing, ConfigError> {
        let state_backend = self.load_state_backend(configuration, notices)?;
        let checkpoint_storage = self.load_checkpoint_storage(configuration, notices)?;
        Ok(BackendPairing { state_backend, checkpoint_storage })
    }

    /// Makes the state backend that `state.backend.type` names; when nothing is set, `hashmap`.
    ///
    /// The legacy names `jobmanager`, `memory` and `filesystem` mean `hashmap` here, with a notice.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`] and [`ConfigError::NotInThisBuild`] list the names that could be given; otherwise
    /// what the factory says.
    pub fn load_state_backend(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn StateBackend>, ConfigError> {
        let default = STATE_BACKEND.default_value().unwrap_or_default();
        let setting = configuration.find(&STATE_BACKEND, notices);
        let setting = setting.unwrap_or(Setting { key: STATE_BACKEND.key(), value: &default });
        let mut name = setting.value.to_ascii_lowercase();
        if let Some(legacy) = legacy_name(&name) {
            let backend = Setting { key: STATE_BACKEND.key(), value: legacy.backend };
            let storage = Setting { key: CHECKPOINT_STORAGE.key(), value: legacy.storage };
            notices.add(ConfigNotice::deprecated_value(
                Setting { key: STATE_BACKEND.key(), value: setting.value },
                &[backend, storage],
            ));
            name = legacy.backend.to_owned();
        }
        match self.backends.get(&name) {
            Some(factory) => factory.create_from_config(configuration, notices),
            None => Err(not_found(setting, self.state_backend_names())),
        }
    }

    /// Makes the checkpoint storage that a configuration asks for.
    ///
    /// In this order: what a legacy name in `state.backend.type` says, unless the storage is named in a configuration
    /// above that one; what `execution.checkpointing.storage` names; `filesystem` when there is a directory; `jobmanager`.
    ///
    /// # Errors
    /// As for the state backend; [`ConfigError::Missing`] names a key that the storage needs.
    pub fn load_checkpoint_storage(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
        let (setting, name) = chosen_storage(configuration, notices);
        let Some(factory) = self.storages.get(&name) else {
            let setting = setting.unwrap_or(Setting { key: CHECKPOINT_STORAGE.key(), value: &name });
            let valid = if STATE_BACKEND.has_key(setting.key) {
                self.state_backend_names()
            } else {
                self.storages.keys().cloned().collect()
            };
            return Err(not_found(setting, valid));
        };
        factory.create_from_config(configuration, notices).map_err(|error| match (error, setting) {
            // Whoever reads it looks for what they wrote.
            (ConfigError::Missing { key, .. }, Some(setting)) => {
                ConfigError::Missing { key, needed_by: format!("`{setting}`") }
            }
            (error, _) => error,
        })
    }

    /// What can be given for `state.backend.type`.
    fn state_backend_names(&self) -> Vec<String> {
        let is_there = |legacy: &&LegacyName| {
            self.backends.contains_key(legacy.backend) && self.storages.contains_key(legacy.storage)
        };
        let legacy = LEGACY_NAMES.iter().filter(is_there).map(|legacy| legacy.name.to_owned());
        self.backends.keys().cloned().chain(legacy).collect()
    }
}

/// The storage that a configuration asks for, and the setting that says so, if there is one.
fn chosen_storage<'c>(configuration: &'c Configuration, notices: &mut ConfigNotices) -> (Option<Setting<'c>>, String) {
    let backend = configuration.find(&STATE_BACKEND, notices);
    let legacy = backend.and_then(|setting| Some((setting, legacy_name(&setting.value.to_ascii_lowercase())?)));
    let storage = configuration.find(&CHECKPOINT_STORAGE, notices);
    match (legacy, storage) {
        (Some((backend, legacy)), storage)
            if storage.is_none()
                || configuration.depth_of(&STATE_BACKEND) <= configuration.depth_of(&CHECKPOINT_STORAGE) =>
        {
            if let Some(storage) = storage.filter(|storage| !storage.value.eq_ignore_ascii_case(legacy.storage)) {
                let (key, winner) = (storage.key.to_owned(), backend.key.to_owned());
                notices.add(ConfigNotice::IgnoredKey { key, winner });
            }
            note_ignored_directory(configuration, backend, legacy.storage, notices);
            (Some(backend), legacy.storage.to_owned())
        }
        (_, Some(storage)) => {
            let name = storage.value.to_ascii_lowercase();
            note_ignored_directory(configuration, storage, &name, notices);
            (Some(storage), name)
        }
        (_, None) if configuration.find(&CHECKPOINT_DIRECTORY, notices).is_some() => (None, IN_FILES.to_owned()),
        (_, None) => (None, IN_MEMORY.to_owned()),
    }
}

/// Says so when checkpoints are kept in memory although a directory is set: who set it believes them to be there.
fn note_ignored_directory(
    configuration: &Configuration,
    winner: Setting<'_>,
    storage: &str,
    notices: &mut ConfigNotices,
) {
    if storage != IN_MEMORY {
        return;
    }
    if let Some(directory) = configuration.find(&CHECKPOINT_DIRECTORY, notices) {
        let (key, winner) = (directory.key.to_owned(), winner.key.to_owned());
        notices.add(ConfigNotice::IgnoredKey { key, winner });
    }
}

fn legacy_name(name: &str) -> Option<&'static LegacyName> {
    LEGACY_NAMES.iter().find(|legacy| legacy.name.eq_ignore_ascii_case(name))
}

fn free_name(
    kind: &'static str,
    identifier: &str,
    is_taken: impl FnOnce(&str) -> bool,
) -> Result<String, RegistryError> {
    let name = identifier.trim().to_ascii_lowercase();
    if name.is_empty() {
        return Err(RegistryError::BlankName { kind });
    }
    if is_taken(&name) {
        return Err(RegistryError::NameTaken { kind, identifier: identifier.to_owned() });
    }
    Ok(name)
}

fn not_found(setting: Setting<'_>, valid: Vec<String>) -> ConfigError {
    let (key, value) = (setting.key.to_owned(), setting.value.to_owned());
    let known = NAMES_IN_FLINK.iter().chain(LEGACY_NAMES.iter().map(|legacy| &legacy.name));
    if known.into_iter().any(|known| known.eq_ignore_ascii_case(setting.value)) {
        ConfigError::NotInThisBuild { key, value, valid }
    } else {
        ConfigError::UnknownName { key, value, valid }
    }
}

#[cfg(test)]
#[path = "registry_test.rs"]
mod registry_test;
