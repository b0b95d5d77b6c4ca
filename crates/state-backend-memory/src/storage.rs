//! The memory checkpoint storage: objects in a map of this process.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use dashmap::{DashMap, Entry};
use highwater_state_api::{CheckpointStorage, Checksum, ObjectPath, StateHandle, StateUpload, StorageError};

/// Bytes that one state can have at most, unless the storage is told otherwise: 5 MiB.
pub const STATE_BYTES_MAX: u64 = 5 * 1024 * 1024;

/// A checkpoint storage in the memory of the process: checkpoints end with it.
///
/// For tests and small jobs that only have to survive the failure of a task. Clones share their objects. Handles name
/// objects here as in any other storage: bytes carried inline would be copied into the metadata of the checkpoint, which
/// lives in the same memory, and would not go when the state is discarded.
///
/// ```
/// use highwater_state_api::{CheckpointStorage, ObjectPath, StorageError};
/// use highwater_state_backend_memory::MemoryCheckpointStorage;
///
/// # pollster::block_on(async {
/// let storage = MemoryCheckpointStorage::new().with_state_bytes_max(4);
/// let path = ObjectPath::new(["job", "chk-1", "state"]);
/// let result = storage.create_if_absent(&path, "five!".into()).await;
/// assert!(matches!(result, Err(StorageError::TooLarge { limit: 4, found: 5, .. })));
/// storage.create_if_absent(&path, "four".into()).await?;
/// assert_eq!(storage.read(&path).await?, "four");
/// # Ok::<(), StorageError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct MemoryCheckpointStorage {
    objects: Arc<DashMap<ObjectPath, Bytes>>,
    state_bytes_max: u64,
}

impl Default for MemoryCheckpointStorage {
    fn default() -> Self {
        Self { objects: Arc::default(), state_bytes_max: STATE_BYTES_MAX }
    }
}

impl MemoryCheckpointStorage {
    /// An empty storage that takes states of up to [`STATE_BYTES_MAX`] bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes states of up to this many bytes. Objects that are there already stay.
    pub fn with_state_bytes_max(mut self, state_bytes_max: u64) -> Self {
        self.state_bytes_max = state_bytes_max;
        self
    }

    /// The largest number of bytes that one state can have.
    pub fn state_bytes_max(&self) -> u64 {
        self.state_bytes_max
    }

    fn insert(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let found = content.len() as u64;
        if found > self.state_bytes_max {
            return Err(self.too_large(path, found));
        }
        match self.objects.entry(path.clone()) {
            Entry::Occupied(_) => Err(StorageError::AlreadyExists { path: path.clone() }),
            Entry::Vacant(vacant) => {
                vacant.insert(content);
                Ok(())
            }
        }
    }

    fn too_large(&self, path: &ObjectPath, found: u64) -> StorageError {
        StorageError::TooLarge { path: path.clone(), limit: self.state_bytes_max, found }
    }
}

#[async_trait]
impl CheckpointStorage for MemoryCheckpointStorage {
    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        if self.objects.contains_key(path) {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        Ok(Box::new(MemoryUpload { storage: self.clone(), path: path.clone(), content: BytesMut::new(), length: 0 }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        self.insert(path, content)
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        match self.objects.get(path) {
            Some(content) => Ok(content.clone()),
            None => Err(StorageError::NotFound { path: path.clone() }),
        }
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let content = self.read(path).await?;
        let end = offset.checked_add(length).filter(|end| *end <= content.len() as u64);
        match end {
            Some(end) => Ok(content.slice(offset as usize..end as usize)),
            None => Err(StorageError::Corrupt {
                path: path.clone(),
                expected: format!("{length} bytes from byte {offset}"),
                found: format!("{} bytes in all", content.len()),
            }),
        }
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let paths = self.objects.iter().map(|object| object.key().clone());
        let mut paths: Vec<ObjectPath> = paths.filter(|path| path.is_under(folder)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        self.objects.remove(path);
        Ok(())
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        self.objects.retain(|path, _| !path.is_under(folder));
        Ok(())
    }

    fn is_durable(&self) -> bool {
        false
    }
}

/// An object being written.
#[derive(Debug)]
struct MemoryUpload {
    storage: MemoryCheckpointStorage,
    path: ObjectPath,
    content: BytesMut,
    /// Counts on when the content is too large and no longer kept: the error names the whole size.
    length: u64,
}

#[async_trait]
impl StateUpload for MemoryUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.length += bytes.len() as u64;
        if self.length > self.storage.state_bytes_max {
            self.content = BytesMut::new();
        } else {
            self.content.extend_from_slice(&bytes);
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        let Self { storage, path, content, length } = *self;
        if length > storage.state_bytes_max {
            return Err(storage.too_large(&path, length));
        }
        let checksum = Checksum::of(&content);
        storage.insert(&path, content.freeze())?;
        Ok(StateHandle::Object { path, length, checksum })
    }
}
