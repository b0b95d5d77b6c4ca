//! Opening an input file: is it still the same, is it compressed, and where does its content go on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;
use highwater_state_api::RunningChecksum;

use super::{FileIdentity, FileSourceError};

/// How much of each end of a file goes into its identity.
const END_BYTES: u64 = 64 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// An input file that is open.
#[derive(Debug)]
pub(super) struct InputFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    compressed: bool,
}

impl InputFile {
    /// Opens a file and finds out what identifies it.
    pub(super) fn open(path: &str) -> Result<Self, FileSourceError> {
        let failed = |source| FileSourceError::Read { path: path.into(), source };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(FileSourceError::Directory { path: path.into() });
        } else if !metadata.is_file() {
            // A pipe cannot be read again, and opening it would wait for its other end.
            return Err(failed(io::Error::new(io::ErrorKind::Unsupported, "not a regular file")));
        }
        let mut file = File::open(path).map_err(failed)?;
        let (identity, compressed) = identify(&mut file).map_err(failed)?;
        Ok(Self { path: path.into(), file, identity, compressed })
    }

    /// Opens a file that must be the same as it was.
    pub(super) fn open_unchanged(path: &str, expected: FileIdentity) -> Result<Self, FileSourceError> {
        let file = Self::open(path).map_err(|error| match error {
            FileSourceError::Read { path, source }
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                FileSourceError::Gone { path, expected, source }
            }
            other => other,
        })?;
        if file.identity != expected {
            return Err(FileSourceError::Changed { path: file.path, expected, found: file.identity });
        }
        Ok(file)
    }

    /// What identifies the file.
    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The content from its start. There is one reader at a time: the next call moves the place in the file.
    pub(super) fn content(&self) -> Result<Content, FileSourceError> {
        let start = || {
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file.take(self.identity.length))
        };
        let file = start().map_err(|source| self.failed(source))?;
        Ok(if self.compressed {
            Content::Compressed(Box::new(MultiGzDecoder::new(BufReader::new(file))))
        } else {
            Content::Plain(file)
        })
    }

    /// At the end of the file: it must not have changed while it was read. What was added to it meanwhile is not
    /// read, and must not be passed over in silence.
    pub(super) fn check_still_unchanged(&mut self) -> Result<(), FileSourceError> {
        let (found, _) = identify(&mut self.file).map_err(|source| self.failed(source))?;
        if found != self.identity {
            return Err(FileSourceError::Changed { path: self.path.clone(), expected: self.identity, found });
        }
        Ok(())
    }

    /// The line on which the record begins that was looked for at `byte`. Reads the file up to there: for errors only.
    pub(super) fn line_at(&self, byte: u64) -> Option<u64> {
        let mut content = BufReader::new(self.content().ok()?);
        let (mut line, mut at) = (1, 0);
        loop {
            let bytes = content.fill_buf().ok()?;
            if bytes.is_empty() {
                return Some(line);
            }
            for &byte_here in bytes {
                // Line ends at the position itself belong to the record before, or are empty lines.
                if at >= byte && byte_here != b'\n' && byte_here != b'\r' {
                    return Some(line);
                }
                line += u64::from(byte_here == b'\n');
                at += 1;
            }
            let length = bytes.len();
            content.consume(length);
        }
    }

    /// An error of reading this file.
    pub(super) fn failed(&self, source: io::Error) -> FileSourceError {
        FileSourceError::Read { path: self.path.clone(), source }
    }

    /// The path.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

fn identify(file: &mut File) -> io::Result<(FileIdentity, bool)> {
    let length = file.metadata()?.len();
    let mut checksum = RunningChecksum::default();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(END_BYTES).read_to_end(&mut end)?;
    checksum.update(&end);
    let compressed = end.starts_with(&GZIP_MAGIC);
    end.clear();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES).max(END_BYTES)))?;
    file.take(END_BYTES).read_to_end(&mut end)?;
    checksum.update(&end);
    Ok((FileIdentity { length, checksum: checksum.finish() }, compressed))
}

/// The content of a file, uncompressed.
pub(super) enum Content {
    /// As it stands in the file.
    Plain(Take<File>),
    /// Compressed, in one or more members.
    Compressed(Box<MultiGzDecoder<BufReader<Take<File>>>>),
}

impl Content {
    /// Passes over up to `bytes` bytes and says over how many; fewer only at the end. Compressed content has to be
    /// read for that.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        match self {
            Self::Plain(file) => {
                let skipped = bytes.min(file.limit());
                let limit = file.limit() - skipped;
                let by = i64::try_from(skipped).map_err(io::Error::other)?;
                file.get_mut().seek(SeekFrom::Current(by))?;
                file.set_limit(limit);
                Ok(skipped)
            }
            Self::Compressed(content) => io::copy(&mut content.by_ref().take(bytes), &mut io::sink()),
        }
    }

    /// Passes over a byte order mark at the start and gives back what else was read, with the number of bytes passed
    /// over.
    pub(super) fn skip_byte_order_mark(&mut self) -> io::Result<(Vec<u8>, u64)> {
        let mut start = Vec::new();
        self.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
        if start == BYTE_ORDER_MARK { Ok((Vec::new(), start.len() as u64)) } else { Ok((start, 0)) }
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Compressed(content) => content.read(buffer),
        }
    }
}
