//! What can be wrong with a configuration. Every error names the key as it was written.

use crate::BoxedError;

/// A mistake in a configuration. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The value cannot be read, or is out of range.
    #[error("{key}: {value:?} is not valid; expected {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be valid.
        expected: String,
    },
    /// Nothing has this name.
    #[error("{key}: nothing is known under the name {value:?}; valid values: {}", valid.join(", "))]
    UnknownName {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The names that could be given.
        valid: Vec<String>,
    },
    /// The name is one of Flink's, but what it stands for is not part of this build.
    #[error("{key}: {value:?} is not part of this build: {advice}; valid values: {}", valid.join(", "))]
    NotInThisBuild {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// How to get it.
        advice: String,
        /// The names that could be given.
        valid: Vec<String>,
    },
    /// What nobody has named, but what follows from other settings, is not part of this build.
    #[error("{because}, which means `{key}: {value}`, and that is not part of this build: {advice}")]
    DefaultNotInThisBuild {
        /// What it follows from.
        because: String,
        /// The key that is not set.
        key: String,
        /// The value that it has therefore.
        value: String,
        /// How to get it, or what to set instead.
        advice: String,
    },
    /// A key that has to be set is not.
    #[error("{key} is not set, and {needed_by} needs it")]
    Missing {
        /// The key.
        key: String,
        /// What needs it.
        needed_by: String,
    },
    /// The value could be read, but what it names cannot be used.
    #[error("{key}: {value:?} cannot be used")]
    Unusable {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The cause.
        #[source]
        source: BoxedError,
    },
}
