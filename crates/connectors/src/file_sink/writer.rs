//! The writer of the file sink: one hidden part file per checkpoint, begun by the first record.

use std::fmt;
use std::path::{Path, PathBuf};

use highwater_state_api::{Attempt, CheckpointId};
use highwater_stream_api::{BoxedError, SinkWriter, Timestamp};

use super::flush::PartFile;
use super::format::{RowEncoder, RowFormat};
use super::{FileSinkError, FileTransaction, PartName};

/// Writes the part files of one subtask.
pub struct FileSinkWriter<F: RowFormat> {
    directory: PathBuf,
    format: F,
    /// The file that is begun next.
    next: PartName,
    open: Open<F::Encoder>,
}

/// The open transaction.
enum Open<E> {
    /// Nothing was written.
    Empty,
    /// The records so far, in this file.
    Part { part: PartName, encoder: E },
    /// A write failed: what was written so far must never be committed.
    Spoilt { part: PartName },
}

impl<F: RowFormat> FileSinkWriter<F> {
    pub(super) fn new(directory: PathBuf, format: F, attempt: Attempt, subtask: u32) -> Self {
        Self { directory, format, next: PartName { attempt, subtask, counter: 0 }, open: Open::Empty }
    }
}

impl<F: RowFormat> fmt::Debug for FileSinkWriter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSinkWriter")
            .field("directory", &self.directory)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<F: RowFormat> SinkWriter for FileSinkWriter<F> {
    type In = F::In;
    type Transaction = FileTransaction;

    fn write(&mut self, record: F::In, _timestamp: Timestamp) -> Result<(), BoxedError> {
        if let Open::Empty = self.open {
            let part = self.next;
            let file = PartFile::create(&self.directory, part)?;
            self.next.counter += 1;
            self.open = Open::Part { part, encoder: self.format.encoder(file) };
        }
        let (part, written) = match &mut self.open {
            Open::Part { part, encoder } => (*part, encoder.encode(&record)),
            Open::Spoilt { part } => return Err(spoilt(&self.directory, *part).into()),
            Open::Empty => return Ok(()),
        };
        written.map_err(|source| {
            self.open = Open::Spoilt { part };
            FileSinkError::Record { path: part.uncommitted_path(&self.directory), source }.into()
        })
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Option<FileTransaction>, BoxedError> {
        match std::mem::replace(&mut self.open, Open::Empty) {
            Open::Empty => Ok(None),
            Open::Part { part, encoder } => {
                // Until it has worked: the records of a file that could not be prepared must not be forgotten.
                self.open = Open::Spoilt { part };
                let path = part.uncommitted_path(&self.directory);
                let transaction = encoder.finish().map_err(FileSinkError::io("write", path))?.seal(&self.directory)?;
                self.open = Open::Empty;
                Ok(Some(transaction))
            }
            Open::Spoilt { part } => {
                self.open = Open::Spoilt { part };
                Err(spoilt(&self.directory, part).into())
            }
        }
    }
}

fn spoilt(directory: &Path, part: PartName) -> FileSinkError {
    FileSinkError::Spoilt { path: part.uncommitted_path(directory) }
}
