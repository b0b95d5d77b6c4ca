//! The storage of the simulated world: it survives kills, and fails as the seed says.
//!
//! Every operation gives way once before it takes effect. So whatever consists of several operations can be overtaken,
//! or killed, between any two of them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use highwater_checkpoint::{LogRecord, decode_log_record, encode_log_record, paths};
use highwater_state_api::{
    CheckpointId, CheckpointStorage, Checksum, ConfigError, ConfigNotices, Configuration, INLINE_BYTES_MAX, JobName,
    ObjectPath, StateHandle, StateUpload, StorageError, folders_in,
};

use crate::dice::Dice;

/// What happened to the storage.
#[derive(Debug, Clone)]
pub(crate) enum StorageEvent {
    /// An object was created.
    Created(ObjectPath),
    /// A record of the job log was created.
    Logged(u64, LogRecord),
    /// An object was deleted.
    Deleted(ObjectPath),
    /// An operation failed as the seed said.
    Failed(&'static str, When, ObjectPath),
}

/// When an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Without effect.
    Before,
    /// After it has happened.
    After,
}

/// A checkpoint storage in a map. Clones share it.
#[derive(Clone)]
pub(crate) struct SimStorage(Arc<Mutex<Inner>>);

struct Inner {
    job: JobName,
    /// Planted: what is read as a record that says which checkpoints are dropped says that none is.
    hides_dropped: bool,
    /// Planted: records that say that a job goes back to an older checkpoint are lost.
    forgets_fall_backs: bool,
    objects: BTreeMap<ObjectPath, Bytes>,
    events: Vec<StorageEvent>,
    dice: Dice,
    fails_before: u32,
    fails_after: u32,
}

impl fmt::Debug for SimStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStorage").field("objects", &self.lock().objects.len()).finish_non_exhaustive()
    }
}

impl SimStorage {
    /// An empty storage; of 1,000 operations so many fail before, and so many after, they have happened.
    pub(crate) fn new(job: JobName, dice: Dice, fails_before: u32, fails_after: u32) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            job,
            hides_dropped: false,
            forgets_fall_backs: false,
            objects: BTreeMap::new(),
            events: Vec::new(),
            dice,
            fails_before,
            fails_after,
        })))
    }

    /// Planted: nobody learns from the log that checkpoints were dropped.
    pub(crate) fn hide_dropped(&self) {
        self.lock().hides_dropped = true;
    }

    /// Nothing fails from now on.
    pub(crate) fn heal(&self) {
        let mut inner = self.lock();
        (inner.fails_before, inner.fails_after) = (0, 0);
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&self) -> Vec<StorageEvent> {
        std::mem::take(&mut self.lock().events)
    }

    /// Another byte takes the place of one in an object, or the object is gone.
    pub(crate) fn damage(&self, path: &ObjectPath, place: Option<u64>) {
        let mut inner = self.lock();
        let Some(content) = inner.objects.remove(path) else { return };
        if let Some(place) = place.filter(|_| !content.is_empty()) {
            let mut content = content.to_vec();
            let place = (place % content.len() as u64) as usize;
            content[place] ^= 0x10;
            inner.objects.insert(path.clone(), Bytes::from(content));
        }
    }

    /// Planted: the log does not take records that say that a job goes back.
    pub(crate) fn forget_fall_backs(&self) {
        self.lock().forgets_fall_backs = true;
    }

    /// Looks at an object, without any fault.
    pub(crate) fn peek(&self, path: &ObjectPath) -> Option<Bytes> {
        self.lock().objects.get(path).cloned()
    }

    /// Looks at the paths of all objects, without any fault.
    pub(crate) fn peek_paths(&self) -> Vec<ObjectPath> {
        self.lock().objects.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic that is caught is a finding; what was stored is still what was stored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation that changes something: may fail before or after it.
    fn change<T>(
        &self,
        operation: &'static str,
        path: &ObjectPath,
        change: impl FnOnce(&mut Inner) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut inner = self.lock();
        let rate = inner.fails_before;
        if inner.dice.chance(rate) {
            return Err(inner.fail(operation, When::Before, path));
        }
        let done = change(&mut inner)?;
        let rate = inner.fails_after;
        if inner.dice.chance(rate) {
            return Err(inner.fail(operation, When::After, path));
        }
        Ok(done)
    }

    /// An operation that only looks: may fail.
    fn look<T>(
        &self,
        operation: &'static str,
        path: &ObjectPath,
        look: impl FnOnce(&Inner) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut inner = self.lock();
        let rate = inner.fails_before;
        if inner.dice.chance(rate) {
            return Err(inner.fail(operation, When::Before, path));
        }
        look(&inner)
    }
}

