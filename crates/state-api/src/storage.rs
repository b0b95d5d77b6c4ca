//! Checkpoint storage: where snapshots, metadata and the job log are kept.
//!
//! A storage is a set of immutable objects. It knows nothing of checkpoints; layout and order are the protocol's.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Checksum, ConfigError, ConfigNotices, Configuration, ObjectPath, StateHandle};

/// State of up to this many bytes travels inside the metadata of its checkpoint instead of as an object of its own,
/// unless the storage says otherwise; Flink's default.
pub const INLINE_BYTES_MAX: u64 = 20 * 1024;

/// What went wrong with an object of a checkpoint storage. The kind tells the caller what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is no such object. Final: asking again does not help.
    #[error("{path} does not exist in the checkpoint storage")]
    NotFound {
        /// The object asked for.
        path: ObjectPath,
    },
    /// The object exists already and objects are never overwritten. Final.
    #[error("{path} exists already in the checkpoint storage and is never overwritten")]
    AlreadyExists {
        /// The object that is there.
        path: ObjectPath,
    },
    /// The state is larger than the storage takes. Final for this state.
    #[error("{path}: the state has {found} bytes, the storage takes at most {limit} bytes a state")]
    TooLarge {
        /// The object that was being written.
        path: ObjectPath,
        /// Bytes the storage takes at most.
        limit: u64,
        /// Bytes the state has, or had when the limit was passed.
        found: u64,
    },
    /// The content is not what was written. Final: use another copy.
    #[error("{path} is damaged: expected {expected}, found {found}")]
    Corrupt {
        /// The damaged object.
        path: ObjectPath,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The storage did not do it. For a write the outcome is *unknown*: it may have happened. May be tried again.
    #[error("the checkpoint storage could not {operation} {path}")]
    Unavailable {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The object or folder.
        path: ObjectPath,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl StorageError {
    /// An input or output error on an object.
    pub fn unavailable(operation: &'static str, path: &ObjectPath, source: std::io::Error) -> Self {
        Self::Unavailable { operation, path: path.clone(), source }
    }

    /// Whether trying the same again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// An object being written. Dropping it without [`StateUpload::finish`] removes what was written so far.
#[async_trait]
pub trait StateUpload: Send {
    /// Appends bytes. After an error they may be written again: an upload that may have a part of them fails for good.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError>;

    /// Makes the object durable and visible, and returns the handle under which it can be read.
    ///
    /// When this returns, the object survives the loss of power. On an error there may or may not be an object.
    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError>;
}

/// A checkpoint storage. One value serves a whole job, from many threads at once.
///
/// The futures may block: the runtime drives them on its I/O pool, never on a task's thread.
/// Every method may be called again after any error. The suite `storage_conformance!` is this contract as tests.
#[async_trait]
pub trait CheckpointStorage: Send + Sync + fmt::Debug {
    /// Makes the place for a new checkpoint ready, all of which is going to be in this folder. What fails here fails before
    /// the subtasks of the job are asked. May be called again; a folder of which nothing else is written may be left.
    ///
    /// The default does nothing: enough for a storage in which a folder is a part of the names of objects.
    async fn initialize_location(&self, _folder: &ObjectPath) -> Result<(), StorageError> {
        Ok(())
    }

    /// Starts to write a new object. Fails with [`StorageError::AlreadyExists`], now or at the finish, when the path
    /// is taken. Left-overs of a writer that died never get in the way.
    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError>;

    /// Creates an object whole if, and only if, no object has this path: of any number of racing calls exactly one
    /// succeeds and the others fail with [`StorageError::AlreadyExists`].
    ///
    /// Durable on success. [`StorageError::Unavailable`] means *unknown*: read the object to find out.
    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError>;

    /// Reads an object whole. A storage error is never reported as an absent object.
    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError>;

    /// Reads `length` bytes from `offset`. Fewer bytes than asked for are [`StorageError::Corrupt`].
    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError>;

    /// The objects under a folder, at any depth, in ascending order of path. Unfinished uploads are not objects.
    /// A folder that does not exist is empty.
    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError>;

    /// The folders directly in a folder, in ascending order of path: those that hold objects, and those in which dead
    /// writers left something, so that it can be deleted with [`CheckpointStorage::delete_folder`].
    ///
    /// The default knows only the former: enough for a storage in which nothing is left by a writer that dies.
    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        Ok(folders_in(folder, &self.list(folder).await?))
    }

    /// Deletes an object. Deleting what is not there succeeds: deletes are repeated after a crash.
    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError>;

    /// Deletes everything under a folder, left-overs of dead writers included, and the folder itself.
    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError>;

    /// Whether what is written here outlives the process.
    fn is_durable(&self) -> bool;

    /// Up to how many bytes of state travel inside the metadata of a checkpoint instead of as an object of their own.
    fn inline_bytes_max(&self) -> u64 {
        INLINE_BYTES_MAX
    }

    /// This storage with what was left open when it was made, taken from the configuration of the cluster; `None` when
    /// nothing was left open. Both have the same objects.
    ///
    /// Called at the start of a job in which the storage was set by code. What was set there is not changed.
    fn configure(
        &self,
        _cluster: &Configuration,
        _notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn CheckpointStorage>>, ConfigError> {
        Ok(None)
    }
}

/// The folders directly in `folder` that hold some of `objects`, in ascending order of path.
pub fn folders_in(folder: &ObjectPath, objects: &[ObjectPath]) -> Vec<ObjectPath> {
    let names = objects.iter().filter(|object| object.is_under(folder)).filter_map(|object| {
        let below = &object.as_str()[folder.as_str().len() + 1..];
        below.split_once('/').map(|(name, _)| name)
    });
    names.collect::<BTreeSet<_>>().into_iter().map(|name| folder.join(name)).collect()
}

/// Reads the state behind a handle and checks its length and checksum.
pub async fn read_state(storage: &dyn CheckpointStorage, handle: &StateHandle) -> Result<Bytes, StorageError> {
    match handle {
        StateHandle::Inline(bytes) => Ok(bytes.clone()),
        StateHandle::Object { path, length, checksum } => {
            let bytes = storage.read(path).await?;
            check(path, &bytes, *length, *checksum)?;
            Ok(bytes)
        }
    }
}

/// Checks bytes read from `path` against what was recorded when they were written.
pub fn check(path: &ObjectPath, bytes: &[u8], length: u64, checksum: Checksum) -> Result<(), StorageError> {
    let corrupt = |expected, found| StorageError::Corrupt { path: path.clone(), expected, found };
    if bytes.len() as u64 != length {
        return Err(corrupt(format!("{length} bytes"), format!("{} bytes", bytes.len())));
    }
    let found = Checksum::of(bytes);
    if found != checksum {
        return Err(corrupt(format!("checksum {checksum}"), format!("checksum {found}")));
    }
    Ok(())
}
