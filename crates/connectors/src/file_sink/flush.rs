//! The file of an open transaction: what is written, counted and summed, and how it gets onto the disk for good.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use highwater_state_api::{Checksum, RunningChecksum};

use super::{FileSinkError, FileTransaction, PartName};

const BUFFER_BYTES: usize = 64 * 1024;

/// A part file that is being written. Dropped before it is sealed, it is removed.
#[derive(Debug)]
pub struct PartFile {
    part: PartName,
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    length: u64,
    checksum: RunningChecksum,
    sealed: bool,
}

impl PartFile {
    pub(super) fn create(directory: &Path, part: PartName) -> Result<Self, FileSinkError> {
        let path = part.uncommitted_path(directory);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                FileSinkError::NameTaken { path: path.clone() }
            } else {
                FileSinkError::Io { operation: "create", path: path.clone(), source }
            }
        })?;
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Ok(Self { part, path, file, buffer, length: 0, checksum: RunningChecksum::default(), sealed: false })
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.checksum.update(&self.buffer);
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Puts the file, and its name in the directory, onto the disk: from here on it is a transaction that survives any
    /// crash.
    pub(super) fn seal(mut self, directory: &Path) -> Result<FileTransaction, FileSinkError> {
        self.write_buffer().map_err(FileSinkError::io("write", &self.path))?;
        self.file.sync_all().map_err(FileSinkError::io("flush", &self.path))?;
        sync_directory(directory)?;
        self.sealed = true;
        Ok(FileTransaction::new(self.part, self.length, self.checksum.finish()))
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_buffer()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Does nothing: encoders flush when they like, and what counts is [`PartFile::seal`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.sealed {
            // The file stays hidden when this fails, and a later attempt removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Puts the names in a directory onto the disk.
pub(super) fn sync_directory(directory: &Path) -> Result<(), FileSinkError> {
    // Elsewhere a directory cannot be opened, and names are written through.
    if cfg!(unix) {
        File::open(directory).and_then(|opened| opened.sync_all()).map_err(FileSinkError::io("flush", directory))?;
    }
    Ok(())
}

/// Length and checksum of a file.
pub(super) fn measure(path: &Path) -> io::Result<(u64, Checksum)> {
    let mut measured = Measured::default();
    let length = io::copy(&mut File::open(path)?, &mut measured)?;
    Ok((length, measured.0.finish()))
}

#[derive(Default)]
struct Measured(RunningChecksum);

impl Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
