//! Tests of which factory a configuration finds.

use async_trait::async_trait;
use bytes::Bytes;

use super::*;
use crate::{KeyedBackendParameters, KeyedStateBackend, ObjectPath, StateError, StateUpload, StorageError};

/// A backend, a storage and their factories, of which only the name counts.
#[derive(Debug, Clone)]
struct Named(&'static str);

impl StateBackend for Named {
    fn name(&self) -> &str {
        self.0
    }
    fn create_keyed_backend(&self, _: &KeyedBackendParameters) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        unreachable!("no job runs here")
    }
}

#[async_trait]
impl CheckpointStorage for Named {
    async fn create(&self, _: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn create_if_absent(&self, _: &ObjectPath, _: Bytes) -> Result<(), StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn read(&self, _: &ObjectPath) -> Result<Bytes, StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn read_range(&self, _: &ObjectPath, _: u64, _: u64) -> Result<Bytes, StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn list(&self, _: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn delete(&self, _: &ObjectPath) -> Result<(), StorageError> {
        unreachable!("nothing is stored here")
    }
    async fn delete_folder(&self, _: &ObjectPath) -> Result<(), StorageError> {
        unreachable!("nothing is stored here")
    }
    fn is_durable(&self) -> bool {
        self.0 != IN_MEMORY
    }
}

impl StateBackendFactory for Named {
    fn identifier(&self) -> &str {
        self.0
    }
    fn create_from_config(
        &self,
        _: &Configuration,
        _: &mut ConfigNotices,
    ) -> Result<Arc<dyn StateBackend>, ConfigError> {
        Ok(Arc::new(self.clone()))
    }
}

impl CheckpointStorageFactory for Named {
    fn identifier(&self) -> &str {
        self.0
    }
    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
        if self.0 == IN_FILES && configuration.get(&CHECKPOINT_DIRECTORY, notices)?.is_none() {
            let key = CHECKPOINT_DIRECTORY.key().to_owned();
            return Err(ConfigError::Missing { key, needed_by: "files".to_owned() });
        }
        Ok(Arc::new(self.clone()))
    }
}

fn registry() -> StateBackendRegistry {
    let mut registry = StateBackendRegistry::new();
    registry.register_state_backend(Named("hashmap")).unwrap();
    registry.register_checkpoint_storage(Named(IN_MEMORY)).unwrap();
    registry.register_checkpoint_storage(Named(IN_FILES)).unwrap();
    registry
}

/// Backend and storage by name, or the error, and the notices.
fn load(configuration: &Configuration) -> (String, Vec<String>) {
    let mut notices = ConfigNotices::default();
    let loaded = match registry().load(configuration, &mut notices) {
        Ok(pairing) => {
            let storage = if pairing.checkpoint_storage.is_durable() { "files" } else { "memory" };
            format!("{} and {storage}", pairing.state_backend.name())
        }
        Err(error) => error.to_string(),
    };
    (loaded, notices.iter().map(ToString::to_string).collect())
}

/// Contract: U349.
#[test]
fn a_name_is_found_in_upper_and_lower_case() {
    for name in ["hashmap", "HASHMAP", " HashMap "] {
        let (loaded, notices) = load(&Configuration::from([("state.backend.type", name)]));
        assert_eq!((loaded.as_str(), notices.len()), ("hashmap and memory", 0), "{name:?}");
    }
}

/// Contract: U349.
#[test]
fn a_legacy_name_is_a_backend_and_a_storage_and_its_replacement_is_named() {
    for (name, storage, loads) in [
        ("jobmanager", "jobmanager", "hashmap and memory"),
        ("memory", "jobmanager", "hashmap and memory"),
        ("FileSystem", "filesystem", "hashmap and files"),
    ] {
        let mut configuration = Configuration::from([("state.backend", name)]);
        if storage == "filesystem" {
            configuration.set("execution.checkpointing.dir", "/a");
        }
        let (loaded, notices) = load(&configuration);
        assert_eq!(loaded, loads);
        assert_eq!(
            notices,
            [format!(
                "`state.backend: {name}` is deprecated: write `state.backend.type: hashmap` and \
                 `execution.checkpointing.storage: {storage}`"
            )]
        );
    }
}

/// Field case: R105.
///
/// Contract: U349.
#[test]
fn a_name_that_nobody_knows_is_an_error_with_the_option_and_the_valid_values() {
    let (error, _) = load(&Configuration::from([("state.backend", "rocksdbb")]));
    assert_eq!(error, r#"state.backend: nothing is known under the name "rocksdbb"; valid values: hashmap"#);
    let (error, _) = load(&Configuration::from([("execution.checkpointing.storage", "s3")]));
    assert_eq!(
        error,
        r#"execution.checkpointing.storage: nothing is known under the name "s3"; valid values: filesystem, jobmanager"#
    );
}

/// Field case: R105.
///
/// Contract: U349.
#[test]
fn filesystem_without_a_directory_is_an_error_that_names_the_missing_option() {
    let (error, _) = load(&Configuration::from([("state.backend", "filesystem")]));
    assert_eq!(error, "execution.checkpointing.dir is not set, and `state.backend: filesystem` needs it");
    let (error, _) = load(&Configuration::from([("execution.checkpointing.storage", "filesystem")]));
    assert_eq!(
        error,
        "execution.checkpointing.dir is not set, and `execution.checkpointing.storage: filesystem` needs it"
    );
}

/// Contract: U349, U350.
#[test]
fn a_known_name_that_is_not_registered_is_not_taken_for_a_misspelling() {
    let (error, _) = load(&Configuration::from([("state.backend.type", "RocksDB")]));
    assert_eq!(
        error,
        r#"state.backend.type: "RocksDB" is not part of this build: no build has it so far; valid values: hashmap"#
    );
    let empty = StateBackendRegistry::new();
    let error = empty.load(&Configuration::new(), &mut ConfigNotices::default()).unwrap_err();
    assert!(matches!(&error, ConfigError::NotInThisBuild { value, .. } if value == "hashmap"), "{error}");
    let mut heap_only = StateBackendRegistry::new();
    heap_only.register_state_backend(Named("hashmap")).unwrap();
    let files = Configuration::from([("state.backend", "filesystem"), ("state.checkpoints.dir", "/a")]);
    let error = heap_only.load(&files, &mut ConfigNotices::default()).unwrap_err();
    let advice = "it comes with the feature `fs` of `highwater`, in `default_registry`";
    assert_eq!(
        error.to_string(),
        format!(r#"state.backend: "filesystem" is not part of this build: {advice}; valid values: hashmap"#)
    );
    heap_only.register_checkpoint_storage(Named(IN_MEMORY)).unwrap();
    let storage = Configuration::from([("state.checkpoint-storage", "filesystem")]);
    let error = heap_only.load(&storage, &mut ConfigNotices::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            r#"state.checkpoint-storage: "filesystem" is not part of this build: {advice}; valid values: jobmanager"#
        )
    );
}

#[test]
fn a_storage_that_nobody_named_is_told_with_what_it_follows_from_and_its_feature() {
    let error = |there: &'static str, configuration: &Configuration| {
        let mut registry = StateBackendRegistry::new();
        registry.register_state_backend(Named("hashmap")).unwrap();
        registry.register_checkpoint_storage(Named(there)).unwrap();
        registry.load(configuration, &mut ConfigNotices::default()).unwrap_err().to_string()
    };
    assert_eq!(
        error(IN_FILES, &Configuration::new()),
        "`execution.checkpointing.dir` is not set, which means `execution.checkpointing.storage: jobmanager`, and that is \
         not part of this build: set `execution.checkpointing.dir`, or: it comes with the feature `memory` of `highwater`, \
         in `default_registry`"
    );
    assert_eq!(
        error(IN_MEMORY, &Configuration::from([("state.checkpoints.dir", "/a")])),
        "`state.checkpoints.dir` is set, which means `execution.checkpointing.storage: filesystem`, and that is not part of \
         this build: it comes with the feature `fs` of `highwater`, in `default_registry`"
    );
}

#[test]
fn nobody_is_told_to_write_under_a_new_key_what_is_refused() {
    for name in ["rocksdb", "rocksdbb"] {
        let (_, notices) = load(&Configuration::from([("state.backend", name)]));
        assert!(notices.is_empty(), "{notices:?}");
    }
    let (_, notices) = load(&Configuration::from([("state.backend", "hashmap")]));
    assert_eq!(notices, ["`state.backend` is deprecated: write `state.backend.type: hashmap`"]);
}

/// Contract: U351.
#[test]
fn without_a_storage_a_directory_decides() {
    assert_eq!(load(&Configuration::new()).0, "hashmap and memory");
    for key in ["execution.checkpointing.dir", "state.checkpoints.dir", "state.backend.fs.checkpointdir"] {
        assert_eq!(load(&Configuration::from([(key, "/a")])).0, "hashmap and files", "{key}");
    }
    let memory = [("execution.checkpointing.dir", "/a"), ("state.checkpoint-storage", "JobManager")];
    assert_eq!(load(&Configuration::from(memory)).0, "hashmap and memory");
}

#[test]
fn a_directory_that_memory_has_no_use_for_is_said_to_be_ignored() {
    for (key, value) in [
        ("state.backend", "jobmanager"),
        ("state.checkpoint-storage", "JobManager"),
        ("execution.checkpointing.storage", "jobmanager"),
    ] {
        let (loaded, notices) = load(&Configuration::from([(key, value), ("state.checkpoints.dir", "/a")]));
        assert_eq!(loaded, "hashmap and memory");
        let ignored = format!("`state.checkpoints.dir` is ignored, because `{key}` is set: remove it");
        assert_eq!(notices.iter().filter(|notice| **notice == ignored).count(), 1, "{notices:?}");
        // Without a directory there is nothing to say, and files have a use for it.
        let (_, notices) = load(&Configuration::from([(key, value)]));
        assert!(!notices.iter().any(|notice| notice.contains("is ignored")), "{notices:?}");
        let (_, notices) = load(&Configuration::from([(key, "filesystem"), ("state.checkpoints.dir", "/a")]));
        assert!(!notices.iter().any(|notice| notice.contains("is ignored")), "{notices:?}");
    }
}

#[test]
fn a_legacy_backend_beats_a_storage_beside_it_and_says_so() {
    let both = [("state.backend", "jobmanager"), ("execution.checkpointing.storage", "filesystem")];
    let (loaded, notices) = load(&Configuration::from(both));
    assert_eq!(loaded, "hashmap and memory");
    let ignored = "`execution.checkpointing.storage` is ignored, because `state.backend` is set: remove it";
    assert!(notices.iter().any(|notice| notice == ignored), "{notices:?}");
}

#[test]
fn a_storage_of_the_job_beats_a_legacy_backend_of_the_cluster() {
    let cluster = Configuration::from([("state.backend", "jobmanager")]);
    let job = [("execution.checkpointing.storage", "filesystem"), ("execution.checkpointing.dir", "/a")];
    assert_eq!(load(&Configuration::from(job).with_fallback(cluster)).0, "hashmap and files");
    let cluster = Configuration::from([("execution.checkpointing.storage", "jobmanager")]);
    let job = [("state.backend", "filesystem"), ("execution.checkpointing.dir", "/a")];
    assert_eq!(load(&Configuration::from(job).with_fallback(cluster)).0, "hashmap and files");
}

#[test]
fn a_name_is_registered_once() {
    let mut registry = registry();
    for name in ["hashmap", "HashMap", "filesystem", "MEMORY"] {
        let error = registry.register_state_backend(Named(name)).unwrap_err();
        assert_eq!(error.to_string(), format!("a state backend named {name:?} is registered already"));
    }
    let error = registry.register_checkpoint_storage(Named("JobManager")).unwrap_err();
    assert_eq!(error.to_string(), r#"a checkpoint storage named "JobManager" is registered already"#);
    let error = registry.register_checkpoint_storage(Named(" ")).unwrap_err();
    assert_eq!(error.to_string(), "a checkpoint storage cannot be registered without a name");
    registry.register_state_backend(Named("btree")).unwrap();
    let configuration = Configuration::from([("state.backend.type", "BTree")]);
    let pairing = registry.load(&configuration, &mut ConfigNotices::default()).unwrap();
    assert_eq!(pairing.state_backend.name(), "btree");
}

/// Contract: U350.
#[test]
fn a_backend_of_ones_own_is_found_only_where_it_is_registered() {
    let configuration = Configuration::from([("state.backend.type", "btree")]);
    let error = registry().load(&configuration, &mut ConfigNotices::default()).unwrap_err();
    assert!(matches!(error, ConfigError::UnknownName { .. }), "{error}");
}
