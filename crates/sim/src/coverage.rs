//! Coverage: how often each notable thing happened, over any number of runs. What never happens was not tested.

use std::collections::BTreeMap;
use std::fmt;

/// Counters by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// It happened once more.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// It happened so many times more.
    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// How often it happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// What another run has covered is added.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "  {times:>12}  {what}"))
    }
}
