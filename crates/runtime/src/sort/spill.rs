//! Sorted runs in a temporary file.
//!
//! The file has no name: it is gone when it is closed, and so also when the process is killed. A record in it is its hash and
//! the lengths of key and payload, four bytes each in little-endian order, and then key and payload. No other process
//! and no later one ever reads it.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::SortedRecord;
use super::run::RecordParts;

const HEADER_BYTES: usize = 12;
const WRITE_BYTES: usize = 256 * 1024;
/// What is read of a run at once: not less, however many runs there are, and no more than pays off.
const READ_BYTES: std::ops::RangeInclusive<usize> = 4 * 1024..=256 * 1024;

/// The file.
pub(super) struct Spill {
    file: File,
    length: u64,
    /// Where it is, for people: it has no name.
    place: String,
}

/// A run in the file, read from its beginning to its end.
pub(super) struct SpilledRun {
    /// What is not read yet.
    next: u64,
    end: u64,
    /// What is read, of which the bytes before `taken` were taken out.
    buffer: Vec<u8>,
    taken: usize,
    read_bytes: usize,
}

impl Spill {
    /// An empty file in `directory`, or else where the system has its temporary files.
    pub(super) fn create(directory: Option<&Path>) -> io::Result<Self> {
        let directory = directory.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let place = directory.display().to_string();
        let file = tempfile::tempfile_in(directory)
            .map_err(|error| named("no temporary file in a directory of `io.tmp.dirs`,", &place, &error))?;
        Ok(Self { file, length: 0, place })
    }

    /// Appends records as a run.
    pub(super) fn write<'a>(&mut self, records: impl Iterator<Item = RecordParts<'a>>) -> io::Result<SpilledRun> {
        self.append(records).map_err(|error| named("the temporary file could not be written in", &self.place, &error))
    }

    fn append<'a>(&mut self, records: impl Iterator<Item = RecordParts<'a>>) -> io::Result<SpilledRun> {
        let start = self.length;
        let mut writer = BufWriter::with_capacity(WRITE_BYTES, &self.file);
        for (hash, key, payload) in records {
            writer.write_all(&hash.to_le_bytes())?;
            writer.write_all(&length_of(key)?.to_le_bytes())?;
            writer.write_all(&length_of(payload)?.to_le_bytes())?;
            writer.write_all(key)?;
            writer.write_all(payload)?;
            self.length += (HEADER_BYTES + key.len() + payload.len()) as u64;
        }
        writer.flush()?;
        Ok(SpilledRun { next: start, end: self.length, buffer: Vec::new(), taken: 0, read_bytes: 0 })
    }
}

fn named(what: &str, place: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {place}: {error}"))
}

fn length_of(bytes: &[u8]) -> io::Result<u32> {
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidData, "a record has 4 GiB or more");
    u32::try_from(bytes.len()).map_err(too_long)
}

impl SpilledRun {
    /// Reads about so much at once.
    pub(super) fn read_at_once(&mut self, bytes: usize) {
        self.read_bytes = bytes.clamp(*READ_BYTES.start(), *READ_BYTES.end());
    }

    /// Puts the next record into `record`, if there is one.
    pub(super) fn next(&mut self, spill: &mut Spill, record: &mut SortedRecord) -> io::Result<bool> {
        if self.next == self.end && self.taken == self.buffer.len() {
            return Ok(false);
        }
        let header = self.take(spill, HEADER_BYTES)?;
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (hash, key_length, payload_length) = (number(0), number(4) as usize, number(8) as usize);
        let (key, payload) = self.take(spill, key_length + payload_length)?.split_at(key_length);
        record.set(hash, key, payload);
        Ok(true)
    }

    /// The next bytes of the run.
    fn take(&mut self, spill: &mut Spill, length: usize) -> io::Result<&[u8]> {
        let left = self.buffer.len() - self.taken;
        if left < length {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let wanted = (length - left).max(self.read_bytes.saturating_sub(left)) as u64;
            let read = wanted.min(self.end - self.next);
            // Every run has a place of its own, and they take turns.
            spill.file.seek(SeekFrom::Start(self.next))?;
            (&spill.file).take(read).read_to_end(&mut self.buffer)?;
            self.next += read;
            if self.buffer.len() < length {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the temporary file is shorter than written"));
            }
        }
        let start = self.taken;
        self.taken += length;
        Ok(&self.buffer[start..self.taken])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_named_by_its_folder() {
        let place = "/somewhere".to_owned();
        // Opened to be read only, it takes nothing, as on a full disk.
        let file = File::open(tempfile::NamedTempFile::new().unwrap().path()).unwrap();
        let mut spill = Spill { file, length: 0, place };
        let record: RecordParts<'_> = (1, b"key", b"payload");
        let error = spill.write([record].into_iter()).err().expect("it cannot be written to");
        assert!(error.to_string().starts_with("the temporary file could not be written in /somewhere: "), "{error}");
    }
}
