//! Atomic writes: a file has its final name only when it is whole and durable, and never replaces another.
//!
//! The order of the steps is that of `docs/format/file-system-storage.md`, "Publishing".

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file_system::FileSystem;
use crate::layout::temporary_name;

/// How many temporary names are tried before a write fails.
const TEMPORARY_NAMES_TRIED_MAX: u32 = 100_000;

/// Numbers the temporary files of the process, so that its storages do not get into each other's way.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// Writes files atomically under one root. Used from many threads at once.
#[derive(Debug)]
pub(crate) struct AtomicWriter {
    root: PathBuf,
    file_system: Arc<dyn FileSystem>,
    /// Folders known to be durable and free of left-overs.
    prepared: Mutex<BTreeSet<PathBuf>>,
    /// Folders with names that may not be durable, because flushing failed.
    unsynced: Mutex<BTreeSet<PathBuf>>,
}

fn locked(folders: &Mutex<BTreeSet<PathBuf>>) -> MutexGuard<'_, BTreeSet<PathBuf>> {
    // A set of folders is right at any moment: a panic elsewhere does not spoil it.
    folders.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AtomicWriter {
    /// A writer under `root`, which is made, with the folders above it, when it is not there.
    pub(crate) fn open(root: PathBuf, file_system: Arc<dyn FileSystem>) -> io::Result<Self> {
        let missing: Vec<&Path> = root.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            file_system.create_folder(folder)?;
            if let Some(above) = folder.parent() {
                file_system.sync_folder(above)?;
            }
        }
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root, file_system, prepared: Mutex::default(), unsynced: Mutex::default() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a file that will be `target`, under a temporary name in the same folder.
    pub(crate) fn begin(&self, target: PathBuf) -> io::Result<TemporaryFile> {
        let folder = target.parent().unwrap_or(&self.root).to_path_buf();
        let (path, file) = match self.create_temporary(&folder) {
            // Somebody has removed folders since they were prepared: nothing that is remembered counts.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(&self.root);
                self.create_temporary(&folder)?
            }
            result => result?,
        };
        Ok(TemporaryFile { file_system: self.file_system.clone(), path, file: Some(file), folder, target })
    }

    fn create_temporary(&self, folder: &Path) -> io::Result<(PathBuf, File)> {
        self.prepare(folder)?;
        let mut tried = 0;
        loop {
            let path = folder.join(temporary_name(NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed)));
            tried += 1;
            match self.file_system.create_temporary(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < TEMPORARY_NAMES_TRIED_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a folder, and those above it up to the root, exist durably.
    pub(crate) fn make_folder(&self, folder: &Path) -> io::Result<()> {
        match self.prepare(folder) {
            // Somebody has removed folders since they were prepared: nothing that is remembered counts.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(&self.root);
                self.prepare(folder)
            }
            result => result,
        }
    }

    /// Makes a folder, and those above it up to the root, exist durably, and frees it of left-overs.
    fn prepare(&self, folder: &Path) -> io::Result<()> {
        if locked(&self.prepared).contains(folder) {
            return Ok(());
        }
        if folder != self.root
            && let Some(above) = folder.parent()
        {
            self.prepare(above)?;
            self.file_system.create_folder(folder)?;
            self.file_system.sync_folder(above)?;
        }
        // Left-overs are in nobody's way: that they could not be removed is no reason not to write.
        let _ = self.file_system.remove_left_overs(folder);
        locked(&self.prepared).insert(folder.to_path_buf());
        Ok(())
    }

    /// Forgets a folder and all below it, because they have been removed.
    pub(crate) fn forget(&self, folder: &Path) {
        locked(&self.prepared).retain(|other| !other.starts_with(folder));
        locked(&self.unsynced).retain(|other| !other.starts_with(folder));
    }

    /// Gives a file its final name, durably. Fails with `AlreadyExists` when the name is taken.
    ///
    /// After any other error the name may be there or not. Either way the temporary name is gone, if it can be removed.
    pub(crate) fn publish(&self, mut temporary: TemporaryFile) -> io::Result<()> {
        if let Some(file) = &temporary.file {
            self.file_system.sync_file(file)?;
        }
        self.file_system.link(&temporary.path, &temporary.target)?;
        let folder = temporary.folder.clone();
        temporary.remove();
        self.sync_folder(&folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let synced = self.file_system.sync_folder(folder);
        if synced.is_ok() {
            locked(&self.unsynced).remove(folder);
        } else {
            locked(&self.unsynced).insert(folder.to_path_buf());
        }
        synced
    }

    /// Makes sure that what can be seen in a folder is durable, should flushing it have failed before.
    pub(crate) fn settle(&self, folder: &Path) -> io::Result<()> {
        if locked(&self.unsynced).contains(folder) { self.sync_folder(folder) } else { Ok(()) }
    }
}

/// A file under a temporary name. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file_system: Arc<dyn FileSystem>,
    path: PathBuf,
    /// `None` once the temporary name is gone.
    file: Option<File>,
    folder: PathBuf,
    target: PathBuf,
}

impl TemporaryFile {
    /// Appends to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => self.file_system.write(file, bytes),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove(&mut self) {
        if self.file.is_some() {
            // What cannot be removed now is a left-over: it is in nobody's way and is removed later.
            let _ = self.file_system.unlink(&self.path);
            self.file = None;
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
#[path = "atomic_write_test.rs"]
mod tests;
