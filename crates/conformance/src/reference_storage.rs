//! The shortest right storage that outlives its instances: objects in sorted maps that stand for a disk.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use highwater_state_api::{
    CheckpointStorage, Checksum, ObjectPath, StateHandle, StateUpload, StorageError, folders_in,
};

/// What the instances of a [`ReferenceStorage`] share and what outlives them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReferenceDisk(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<ObjectPath, Bytes>,
    /// The objects that are being written, by the number of their upload. Those of dead writers stay.
    pub(crate) unfinished: BTreeMap<u64, (ObjectPath, BytesMut)>,
    next_upload: u64,
}

impl ReferenceDisk {
    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        // A map is whole at any moment: a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Adds an object, unless its path is taken.
    pub(crate) fn insert(&mut self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        if self.objects.contains_key(path) {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        self.objects.insert(path.clone(), content);
        Ok(())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &ObjectPath> {
        self.objects.keys().chain(self.unfinished.values().map(|(path, _)| path))
    }
}

/// A checkpoint storage on a [`ReferenceDisk`]: what the suite is tried on, and what tests can use that have no other.
#[derive(Debug, Clone)]
pub struct ReferenceStorage {
    disk: ReferenceDisk,
}

impl ReferenceStorage {
    /// An instance that works with what is on the disk.
    pub fn on(disk: &ReferenceDisk) -> Self {
        Self { disk: disk.clone() }
    }
}

#[async_trait]
impl CheckpointStorage for ReferenceStorage {
    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        let mut contents = self.disk.contents();
        let number = contents.next_upload;
        contents.next_upload += 1;
        contents.unfinished.insert(number, (path.clone(), BytesMut::new()));
        Ok(Box::new(ReferenceUpload { disk: self.disk.clone(), number, path: path.clone() }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        self.disk.contents().insert(path, content)
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let content = self.disk.contents().objects.get(path).cloned();
        content.ok_or_else(|| StorageError::NotFound { path: path.clone() })
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let content = self.read(path).await?;
        match offset.checked_add(length).filter(|end| *end <= content.len() as u64) {
            Some(end) => Ok(content.slice(offset as usize..end as usize)),
            None => Err(StorageError::Corrupt {
                path: path.clone(),
                expected: format!("{length} bytes from byte {offset}"),
                found: format!("{} bytes in all", content.len()),
            }),
        }
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let contents = self.disk.contents();
        Ok(contents.objects.keys().filter(|path| path.is_under(folder)).cloned().collect())
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let paths: Vec<ObjectPath> = self.disk.contents().paths().cloned().collect();
        Ok(folders_in(folder, &paths))
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        self.disk.contents().objects.remove(path);
        Ok(())
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let mut contents = self.disk.contents();
        contents.objects.retain(|path, _| !path.is_under(folder));
        contents.unfinished.retain(|_, (path, _)| !path.is_under(folder));
        Ok(())
    }

    fn is_durable(&self) -> bool {
        true
    }
}

struct ReferenceUpload {
    disk: ReferenceDisk,
    number: u64,
    path: ObjectPath,
}

impl ReferenceUpload {
    /// Its folder has been deleted.
    fn gone(&self, operation: &'static str) -> StorageError {
        StorageError::unavailable(operation, &self.path, io::ErrorKind::NotFound.into())
    }
}

#[async_trait]
impl StateUpload for ReferenceUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let mut contents = self.disk.contents();
        let (_, content) = contents.unfinished.get_mut(&self.number).ok_or_else(|| self.gone("write"))?;
        content.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        let mut contents = self.disk.contents();
        let (path, content) = contents.unfinished.remove(&self.number).ok_or_else(|| self.gone("publish"))?;
        let (length, checksum) = (content.len() as u64, Checksum::of(&content));
        contents.insert(&path, content.freeze())?;
        Ok(StateHandle::Object { path, length, checksum })
    }
}

impl Drop for ReferenceUpload {
    fn drop(&mut self) {
        self.disk.contents().unfinished.remove(&self.number);
    }
}
