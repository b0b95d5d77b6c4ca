//! CSV: header and rows of one file, each row with the exact position after it.

use std::io::{Chain, Cursor, Read};

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use highwater_stream_api::Data;

use super::error::RowPlace;
use super::open::{Content, InputFile};
use super::{FilePosition, FileSourceError};

const BUFFER_BYTES: usize = 64 * 1024;

/// How CSV files are written.
#[derive(Debug, Clone)]
pub(super) struct CsvFormat {
    pub(super) delimiter: u8,
    pub(super) null_values: Vec<String>,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self { delimiter: b',', null_values: Vec::new() }
    }
}

/// The first line of a file, and where it ends.
pub(super) struct Header {
    columns: StringRecord,
    /// The byte after it; rows are looked for from there on.
    pub(super) end: u64,
}

impl Header {
    /// Reads the header of a file; an empty file has one without columns.
    pub(super) fn read(format: &CsvFormat, file: &InputFile) -> Result<Self, FileSourceError> {
        let mut content = file.content()?;
        let (start, mark) = content.skip_byte_order_mark().map_err(|source| file.failed(source))?;
        let mut rows = Rows::new(format, Cursor::new(start).chain(content), mark);
        let mut columns = StringRecord::new();
        if let Err(error) = rows.reader.read_record(&mut columns) {
            return Err(row_error(file, FilePosition::default(), None, error));
        }
        Ok(Self { columns, end: rows.byte() })
    }
}

/// Rows are read by the `csv` crate from a position on.
///
/// At the start of its input that reader drops a byte order mark. Here it may start in the middle, where these bytes
/// are data; so it is given one line end first, which it passes over like every empty line.
struct Rows<R> {
    reader: csv::Reader<Chain<Cursor<&'static [u8]>, R>>,
    /// Position of the content that follows the line end.
    start: u64,
}

const LINE_END: &[u8] = b"\n";

impl<R: Read> Rows<R> {
    fn new(format: &CsvFormat, content: R, start: u64) -> Self {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true) // a reader that starts in the middle has only the header to compare with
            .delimiter(format.delimiter)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Cursor::new(LINE_END).chain(content));
        Self { reader, start }
    }

    /// The byte after what has been read.
    fn byte(&self) -> u64 {
        self.start + self.reader.position().byte().saturating_sub(LINE_END.len() as u64)
    }
}

/// The rows of a file from a position on.
pub(super) struct CsvRows {
    rows: Rows<Content>,
    header: Header,
    null_values: Vec<String>,
    row: StringRecord,
    position: FilePosition,
}

impl CsvRows {
    /// `content` stands at `position`, behind the header.
    pub(super) fn new(format: &CsvFormat, header: Header, content: Content, position: FilePosition) -> Self {
        Self {
            rows: Rows::new(format, content, position.byte),
            header,
            null_values: format.null_values.clone(),
            row: StringRecord::new(),
            position,
        }
    }

    /// The position after the last record that was read.
    pub(super) fn position(&self) -> FilePosition {
        self.position
    }

    /// The next record; `None` at the end of the file. After an error the position is still before the row.
    pub(super) fn next<T: Data>(&mut self, file: &InputFile) -> Result<Option<T>, FileSourceError> {
        let columns = &self.header.columns;
        match self.rows.reader.read_record(&mut self.row) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(row_error(file, self.position, Some(columns), error)),
        }
        if self.row.len() != columns.len() {
            let reason = format!("the row has {} fields, and the header names {}", self.row.len(), columns.len());
            return Err(FileSourceError::Row { path: file.path(), place: place(file, self.position, None), reason });
        }
        if self.row.iter().any(|field| is_null(&self.null_values, field)) {
            let fields = self.row.iter().map(|field| if is_null(&self.null_values, field) { "" } else { field });
            self.row = fields.collect();
        }
        let record = self
            .row
            .deserialize(Some(columns))
            .map_err(|error| row_error(file, self.position, Some(columns), error))?;
        self.position = FilePosition { byte: self.rows.byte(), record: self.position.record + 1 };
        Ok(Some(record))
    }
}

fn is_null(null_values: &[String], field: &str) -> bool {
    null_values.iter().any(|null| null == field)
}

/// Says in the words of this crate what the `csv` crate found. `position` is the one before the row; without `columns`
/// the row is the header.
fn row_error(
    file: &InputFile,
    position: FilePosition,
    columns: Option<&StringRecord>,
    error: csv::Error,
) -> FileSourceError {
    let (field, reason) = match error.into_kind() {
        ErrorKind::Io(source) => return file.failed(source),
        ErrorKind::Deserialize { err, .. } => (err.field(), err.kind().to_string()),
        ErrorKind::Utf8 { err, .. } => (Some(err.field() as u64), "the text is not UTF-8".to_owned()),
        other => (None, format!("{other:?}")),
    };
    let index = field.and_then(|field| usize::try_from(field).ok());
    let column = index.zip(columns).and_then(|(index, columns)| columns.get(index)).map(str::to_owned);
    let mut place = place(file, position, column);
    if columns.is_none() {
        place.record = 0;
    }
    FileSourceError::Row { path: file.path(), place, reason }
}

fn place(file: &InputFile, position: FilePosition, column: Option<String>) -> RowPlace {
    RowPlace { line: file.line_at(position.byte), record: position.record + 1, column }
}
