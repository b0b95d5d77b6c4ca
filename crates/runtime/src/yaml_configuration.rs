//! A configuration from a YAML file, as Flink's `config.yaml` is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use highwater_state_api::Configuration;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;
use yaml_rust2::{ScanError, Yaml};

use crate::error::chain_of;

/// How deep a configuration may be nested: many times the number of parts of any option's key.
const LEVELS_MAX: usize = 64;

/// A file that is no configuration. Names the place.
#[derive(thiserror::Error)]
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
    /// There is a character in it that no text has, as a crash of the machine may leave.
    #[error("the configuration has a NUL character in line {line}")]
    Nul {
        /// The line, from 1.
        line: usize,
    },
    /// It is no YAML.
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
    /// It is nested deeper than any option is.
    #[error("the configuration is nested deeper than {levels_max} levels")]
    TooDeep {
        /// How deep it may be.
        levels_max: usize,
    },
    /// A key is there twice, perhaps once nested and once written with points.
    #[error("{key} is set twice")]
    Twice {
        /// The key.
        key: String,
    },
}

/// The error and its causes in one line, as [`crate::JobError`] has it.
impl fmt::Debug for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain_of(self))
    }
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
/// When the text is no YAML, has a list, nothing, or an alias of a mapping where a value is expected, is nested too deep, or
/// sets a key twice. What the keys and values mean is not asked here: they are read when the job is started.
pub fn configuration_from_yaml(text: &str) -> Result<Configuration, YamlError> {
    // Some editors put a mark at the beginning that is not part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The parser takes it for the end of the text, and a crash of the machine may leave one where settings were.
    if let Some(at) = text.find('\0') {
        return Err(YamlError::Nul { line: text[..at].matches('\n').count() + 1 });
    }
    let documents = documents_of(text)?;
    match documents.len() {
        0 => Ok(Configuration::new()),
        1 => Reader::default().read(documents.into_iter().flatten()),
        several => Err(YamlError::Documents(several)),
    }
}

/// The events of each document. They are pulled one by one, so that no nesting costs stack.
fn documents_of(text: &str) -> Result<Vec<Vec<Event>>, YamlError> {
    let mut parser = Parser::new_from_str(text);
    let (mut documents, mut levels) = (Vec::new(), 0_usize);
    loop {
        let (event, _) = parser.next_token().map_err(YamlError::Syntax)?;
        match &event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart => documents.push(Vec::new()),
            Event::MappingStart(..) | Event::SequenceStart(..) => levels += 1,
            Event::MappingEnd | Event::SequenceEnd => levels = levels.saturating_sub(1),
            _ => {}
        }
        if levels > LEVELS_MAX {
            return Err(YamlError::TooDeep { levels_max: LEVELS_MAX });
        }
        if let Some(document) = documents.last_mut() {
            document.push(event);
        }
    }
}

/// Makes settings of the events of one document.
#[derive(Default)]
struct Reader {
    settings: BTreeMap<String, String>,
    /// The mappings that are open.
    mappings: Vec<Mapping>,
    /// The scalars that have a name.
    anchors: BTreeMap<usize, Option<String>>,
}

/// A mapping that is being read.
#[derive(Default)]
struct Mapping {
    /// The key whose value is expected; `None` when a key is.
    key: Option<String>,
    keys: BTreeSet<String>,
}

impl Reader {
    fn read(mut self, events: impl Iterator<Item = Event>) -> Result<Configuration, YamlError> {
        for event in events {
            match event {
                Event::MappingStart(..) if self.expects_key() => return Err(self.no_value(NO_KEY)),
                Event::MappingStart(..) => self.mappings.push(Mapping::default()),
                Event::MappingEnd => {
                    self.mappings.pop();
                    self.value_is_over();
                }
                Event::SequenceStart(..) if self.expects_key() => return Err(self.no_value(NO_KEY)),
                Event::SequenceStart(..) => return Err(self.no_value("a list")),
                Event::Scalar(text, style, anchor, tag) => {
                    let is_plain = style == TScalarStyle::Plain;
                    let text = match tag {
                        Some(tag) => (!is_plain || tag.suffix != "null").then_some(text),
                        None if is_plain => text_of(text),
                        None => Some(text),
                    };
                    if anchor > 0 {
                        self.anchors.insert(anchor, text.clone());
                    }
                    self.scalar(text)?;
                }
                Event::Alias(anchor) => match self.anchors.get(&anchor) {
                    Some(text) => self.scalar(text.clone())?,
                    None => return Err(self.no_value("an alias of a mapping")),
                },
                _ => {}
            }
        }
        Ok(self.settings.into_iter().collect())
    }

