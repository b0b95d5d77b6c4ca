//! A configuration from a YAML file, as Flink's `config.yaml` is one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use highwater_state_api::Configuration;
use yaml_rust2::{ScanError, Yaml, YamlLoader};

/// A file that is no configuration. Names the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// The file cannot be read.
    #[error("the configuration {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What is in the file is no configuration.
    #[error("the configuration {} cannot be used", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<YamlError>,
    },
    /// It is no YAML, or has the same key twice.
    #[error("the configuration is not YAML")]
    Syntax(#[source] ScanError),
    /// There is more than one document in it.
    #[error("the configuration has {0} YAML documents, one is expected")]
    Documents(usize),
    /// What stands under a key is no value of an option.
    #[error("{}: {found} is not the value of an option; expected a text, a number or true or false", place(key))]
    NotAValue {
        /// The key, with those above it; empty for the document.
        key: String,
        /// What is there.
        found: &'static str,
    },
    /// A key is set both nested and written with points.
    #[error("{key} is set twice")]
    Twice {
        /// The key.
        key: String,
    },
}

/// The configuration in a YAML file, see [`configuration_from_yaml`].
pub fn configuration_from_yaml_file(path: impl AsRef<Path>) -> Result<Configuration, YamlError> {
    let path = path.as_ref();
    let text =
        std::fs::read_to_string(path).map_err(|source| YamlError::Unreadable { path: path.to_path_buf(), source })?;
    configuration_from_yaml(&text)
        .map_err(|error| YamlError::InFile { path: path.to_path_buf(), source: Box::new(error) })
}

/// The configuration in a YAML text. Keys are nested or written with points, as in Flink; both mean the same.
///
/// ```
/// use highwater_runtime::configuration_from_yaml;
/// use highwater_state_api::Configuration;
///
/// let configuration = configuration_from_yaml("
/// execution:
///   checkpointing:
///     interval: 10 s
///     timeout: 2 min
/// restart-strategy.type: none
/// ")?;
/// assert_eq!(configuration, Configuration::from([
///     ("execution.checkpointing.interval", "10 s"),
///     ("execution.checkpointing.timeout", "2 min"),
///     ("restart-strategy.type", "none"),
/// ]));
/// # Ok::<(), highwater_runtime::YamlError>(())
/// ```
///
/// # Errors
/// When the text is no YAML, has a list or nothing where a value is expected, or sets a key twice. What the keys and values
/// mean is not asked here: they are read when the job is started.
pub fn configuration_from_yaml(text: &str) -> Result<Configuration, YamlError> {
    // Some editors put a mark at the beginning that is not part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = YamlLoader::load_from_str(text).map_err(YamlError::Syntax)?;
    let mut settings = BTreeMap::new();
    match &documents[..] {
        [] | [Yaml::Null] => {}
        [document] => read(document, &mut Vec::new(), &mut settings)?,
        several => return Err(YamlError::Documents(several.len())),
    }
    Ok(settings.into_iter().collect())
}

fn read(yaml: &Yaml, path: &mut Vec<String>, settings: &mut BTreeMap<String, String>) -> Result<(), YamlError> {
    let not_a_value = |found| Err(YamlError::NotAValue { key: path.join("."), found });
    let value = match yaml {
        Yaml::Hash(entries) => {
            for (key, value) in entries {
                let Some(key) = text_of(key) else {
                    return Err(YamlError::NotAValue { key: path.join("."), found: "a key that is no text" });
                };
                path.push(key);
                read(value, path, settings)?;
                path.pop();
            }
            return Ok(());
        }
        Yaml::Array(_) => return not_a_value("a list"),
        Yaml::Null => return not_a_value("nothing"),
        Yaml::Alias(_) | Yaml::BadValue => return not_a_value("an alias"),
        scalar => match text_of(scalar) {
            Some(text) if !path.is_empty() => text,
            _ => return not_a_value("a text without a key"),
        },
    };
    let key = path.join(".");
    match settings.insert(key.clone(), value) {
        None => Ok(()),
        Some(_) => Err(YamlError::Twice { key }),
    }
}

fn place(key: &str) -> &str {
    if key.is_empty() { "the document" } else { key }
}

fn text_of(yaml: &Yaml) -> Option<String> {
    match yaml {
        Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        Yaml::Boolean(is_true) => Some(is_true.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        crate::error::chain_of(&configuration_from_yaml(text).unwrap_err())
    }

    #[test]
    fn values_are_the_texts_that_somebody_wrote() {
        let configuration =
            configuration_from_yaml("a: 1.50\nb: 10\nc: true\nd: '5 min'\n\"e.f\":\n  g: x # why\n").unwrap();
        let expected = [("a", "1.50"), ("b", "10"), ("c", "true"), ("d", "5 min"), ("e.f.g", "x")];
        assert_eq!(configuration, Configuration::from(expected));
        for nothing in ["# nothing yet\n", "---\n# nothing yet\n", "", "\u{feff}"] {
            assert!(configuration_from_yaml(nothing).unwrap().is_empty(), "{nothing:?}");
        }
        let marked = configuration_from_yaml("\u{feff}a: 1\n").unwrap();
        assert_eq!(marked, Configuration::from([("a", "1")]), "the mark of a text file is no part of its first key");
    }

    #[test]
    fn what_is_no_configuration_is_an_error_that_names_the_place() {
        assert_eq!(
            error_of("a:\n  b: [1, 2]\n"),
            "a.b: a list is not the value of an option; expected a text, a number or true or false"
        );
        assert!(error_of("a:\n  b:\n").starts_with("a.b: nothing is not"));
        assert_eq!(error_of("a.b: 1\na:\n  b: 2\n"), "a.b is set twice");
        assert!(error_of("just a text\n").starts_with("the document: a text without a key is not"));
        assert!(error_of("- a\n").starts_with("the document: a list is not"));
        assert_eq!(error_of("a: 1\n---\na: 2\n"), "the configuration has 2 YAML documents, one is expected");
        assert!(error_of("a: 1\na: 2\n").starts_with("the configuration is not YAML: "));
        assert!(error_of("a: [1\n").starts_with("the configuration is not YAML: "));
        let missing = configuration_from_yaml_file("no/such/file.yaml").unwrap_err();
        assert_eq!(missing.to_string(), "the configuration no/such/file.yaml cannot be read");
    }

    #[test]
    fn what_is_wrong_with_a_file_names_the_file() {
        // A file that is there and is something else.
        let error = configuration_from_yaml_file("Cargo.toml").unwrap_err();
        assert_eq!(error.to_string(), "the configuration Cargo.toml cannot be used");
        assert!(crate::error::chain_of(&error).contains(": the configuration is not YAML: "));
    }
}
