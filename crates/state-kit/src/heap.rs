//! The heap state backend: the typed rows themselves are the state.

use highwater_state_api::{
    FrozenState, KeyedBackendParameters, KeyedStateBackend, Residence, SnapshotRequest, StateBackend, StateError,
    TypedRows,
};

/// Keeps working state on the heap, as typed rows.
///
/// There is nothing but the rows: no copy in bytes, nothing to write back, and a snapshot shares them until they
/// change.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeapStateBackend;

impl HeapStateBackend {
    /// The name under which it is known.
    pub const NAME: &'static str = "hashmap";
}

impl StateBackend for HeapStateBackend {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn create_keyed_backend(&self, _: &KeyedBackendParameters) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        Ok(Box::new(HeapKeyedStateBackend))
    }
}

/// The keyed heap backend of one operator subtask.
#[derive(Debug)]
struct HeapKeyedStateBackend;

impl KeyedStateBackend for HeapKeyedStateBackend {
    fn backend_type(&self) -> &'static str {
        HeapStateBackend::NAME
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Rows
    }

    fn freeze(&mut self, _: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(rows.freeze())
    }
}
