//! Names of part files. `docs/format/file-sink.md` is this module as a text.

use std::fmt;
use std::path::{Path, PathBuf};

use highwater_state_api::Attempt;
use serde::{Deserialize, Serialize};

const UNCOMMITTED_PREFIX: &str = ".";
const UNCOMMITTED_SUFFIX: &str = ".inprogress";

/// The name of a part file: `part-<attempt>-<subtask>-<counter>`, with zeros in front.
///
/// No two files of a job share a name: attempts are never numbered twice, an attempt has one writer a subtask, and a
/// writer counts its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartName {
    /// The attempt that wrote the file.
    pub attempt: Attempt,
    /// The subtask that wrote it.
    pub subtask: u32,
    /// How many files the subtask had written in this attempt before.
    pub counter: u64,
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt: Attempt(attempt), subtask, counter } = self;
        write!(f, "part-{attempt:08}-{subtask:05}-{counter:08}")
    }
}

impl PartName {
    /// Reads back exactly what `Display` writes and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix("part-")?.split('-').map(|number| number.parse::<u64>().ok());
        let attempt = Attempt(numbers.next()??);
        let subtask = u32::try_from(numbers.next()??).ok()?;
        let part = Self { attempt, subtask, counter: numbers.next()?? };
        (part.to_string() == text).then_some(part)
    }

    /// The file once it is committed.
    pub fn committed_path(&self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }

    /// The file until then.
    pub fn uncommitted_path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{UNCOMMITTED_PREFIX}{self}{UNCOMMITTED_SUFFIX}"))
    }
}

/// A part file found in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundPart {
    pub(super) part: PartName,
    pub(super) committed: bool,
}

impl FoundPart {
    /// What this file name means; `None` when it is not one of a part file.
    pub(super) fn parse(file_name: &str) -> Option<Self> {
        if let Some(part) = PartName::parse(file_name) {
            return Some(Self { part, committed: true });
        }
        let name = file_name.strip_prefix(UNCOMMITTED_PREFIX)?.strip_suffix(UNCOMMITTED_SUFFIX)?;
        Some(Self { part: PartName::parse(name)?, committed: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(attempt: u64, subtask: u32, counter: u64) -> PartName {
        PartName { attempt: Attempt(attempt), subtask, counter }
    }

    #[test]
    fn a_name_is_read_back_whatever_the_size_of_its_numbers() {
        for part in [part(1, 0, 0), part(99_999_999, 99_999, 99_999_999), part(u64::MAX, u32::MAX, u64::MAX)] {
            let directory = Path::new("out");
            let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            let committed = FoundPart::parse(&name(part.committed_path(directory)));
            assert_eq!(committed, Some(FoundPart { part, committed: true }));
            let uncommitted = FoundPart::parse(&name(part.uncommitted_path(directory)));
            assert_eq!(uncommitted, Some(FoundPart { part, committed: false }));
        }
        assert_eq!(part(3, 1, 42).to_string(), "part-00000003-00001-00000042");
    }

    #[test]
    fn names_sort_as_their_numbers_do() {
        assert!(part(2, 0, 0).to_string() < part(10, 0, 0).to_string());
        assert!(part(2, 3, 9).to_string() < part(2, 3, 10).to_string());
    }

    #[test]
    fn nothing_else_is_taken_for_a_part_file() {
        for name in [
            "",
            "part",
            "part-1-0-0",
            "part-00000001-00000",
            "part-00000001-00000-00000000-0",
            "part-+0000001-00000-00000000",
            "part-00000001-00000-00000000.csv",
            "part-000000001-00000-00000000",
            "part-00000001-4294967296-00000000",
            "part-18446744073709551616-00000-00000000",
            " part-00000001-00000-00000000",
            "Part-00000001-00000-00000000",
            ".part-00000001-00000-00000000",
            "part-00000001-00000-00000000.inprogress",
            "..part-00000001-00000-00000000.inprogress",
            ".part-00000001-00000-00000000.inprogress~",
        ] {
            assert_eq!(FoundPart::parse(name), None, "{name:?}");
        }
    }
}
