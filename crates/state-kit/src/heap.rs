//! The heap state backend: the typed rows themselves are the state.

use std::sync::Arc;

use highwater_state_api::{
    ConfigError, ConfigNotices, Configuration, FrozenState, KeyGroupRange, KeyedBackendParameters, KeyedStateBackend,
    Residence, SnapshotRequest, StateBackend, StateBackendFactory, StateError, TypedRows, options,
};

use crate::serialized::SerializedState;

/// Keeps working state on the heap, as typed rows.
///
/// There is nothing but the rows: no copy in bytes, nothing to write back. There are two ways to take a snapshot, with
/// the same bytes as the result:
///
/// * *Asynchronous*, the default: the snapshot shares the rows until they change. Freezing takes no longer for more
///   keys; while the snapshot is open, the first write to a page of rows copies it.
/// * *Synchronous*: the rows are serialised at once. The task stops for as long as that takes and the bytes are held
///   until they are stored, but no row is ever shared or copied. The storage is still written beside the records.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeapStateBackend {
    /// `None` is left open for the configuration of the cluster.
    asynchronous: Option<bool>,
}

impl HeapStateBackend {
    /// The name under which it is known.
    pub const NAME: &'static str = "hashmap";

    /// With snapshots that are asynchronous, unless the configuration of the cluster says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// With snapshots that are serialised before the task goes on.
    pub fn synchronous() -> Self {
        Self::new().with_asynchronous_snapshots(false)
    }

    /// With snapshots that are serialised beside the records, or before the task goes on.
    pub fn with_asynchronous_snapshots(self, asynchronous: bool) -> Self {
        Self { asynchronous: Some(asynchronous) }
    }

    /// Whether snapshots are serialised beside the records.
    pub fn has_asynchronous_snapshots(&self) -> bool {
        self.asynchronous.unwrap_or(true)
    }
}

impl StateBackend for HeapStateBackend {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        let asynchronous = self.has_asynchronous_snapshots();
        Ok(Box::new(HeapKeyedStateBackend { asynchronous, range: parameters.range }))
    }

    fn configure(
        &self,
        cluster: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn StateBackend>>, ConfigError> {
        if self.asynchronous.is_some() {
            return Ok(None);
        }
        let configured = cluster.get_optional(&options::ASYNCHRONOUS_SNAPSHOTS, notices)?;
        Ok(configured.map(|asynchronous| Arc::new(self.with_asynchronous_snapshots(asynchronous)) as _))
    }
}

/// Makes the heap state backend from a configuration, under the name [`HeapStateBackend::NAME`].
#[derive(Debug, Clone, Copy, Default)]
pub struct HeapStateBackendFactory;

impl StateBackendFactory for HeapStateBackendFactory {
    fn identifier(&self) -> &str {
        HeapStateBackend::NAME
    }

    fn create_from_config(
        &self,
        configuration: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Arc<dyn StateBackend>, ConfigError> {
        let asynchronous = configuration.get(&options::ASYNCHRONOUS_SNAPSHOTS, notices)?;
        Ok(Arc::new(HeapStateBackend { asynchronous }))
    }
}

/// The keyed heap backend of one operator subtask.
#[derive(Debug)]
struct HeapKeyedStateBackend {
    asynchronous: bool,
    range: KeyGroupRange,
}

impl KeyedStateBackend for HeapKeyedStateBackend {
    fn backend_type(&self) -> &'static str {
        HeapStateBackend::NAME
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Rows
    }

    fn freeze(&mut self, _: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        let mut frozen = rows.freeze();
        if self.asynchronous {
            return Ok(frozen);
        }
        let serialized = SerializedState::of(&mut *frozen, self.range)?;
        // The rows are the task's alone again when it goes on.
        drop(frozen);
        rows.fold_back();
        Ok(Box::new(serialized))
    }
}

#[cfg(test)]
#[path = "heap_test.rs"]
mod heap_test;
