//! What can go wrong with input files. Every error names the file.

use std::io;
use std::path::PathBuf;

use super::FileIdentity;

/// An input file cannot be read as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileSourceError {
    /// There is no such file.
    #[error("no file matches {pattern:?}")]
    NoMatch {
        /// What was looked for.
        pattern: PathBuf,
    },
    /// The pattern is malformed.
    #[error("{pattern:?} is not a pattern")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: glob::PatternError,
    },
    /// A path, or a file that matches the pattern, has a name that is not Unicode and so cannot go into a checkpoint.
    #[error("{path:?} cannot be read: its name is not UTF-8; rename it")]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The path is one of a directory.
    #[error("{path:?} is a directory: name the files in it with a pattern such as {:?}", path.join("*.csv"))]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory could not be opened or read.
    #[error("{path:?} could not be read")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file that was there when the job started is gone, and was not read to its end.
    #[error(
        "{path:?} is gone since the job started, and has not been read to its end: put the file back as it was, with \
         {expected}, or start the job anew"
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// What it was.
        expected: FileIdentity,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is not what it was when the job started: a position in it has lost its meaning.
    #[error(
        "{path:?} has changed since the job started: expected {expected}, found {found}; \
         put the file back as it was, or start the job anew"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What it was.
        expected: FileIdentity,
        /// What it is.
        found: FileIdentity,
    },
    /// A file ends before the position at which reading is to continue.
    #[error("{path:?} ends after {length} bytes of content, before byte {position}, where reading was to continue")]
    Ended {
        /// The file.
        path: PathBuf,
        /// How many bytes of content it has.
        length: u64,
        /// The position.
        position: u64,
    },
    /// A row does not fit the record.
    #[error("{path:?}, {place}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: RowPlace,
        /// What is wrong.
        reason: String,
    },
}

/// Where in a file a row, or a field of it, stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowPlace {
    /// The line on which the row begins, from 1; `None` when it could not be found out.
    pub line: Option<u64>,
    /// The number of the record, from 1; 0 is the header.
    pub record: u64,
    /// The name of the column, where one field is at fault.
    pub column: Option<String>,
}

impl std::fmt::Display for RowPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} (record {})", self.record)?,
            None => write!(f, "record {}", self.record)?,
        }
        match &self.column {
            Some(column) => write!(f, ", column {column:?}"),
            None => Ok(()),
        }
    }
}
