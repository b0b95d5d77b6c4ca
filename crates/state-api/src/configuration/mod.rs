//! The configuration: string keys to string values, as they stand in a file, read through typed options.

mod error;
mod notice;
mod option;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use error::ConfigError;
pub use notice::{ConfigNotice, ConfigNotices};
pub use option::{ConfigOption, OptionDescription};
pub use value::{ConfigValue, MemorySize};

/// What somebody has configured, by key.
///
/// A configuration can have another one to fall back to: that of a job has that of the cluster. A key that is set in
/// the upper one hides the key in the lower one, in whichever of its spellings either is written.
///
/// ```
/// use highwater_state_api::{ConfigNotices, Configuration, options};
///
/// let cluster = Configuration::from([("state.checkpoints.dir", "/shared"), ("state.backend.type", "hashmap")]);
/// let job = Configuration::from([("execution.checkpointing.dir", "/mine")]).with_fallback(cluster);
///
/// let mut notices = ConfigNotices::default();
/// assert_eq!(job.get(&options::CHECKPOINT_DIRECTORY, &mut notices)?.as_deref(), Some("/mine"));
/// assert_eq!(job.get(&options::STATE_BACKEND, &mut notices)?.as_deref(), Some("hashmap"));
/// assert!(notices.is_empty());
/// # Ok::<(), highwater_state_api::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    values: BTreeMap<String, String>,
    fallback: Option<Arc<Configuration>>,
}

/// What was set for an option: the key in the spelling that was used, and the text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<'c> {
    /// The key.
    pub key: &'c str,
    /// The value, without blanks around it.
    pub value: &'c str,
}

impl Configuration {
    /// An empty configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key, replacing what it had.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.values.insert(key.into(), value.into());
        self
    }

    /// Takes from `fallback` what is not set here.
    pub fn with_fallback(mut self, fallback: Configuration) -> Self {
        let fallback = match self.fallback.take() {
            None => fallback,
            Some(own) => Arc::unwrap_or_clone(own).with_fallback(fallback),
        };
        self.fallback = Some(Arc::new(fallback));
        self
    }

    /// Whether nothing is set, here and in what it falls back to.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.fallback.as_ref().is_none_or(|fallback| fallback.is_empty())
    }

    /// The keys that are set, here and in what it falls back to, each once, in ascending order.
    pub fn keys(&self) -> BTreeSet<&str> {
        let mut keys = self.fallback.as_ref().map(|fallback| fallback.keys()).unwrap_or_default();
        keys.extend(self.values.keys().map(String::as_str));
        keys
    }

    /// What is set for an option, unread.
    ///
    /// The current key wins over a deprecated one beside it. The use of a deprecated key goes to `notices`.
    pub fn find<T>(&self, option: &ConfigOption<T>, notices: &mut ConfigNotices) -> Option<Setting<'_>> {
        let keys = std::iter::once(option.key()).chain(option.deprecated_keys().iter().copied());
        let mut set = keys.filter_map(|key| self.values.get_key_value(key));
        let Some((key, value)) = set.next() else {
            return self.fallback.as_ref()?.find(option, notices);
        };
        let setting = Setting { key, value: value.trim() };
        if key != option.key() {
            notices.add(ConfigNotice::deprecated_key(setting, option.key()));
        }
        for (ignored, _) in set {
            notices.add(ConfigNotice::IgnoredKey { key: ignored.clone(), winner: key.clone() });
        }
        Some(setting)
    }

    /// What is set under a key, in this configuration and not in the one it falls back to.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|value| value.trim())
    }

    /// What is set under a key, in this configuration or in the first of those it falls back to.
    pub fn effective_text(&self, key: &str) -> Option<&str> {
        self.text(key).or_else(|| self.fallback.as_ref()?.effective_text(key))
    }

    /// How many configurations lie above the one in which an option is set, if it is.
    pub(crate) fn depth_of<T>(&self, option: &ConfigOption<T>) -> Option<usize> {
        if self.values.keys().any(|key| option.has_key(key)) {
            return Some(0);
        }
        self.fallback.as_ref()?.depth_of(option).map(|depth| depth + 1)
    }

    /// The value of an option, if it is set.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when it cannot be read or is out of range.
    pub fn get_optional<T: ConfigValue>(
        &self,
        option: &ConfigOption<T>,
        notices: &mut ConfigNotices,
    ) -> Result<Option<T>, ConfigError> {
        self.find(option, notices).map(|setting| option.read(setting)).transpose()
    }

    /// The value of an option, or else its default, if it has one.
    ///
    /// # Errors
    /// Those of [`Configuration::get_optional`].
    pub fn get<T: ConfigValue>(
        &self,
        option: &ConfigOption<T>,
        notices: &mut ConfigNotices,
    ) -> Result<Option<T>, ConfigError> {
        Ok(self.get_optional(option, notices)?.or_else(|| option.default_value()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Configuration {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(settings: I) -> Self {
        let values = settings.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { values, fallback: None }
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Configuration {
    fn from(settings: [(K, V); N]) -> Self {
        settings.into_iter().collect()
    }
}

#[cfg(test)]
#[path = "configuration_test.rs"]
mod configuration_test;
