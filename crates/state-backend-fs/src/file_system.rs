//! The system calls that write to a disk, behind a seam: their order is the whole point and is tested through it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use crate::layout::TEMPORARY_PREFIX;

/// What an atomic write needs of a file system. One method, one effect on the disk.
pub(crate) trait FileSystem: Send + Sync + fmt::Debug {
    /// Creates one folder; it may be there already.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Creates a file exclusively and locks it. Fails with `AlreadyExists` when the name is taken.
    fn create_temporary(&self, path: &Path) -> io::Result<File>;

    /// Appends to a file.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()>;

    /// Flushes a file.
    fn sync_file(&self, file: &File) -> io::Result<()>;

    /// Gives a file a second name. Fails with `AlreadyExists` when the name is taken.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;

    /// Removes a name.
    fn unlink(&self, name: &Path) -> io::Result<()>;

    /// Flushes a folder: the names in it.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes the temporary files in a folder whose writers are dead.
    fn remove_left_overs(&self, folder: &Path) -> io::Result<()>;
}

/// The file system of the host.
#[derive(Debug)]
pub(crate) struct HostFileSystem;

impl FileSystem for HostFileSystem {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            result => result,
        }
    }

    fn create_temporary(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            // Somebody is about to remove it, because it was not locked yet.
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::AlreadyExists.into()),
            // Without locks no left-over is ever removed, so that nothing can go wrong.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        if is_unlinked(&file)? { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(file) }
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn unlink(&self, name: &Path) -> io::Result<()> {
        fs::remove_file(name)
    }

    #[cfg(unix)]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Names are flushed with the files where folders cannot be opened.
    #[cfg(not(unix))]
    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_left_overs(&self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) && entry.file_type()?.is_file() {
                remove_left_over(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let file = match OpenOptions::new().write(true).open(path) {
        Err(error) if gone(&error) => return Ok(()),
        file => file?,
    };
    match file.try_lock() {
        // The lock is held until the name is gone: a writer that has just made the file notices.
        Ok(()) => match fs::remove_file(path) {
            Err(error) if gone(&error) => Ok(()),
            result => result,
        },
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(unix)]
fn is_unlinked(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.nlink() == 0)
}

/// An open file cannot be removed.
#[cfg(not(unix))]
fn is_unlinked(_file: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_left_over_is_removed_and_a_file_that_is_being_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let live = HostFileSystem.create_temporary(&path(".tmp-1-1")).unwrap();
        for name in [".tmp-1-2", ".other", "object"] {
            fs::write(path(name), "x").unwrap();
        }
        fs::create_dir(path(".tmp-1-3")).unwrap();
        HostFileSystem.remove_left_overs(folder.path()).unwrap();
        let there = [".tmp-1-1", ".tmp-1-2", ".other", "object", ".tmp-1-3"].map(|name| path(name).exists());
        assert_eq!(there, [true, false, true, true, true]);
        drop(live);
        HostFileSystem.remove_left_overs(folder.path()).unwrap();
        assert!(!path(".tmp-1-1").exists());
    }

    #[test]
    fn a_temporary_name_that_is_taken_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".tmp-1-1");
        fs::write(&path, "theirs").unwrap();
        let error = HostFileSystem.create_temporary(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }
}
