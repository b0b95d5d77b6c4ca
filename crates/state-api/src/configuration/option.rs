//! Typed options: which key, which type, which default, and what it is for.

use super::{ConfigError, ConfigValue, Setting};

/// An option of a configuration. A constant of the crate that reads it.
///
/// ```
/// use std::time::Duration;
///
/// use highwater_state_api::{ConfigNotices, ConfigOption, Configuration};
///
/// const TIMEOUT: ConfigOption<Duration> = ConfigOption::new("example.timeout", "How long to wait.")
///     .with_default("10 min")
///     .with_deprecated_keys(&["example.time-out"])
///     .with_check("at least 10 ms", |timeout| *timeout >= Duration::from_millis(10));
///
/// let mut notices = ConfigNotices::default();
/// let configured = Configuration::from([("example.time-out", "30 s")]);
/// assert_eq!(configured.get(&TIMEOUT, &mut notices)?, Some(Duration::from_secs(30)));
/// let notice = notices.iter().next().expect("the key is deprecated");
/// assert_eq!(notice.to_string(), "`example.time-out` is deprecated: write `example.timeout: 30 s`");
///
/// let error = Configuration::from([("example.timeout", "9")]).get(&TIMEOUT, &mut notices).unwrap_err();
/// assert_eq!(error.to_string(), r#"example.timeout: "9" is not valid; expected at least 10 ms"#);
/// # Ok::<(), highwater_state_api::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct ConfigOption<T> {
    key: &'static str,
    deprecated_keys: &'static [&'static str],
    /// As it would be written, so that it is read and described like any other value.
    default: Option<&'static str>,
    description: &'static str,
    check: Option<Check<T>>,
}

/// What a value has to fulfil beyond its type, in words and as code.
#[derive(Debug)]
struct Check<T> {
    expected: &'static str,
    is_valid: fn(&T) -> bool,
}

/// An option in words, for tables and help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionDescription {
    /// The current key.
    pub key: &'static str,
    /// Keys that are still read.
    pub deprecated_keys: &'static [&'static str],
    /// The default, as it would be written.
    pub default: Option<&'static str>,
    /// What a valid value is.
    pub expected: &'static str,
    /// What it is for.
    pub description: &'static str,
}

impl<T> ConfigOption<T> {
    /// An option without a default.
    pub const fn new(key: &'static str, description: &'static str) -> Self {
        Self { key, deprecated_keys: &[], default: None, description, check: None }
    }

    /// With a default, written as a user would. Must be valid.
    pub const fn with_default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// With keys that are still read; of several that are set, the first counts.
    pub const fn with_deprecated_keys(self, keys: &'static [&'static str]) -> Self {
        Self { deprecated_keys: keys, ..self }
    }

    /// With a condition beyond the type; `expected` says which, after the words "expected".
    pub const fn with_check(self, expected: &'static str, is_valid: fn(&T) -> bool) -> Self {
        Self { check: Some(Check { expected, is_valid }), ..self }
    }

    /// The current key.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// Whether this is a key of the option, current or deprecated.
    pub fn has_key(&self, key: &str) -> bool {
        self.key == key || self.deprecated_keys.contains(&key)
    }

    /// Keys that are still read.
    pub const fn deprecated_keys(&self) -> &'static [&'static str] {
        self.deprecated_keys
    }
}

impl<T: ConfigValue> ConfigOption<T> {
    /// The default, if there is one.
    pub fn default_value(&self) -> Option<T> {
        self.default
            .map(|default| T::parse(default).expect("the default of an option is written so that it can be read"))
    }

    /// What a valid value is, in words.
    pub fn expected(&self) -> &'static str {
        self.check.as_ref().map_or(T::EXPECTED, |check| check.expected)
    }

    /// The option in words.
    pub fn describe(&self) -> OptionDescription {
        OptionDescription {
            key: self.key,
            deprecated_keys: self.deprecated_keys,
            default: self.default,
            expected: self.expected(),
            description: self.description,
        }
    }

    /// Reads and checks what is set for this option.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`], which names the key that was used.
    pub fn read(&self, setting: Setting<'_>) -> Result<T, ConfigError> {
        let value = T::parse(setting.value).filter(|value| self.is_valid(value));
        value.ok_or_else(|| self.invalid(setting))
    }

    /// Checks a value that was set by code instead of by text; `text` is how to name it in an error.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`], which names the current key.
    pub fn check(&self, value: T, text: &str) -> Result<T, ConfigError> {
        if self.is_valid(&value) { Ok(value) } else { Err(self.invalid(Setting { key: self.key, value: text })) }
    }

    fn is_valid(&self, value: &T) -> bool {
        self.check.as_ref().is_none_or(|check| (check.is_valid)(value))
    }

    fn invalid(&self, setting: Setting<'_>) -> ConfigError {
        ConfigError::Invalid {
            key: setting.key.to_owned(),
            value: setting.value.to_owned(),
            expected: self.expected().to_owned(),
        }
    }
}
