//! A storage of a mutexed map, and with it four that are deliberately wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use highwater_state_api::{CheckpointStorage, Checksum, ObjectPath, StateHandle, StateUpload, StorageError};

/// A way to break the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What is being written can be seen before it is finished.
    PublishesBeforeFinish,
    /// An object is replaced by another of its path.
    Overwrites,
    /// What cannot be read is taken for an empty object.
    TakesAnErrorForEmpty,
    /// A listing is in the order of creation.
    ForgetsToSort,
}

type Objects = Arc<Mutex<BTreeMap<ObjectPath, (usize, Bytes)>>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct SimpleStorage {
    objects: Objects,
    mistake: Option<Mistake>,
}

impl SimpleStorage {
    pub(crate) fn with(mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..Self::default() }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn insert(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let mut objects = self.objects.lock().unwrap();
        if objects.contains_key(path) && !self.makes(Mistake::Overwrites) {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        let number = objects.len();
        objects.insert(path.clone(), (number, content));
        Ok(())
    }
}

#[async_trait]
impl CheckpointStorage for SimpleStorage {
    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        if self.makes(Mistake::PublishesBeforeFinish) {
            self.insert(path, Bytes::new())?;
        }
        Ok(Box::new(SimpleUpload { storage: self.clone(), path: path.clone(), content: BytesMut::new() }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        self.insert(path, content)
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        match self.objects.lock().unwrap().get(path) {
            Some((_, content)) => Ok(content.clone()),
            None if self.makes(Mistake::TakesAnErrorForEmpty) => Ok(Bytes::new()),
            None => Err(StorageError::NotFound { path: path.clone() }),
        }
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let content = self.read(path).await?;
        match offset.checked_add(length).filter(|end| *end <= content.len() as u64) {
            Some(end) => Ok(content.slice(offset as usize..end as usize)),
            None => Err(StorageError::Corrupt {
                path: path.clone(),
                expected: format!("bytes {offset} to {}", offset.saturating_add(length)),
                found: format!("{} bytes", content.len()),
            }),
        }
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let objects = self.objects.lock().unwrap();
        let mut listed: Vec<_> = objects.iter().filter(|(path, _)| path.is_under(folder)).collect();
        if self.makes(Mistake::ForgetsToSort) {
            listed.sort_by_key(|(_, (number, _))| *number);
        }
        Ok(listed.into_iter().map(|(path, _)| path.clone()).collect())
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        self.objects.lock().unwrap().remove(path);
        Ok(())
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        self.objects.lock().unwrap().retain(|path, _| !path.is_under(folder));
        Ok(())
    }

    fn is_durable(&self) -> bool {
        false
    }
}

struct SimpleUpload {
    storage: SimpleStorage,
    path: ObjectPath,
    content: BytesMut,
}

#[async_trait]
impl StateUpload for SimpleUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.content.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        let Self { storage, path, content } = *self;
        let (length, checksum) = (content.len() as u64, Checksum::of(&content));
        if storage.makes(Mistake::PublishesBeforeFinish) {
            storage.objects.lock().unwrap().insert(path.clone(), (0, content.freeze()));
        } else {
            storage.insert(&path, content.freeze())?;
        }
        Ok(StateHandle::Object { path, length, checksum })
    }
}
