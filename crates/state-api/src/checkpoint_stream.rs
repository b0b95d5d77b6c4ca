//! Streams into the checkpoint storage: what is small stays in the handle, what is larger becomes an object.

use std::io;

use bytes::Bytes;

use crate::{CheckpointStorage, ObjectPath, StateHandle, StateUpload, StorageError};

/// The largest threshold that can be set: metadata is read whole by every start.
pub const INLINE_BYTES_MAX_LIMIT: u64 = 1024 * 1024;

/// Bytes that are collected before they are given to the storage.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// The threshold below which state travels inside the metadata cannot be this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("state of up to {requested} bytes cannot be kept in the metadata: at most {INLINE_BYTES_MAX_LIMIT} bytes can")]
pub struct InlineThresholdError {
    /// What was asked for.
    pub requested: u64,
}

/// Makes the streams that the snapshots of one checkpoint are written to.
#[derive(Debug, Clone)]
pub struct CheckpointStreamFactory<'s> {
    storage: &'s dyn CheckpointStorage,
    folder: ObjectPath,
    inline_bytes_max: usize,
}

impl<'s> CheckpointStreamFactory<'s> {
    /// Streams into objects of `folder`. State of up to `inline_bytes_max` bytes becomes no object.
    pub fn new(
        storage: &'s dyn CheckpointStorage,
        folder: ObjectPath,
        inline_bytes_max: u64,
    ) -> Result<Self, InlineThresholdError> {
        if inline_bytes_max > INLINE_BYTES_MAX_LIMIT {
            return Err(InlineThresholdError { requested: inline_bytes_max });
        }
        Ok(Self { storage, folder, inline_bytes_max: inline_bytes_max as usize })
    }

    /// A stream into the object `name`, which must not exist. Nothing is done before something is written.
    ///
    /// # Panics
    /// When `name` is no segment of an object path.
    pub fn create_checkpoint_state_output_stream(&self, name: &str) -> CheckpointStateOutputStream<'s> {
        CheckpointStateOutputStream {
            storage: self.storage,
            path: self.folder.join(name),
            inline_bytes_max: self.inline_bytes_max,
            upload: None,
            buffer: Vec::new(),
            position: 0,
            is_broken: false,
        }
    }
}

/// A stream into the checkpoint storage. Dropped without being closed it leaves nothing behind.
pub struct CheckpointStateOutputStream<'s> {
    storage: &'s dyn CheckpointStorage,
    path: ObjectPath,
    inline_bytes_max: usize,
    /// `None` as long as everything may become an inline handle.
    upload: Option<Box<dyn StateUpload>>,
    /// Written and not yet given to the storage.
    buffer: Vec<u8>,
    position: u64,
    /// A write has not come to its end: nobody knows which bytes are missing.
    is_broken: bool,
}

impl CheckpointStateOutputStream<'_> {
    /// How many bytes were written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes. After an error, or when the future was dropped before its end, every later call is an error: bytes
    /// are missing.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.check_whole("write")?;
        self.is_broken = true;
        self.append(bytes).await?;
        self.is_broken = false;
        Ok(())
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.position += bytes.len() as u64;
        if bytes.len() >= WRITE_BUFFER_BYTES && self.buffer.len() + bytes.len() > self.inline_bytes_max {
            self.flush().await?;
            return self.upload().await?.write(bytes).await;
        }
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= WRITE_BUFFER_BYTES.max(self.inline_bytes_max + 1) {
            self.flush().await?;
        }
        Ok(())
    }

    /// Ends the stream and returns what it became: `None` when nothing was written, otherwise a handle. When it names an
    /// object, the object is durable. On an error there may or may not be an object.
    pub async fn close_and_get_handle(mut self) -> Result<Option<StateHandle>, StorageError> {
        self.check_whole("close")?;
        if self.position == 0 {
            return Ok(None);
        }
        if self.upload.is_none() && self.buffer.len() <= self.inline_bytes_max {
            return Ok(Some(StateHandle::Inline(Bytes::from(self.buffer))));
        }
        self.flush().await?;
        match self.upload {
            Some(upload) => upload.finish().await.map(Some),
            None => unreachable!("more was written than an inline handle takes, so that there is an upload"),
        }
    }

    fn check_whole(&self, operation: &'static str) -> Result<(), StorageError> {
        if !self.is_broken {
            return Ok(());
        }
        let cause = io::Error::other("an earlier write of this stream has failed, so that bytes are missing");
        Err(StorageError::unavailable(operation, &self.path, cause))
    }

    async fn upload(&mut self) -> Result<&mut dyn StateUpload, StorageError> {
        if self.upload.is_none() {
            self.upload = Some(self.storage.create(&self.path).await?);
        }
        let upload = self.upload.as_mut().expect("it has just been made");
        Ok(&mut **upload)
    }

    async fn flush(&mut self) -> Result<(), StorageError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        self.upload().await?.write(bytes).await
    }
}
