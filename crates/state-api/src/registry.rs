//! State backends and checkpoint storages by name: factories, and the registry that finds them for a configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::options::{CHECKPOINT_DIRECTORY, CHECKPOINT_STORAGE, STATE_BACKEND};
use crate::{
    BackendPairing, CheckpointStorage, ConfigError, ConfigNotice, ConfigNotices, Configuration, OptionDescription,
    Setting, StateBackend,
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

    /// The options of its own that it reads, beside those of [`options`](crate::options). A key of no known option gets a
    /// notice when a job is started.
    fn options(&self) -> Vec<OptionDescription> {
        Vec::new()
    }
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

    /// Reads the configuration as [`create_from_config`](Self::create_from_config) does and makes nothing: what that one would
    /// refuse because of a setting, whatever is outside the process, is an error here too. Unless it is overridden, nothing is.
    fn check_config(&self, configuration: &Configuration, notices: &mut ConfigNotices) -> Result<(), ConfigError> {
        let _ = (configuration, notices);
        Ok(())
    }

    /// The options of its own that it reads, beside those of [`options`](crate::options). A key of no known option gets a
    /// notice when a job is started.
    fn options(&self) -> Vec<OptionDescription> {
        Vec::new()
    }
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

/// Names that mean something to people who come from Flink, also where nothing is registered under them, and how to get
/// what they stand for.
const NAMES_IN_FLINK: [(&str, &str); 6] = [
    ("hashmap", "register `HeapStateBackendFactory`"),
    ("rocksdb", "no build has it so far"),
    ("forst", "no build has it so far"),
    (IN_MEMORY, NEEDS_MEMORY),
    ("memory", NEEDS_MEMORY),
    (IN_FILES, "it comes with the feature `fs` of `highwater`, in `default_registry`"),
];
const NEEDS_MEMORY: &str = "it comes with the feature `memory` of `highwater`, in `default_registry`";

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
        let mut about_key = ConfigNotices::default();
        let setting = configuration.find(&STATE_BACKEND, &mut about_key);
        let setting = setting.unwrap_or(Setting { key: STATE_BACKEND.key(), value: &default });
        let legacy = legacy_name(setting.value);
        let name = legacy.map_or_else(|| setting.value.to_ascii_lowercase(), |legacy| legacy.backend.to_owned());
        // Nobody is told to write under a new key what is refused, or has a new name itself.
        let Some(factory) = self.backends.get(&name) else { return Err(not_found(setting, self.backends.keys())) };
        match legacy {
            Some(legacy) => notices.add(legacy.notice(setting)),
            None => notices.extend(about_key),
        }
        factory.create_from_config(configuration, notices)
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
        let (setting, factory) = self.find_checkpoint_storage(configuration, notices)?;
        factory.create_from_config(configuration, notices).map_err(|error| needed_by(setting, error))
    }

    /// Reads what a configuration says of the checkpoint storage, and makes none: that would make its directory.
    ///
    /// # Errors
    /// When no such storage is registered, or its factory refuses a setting.
    pub fn check_checkpoint_storage(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<(), ConfigError> {
        let (setting, factory) = self.find_checkpoint_storage(configuration, notices)?;
        factory.check_config(configuration, notices).map_err(|error| needed_by(setting, error))
    }

    fn find_checkpoint_storage<'c>(
        &self,
        configuration: &'c Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<(Option<Setting<'c>>, &dyn CheckpointStorageFactory), ConfigError> {
        let (setting, name) = chosen_storage(configuration, notices);
        match self.storages.get(&name) {
            Some(factory) => Ok((setting, &**factory)),
            None => Err(match setting {
                Some(setting) if STATE_BACKEND.has_key(setting.key) => not_found(setting, self.backends.keys()),
                Some(setting) => not_found(setting, self.storages.keys()),
                None => default_not_found(configuration, name),
            }),
        }
    }

    /// The name of the checkpoint storage that [`StateBackendRegistry::load_checkpoint_storage`] looks for, whether it is
    /// registered or not, and the key that says so; no key when nothing does.
    pub fn checkpoint_storage_name(configuration: &Configuration) -> (String, Option<String>) {
        let notices = &mut ConfigNotices::default();
        let (setting, name) = chosen_storage(configuration, notices);
        let setting = setting.or_else(|| configuration.find(&CHECKPOINT_DIRECTORY, notices));
        (name, setting.map(|setting| setting.key.to_owned()))
    }

    /// The options of their own that what is registered here reads.
    pub fn options(&self) -> Vec<OptionDescription> {
        let of_backends = self.backends.values().flat_map(|factory| factory.options());
        of_backends.chain(self.storages.values().flat_map(|factory| factory.options())).collect()
    }
}

/// Whoever reads that something is missing looks for what they wrote.
fn needed_by(setting: Option<Setting<'_>>, error: ConfigError) -> ConfigError {
    match (error, setting) {
        (ConfigError::Missing { key, .. }, Some(setting)) => {
            ConfigError::Missing { key, needed_by: format!("`{setting}`") }
        }
        (error, _) => error,
    }
}

/// The storage that a configuration asks for, and the setting that says so, if there is one.
fn chosen_storage<'c>(configuration: &'c Configuration, notices: &mut ConfigNotices) -> (Option<Setting<'c>>, String) {
    // What is to be said of this key is said where the state backend is loaded, or by `LegacyName::notice`.
    let backend = configuration.find(&STATE_BACKEND, &mut ConfigNotices::default());
    let legacy = backend.and_then(|setting| Some((setting, legacy_name(setting.value)?)));
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
            notices.add(legacy.notice(backend));
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

impl LegacyName {
    /// What to write instead of a setting that has this name.
    fn notice(&self, setting: Setting<'_>) -> ConfigNotice {
        let backend = Setting { key: STATE_BACKEND.key(), value: self.backend };
        let storage = Setting { key: CHECKPOINT_STORAGE.key(), value: self.storage };
        ConfigNotice::deprecated_value(setting, &[backend, storage])
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

fn not_found<'n>(setting: Setting<'_>, valid: impl Iterator<Item = &'n String>) -> ConfigError {
    let (key, value, valid) = (setting.key.to_owned(), setting.value.to_owned(), valid.cloned().collect());
    match advice(setting.value) {
        Some(advice) => ConfigError::NotInThisBuild { key, value, advice: advice.to_owned(), valid },
        None => ConfigError::UnknownName { key, value, valid },
    }
}

/// The storage that nobody has named, but that follows from whether there is a directory, is not there.
fn default_not_found(configuration: &Configuration, value: String) -> ConfigError {
    let key = CHECKPOINT_STORAGE.key().to_owned();
    let how = advice(&value).unwrap_or("it is not registered");
    let directory = configuration.find(&CHECKPOINT_DIRECTORY, &mut ConfigNotices::default());
    let (because, advice) = match directory {
        Some(directory) => (format!("`{}` is set", directory.key), how.to_owned()),
        None => {
            let directory = CHECKPOINT_DIRECTORY.key();
            (format!("`{directory}` is not set"), format!("set `{directory}`, or: {how}"))
        }
    };
    ConfigError::DefaultNotInThisBuild { because, key, value, advice }
}

/// How to get what one of Flink's names stands for.
fn advice(name: &str) -> Option<&'static str> {
    NAMES_IN_FLINK.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, advice)| *advice)
}

#[cfg(test)]
#[path = "registry_test.rs"]
mod registry_test;
