//! What somebody should change in a configuration that works all the same.

use std::fmt;

use super::Setting;

/// Something in a configuration that has had its day, with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigNotice {
    /// A key has a new name.
    DeprecatedKey {
        /// The key that is set.
        key: String,
        /// The line to write instead.
        replacement: String,
    },
    /// A value has a new name.
    DeprecatedValue {
        /// The line as it stands.
        setting: String,
        /// The lines to write instead.
        replacement: Vec<String>,
    },
    /// A value is out of range, and the nearest one that makes sense counts.
    ReplacedValue {
        /// The key.
        key: String,
        /// What counts.
        value: String,
    },
    /// A key has no effect, because another one is set.
    IgnoredKey {
        /// The key without effect.
        key: String,
        /// The key that has it.
        winner: String,
    },
    /// A setting has no effect here.
    NoEffect {
        /// The line as it stands.
        setting: String,
        /// What counts instead.
        reason: String,
    },
    /// A key belongs to no known option, so that nothing reads it.
    UnknownKey {
        /// The key.
        key: String,
        /// What was probably meant, or what to do instead, if there is an idea.
        advice: Option<String>,
    },
}

impl ConfigNotice {
    pub(super) fn deprecated_key(setting: Setting<'_>, current: &str) -> Self {
        Self::DeprecatedKey { key: setting.key.to_owned(), replacement: format!("{current}: {}", setting.value) }
    }

    /// A value of `setting` that is written as other settings today.
    pub fn deprecated_value(setting: Setting<'_>, replacement: &[Setting<'_>]) -> Self {
        Self::DeprecatedValue {
            setting: setting.to_string(),
            replacement: replacement.iter().map(Setting::to_string).collect(),
        }
    }
}

impl fmt::Display for ConfigNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeprecatedKey { key, replacement } => write!(f, "`{key}` is deprecated: write `{replacement}`"),
            Self::DeprecatedValue { setting, replacement } => {
                write!(f, "`{setting}` is deprecated: write `{}`", replacement.join("` and `"))
            }
            Self::ReplacedValue { key, value } => {
                write!(f, "`{key}` is out of range and counts as {value}: write `{key}: {value}`")
            }
            Self::IgnoredKey { key, winner } => {
                write!(f, "`{key}` is ignored, because `{winner}` is set: remove it")
            }
            Self::NoEffect { setting, reason } => write!(f, "`{setting}` has no effect: {reason}"),
            Self::UnknownKey { key, advice } => {
                write!(f, "`{key}` is ignored, because there is no such option")?;
                advice.iter().try_for_each(|advice| write!(f, ": {advice}"))
            }
        }
    }
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.value)
    }
}

/// The notices that come up while a configuration is read, each once. Whoever reads it shows them to its author.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigNotices(Vec<ConfigNotice>);

impl ConfigNotices {
    /// Takes a notice, unless it is there already.
    pub fn add(&mut self, notice: ConfigNotice) {
        if !self.0.contains(&notice) {
            self.0.push(notice);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all notices of `other`, in its order.
    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|notice| self.add(notice));
    }

    /// The notices, in the order in which they came up.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigNotice> {
        self.0.iter()
    }
}
