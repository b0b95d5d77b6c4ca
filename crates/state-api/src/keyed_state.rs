//! The keyed state of one operator subtask: typed rows before a backend, and the key that is current.

use std::sync::Arc;

use bytes::Bytes;

use crate::rows::TypedRows;
use crate::rows::column::{Access, Column};
use crate::{
    AnyDescriptor, CheckpointId, FrozenState, Key, KeyGroup, KeyHash, KeyedBackendParameters, KeyedStateBackend,
    KeyedStateStore, MapState, Serializer, Slot, SnapshotRequest, State, StateError, TableMeta,
};

/// The keyed state of one operator subtask. Owned by one task; a store, and the context of a bare backend.
pub struct KeyedState {
    _rows: TypedRows,
    _backend: Box<dyn KeyedStateBackend>,
}

/// How the row tier behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSettings {
    /// For backends that keep bytes: how many rows the write-back cache holds before it is written back and emptied.
    /// 0 turns the cache off: it is written back after every batch.
    pub cached_rows_max: usize,
    /// Seed of the hash tables, so that nobody can prepare keys that collide. Injected: random in production.
    pub hash_seed: u64,
}

/// A frozen snapshot of a [`KeyedState`], with what is needed to read it again.
pub struct FrozenKeyedState {
    /// The tables, by their numbers in the snapshot.
    pub tables: Vec<TableMeta>,
    /// The content.
    pub content: Box<dyn FrozenState>,
}

impl KeyedState {
    /// The state of an operator keyed by `K`, empty, in front of an empty backend.
    pub fn open<K: Key>(
        _backend: Box<dyn KeyedStateBackend>,
        _parameters: &KeyedBackendParameters,
        _key_serializer: Arc<dyn Serializer<K>>,
        _settings: RowSettings,
    ) -> Result<Self, StateError> {
        unimplemented!()
    }

    /// Takes the canonical stream of one key group of a snapshot in which the tables were `tables`.
    ///
    /// Before any state is registered. States are decoded when they are registered; those that never are go into every
    /// later snapshot unchanged. Fails when tables of the same name do not agree between streams.
    pub fn restore_key_group(
        &mut self,
        _tables: &[TableMeta],
        _group: KeyGroup,
        _stream: Bytes,
    ) -> Result<(), StateError> {
        unimplemented!()
    }

    /// Makes the tables of a snapshot known although no key group of it is restored, so that they go on to exist.
    pub fn restore_tables(&mut self, _tables: &[TableMeta]) -> Result<(), StateError> {
        unimplemented!()
    }

    /// Finds or makes the rows of a batch of keys, ahead of their records: [`KeyedState::select`] then makes the
    /// i-th current at almost no cost. No key is current afterwards.
    pub fn resolve_batch<'k, K: Key>(
        &mut self,
        _keys: impl Iterator<Item = (&'k K, KeyHash)> + Clone,
    ) -> Result<(), StateError> {
        unimplemented!()
    }

    /// Makes the key of the i-th record of the resolved batch current.
    #[inline]
    pub fn select(&mut self, _index: usize) {
        unimplemented!()
    }

    /// Makes one key current. Ends the resolved batch.
    pub fn set_current_key<K: Key>(&mut self, _key: &K, _hash: KeyHash) -> Result<(), StateError> {
        unimplemented!()
    }

    /// Ends a batch: no key is current, rows without any state are given back, the cache is kept within its bound,
    /// a bounded part of what a finished snapshot left behind is folded back.
    pub fn end_batch(&mut self) -> Result<(), StateError> {
        unimplemented!()
    }

    /// The key that is current. Fails with [`StateError::NoCurrentKey`] or [`StateError::OtherKeyType`].
    pub fn current_key<K: Key>(&self) -> Result<&K, StateError> {
        unimplemented!()
    }

    /// The stable hash of the key that is current.
    pub fn current_key_hash(&self) -> Result<KeyHash, StateError> {
        unimplemented!()
    }

    /// Visits every map entry of every key of a map state. The key that was current is current afterwards.
    pub fn for_each_map_entry<K: Key, UK: Key, UV: State>(
        &mut self,
        _state: &MapState<UK, UV>,
        _visit: impl FnMut(&K, KeyHash, &UK, &UV),
    ) -> Result<(), StateError> {
        unimplemented!()
    }

    /// Takes a snapshot. What happens to the live state afterwards does not show in it.
    pub fn freeze(&mut self, _request: &SnapshotRequest) -> Result<FrozenKeyedState, StateError> {
        unimplemented!()
    }

    /// A checkpoint with a snapshot of this state has completed.
    pub fn confirmed(&mut self, _checkpoint: CheckpointId) {
        unimplemented!()
    }

    /// A checkpoint with a snapshot of this state will not complete.
    pub fn aborted(&mut self, _checkpoint: CheckpointId) {
        unimplemented!()
    }

    /// The column behind a slot, and how to reach the current key in it.
    pub(crate) fn access<C: Column>(&mut self, _slot: Slot) -> Result<(&mut C, Access<'_>), StateError> {
        unimplemented!()
    }
}

impl KeyedStateStore for KeyedState {
    fn register(&mut self, _descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError> {
        unimplemented!()
    }

    fn backend_type(&self) -> &str {
        unimplemented!()
    }
}
