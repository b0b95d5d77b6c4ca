//! A storage that remembers what was asked of it: for tests that assert which input and output happened.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use highwater_state_api::{
    CheckpointStorage, ConfigError, ConfigNotices, Configuration, ObjectPath, StateHandle, StateUpload, StorageError,
};

use crate::Operation;

/// One call of a storage, recorded when it returned. As text: `finish job/chk-1/metadata (31 bytes)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// What was called.
    pub operation: Operation,
    /// The object or folder.
    pub path: ObjectPath,
    /// Bytes that went through the call; for a listing the number of objects.
    pub size: Option<u64>,
    /// The kind of the error that it returned, such as `NotFound`.
    pub error: Option<&'static str>,
}

impl fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.path)?;
        match (self.error, self.size) {
            (Some(error), _) => write!(f, ": {error}"),
            (None, Some(size)) if self.operation == Operation::List => write!(f, " ({size} objects)"),
            (None, Some(size)) => write!(f, " ({size} bytes)"),
            (None, None) => Ok(()),
        }
    }
}

/// What a [`RecordingStorage`] has recorded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    calls: Arc<Mutex<Vec<RecordedCall>>>,
}

impl Recording {
    /// The calls so far, in the order in which they returned.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The calls so far as text, one a line.
    pub fn lines(&self) -> Vec<String> {
        self.calls().iter().map(RecordedCall::to_string).collect()
    }

    /// The calls so far; the recording begins anew.
    pub fn take(&self) -> Vec<RecordedCall> {
        mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note<T>(
        &self,
        operation: Operation,
        path: &ObjectPath,
        result: Result<T, StorageError>,
        size: impl FnOnce(&T) -> Option<u64>,
    ) -> Result<T, StorageError> {
        let (size, error) = match &result {
            Ok(value) => (size(value), None),
            Err(error) => (None, Some(kind_of(error))),
        };
        let call = RecordedCall { operation, path: path.clone(), size, error };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        result
    }
}

fn kind_of(error: &StorageError) -> &'static str {
    match error {
        StorageError::NotFound { .. } => "NotFound",
        StorageError::AlreadyExists { .. } => "AlreadyExists",
        StorageError::TooLarge { .. } => "TooLarge",
        StorageError::Corrupt { .. } => "Corrupt",
        StorageError::Unavailable { .. } => "Unavailable",
        _ => "another error",
    }
}

/// A storage around another that records every call. Forwards everything.
#[derive(Debug)]
pub struct RecordingStorage {
    inner: Arc<dyn CheckpointStorage>,
    recording: Recording,
}

impl RecordingStorage {
    /// Wraps a storage; `recording` is the handle to look at.
    pub fn new(inner: Arc<dyn CheckpointStorage>, recording: Recording) -> Self {
        Self { inner, recording }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CheckpointStorage for RecordingStorage {
    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let result = self.inner.initialize_location(folder).await;
        self.recording.note(Operation::InitializeLocation, folder, result, |()| None)
    }

    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        let result = self.inner.create(path).await;
        let inner = self.recording.note(Operation::Create, path, result, |_| None)?;
        Ok(Box::new(RecordingUpload { inner: Some(inner), path: path.clone(), recording: self.recording.clone() }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let size = content.len() as u64;
        let result = self.inner.create_if_absent(path, content).await;
        self.recording.note(Operation::CreateIfAbsent, path, result, |()| Some(size))
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let result = self.inner.read(path).await;
        self.recording.note(Operation::Read, path, result, |bytes| Some(bytes.len() as u64))
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let result = self.inner.read_range(path, offset, length).await;
        self.recording.note(Operation::ReadRange, path, result, |bytes| Some(bytes.len() as u64))
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let result = self.inner.list(folder).await;
        self.recording.note(Operation::List, folder, result, |objects| Some(objects.len() as u64))
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let result = self.inner.list_folders(folder).await;
        self.recording.note(Operation::ListFolders, folder, result, |folders| Some(folders.len() as u64))
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        let result = self.inner.delete(path).await;
        self.recording.note(Operation::Delete, path, result, |()| None)
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let result = self.inner.delete_folder(folder).await;
        self.recording.note(Operation::DeleteFolder, folder, result, |()| None)
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
        Ok(inner.map(|inner| Arc::new(Self::new(inner, self.recording.clone())) as _))
    }
}

struct RecordingUpload {
    /// `None` once finished.
    inner: Option<Box<dyn StateUpload>>,
    path: ObjectPath,
    recording: Recording,
}

const FINISHED: &str = "an upload is finished only once, by value";

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StateUpload for RecordingUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let size = bytes.len() as u64;
        let result = self.inner.as_mut().expect(FINISHED).write(bytes).await;
        self.recording.note(Operation::Write, &self.path, result, |()| Some(size))
    }

    async fn finish(mut self: Box<Self>) -> Result<StateHandle, StorageError> {
        let result = self.inner.take().expect(FINISHED).finish().await;
        self.recording.note(Operation::Finish, &self.path, result, |handle| Some(handle.length()))
    }
}

impl Drop for RecordingUpload {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            drop(inner);
            let _ = self.recording.note(Operation::Abandon, &self.path, Ok(()), |()| None);
        }
    }
}
