//! A storage around another that asks again when it does not answer: one failed call must not cost a checkpoint or a start.

use std::fmt;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use highwater_state_api::{
    CheckpointStorage, Checksum, ConfigError, ConfigNotices, Configuration, ObjectPath, StateHandle, StateUpload,
    StorageError,
};

/// Up to how many bytes an upload can be begun anew: it has to keep what it was given. Of a larger one only single writes are
/// repeated, which is enough where the storage refuses them before it takes anything.
const REPEATABLE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a write is repeated within an upload that cannot be begun anew.
const WRITES_REPEATED_MAX: u32 = 5;

/// Says how long to go on.
#[async_trait]
pub trait Patience: Send + Sync + fmt::Debug {
    /// Whether nobody waits for the result any more, so that nothing further is to be done.
    fn is_over(&self) -> bool;

    /// Waits before the next try; `tries`, at least 1, have failed so far. `false`: there is to be no other.
    async fn wait(&self, tries: u32) -> bool;
}

/// From which failure of one call on people are told of each: the storage may be down, and a checkpoint may wait long for it.
const REPORTED_TRIES: u32 = 3;

/// A storage around another that repeats calls which fail with [`StorageError::Unavailable`]. Every other error is final and
/// comes back at once. When nobody waits any more, no call is begun.
///
/// A write that failed may have happened. What is there then is compared with what was to be written, so that content has to
/// be its writer's own, as it is in a checkpoint's folder, and of a log record, which names its attempt.
#[derive(Debug, Clone)]
pub struct RetryingStorage {
    inner: Arc<dyn CheckpointStorage>,
    patience: Arc<dyn Patience>,
}

impl RetryingStorage {
    /// Wraps a storage.
    pub fn new(inner: Arc<dyn CheckpointStorage>, patience: Arc<dyn Patience>) -> Self {
        Self { inner, patience }
    }

    /// An error when nothing further is to be done.
    fn check(&self, operation: &'static str, path: &ObjectPath) -> Result<(), StorageError> {
        if !self.patience.is_over() {
            return Ok(());
        }
        let cause = io::Error::other("nobody waits for it any more");
        Err(StorageError::unavailable(operation, path, cause))
    }

    /// Counts a failure and waits. An error when there is to be no other try, or when another one would not help.
    async fn wait(&self, tries: &mut u32, error: StorageError) -> Result<(), StorageError> {
        if !error.is_transient() {
            return Err(error);
        }
        *tries += 1;
        if *tries >= REPORTED_TRIES
            && let StorageError::Unavailable { operation, path, source } = &error
        {
            let (tries, cause) = (*tries, source.to_string());
            tracing::warn!(target: "highwater::checkpoint", operation, %path, tries, cause, "the storage fails and is asked again");
        }
        if self.patience.wait(*tries).await { Ok(()) } else { Err(gave_up(error, *tries)) }
    }

