//! A prepared transaction of the file sink, and its commit.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use highwater_state_api::Checksum;
use highwater_stream_api::CommitError;
use serde::{Deserialize, Serialize};

use super::directory::OWNER_FILE;
use super::flush::{measure, sync_directory};
use super::{FileSinkError, PartName};

/// A part file that is whole and on the disk, and waits for its final name.
///
/// It names the file within the directory of the sink: the directory may have been moved when it is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTransaction {
    part: PartName,
    length: u64,
    checksum: Checksum,
}

impl FileTransaction {
    pub(super) fn new(part: PartName, length: u64, checksum: Checksum) -> Self {
        Self { part, length, checksum }
    }

    /// The name of the file.
    pub fn part(&self) -> PartName {
        self.part
    }

    /// Length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Checksum of the file.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Gives the file its final name. Whatever step a crash interrupts, the next call goes on from there.
    ///
    /// A second name is linked and the first one removed: unlike a rename, a link never replaces a file. The new name
    /// is on the disk before the old one goes, so that no crash of the machine loses both.
    pub(super) fn commit(&self, directory: &Path) -> Result<(), CommitError> {
        let uncommitted = self.part.uncommitted_path(directory);
        let committed = self.part.committed_path(directory);
        if !self.is_prepared_file(&committed)? {
            self.give_final_name(directory, &uncommitted, &committed)?;
        }
        sync_directory(directory).map_err(retryable)?;
        match fs::remove_file(&uncommitted) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(retryable(FileSinkError::io("remove", &uncommitted)(error)))
            }
            _ => Ok(()),
        }
    }

    /// Links the final name, which was free a moment ago.
    ///
    /// Someone else may have committed the same since: the final name is looked at again before anything is called
    /// missing. Once is enough, because it is on the disk before the uncommitted name goes.
    fn give_final_name(&self, directory: &Path, uncommitted: &Path, committed: &Path) -> Result<(), CommitError> {
        if self.is_prepared_file(uncommitted)? {
            match link_or_rename(uncommitted, committed) {
                // Only here has anything happened outside; whoever checks traces wants to know.
                Ok(()) => {
                    tracing::debug!(target: "highwater::effect", path = %committed.display(), "linked");
                    return Ok(());
                }
                // Someone else was faster, or a foreign file has taken the name.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
                Err(error) => return Err(retryable(FileSinkError::io("commit", committed)(error))),
            }
        }
        if self.is_prepared_file(committed)? { Ok(()) } else { Err(missing(directory, uncommitted, committed)) }
    }

    /// Whether there is a file of this name. An error if there is, and it is not the one that was prepared.
    fn is_prepared_file(&self, path: &Path) -> Result<bool, CommitError> {
        let failed = |error| retryable(FileSinkError::io("read", path)(error));
        let damaged = |expected: String, found: String| {
            Err(lost(FileSinkError::Damaged { path: path.to_owned(), expected, found }))
        };
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        if !metadata.is_file() {
            return damaged("a file".to_owned(), format!("{:?}", metadata.file_type()));
        }
        if metadata.len() != self.length {
            return damaged(format!("{} bytes", self.length), format!("{} bytes", metadata.len()));
        }
        let (length, checksum) = match measure(path) {
            Ok(measured) => measured,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        if (length, checksum) != (self.length, self.checksum) {
            let text = |length, checksum| format!("{length} bytes with checksum {checksum}");
            return damaged(text(self.length, self.checksum), text(length, checksum));
        }
        Ok(true)
    }
}

/// Gives a file a name that is known to be free. Where there are no links, a rename has to do.
pub(super) fn link_or_rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            fs::rename(from, to)
        }
        result => result,
    }
}

/// Neither file is there. Where the owner file is not there either, another directory is in the place of ours, because it
/// is not mounted for instance, and says nothing about what is in ours.
fn missing(directory: &Path, uncommitted: &Path, committed: &Path) -> CommitError {
    let owner_file = directory.join(OWNER_FILE);
    match owner_file.try_exists() {
        Ok(true) => {
            lost(FileSinkError::Missing { uncommitted: uncommitted.to_owned(), committed: committed.to_owned() })
        }
        Ok(false) => retryable(FileSinkError::NotOurs { directory: directory.to_owned(), owner_file }),
        Err(error) => retryable(FileSinkError::io("read", owner_file)(error)),
    }
}

fn lost(error: FileSinkError) -> CommitError {
    CommitError::Lost(error.into())
}

fn retryable(error: FileSinkError) -> CommitError {
    CommitError::Retryable(error.into())
}

#[cfg(test)]
mod tests {
    use super::super::support_test::{Fixture, lost};
    use super::*;

    #[test]
    fn whoever_finds_both_names_gone_on_the_way_looks_again_whether_someone_else_has_committed() {
        let fixture = Fixture::new();
        let prepared = fixture.prepared(1, &["a"]);
        let (uncommitted, committed) =
            (prepared.part().uncommitted_path(&fixture.out), prepared.part().committed_path(&fixture.out));
        let commit = || prepared.give_final_name(&fixture.out, &uncommitted, &committed);
        // The final name was free when it was looked for. Then someone else has come as far as to link it ...
        fs::hard_link(&uncommitted, &committed).unwrap();
        commit().unwrap();
        // ... or has gone to the end ...
        fs::remove_file(&uncommitted).unwrap();
        commit().unwrap();
        assert_eq!(fixture.visible(), ["a"]);
        // ... or there never was anyone.
        fs::remove_file(&committed).unwrap();
        assert!(matches!(lost(commit()), FileSinkError::Missing { .. }));
    }
}