    /// A key or a value; `None` where there is nothing.
    fn scalar(&mut self, text: Option<String>) -> Result<(), YamlError> {
        let expects_key = self.expects_key();
        let text = match text {
            Some(text) => text,
            None if expects_key => return Err(self.no_value(NO_KEY)),
            None if self.mappings.is_empty() => return Ok(()),
            None => return Err(self.no_value("nothing")),
        };
        let Some(mapping) = self.mappings.last_mut() else { return Err(self.no_value("a text without a key")) };
        if expects_key {
            let is_new = mapping.keys.insert(text.clone());
            mapping.key = Some(text);
            return if is_new { Ok(()) } else { Err(YamlError::Twice { key: self.path() }) };
        }
        let key = self.path();
        if self.settings.insert(key.clone(), text).is_some() {
            return Err(YamlError::Twice { key });
        }
        self.value_is_over();
        Ok(())
    }

    fn expects_key(&self) -> bool {
        self.mappings.last().is_some_and(|mapping| mapping.key.is_none())
    }

    fn value_is_over(&mut self) {
        if let Some(mapping) = self.mappings.last_mut() {
            mapping.key = None;
        }
    }

    /// The key that is being read, with those above it.
    fn path(&self) -> String {
        self.mappings.iter().filter_map(|mapping| mapping.key.as_deref()).collect::<Vec<_>>().join(".")
    }

    fn no_value(&self, found: &'static str) -> YamlError {
        YamlError::NotAValue { key: self.path(), found }
    }
}

const NO_KEY: &str = "a key that is no text";

fn place(key: &str) -> &str {
    if key.is_empty() { "the document" } else { key }
}

/// What somebody wrote without quotes: what looks like a number may be the name of something, and stays as it is. A number
/// of another base is what YAML says it is.
fn text_of(text: String) -> Option<String> {
    match Yaml::from_str(&text) {
        Yaml::Null => None,
        Yaml::Integer(number) if text.starts_with("0x") || text.starts_with("0o") => Some(number.to_string()),
        _ => Some(text),
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
        let as_written =
            configuration_from_yaml("a: 0777\nb: 1_000\nc: True\nd: 0x1F\n007: &x !!str 00\ne: *x\nf: {}\n");
        let expected = [("a", "0777"), ("b", "1_000"), ("c", "True"), ("d", "31"), ("007", "00"), ("e", "00")];
        assert_eq!(as_written.unwrap(), Configuration::from(expected));
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
        assert_eq!(error_of("a: 1\na: 2\n"), "a is set twice");
        assert_eq!(error_of("x:\n  a: {b: 1}\n  a: {c: 2}\n"), "x.a is set twice");
        assert!(error_of("a: &m {b: 1}\nc: *m\n").starts_with("c: an alias of a mapping is not"));
        for key in ["? [1]\n: 2\n", "? {a: 1}\n: 2\n", "~: 2\n"] {
            assert!(error_of(key).starts_with("the document: a key that is no text is not"), "{key}");
        }
        assert!(error_of("a: [1\n").starts_with("the configuration is not YAML: "));
        let missing = configuration_from_yaml_file("no/such/file.yaml").unwrap_err();
        assert_eq!(missing.to_string(), "the configuration no/such/file.yaml cannot be read");
    }

    #[test]
    fn what_main_prints_is_a_text() {
        let error = configuration_from_yaml_file("/no/such.yaml").unwrap_err();
        let text = "the configuration /no/such.yaml cannot be read: No such file or directory (os error 2)";
        assert_eq!(format!("{error:?}"), text);
        let error = configuration_from_yaml("a: 1\na: 2\n").unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn a_text_with_a_nul_is_refused() {
        for (text, line) in [("a: 1\0\nb: 2\n", 1), ("a: 1\n\0b: 2\n", 2), ("\0", 1), ("a: \"\0\"\n", 1)] {
            let error = configuration_from_yaml(text).unwrap_err();
            assert_eq!(error.to_string(), format!("the configuration has a NUL character in line {line}"));
        }
    }

    #[test]
    fn a_text_that_is_nested_too_deep_is_refused_before_it_costs_anything() {
        let nested = |levels: usize| {
            let keys = (0..levels).map(|level| format!("{}k:\n", " ".repeat(level)));
            format!("{}{}k: v\n", keys.collect::<String>(), " ".repeat(levels))
        };
        let deepest = configuration_from_yaml(&nested(LEVELS_MAX - 1)).unwrap();
        assert_eq!(deepest, Configuration::from([(vec!["k"; LEVELS_MAX].join("."), "v")]));
        let too_deep = "the configuration is nested deeper than 64 levels";
        assert_eq!(error_of(&nested(LEVELS_MAX)), too_deep);
        for opening in ["- ", "? "] {
            assert_eq!(error_of(&opening.repeat(100_000)), too_deep, "{opening}");
        }
        for opening in ["[", "{a: "] {
            // Brackets have a bound in the parser.
            let error = error_of(&opening.repeat(100_000));
            assert!(error == too_deep || error.contains("recursion limit exceeded"), "{opening}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_names_the_file() {
        // A file that is there and is something else.
        let error = configuration_from_yaml_file("Cargo.toml").unwrap_err();
        assert_eq!(error.to_string(), "the configuration Cargo.toml cannot be used");
        assert!(crate::error::chain_of(&error).contains(": the configuration is not YAML: "));
    }
}
