//! What a check of the house's rules has found, and how it is told.

use std::fmt;

use anyhow::{Result, bail};

/// Something to put right.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) instead: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, instead } = self;
        write!(f, "{path}:{line}: {what} — {instead}")
    }
}

/// Prints every finding in the order of files and lines, and fails if there is one.
pub(crate) fn report(mut findings: Vec<Finding>) -> Result<()> {
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_what_to_do_instead() {
        let finding = Finding::new("crates/sim/src/lib.rs", 7, "`HashMap` iterates in random order", "use BTreeMap");
        assert_eq!(finding.to_string(), "crates/sim/src/lib.rs:7: `HashMap` iterates in random order — use BTreeMap");
    }

    #[test]
    fn a_single_finding_fails_the_check() {
        assert!(report(Vec::new()).is_ok());
        assert!(report(vec![Finding::new("a.rs", 1, "a mistake", "do it right")]).is_err());
    }
}
