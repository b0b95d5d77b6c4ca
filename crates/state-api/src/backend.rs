//! What a state backend implements: where the working state of a keyed operator lives and how it is snapshotted.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::rows::TypedRows;
use crate::{
    CheckpointId, CheckpointStorage, ConfigError, ConfigNotices, Configuration, JobName, KeyGroup, KeyGroupRange,
    MaxParallelism, OperatorUid, StateError, TableMeta,
};

/// Number of a table (a registered state) within one keyed backend, from 0, in the order of registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

/// The address of one entry. Two addresses are equal only when all parts are equal: a backend that joins the parts
/// into one key must do so without ambiguity, for instance by writing the lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At<'a> {
    /// The table.
    pub table: TableId,
    /// The key group of the key.
    pub group: KeyGroup,
    /// The serialised key.
    pub key: &'a [u8],
    /// The serialised namespace; empty for state that is in none, and for a namespace without bytes.
    pub namespace: &'a [u8],
    /// Of a map state, the serialised map key; of a list state, the position of a chunk of the list. Empty for the other
    /// kinds, and for a map key without bytes.
    pub map_key: &'a [u8],
}

/// One entry as a scan or a snapshot sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where it is.
    pub at: At<'a>,
    /// The serialised value.
    pub value: &'a [u8],
}

/// Which entries a scan visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix<'a> {
    /// All of a table.
    Table(TableId),
    /// Those of one key and namespace: the entries of one map.
    Namespace {
        /// The table.
        table: TableId,
        /// The key group of the key.
        group: KeyGroup,
        /// The serialised key.
        key: &'a [u8],
        /// The serialised namespace.
        namespace: &'a [u8],
    },
}

/// The byte tables of a backend that keeps state as bytes: about all that such a backend has to write itself.
///
/// One task owns them; there are no concurrent calls. After an error the task fails and the backend is dropped.
pub trait ByteTables {
    /// Makes a table known before its first use; called once for each, in ascending order of number.
    fn open_table(&mut self, table: TableId, meta: &TableMeta) -> Result<(), StateError>;

    /// Appends the value at `at` to `out` and returns whether there is one. An empty value is a value.
    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError>;

    /// Stores a value, replacing any that was there.
    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError>;

    /// Removes the value at `at`; it need not exist.
    fn remove(&mut self, at: At<'_>) -> Result<(), StateError>;

    /// Visits the entries of a prefix, each once, in any order, until the visitor breaks. An error while reading is
    /// returned, never taken for the end.
    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError>;

    /// A hint that these entries are about to be read, in ascending order. Not given yet.
    fn prefetch(&mut self, _wanted: &[At<'_>]) {}
}

/// Where a backend keeps the working state.
pub enum Residence<'a> {
    /// In the typed rows themselves: heap backends.
    Rows,
    /// As bytes; the typed rows are a bounded write-back cache before them.
    Bytes(&'a mut dyn ByteTables),
}

/// What a snapshot is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The checkpoint it belongs to.
    pub checkpoint: CheckpointId,
}

/// The keyed backend of one operator subtask.
pub trait KeyedStateBackend: Send {
    /// A short name such as `hashmap`, for people.
    fn backend_type(&self) -> &'static str;

    /// Where this backend keeps the state.
    fn residence(&mut self) -> Residence<'_>;

    /// Takes a snapshot: after it returns, nothing that happens to the live state shows in the result.
    ///
    /// This is the synchronous part, on the task's thread: it must not take longer for more keys. Dirty rows have been
    /// written back to the byte tables before the call. Several snapshots may be open at once.
    fn freeze(&mut self, request: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError>;

    /// A checkpoint with a snapshot of this backend has completed. Best effort: may be left out.
    fn confirmed(&mut self, _checkpoint: CheckpointId) {}

    /// A checkpoint with a snapshot of this backend will not complete. Best effort: may be left out.
    fn aborted(&mut self, _checkpoint: CheckpointId) {}

    /// A completed checkpoint is no longer kept: nothing will be restored from it. Best effort: may be left out. The
    /// snapshot in it need not have been one of this backend.
    fn subsumed(&mut self, _checkpoint: CheckpointId) {}
}

/// A snapshot that waits to be written, by anyone, on any thread.
pub trait FrozenState: Send {
    /// Visits the entries of one key group as of the freeze, each once, in ascending order of table and in any order
    /// within a table. Group by group in any order; a group may be asked for twice.
    ///
    /// An error of the visitor ends the visit and is returned.
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError>;
}

/// Receives the entries of a snapshot.
pub type EntryVisitor<'v> = dyn FnMut(Entry<'_>) -> Result<(), StateError> + 'v;

/// Who a keyed backend is made for.
#[derive(Debug, Clone)]
pub struct KeyedBackendParameters {
    /// The job.
    pub job: JobName,
    /// The operator.
    pub operator: OperatorUid,
    /// Index of the subtask.
    pub subtask: u32,
    /// Number of key groups of the job.
    pub max_parallelism: MaxParallelism,
    /// The key groups that this subtask owns.
    pub range: KeyGroupRange,
}

/// Makes the keyed backends of a job: how working state is held. Operator state is not its matter: that is on the heap
/// whatever the backend.
///
/// A factory, injected into the runtime; each call makes an independent, empty backend. Restored state is written into
/// it through its own interface, so a backend needs no code for restoring.
pub trait StateBackend: Send + Sync + fmt::Debug {
    /// A short name such as `hashmap`, for people and for configuration.
    fn name(&self) -> &str;

    /// Makes the keyed backend of one operator subtask.
    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError>;

    /// This backend with what was left open when it was made, taken from the configuration of the cluster; `None` when
    /// nothing was left open.
    ///
    /// Called at the start of a job in which the backend was set by code. What was set there is not changed.
    fn configure(
        &self,
        _cluster: &Configuration,
        _notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn StateBackend>>, ConfigError> {
        Ok(None)
    }
}

impl<B: StateBackend + ?Sized> StateBackend for Arc<B> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        (**self).create_keyed_backend(parameters)
    }

    fn configure(
        &self,
        cluster: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn StateBackend>>, ConfigError> {
        (**self).configure(cluster, notices)
    }
}

/// A state backend and the checkpoint storage that goes with it: the form in which presets such as
/// `FsStateBackend` are handed to a job.
#[derive(Debug, Clone)]
pub struct BackendPairing {
    /// How working state is held.
    pub state_backend: Arc<dyn StateBackend>,
    /// Where snapshots go.
    pub checkpoint_storage: Arc<dyn CheckpointStorage>,
}
