//! The file source: CSV files from a path or a pattern, continued at the exact record after a restart.
//!
//! The files that are found at the first start are the input of the job; a file that appears later is not read, and
//! a file that has changed is an error that names it. Each file is a split: files are read side by side, the records
//! of a file in their order.

mod csv_format;
mod enumerator;
mod error;
mod open;
mod pattern;
mod reader;
mod split;

#[cfg(test)]
mod bad_input_test;
#[cfg(test)]
mod enumerator_test;
#[cfg(test)]
mod reader_test;

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use highwater_stream_api::{Boundedness, BoxedError, Data, Source};

pub use error::{FileSourceError, RowPlace};
pub use reader::FileSourceReader;
pub use split::{FileIdentity, FilePosition, FileSplit};

use crate::SplitQueue;
use csv_format::CsvFormat;

/// Reads files.
///
/// ```
/// use highwater_connectors::FileSource;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Flight { carrier: String, dep_delay: Option<i64> }
///
/// let source = FileSource::csv::<Flight>("flights/*.csv.gz").with_null_value("NA");
/// ```
///
/// The first line of each file names the columns. The fields of the record find theirs by name, in any order; columns
/// that no field asks for are ignored; an empty field is `None` for an `Option`. Compressed files are known by their
/// content, not by their name. A row that does not fit ends the job with a [`FileSourceError`] that names file, line
/// and column: no row is ever skipped.
pub struct FileSource<T> {
    pattern: PathBuf,
    format: CsvFormat,
    of: PhantomData<fn() -> T>,
}

impl FileSource<()> {
    /// CSV files, with the records read through serde. `pattern` is the path of a file, or a pattern with `*`, `?`,
    /// `[...]` or `**` in it. Hidden files match only a pattern that spells out their dot. Files are read in the order
    /// of their paths.
    pub fn csv<T: Data>(pattern: impl AsRef<Path>) -> FileSource<T> {
        FileSource { pattern: pattern.as_ref().to_owned(), format: CsvFormat::default(), of: PhantomData }
    }
}

impl<T> FileSource<T> {
    /// What stands between two fields; a comma otherwise.
    #[must_use]
    pub fn with_delimiter(mut self, delimiter: u8) -> Self {
        self.format.delimiter = delimiter;
        self
    }

    /// A text, such as `NA`, that means that there is no value: a field that equals it is read as if it were empty.
    /// May be called for several texts.
    #[must_use]
    pub fn with_null_value(mut self, text: impl Into<String>) -> Self {
        self.format.null_values.push(text.into());
        self
    }
}

impl<T> fmt::Debug for FileSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource").field("pattern", &self.pattern).field("format", &self.format).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Data> Source for FileSource<T> {
    type Out = T;
    type Split = FileSplit;
    type Enumerator = SplitQueue<FileSplit>;
    type Reader = FileSourceReader<T>;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::new(enumerator::find(&self.pattern)?))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        let splits = SplitQueue::restore(state)?;
        enumerator::check_unchanged(splits.waiting())?;
        Ok(splits)
    }

    fn create_reader(&self, _subtask: u32) -> Result<FileSourceReader<T>, BoxedError> {
        Ok(FileSourceReader::new(self.format.clone()))
    }
}
