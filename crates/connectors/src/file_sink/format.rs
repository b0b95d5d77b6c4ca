//! What records look like in a part file: CSV rows or lines.

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write as _};
use std::marker::PhantomData;

use highwater_stream_api::{BoxedError, Data};

use super::flush::PartFile;

/// How records become the bytes of a part file: [`CsvRows`] or [`Lines`].
pub trait RowFormat: Clone + Send + Sync + 'static {
    /// What is written.
    type In: Data;
    /// Writes into one part file.
    type Encoder: RowEncoder<In = Self::In>;

    /// An encoder for a new part file.
    fn encoder(&self, file: PartFile) -> Self::Encoder;
}

/// Writes records into one part file.
pub trait RowEncoder: Send {
    /// What is written.
    type In;

    /// Appends a record. After an error the file may end in the middle of one.
    fn encode(&mut self, record: &Self::In) -> Result<(), BoxedError>;

    /// Gives the file back with everything in it.
    fn finish(self) -> io::Result<PartFile>;
}

/// CSV rows without a header.
pub struct CsvRows<T>(PhantomData<fn(T)>);

/// One line a record.
pub struct Lines<T>(PhantomData<fn(T)>);

macro_rules! marker {
    ($($name:ident),*) => {$(
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(PhantomData)
            }
        }
        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
marker!(CsvRows, Lines);

impl<T: Data> RowFormat for CsvRows<T> {
    type In = T;
    type Encoder = CsvEncoder<T>;

    fn encoder(&self, file: PartFile) -> CsvEncoder<T> {
        let writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
        CsvEncoder { writer, of: PhantomData }
    }
}

impl<T: Data + Display> RowFormat for Lines<T> {
    type In = T;
    type Encoder = LineEncoder<T>;

    fn encoder(&self, file: PartFile) -> LineEncoder<T> {
        LineEncoder { file, line: String::new(), of: PhantomData }
    }
}

/// Writes CSV rows.
pub struct CsvEncoder<T> {
    writer: csv::Writer<PartFile>,
    of: PhantomData<fn(T)>,
}

impl<T: Data> RowEncoder for CsvEncoder<T> {
    type In = T;

    fn encode(&mut self, record: &T) -> Result<(), BoxedError> {
        Ok(self.writer.serialize(record)?)
    }

    fn finish(self) -> io::Result<PartFile> {
        self.writer.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

/// Writes lines.
pub struct LineEncoder<T> {
    file: PartFile,
    line: String,
    of: PhantomData<fn(T)>,
}

/// A record is no line.
#[derive(Debug, thiserror::Error)]
#[error("its text has a line break in it and would be read as more than one line: {0:?}")]
struct LineBreak(String);

/// How much of a record an error shows.
const SHOWN_CHARACTERS: usize = 80;

impl<T: Data + Display> RowEncoder for LineEncoder<T> {
    type In = T;

    fn encode(&mut self, record: &T) -> Result<(), BoxedError> {
        self.line.clear();
        write!(self.line, "{record}")?;
        if self.line.contains(['\n', '\r']) {
            return Err(LineBreak(self.line.chars().take(SHOWN_CHARACTERS).collect()).into());
        }
        self.line.push('\n');
        Ok(self.file.write_all(self.line.as_bytes())?)
    }

    fn finish(self) -> io::Result<PartFile> {
        Ok(self.file)
    }
}