    /// Whether an object is there, with this content.
    async fn is_there(&self, path: &ObjectPath, content: &[Bytes]) -> Result<Option<bool>, StorageError> {
        self.check("read", path)?;
        match self.inner.read(path).await {
            Ok(found) => Ok(Some(content.concat() == found)),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How often it was tried, and the last cause.
#[derive(Debug, thiserror::Error)]
#[error("{tries} tries have failed, the last one with: {last}")]
struct GaveUp {
    tries: u32,
    last: io::Error,
}

fn gave_up(error: StorageError, tries: u32) -> StorageError {
    match error {
        StorageError::Unavailable { operation, path, source } if tries > 1 => {
            let source = io::Error::new(source.kind(), GaveUp { tries, last: source });
            StorageError::Unavailable { operation, path, source }
        }
        error => error,
    }
}

/// Repeats a call that changes nothing, or that may happen twice.
macro_rules! repeat {
    ($self:ident, $operation:literal, $path:ident, $call:expr) => {{
        let mut tries = 0;
        loop {
            $self.check($operation, $path)?;
            match $call.await {
                Ok(done) => break Ok(done),
                Err(error) => $self.wait(&mut tries, error).await?,
            }
        }
    }};
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CheckpointStorage for RetryingStorage {
    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        let inner = repeat!(self, "create", path, self.inner.create(path))?;
        let (storage, path) = (self.clone(), path.clone());
        Ok(Box::new(RetryingUpload { storage, path, inner: Some(inner), tries: 0, content: Some(Content::default()) }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let mut tries = 0;
        loop {
            self.check("create", path)?;
            let error = match self.inner.create_if_absent(path, content.clone()).await {
                Ok(()) => return Ok(()),
                Err(error @ StorageError::AlreadyExists { .. }) if tries > 0 => {
                    // It may be what a try before has left.
                    match self.is_there(path, std::slice::from_ref(&content)).await {
                        Ok(Some(true)) => return Ok(()),
                        Ok(_) => return Err(error),
                        Err(unknown) => unknown,
                    }
                }
                Err(error) => error,
            };
            self.wait(&mut tries, error).await?;
        }
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        repeat!(self, "read", path, self.inner.read(path))
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        repeat!(self, "read", path, self.inner.read_range(path, offset, length))
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        repeat!(self, "list", folder, self.inner.list(folder))
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        repeat!(self, "list", folder, self.inner.list_folders(folder))
    }

    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        repeat!(self, "create", folder, self.inner.initialize_location(folder))
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        repeat!(self, "delete", path, self.inner.delete(path))
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        repeat!(self, "delete", folder, self.inner.delete_folder(folder))
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    fn inline_bytes_max(&self) -> u64 {
        self.inner.inline_bytes_max()
    }

    fn configure(
        &self,
        cluster: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn CheckpointStorage>>, ConfigError> {
        let inner = self.inner.configure(cluster, notices)?;
        Ok(inner.map(|inner| Arc::new(Self::new(inner, self.patience.clone())) as _))
    }
}

/// What an upload was given.
#[derive(Default)]
struct Content {
    pieces: Vec<Bytes>,
    bytes: usize,
}

struct RetryingUpload {
    storage: RetryingStorage,
    path: ObjectPath,
    /// `None` between two tries.
    inner: Option<Box<dyn StateUpload>>,
    tries: u32,
    /// `None` when it is too much to be kept.
    content: Option<Content>,
}

impl RetryingUpload {
    /// Keeps a piece, or forgets all of them when they become too many.
    fn keep(&mut self, bytes: &Bytes) {
        let is_kept = |content: &mut Content| {
            content.pieces.push(bytes.clone());
            content.bytes += bytes.len();
            content.bytes <= REPEATABLE_BYTES_MAX
        };
        if !self.content.as_mut().is_some_and(is_kept) {
            self.content = None;
        }
    }

    /// Begins anew and gives the storage all that was written so far.
    async fn begin_anew(&mut self, pieces: &[Bytes]) -> Result<(), StorageError> {
        self.inner = None;
        self.storage.check("create", &self.path)?;
        let mut upload = self.storage.inner.create(&self.path).await?;
        for piece in pieces {
            upload.write(piece.clone()).await?;
        }
        self.inner = Some(upload);
        Ok(())
    }

    /// A call of the upload has failed: waits, and begins anew until all is written again.
    async fn recover(&mut self, mut error: StorageError, pieces: &[Bytes]) -> Result<(), StorageError> {
        loop {
            self.storage.wait(&mut self.tries, error).await?;
            match self.begin_anew(pieces).await {
                Ok(()) => return Ok(()),
                Err(failed) => error = failed,
            }
        }
    }

    async fn write_inner(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.storage.check("write", &self.path)?;
        match &mut self.inner {
            Some(inner) => inner.write(bytes).await,
            None => {
                let cause = io::Error::other("an earlier write has failed for good");
                Err(StorageError::unavailable("write", &self.path, cause))
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StateUpload for RetryingUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let mut error = match self.write_inner(bytes.clone()).await {
            Ok(()) => {
                self.keep(&bytes);
                return Ok(());
            }
            Err(error) => error,
        };
        if let Some(pieces) = self.content.as_ref().map(|content| content.pieces.clone()) {
            let pieces = [pieces, vec![bytes.clone()]].concat();
            self.recover(error, &pieces).await?;
            self.keep(&bytes);
            return Ok(());
        }
        for _ in 0..WRITES_REPEATED_MAX {
            self.storage.wait(&mut self.tries, error).await?;
            match self.write_inner(bytes.clone()).await {
                Ok(()) => return Ok(()),
                Err(failed) => error = failed,
            }
        }
        Err(gave_up(error, self.tries + 1))
    }

    async fn finish(mut self: Box<Self>) -> Result<StateHandle, StorageError> {
        let Content { pieces, bytes } = match self.content.take() {
            Some(content) => content,
            None => {
                return match self.inner.take() {
                    Some(inner) => inner.finish().await,
                    None => Err(StorageError::unavailable(
                        "finish",
                        &self.path,
                        io::Error::other("an earlier write has failed for good"),
                    )),
                };
            }
        };
        let mut was_tried = false;
        loop {
            let error = match self.inner.take() {
                Some(inner) => match inner.finish().await {
                    Ok(handle) => return Ok(handle),
                    Err(error) => error,
                },
                None => match self.begin_anew(&pieces).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
            };
            let may_be_ours = was_tried && matches!(error, StorageError::AlreadyExists { .. });
            if !may_be_ours {
                self.storage.wait(&mut self.tries, error).await?;
            }
            // A finish that failed may have happened.
            was_tried = true;
            match self.storage.is_there(&self.path, &pieces).await {
                Ok(Some(true)) => {
                    let checksum = Checksum::of(&pieces.concat());
                    return Ok(StateHandle::Object { path: self.path, length: bytes as u64, checksum });
                }
                Ok(Some(false)) => return Err(StorageError::AlreadyExists { path: self.path }),
                Ok(None) => {}
                Err(error) => self.storage.wait(&mut self.tries, error).await?,
            }
        }
    }
}

#[cfg(test)]
#[path = "retrying_storage_test.rs"]
mod retrying_storage_test;