impl Inner {
    fn fail(&mut self, operation: &'static str, when: When, path: &ObjectPath) -> StorageError {
        self.events.push(StorageEvent::Failed(operation, when, path.clone()));
        StorageError::unavailable(operation, path, io::Error::other("as the seed says"))
    }

    fn insert(&mut self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        if self.objects.contains_key(path) {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        let record = paths::sequence_of(&self.job, path).zip(decode_log_record(&content).ok());
        if self.forgets_fall_backs && matches!(record, Some((_, LogRecord::Dropped { newest: Some(_), .. }))) {
            return Ok(());
        }
        self.events.push(match record {
            Some((sequence, record)) => StorageEvent::Logged(sequence, record),
            None => StorageEvent::Created(path.clone()),
        });
        self.objects.insert(path.clone(), content);
        Ok(())
    }

    fn remove(&mut self, path: &ObjectPath) {
        if self.objects.remove(path).is_some() {
            self.events.push(StorageEvent::Deleted(path.clone()));
        }
    }

    fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let content = self.objects.get(path).cloned().ok_or_else(|| StorageError::NotFound { path: path.clone() })?;
        if self.hides_dropped
            && paths::sequence_of(&self.job, path).is_some()
            && let Ok(LogRecord::Dropped { attempt, .. }) = decode_log_record(&content)
        {
            let all_are_kept = LogRecord::Dropped { attempt, newest: Some(CheckpointId(u64::MAX)) };
            return Ok(encode_log_record(&all_are_kept).map_or(content, Bytes::from));
        }
        Ok(content)
    }

    fn under(&self, folder: &ObjectPath) -> Vec<ObjectPath> {
        self.objects.keys().filter(|path| path.is_under(folder)).cloned().collect()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CheckpointStorage for SimStorage {
    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        give_way().await;
        self.look("initialize", folder, |_| Ok(()))
    }

    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        give_way().await;
        self.look("create", path, |inner| match inner.objects.contains_key(path) {
            true => Err(StorageError::AlreadyExists { path: path.clone() }),
            false => Ok(()),
        })?;
        Ok(Box::new(SimUpload { storage: self.clone(), path: path.clone(), content: BytesMut::new() }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        give_way().await;
        self.change("create", path, |inner| inner.insert(path, content))
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        give_way().await;
        self.look("read", path, |inner| inner.read(path))
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        give_way().await;
        self.look("read", path, |inner| {
            let content = inner.read(path)?;
            let end = offset.checked_add(length).filter(|end| *end <= content.len() as u64);
            end.map(|end| content.slice(offset as usize..end as usize)).ok_or_else(|| StorageError::Corrupt {
                path: path.clone(),
                expected: format!("{length} bytes from byte {offset}"),
                found: format!("{} bytes in all", content.len()),
            })
        })
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        give_way().await;
        self.look("list", folder, |inner| Ok(inner.under(folder)))
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        Ok(folders_in(folder, &self.list(folder).await?))
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        give_way().await;
        self.change("delete", path, |inner| {
            inner.remove(path);
            Ok(())
        })
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        give_way().await;
        self.change("delete", folder, |inner| {
            inner.under(folder).iter().for_each(|path| inner.remove(path));
            Ok(())
        })
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn inline_bytes_max(&self) -> u64 {
        INLINE_BYTES_MAX
    }

    /// Nothing was left open.
    fn configure(
        &self,
        _: &Configuration,
        _: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn CheckpointStorage>>, ConfigError> {
        Ok(None)
    }
}

/// An object being written. It is gone with its writer unless it is finished.
struct SimUpload {
    storage: SimStorage,
    path: ObjectPath,
    content: BytesMut,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StateUpload for SimUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        give_way().await;
        self.storage.look("write", &self.path, |_| Ok(()))?;
        self.content.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        give_way().await;
        let Self { storage, path, content } = *self;
        let content = content.freeze();
        let (length, checksum) = (content.len() as u64, Checksum::of(&content));
        storage.change("finish", &path, |inner| inner.insert(&path, content))?;
        Ok(StateHandle::Object { path, length, checksum })
    }
}

/// Is pending once.
fn give_way() -> impl Future<Output = ()> + Send {
    GiveWay(false)
}

struct GiveWay(bool);

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
