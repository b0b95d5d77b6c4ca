//! What must hold in every run, whatever goes wrong: one invariant a file, with where it comes from.

pub(crate) mod barriers;
pub(crate) mod commits;
pub(crate) mod consistency;
pub(crate) mod discarded;
pub(crate) mod durable;
pub(crate) mod exactly_once;
pub(crate) mod failures;
pub(crate) mod fencing;
pub(crate) mod ids;
pub(crate) mod progress;
pub(crate) mod restored;

use std::fmt;

/// Something that must hold does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// What was found instead.
    pub found: String,
}

impl Violation {
    /// `invariant` does not hold.
    pub fn new(invariant: &'static str, found: impl fmt::Display) -> Self {
        Self { invariant, found: found.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.found)
    }
}
