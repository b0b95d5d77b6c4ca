//! The file sink: part files that appear when a checkpoint covers them, whole, and never change after that.
//!
//! A subtask writes into a hidden file. At a barrier the file is flushed to the disk and becomes a prepared
//! transaction; when the checkpoint is complete it gets its final name, in one step and never over another file.

mod directory;
mod error;
mod flush;
mod format;
mod layout;
mod transaction;
mod writer;

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod directory_test;
#[cfg(test)]
mod support_test;
#[cfg(test)]
mod writer_test;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_state_api::Attempt;
use highwater_stream_api::{BoxedError, CommitError, Data, Sink, SinkContext, SinkStart};

pub use error::{FileSinkError, SinkOfJob};
pub use format::{CsvRows, Lines, RowEncoder, RowFormat};
pub use layout::PartName;
pub use transaction::FileTransaction;
pub use writer::FileSinkWriter;

/// Writes files into a directory.
///
/// ```
/// use highwater_connectors::FileSink;
///
/// let lines = FileSink::lines::<String>("out/");
/// let rows = FileSink::csv::<(String, Option<i64>)>("totals/");
/// ```
///
/// A reader of the directory takes the files whose names do not begin with a dot. A committed file must stay where it
/// is as long as the job may be restored from the checkpoint that committed it: the restored job looks for it.
#[derive(Debug, Clone)]
pub struct FileSink<F> {
    directory: PathBuf,
    format: F,
}

impl FileSink<()> {
    /// CSV rows without a header, written through serde. `None` is an empty field.
    pub fn csv<T: Data>(directory: impl AsRef<Path>) -> FileSink<CsvRows<T>> {
        FileSink { directory: directory.as_ref().to_owned(), format: CsvRows::default() }
    }

    /// One line a record. A record whose text has a line break in it is an error: it would be read as two.
    pub fn lines<T: Data + Display>(directory: impl AsRef<Path>) -> FileSink<Lines<T>> {
        FileSink { directory: directory.as_ref().to_owned(), format: Lines::default() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<F: RowFormat> Sink for FileSink<F> {
    type In = F::In;
    type Transaction = FileTransaction;
    type Writer = FileSinkWriter<F>;

    /// Creates the directory, takes it for this sink of this job, and tries to write in it. A directory that belongs to
    /// another sink is refused. A job that goes on must find the directory that it took at its first start.
    ///
    /// A job that starts from nothing refuses a directory with part files in it, except for uncommitted ones of its
    /// own earlier attempts, which failed before their first checkpoint.
    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError> {
        if start.restored.is_some() {
            directory::check_owner(&self.directory, start)?;
        } else {
            directory::create(&self.directory)?;
            directory::take(&self.directory, start)?;
            directory::refuse_other_run(&self.directory, start.attempt)?;
        }
        Ok(directory::check_writable(&self.directory)?)
    }

    fn create_writer(&self, cx: &SinkContext) -> Result<FileSinkWriter<F>, BoxedError> {
        Ok(FileSinkWriter::new(self.directory.clone(), self.format.clone(), cx.attempt, cx.subtask))
    }

    fn commit(&self, transaction: &FileTransaction) -> Result<(), CommitError> {
        transaction.commit(&self.directory)
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None // files stay
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError> {
        Ok(directory::remove_uncommitted_before(&self.directory, attempt)?)
    }
}
