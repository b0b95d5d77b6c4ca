//! The options that concern state: which backend, which storage, and how they behave.

use crate::{ConfigOption, INLINE_BYTES_MAX_LIMIT, MemorySize, OptionDescription};

/// Which state backend keeps working state.
pub const STATE_BACKEND: ConfigOption<String> =
    ConfigOption::new("state.backend.type", "The name of the state backend: how working state is held.")
        .with_default("hashmap")
        .with_deprecated_keys(&["state.backend"]);

/// Which checkpoint storage keeps snapshots.
pub const CHECKPOINT_STORAGE: ConfigOption<String> = ConfigOption::new(
    "execution.checkpointing.storage",
    "The name of the checkpoint storage: where snapshots go. Not set: `filesystem` when there is a directory, or else \
     `jobmanager`, which is the memory of the process.",
)
.with_deprecated_keys(&["state.checkpoint-storage"]);

/// Where checkpoints go.
pub const CHECKPOINT_DIRECTORY: ConfigOption<String> = ConfigOption::new(
    "execution.checkpointing.dir",
    "The directory of the checkpoints, as a path or a `file` URI. `filesystem` needs it.",
)
.with_deprecated_keys(&["state.checkpoints.dir", "state.backend.fs.checkpointdir"]);

/// The largest inline threshold: what is inline is in the metadata, and that is read as a whole.
pub const DATA_INLINE_THRESHOLD_MAX: MemorySize = MemorySize::from_bytes(INLINE_BYTES_MAX_LIMIT);

/// State of up to this size is kept in the metadata of its checkpoint.
pub const DATA_INLINE_THRESHOLD: ConfigOption<MemorySize> = ConfigOption::new(
    "execution.checkpointing.data-inline-threshold",
    "State of up to this size is kept inside the metadata of its checkpoint, not in a file of its own.",
)
.with_default("20 kb")
.with_deprecated_keys(&["state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"])
.with_check("a size from 0 to 1 mb, such as 20 kb", |size| size.bytes <= DATA_INLINE_THRESHOLD_MAX.bytes);

/// Whether snapshots of heap state are written beside the records.
pub const ASYNCHRONOUS_SNAPSHOTS: ConfigOption<bool> = ConfigOption::new(
    "state.backend.async",
    "Whether heap state is serialised beside the records. `false`: the task stops until its state is serialised, and \
     nothing is copied on write.",
)
.with_default("true");

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    vec![
        STATE_BACKEND.describe(),
        CHECKPOINT_STORAGE.describe(),
        CHECKPOINT_DIRECTORY.describe(),
        DATA_INLINE_THRESHOLD.describe(),
        ASYNCHRONOUS_SNAPSHOTS.describe(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, ConfigNotices, Configuration};

    fn threshold(key: &str, value: &str) -> Result<Option<MemorySize>, ConfigError> {
        Configuration::from([(key, value)]).get(&DATA_INLINE_THRESHOLD, &mut ConfigNotices::default())
    }

    /// Contract: T339.
    #[test]
    fn the_inline_threshold_is_between_zero_and_one_mebibyte() {
        let key = DATA_INLINE_THRESHOLD.key();
        for (text, bytes) in [("0", 0), ("20kb", 20_480), ("1mb", 1 << 20), ("1048576", 1 << 20)] {
            assert_eq!(threshold(key, text).unwrap(), Some(MemorySize::from_bytes(bytes)));
        }
        for text in ["1048577", "2 mb", "-1"] {
            let error = threshold(key, text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{key}: {text:?} is not valid; expected a size from 0 to 1 mb, such as 20 kb")
            );
        }
        let error = threshold("state.backend.fs.memory-threshold", "2 mb").unwrap_err().to_string();
        assert!(error.starts_with("state.backend.fs.memory-threshold: "), "{error}");
    }

    #[test]
    fn the_defaults_can_be_read() {
        assert_eq!(STATE_BACKEND.default_value().as_deref(), Some("hashmap"));
        assert_eq!(CHECKPOINT_STORAGE.default_value(), None);
        assert_eq!(CHECKPOINT_DIRECTORY.default_value(), None);
        assert_eq!(DATA_INLINE_THRESHOLD.default_value(), Some(MemorySize::from_bytes(crate::INLINE_BYTES_MAX)));
        assert_eq!(ASYNCHRONOUS_SNAPSHOTS.default_value(), Some(true));
    }

    /// Contract: U348.
    #[test]
    fn every_legacy_key_is_read() {
        for (legacy, current, value) in [
            ("state.backend", STATE_BACKEND.key(), "hashmap"),
            ("state.checkpoint-storage", CHECKPOINT_STORAGE.key(), "jobmanager"),
            ("state.checkpoints.dir", CHECKPOINT_DIRECTORY.key(), "/a"),
            ("state.backend.fs.checkpointdir", CHECKPOINT_DIRECTORY.key(), "/a"),
            ("state.backend.fs.memory-threshold", DATA_INLINE_THRESHOLD.key(), "1 kb"),
            ("state.storage.fs.memory-threshold", DATA_INLINE_THRESHOLD.key(), "1 kb"),
        ] {
            let configuration = Configuration::from([(legacy, value)]);
            let mut notices = ConfigNotices::default();
            configuration.find(&STATE_BACKEND, &mut notices);
            configuration.find(&CHECKPOINT_STORAGE, &mut notices);
            configuration.find(&CHECKPOINT_DIRECTORY, &mut notices);
            configuration.find(&DATA_INLINE_THRESHOLD, &mut notices);
            let texts: Vec<String> = notices.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [format!("`{legacy}` is deprecated: write `{current}: {value}`")]);
        }
    }
}
