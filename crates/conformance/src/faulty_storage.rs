//! A storage that fails on command: before or after an operation has happened, or in the middle of a wait.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use highwater_state_api::{
    CheckpointStorage, ConfigError, ConfigNotices, Configuration, ObjectPath, StateHandle, StateUpload, StorageError,
};

use crate::Operation;

/// What goes wrong.
#[derive(Clone)]
pub enum Fault {
    /// The operation fails and has no effect.
    FailBefore,
    /// The operation is carried out, and fails all the same: its outcome is unknown to the caller.
    FailAfter,
    /// The operation waits for the closure to return and is then carried out.
    Delay(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailBefore => "FailBefore",
            Self::FailAfter => "FailAfter",
            Self::Delay(_) => "Delay",
        })
    }
}

/// Which call a fault hits: of those that match, the n-th from now on.
#[derive(Debug, Clone)]
pub struct When {
    operation: Operation,
    nth: u64,
    name: Option<String>,
    always: bool,
}

impl When {
    /// The `nth` call of an operation, counted from 1 when the fault is armed.
    pub fn nth(operation: Operation, nth: u64) -> Self {
        Self { operation, nth, name: None, always: false }
    }

    /// The next call of an operation.
    pub fn next(operation: Operation) -> Self {
        Self::nth(operation, 1)
    }

    /// Every call of an operation until the faults are cleared.
    pub fn every(operation: Operation) -> Self {
        Self { always: true, ..Self::nth(operation, 1) }
    }

    /// Only calls for objects or folders whose last segment is `name`.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn matches(&self, operation: Operation, path: &ObjectPath) -> bool {
        self.operation == operation && self.name.as_ref().is_none_or(|name| name == path.name())
    }
}

/// The faults of a [`FaultyStorage`]: the handle to arm them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    armed: Arc<Mutex<Vec<(When, Fault)>>>,
}

impl Faults {
    /// Arms a fault. When several hit the same call, the one armed first is used and the others are spent with it.
    pub fn arm(&self, when: When, fault: Fault) {
        self.armed().push((when, fault));
    }

    /// Begins an outage, in which every call fails and has no effect, or ends it, and with it all other faults.
    pub fn set_outage(&self, lasts: bool) {
        self.clear();
        if lasts {
            for operation in Operation::ALL {
                self.arm(When::every(*operation), Fault::FailBefore);
            }
        }
    }

    /// Disarms all faults.
    pub fn clear(&self) {
        self.armed().clear();
    }

    /// How many faults have not happened yet.
    pub fn remaining(&self) -> usize {
        self.armed().len()
    }

    fn armed(&self) -> MutexGuard<'_, Vec<(When, Fault)>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, operation: Operation, path: &ObjectPath) -> Option<Fault> {
        let mut hit = None;
        self.armed().retain_mut(|(when, fault)| {
            if !when.matches(operation, path) {
                return true;
            }
            when.nth -= u64::from(!when.always);
            if when.always || when.nth == 0 {
                hit.get_or_insert_with(|| fault.clone());
            }
            when.always || when.nth > 0
        });
        hit
    }

    /// Before an operation: fails, waits, or tells whether to fail afterwards.
    fn before(&self, operation: Operation, path: &ObjectPath) -> Result<After, StorageError> {
        match self.take(operation, path) {
            None => Ok(After(None)),
            Some(Fault::FailBefore) => Err(injected(operation, path, "before it happened")),
            Some(Fault::FailAfter) => Ok(After(Some(injected(operation, path, "after it happened")))),
            Some(Fault::Delay(wait)) => {
                wait();
                Ok(After(None))
            }
        }
    }
}

/// What to do with the result of an operation: fail in its place, or nothing.
struct After(Option<StorageError>);

impl After {
    fn apply<T>(self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        match self.0 {
            Some(error) => Err(error),
            None => result,
        }
    }
}

fn injected(operation: Operation, path: &ObjectPath, when: &str) -> StorageError {
    StorageError::unavailable(operation.as_str(), path, io::Error::other(format!("injected fault {when}")))
}

/// A storage around another that fails on command. Forwards everything.
#[derive(Debug)]
pub struct FaultyStorage {
    inner: Arc<dyn CheckpointStorage>,
    faults: Faults,
}

impl FaultyStorage {
    /// Wraps a storage; `faults` is the handle to arm faults.
    pub fn new(inner: Arc<dyn CheckpointStorage>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CheckpointStorage for FaultyStorage {
    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let after = self.faults.before(Operation::InitializeLocation, folder)?;
        after.apply(self.inner.initialize_location(folder).await)
    }

    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        let after = self.faults.before(Operation::Create, path)?;
        let inner = after.apply(self.inner.create(path).await)?;
        Ok(Box::new(FaultyUpload { inner, path: path.clone(), faults: self.faults.clone() }))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let after = self.faults.before(Operation::CreateIfAbsent, path)?;
        after.apply(self.inner.create_if_absent(path, content).await)
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let after = self.faults.before(Operation::Read, path)?;
        after.apply(self.inner.read(path).await)
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let after = self.faults.before(Operation::ReadRange, path)?;
        after.apply(self.inner.read_range(path, offset, length).await)
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let after = self.faults.before(Operation::List, folder)?;
        after.apply(self.inner.list(folder).await)
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let after = self.faults.before(Operation::ListFolders, folder)?;
        after.apply(self.inner.list_folders(folder).await)
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        let after = self.faults.before(Operation::Delete, path)?;
        after.apply(self.inner.delete(path).await)
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let after = self.faults.before(Operation::DeleteFolder, folder)?;
        after.apply(self.inner.delete_folder(folder).await)
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
        Ok(inner.map(|inner| Arc::new(Self::new(inner, self.faults.clone())) as _))
    }
}

struct FaultyUpload {
    inner: Box<dyn StateUpload>,
    path: ObjectPath,
    faults: Faults,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl StateUpload for FaultyUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let after = self.faults.before(Operation::Write, &self.path)?;
        after.apply(self.inner.write(bytes).await)
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        let after = self.faults.before(Operation::Finish, &self.path)?;
        after.apply(self.inner.finish().await)
    }
}
