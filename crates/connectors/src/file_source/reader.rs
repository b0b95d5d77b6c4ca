//! The reader of the file source: one file after the other, each from its recorded position.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use highwater_state_api::CheckpointId;
use highwater_stream_api::{BoxedError, Collector, Data, PollContext, Polled, SourceReader, Timestamp};

use super::csv_format::{CsvFormat, CsvRows, Header};
use super::open::{Content, InputFile};
use super::{FileSourceError, FileSplit};

/// Bytes of content that one poll passes over on the way to the position of a compressed file: a long way there must
/// not keep a barrier waiting.
const SKIP_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads files one after the other.
pub struct FileSourceReader<T> {
    format: CsvFormat,
    /// The first one is being read.
    splits: VecDeque<FileSplit>,
    /// How far the first split has been opened.
    state: State,
    of: PhantomData<fn() -> T>,
}

enum State {
    Closed,
    /// On the way to the position: this many bytes are still to be passed over.
    Skipping {
        file: InputFile,
        header: Header,
        content: Content,
        left: u64,
    },
    Reading {
        file: InputFile,
        rows: Box<CsvRows>,
    },
}

impl<T> FileSourceReader<T> {
    pub(super) fn new(format: CsvFormat) -> Self {
        Self { format, splits: VecDeque::new(), state: State::Closed, of: PhantomData }
    }
}

impl<T> fmt::Debug for FileSourceReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSourceReader").field("format", &self.format).field("splits", &self.splits).finish()
    }
}

/// What one step came to.
enum Step {
    /// There is more to do on the split.
    Going,
    /// The split is read to its end.
    Ended,
}

impl<T: Data> FileSourceReader<T> {
    /// Goes on with a split until it ends, `records_left` is 0, or a bounded amount of work is done.
    fn step(
        &mut self,
        split: &mut FileSplit,
        records_left: &mut usize,
        out: &mut Collector<T>,
    ) -> Result<Step, FileSourceError> {
        // Taken, and put back only on success: after an error the file is opened anew at the position.
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => {
                let file = InputFile::open_unchanged(&split.path, split.identity)?;
                let header = Header::read(&self.format, &file)?;
                split.position.byte = split.position.byte.max(header.end);
                let content = file.content()?;
                self.state = State::Skipping { left: split.position.byte, file, header, content };
            }
            State::Skipping { file, header, mut content, left } => {
                let wanted = left.min(SKIP_BYTES_MAX);
                let skipped = content.skip(wanted).map_err(|source| file.failed(source))?;
                let left = left - skipped;
                if skipped < wanted {
                    let position = split.position.byte;
                    return Err(FileSourceError::Ended { path: file.path(), length: position - left, position });
                }
                self.state = if left > 0 {
                    State::Skipping { file, header, content, left }
                } else {
                    let rows = CsvRows::new(&self.format, header, content, split.position);
                    State::Reading { file, rows: Box::new(rows) }
                };
            }
            State::Reading { mut file, mut rows } => {
                while *records_left > 0 {
                    let Some(record) = rows.next(&file)? else {
                        file.check_still_unchanged()?;
                        return Ok(Step::Ended);
                    };
                    out.collect_with_timestamp(record, Timestamp::NONE);
                    split.position = rows.position();
                    *records_left -= 1;
                }
                self.state = State::Reading { file, rows };
            }
        }
        Ok(Step::Going)
    }
}

impl<T: Data> SourceReader for FileSourceReader<T> {
    type Out = T;
    type Split = FileSplit;

    fn add_split(&mut self, split: FileSplit) -> Result<(), BoxedError> {
        self.splits.push_back(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<T>) -> Result<Polled, BoxedError> {
        let mut records_left = cx.records_max;
        while let Some(mut split) = self.splits.pop_front() {
            let was_skipping = matches!(self.state, State::Skipping { .. });
            let step = self.step(&mut split, &mut records_left, out);
            if !matches!(step, Ok(Step::Ended)) {
                self.splits.push_front(split);
            }
            step?;
            if records_left == 0 || (was_skipping && matches!(self.state, State::Skipping { .. })) {
                break;
            }
        }
        Ok(if self.splits.is_empty() { Polled::NeedSplit } else { Polled::More })
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<FileSplit>, BoxedError> {
        Ok(self.splits.iter().cloned().collect())
    }
}
