//! What can go wrong with output files. Every error names the file or directory.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A sink, by its job and its uid in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOfJob {
    /// The name of the job.
    pub job: String,
    /// The uid of the sink.
    pub uid: String,
}

impl fmt::Display for SinkOfJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sink {:?} of job {:?}", self.uid, self.job)
    }
}

/// Output cannot be written or committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileSinkError {
    /// The directory holds the output of another run, and the job starts from nothing.
    #[error(
        "{directory:?} holds {committed} committed and {uncommitted} uncommitted part files of another run, \
         {example:?} among them, and this job starts from nothing, so that their rows would be mixed: \
         restore the job from its checkpoint, choose another directory, or remove these files"
    )]
    OtherRun {
        /// The directory.
        directory: PathBuf,
        /// How many part files are committed.
        committed: usize,
        /// How many are not.
        uncommitted: usize,
        /// The name of one of them.
        example: String,
    },
    /// The directory belongs to another sink.
    #[error(
        "{directory:?} belongs to {owner}, and {sink} is to write to it: give each sink a directory of its own; if they are \
         the same under a new name, remove {owner_file:?}"
    )]
    OtherOwner {
        /// The directory.
        directory: PathBuf,
        /// The sink that it belongs to.
        owner: Box<SinkOfJob>,
        /// The sink that is to start.
        sink: Box<SinkOfJob>,
        /// The file that says whose the directory is.
        owner_file: PathBuf,
    },
    /// The directory is not the one that the job has written to so far.
    #[error(
        "{directory:?} is not the directory that this job has written to so far: {owner_file:?} is not there. \
         What is committed already would be missing from it: give the sink its directory back"
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// The file that would say whose the directory is.
        owner_file: PathBuf,
    },
    /// The directory cannot be written to.
    #[error("cannot write to the output directory {directory:?}")]
    NotWritable {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file that is about to be written exists already.
    #[error("{path:?} exists already: do two sinks, or two jobs, write to this directory?")]
    NameTaken {
        /// The file.
        path: PathBuf,
    },
    /// A file operation failed. It may work later.
    #[error("could not {operation} {path:?}")]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The rows of a prepared transaction are gone.
    #[error(
        "the rows of a prepared transaction are lost: neither {uncommitted:?} nor, had it been committed, \
         {committed:?} exists"
    )]
    Missing {
        /// Where they are until the commit.
        uncommitted: PathBuf,
        /// Where they are from then on.
        committed: PathBuf,
    },
    /// The file of a prepared transaction is not what was prepared.
    #[error("{path:?} is not what was prepared: expected {expected}, found {found}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A record cannot be written in this format.
    #[error("a record cannot be written to {path:?}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A write failed earlier, and the file may end in the middle of a record.
    #[error("{path:?} cannot be committed: a write to it has failed")]
    Spoilt {
        /// The file.
        path: PathBuf,
    },
}

impl FileSinkError {
    pub(super) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }
}
