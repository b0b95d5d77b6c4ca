//! The error of the tracing deserializer.

use std::fmt;

use serde::de;

/// Why one part was not read.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The type's own words.
    Said(String),
    /// A struct was shown the same field twice: the field's proper name.
    Duplicate(&'static str),
    /// The pass ends here; why is known to the tracer.
    Over,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(words) => f.write_str(words),
            Self::Duplicate(field) => write!(f, "duplicate field `{field}`"),
            Self::Over => f.write_str("no more is to be read"),
        }
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::Said(words.to_string())
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Duplicate(field)
    }
}
