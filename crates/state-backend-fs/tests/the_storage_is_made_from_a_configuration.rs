//! The storage as a configuration describes it, or an error that names the option.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;

use highwater_state_api::{
    CheckpointStorage, CheckpointStorageFactory, ConfigError, ConfigNotices, Configuration, ObjectPath,
};
use highwater_state_backend_fs::{FileSystemCheckpointStorage, FileSystemCheckpointStorageFactory, FsStateBackend};
use pollster::block_on;

const DIRECTORY: &str = "execution.checkpointing.dir";
const THRESHOLD: &str = "execution.checkpointing.data-inline-threshold";

fn make(configuration: &Configuration) -> Result<Arc<dyn CheckpointStorage>, ConfigError> {
    FileSystemCheckpointStorageFactory.create_from_config(configuration, &mut ConfigNotices::default())
}

/// Contract: T339.
#[test]
fn in_its_directory_and_with_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("checkpoints").display().to_string();
    let storage = make(&Configuration::from([(DIRECTORY, &directory)])).unwrap();
    block_on(storage.create_if_absent(&ObjectPath::new(["job", "a"]), "a".into())).unwrap();
    assert!(folder.path().join("checkpoints/job/a").is_file());
    assert_eq!(storage.inline_bytes_max(), 20_480);

    for (text, bytes) in [("0", 0), ("1 kb", 1_024), ("1048576", 1_048_576)] {
        let storage = make(&Configuration::from([(DIRECTORY, directory.as_str()), (THRESHOLD, text)])).unwrap();
        assert_eq!(storage.inline_bytes_max(), bytes);
    }
    for text in ["1048577", "-1"] {
        let error = make(&Configuration::from([(DIRECTORY, directory.as_str()), (THRESHOLD, text)])).unwrap_err();
        assert!(matches!(&error, ConfigError::Invalid { key, .. } if key == THRESHOLD), "{error}");
    }
}

/// Field case: R105.
///
/// Contract: U350.
#[test]
fn not_without_a_directory() {
    let error = make(&Configuration::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "execution.checkpointing.dir is not set, and the checkpoint storage `filesystem` needs it"
    );
    for unusable in ["", "s3://bucket", "file://"] {
        let error = make(&Configuration::from([("state.checkpoints.dir", unusable)])).unwrap_err();
        assert_eq!(error.to_string(), format!("state.checkpoints.dir: {unusable:?} cannot be used"));
        assert!(std::error::Error::source(&error).is_some());
    }
}

/// Contract: T339.
#[test]
fn a_threshold_above_one_mebibyte_is_refused_by_code_too() {
    let folder = tempfile::tempdir().unwrap();
    let storage = || FileSystemCheckpointStorage::new(folder.path()).unwrap();
    assert_eq!(storage().with_inline_bytes_max(1 << 20).unwrap().inline_bytes_max(), 1 << 20);
    let error = storage().with_inline_bytes_max((1 << 20) + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(r#"{THRESHOLD}: "1048577 bytes" is not valid; expected a size from 0 to 1 mb, such as 20 kb"#)
    );
    assert!(FsStateBackend::new(folder.path()).unwrap().with_inline_bytes_max(u64::MAX).is_err());
}

/// Contract: U352.
#[test]
fn only_a_threshold_that_was_left_open_is_taken_from_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    let cluster = Configuration::from([(THRESHOLD, "3 kb"), (DIRECTORY, "/elsewhere")]);
    let mut notices = ConfigNotices::default();
    let configured = storage.configure(&cluster, &mut notices).unwrap().unwrap();
    assert_eq!(configured.inline_bytes_max(), 3 * 1_024);
    block_on(configured.create_if_absent(&ObjectPath::new(["job", "a"]), "a".into())).unwrap();
    assert_eq!(block_on(storage.read(&ObjectPath::new(["job", "a"]))).unwrap(), "a", "both are one storage");

    assert!(storage.configure(&Configuration::new(), &mut notices).unwrap().is_none());
    let set = storage.with_inline_bytes_max(0).unwrap();
    assert!(set.configure(&cluster, &mut notices).unwrap().is_none());
    assert!(notices.is_empty());
}
