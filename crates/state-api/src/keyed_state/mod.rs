//! The keyed state of one operator subtask: typed rows before a backend, and the key that is current.

mod all_keys;
mod clear;
mod key_listeners;
mod namespaced;
mod restore;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub use key_listeners::KeyListenerId;
use key_listeners::KeyListeners;
pub use namespaced::NamespacedStore;

use crate::error::handle_of;
use crate::rows::column::{Access, Column};
use crate::rows::{AccessError, Behind, Keys, NO_ROW, OwnedGroups, RowSpace, TypedRows, byte_tables, key_rows};
use crate::{
    AnyDescriptor, CheckpointId, FrozenState, Key, KeyHash, KeyedBackendParameters, KeyedStateBackend, KeyedStateStore,
    MapState, MapStateDescriptor, Residence, Schema, Serializer, Slot, SnapshotRequest, State, StateError, TableId,
    TableMeta,
};

/// Keys that [`KeyedState::set_current_key`] makes current before it does the work of an ended batch.
const SINGLE_KEYS_A_BATCH: u32 = 64;

/// Numbers the stores of a process: an identity that tells the handles of one from those of another.
pub(crate) static INSTANCES: AtomicU32 = AtomicU32::new(1);

/// The keyed state of one operator subtask. Owned by one task; a store, and the context of a bare backend.
pub struct KeyedState {
    instance: u32,
    /// The row of the current key, or [`NO_ROW`].
    current: u32,
    /// Whether the backend keeps the state as bytes, so that the rows are only a cache.
    is_cache: bool,
    pub(crate) rows: TypedRows,
    backend: Box<dyn KeyedStateBackend>,
    /// The rows of the resolved batch.
    batch: Vec<u32>,
    key_schema: Schema,
    settings: RowSettings,
    single_keys: u32,
    key_listeners: KeyListeners,
    /// Whether there is more to a change of the current key than the number of its row: somebody listens, or there are
    /// namespaces, none of which is current after it.
    is_watched: bool,
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
    ///
    /// Fails when no schema can be found for the keys.
    pub fn open<K: Key>(
        mut backend: Box<dyn KeyedStateBackend>,
        parameters: &KeyedBackendParameters,
        key_serializer: Arc<dyn Serializer<K>>,
        settings: RowSettings,
    ) -> Result<Self, StateError> {
        let key_schema = key_serializer.schema().map_err(|error| StateError::Untraceable {
            state: format!("every state of {}", parameters.operator),
            part: "key",
            reason: error.reason,
        })?;
        let groups = OwnedGroups { max_parallelism: parameters.max_parallelism, range: parameters.range };
        let is_cache = matches!(backend.residence(), Residence::Bytes(_));
        let keys = key_rows::key_column(key_serializer, groups, settings.hash_seed, is_cache);
        Ok(Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            current: NO_ROW,
            is_cache,
            rows: TypedRows::new(Keys::new(groups, keys), settings.hash_seed),
            backend,
            batch: Vec::new(),
            key_schema,
            settings,
            single_keys: 0,
            key_listeners: KeyListeners::default(),
            is_watched: false,
        })
    }

    fn add_table(&mut self, meta: TableMeta) -> Result<TableId, StateError> {
        let table = self.rows.next_table()?;
        if self.is_cache {
            byte_tables(&mut *self.backend).open_table(table, &meta)?;
        }
        self.rows.add_table(meta);
        Ok(table)
    }

    /// Finds or makes the rows of a batch of keys, ahead of their records: [`KeyedState::select`] then makes the
    /// i-th current at almost no cost. No key is current afterwards.
    ///
    /// Fails when the keys have another type, or one of them does not belong to this subtask or is found not to be read as it
    /// is written; then no batch is resolved.
    pub fn resolve_batch<'k, K: Key>(
        &mut self,
        keys: impl Iterator<Item = (&'k K, KeyHash)> + Clone,
    ) -> Result<(), StateError> {
        self.nothing_is_current();
        self.batch.clear();
        let Keys { column, emptied, .. } = &mut self.rows.keys;
        let outcome = key_rows::resolve(&mut **column, keys, &mut self.batch, emptied);
        if outcome.is_err() {
            self.batch.clear();
        } else if !self.is_cache {
            self.rows.warm(&self.batch);
        }
        outcome
    }

    /// Makes the key of the i-th record of the resolved batch current.
    ///
    /// Fails when the resolved batch has no such record, which is so after another key was made current.
    #[inline]
    pub fn select(&mut self, index: usize) -> Result<(), StateError> {
        let Some(row) = self.batch.get(index) else {
            return Err(StateError::NotInBatch { index, length: self.batch.len() });
        };
        self.make_current(*row);
        Ok(())
    }

    /// The key of the i-th record of the resolved batch, without making it current.
    ///
    /// Fails as [`KeyedState::select`] does, and when keys have another type.
    pub fn resolved_key<K: Key>(&self, index: usize) -> Result<&K, StateError> {
        let not_in_batch = StateError::NotInBatch { index, length: self.batch.len() };
        let row = *self.batch.get(index).ok_or(not_in_batch)?;
        key_rows::key(&*self.rows.keys.column, row)?.ok_or(StateError::NoKey)
    }

    #[inline]
    fn make_current(&mut self, row: u32) {
        if self.is_watched {
            self.rows.leave_namespaces();
            if !self.key_listeners.is_empty() {
                self.tell_listeners(row);
            }
        }
        self.current = row;
    }

    #[cold]
    #[inline(never)]
    fn tell_listeners(&mut self, row: u32) {
        self.rows.keys.column.with_key(row, &mut |key| self.key_listeners.call(key));
    }

    fn nothing_is_current(&mut self) {
        self.current = NO_ROW;
        self.rows.leave_namespaces();
    }

    /// Makes one key current. Ends the resolved batch.
    ///
    /// Fails when the key has another type, does not belong to this subtask, or is found not to be read as it is written; then
    /// no key is current.
    pub fn set_current_key<K: Key>(&mut self, key: &K, hash: KeyHash) -> Result<(), StateError> {
        self.nothing_is_current();
        self.batch.clear();
        self.single_keys += 1;
        let is_over_bound = self.is_cache && self.rows.cached_rows() > self.settings.cached_rows_max;
        if self.single_keys > SINGLE_KEYS_A_BATCH || is_over_bound {
            self.end_batch()?;
        }
        let Keys { column, emptied, .. } = &mut self.rows.keys;
        let row = key_rows::row(&mut **column, key, hash, emptied)?;
        self.make_current(row);
        Ok(())
    }

    /// The key that is current.
    ///
    /// Fails when no key is, and when keys have another type.
    pub fn current_key<K: Key>(&self) -> Result<&K, StateError> {
        key_rows::key(&*self.rows.keys.column, self.current)?.ok_or(StateError::NoKey)
    }

    /// The stable hash of the key that is current. Fails when no key is.
    pub fn current_key_hash(&self) -> Result<KeyHash, StateError> {
        self.rows.keys.column.hash(self.current).ok_or(StateError::NoKey)
    }

    /// Ends a batch: no key is current, rows without any state are given back, the cache is kept within its bound,
    /// a bounded part of what a finished snapshot left behind is folded back.
    pub fn end_batch(&mut self) -> Result<(), StateError> {
        self.nothing_is_current();
        self.batch.clear();
        self.single_keys = 0;
        if !self.is_cache {
            self.rows.release_emptied();
            self.rows.fold();
            return Ok(());
        }
        self.rows.keys.emptied.clear();
        self.rows.namespaces.iter_mut().for_each(|namespaces| namespaces.emptied.clear());
        if self.rows.cached_rows() > self.settings.cached_rows_max {
            self.write_back()?;
            self.rows.forget();
        }
        Ok(())
    }

    /// As a cache: writes back everything that is newer than the byte tables.
    fn write_back(&mut self) -> Result<(), StateError> {
        for number in 0..self.rows.tables.len() {
            let (column, mut behind) = self.column_and_behind(number);
            if let Some(column) = column {
                column.write_back(&mut behind)?;
            }
        }
        Ok(())
    }

    /// The column of a table, if it is registered, and the byte tables as it reaches them.
    fn column_and_behind(&mut self, table: usize) -> (Option<&mut Box<dyn Column>>, Behind<'_>) {
        let TypedRows { keys, namespaces, tables, .. } = &mut self.rows;
        let namespaces = tables[table].space.index().map(|index| &mut namespaces[index]);
        let behind = Behind { backend: &mut self.backend, keys, namespaces, table: TableId(table as u16) };
        (tables[table].column.as_mut(), behind)
    }

    /// The names of restored states that nobody has registered so far. They go into every snapshot unchanged; a name that
    /// was changed in the program is one of them.
    pub fn unregistered_states(&self) -> impl Iterator<Item = &str> {
        self.rows.tables.iter().filter(|table| table.column.is_none()).map(|table| table.meta.name.as_str())
    }

    /// Takes a snapshot. What happens to the live state afterwards does not show in it.
    ///
    /// Fails when dirty rows cannot be written back, when the backend fails, and with [`StateError::Failed`] after any call of
    /// the backend has failed before; the task is then to fail too.
    pub fn freeze(&mut self, request: &SnapshotRequest) -> Result<FrozenKeyedState, StateError> {
        if self.is_cache {
            self.write_back()?;
        } else {
            // An operator without records ends no batch.
            self.rows.fold();
        }
        if self.rows.keys.has_failed {
            return Err(StateError::Failed);
        }
        let content = self.backend.freeze(request, &mut self.rows)?;
        Ok(FrozenKeyedState { tables: self.rows.metas(), content })
    }

    /// A checkpoint with a snapshot of this state has completed.
    pub fn confirmed(&mut self, checkpoint: CheckpointId) {
        self.backend.confirmed(checkpoint);
    }

    /// A checkpoint with a snapshot of this state will not complete.
    pub fn aborted(&mut self, checkpoint: CheckpointId) {
        self.backend.aborted(checkpoint);
    }

    /// A completed checkpoint is no longer kept.
    pub fn subsumed(&mut self, checkpoint: CheckpointId) {
        self.backend.subsumed(checkpoint);
    }

    /// Whether a slot is one of this store.
    pub(crate) fn check(&self, slot: Slot, handle: impl FnOnce() -> String) -> Result<(), StateError> {
        if slot.instance == self.instance {
            Ok(())
        } else if slot == Slot::default() {
            Err(StateError::Unbound { handle: handle() })
        } else {
            Err(StateError::ForeignHandle { handle: handle() })
        }
    }

    #[cold]
    #[inline(never)]
    fn no_access(&self, slot: Slot, handle: fn() -> String) -> AccessError {
        let nothing_is_current = || {
            let table = self.rows.tables.get(usize::from(slot.column));
            let state = table.map(|table| table.meta.name.clone()).unwrap_or_default();
            if self.current == NO_ROW {
                StateError::NoCurrentKey { state }
            } else {
                StateError::NoCurrentNamespace { state }
            }
        };
        self.check(slot, handle).err().unwrap_or_else(nothing_is_current).into()
    }

    /// The row of the current key, and the current namespace if there is one, among the rows that a column is over.
    #[inline]
    fn current_row(&self, space: RowSpace) -> u32 {
        match space.index() {
            None => self.current,
            Some(index) => self.rows.namespaces[index].current,
        }
    }

    /// The column behind the slot of a handle of type `H`, and how to reach the current key in it.
    #[inline]
    pub(crate) fn access<C: Column, H>(&mut self, slot: Slot) -> Result<(&mut C, Access<'_>), AccessError> {
        if slot.instance != self.instance {
            return Err(self.no_access(slot, handle_of::<H>));
        }
        let row = self.current_row(slot.space);
        if row == NO_ROW {
            return Err(self.no_access(slot, handle_of::<H>));
        }
        let TypedRows { keys, namespaces, tables, .. } = &mut self.rows;
        let Some(column) = tables.get_mut(usize::from(slot.column)).and_then(|table| table.typed_column()) else {
            return Err(StateError::ForeignHandle { handle: handle_of::<H>() }.into());
        };
        let namespaces = slot.space.index().map(|index| &mut namespaces[index]);
        let behind = Behind { backend: &mut self.backend, keys, namespaces, table: TableId(slot.column) };
        Ok((column, Access { behind, row, is_cache: self.is_cache }))
    }

    /// Registers a state over the rows of `space`, whose namespaces have schema `namespace`.
    fn register_in(
        &mut self,
        space: RowSpace,
        namespace: Schema,
        descriptor: &dyn AnyDescriptor,
    ) -> Result<Slot, StateError> {
        let name = descriptor.name();
        if name.trim().is_empty() {
            return Err(StateError::BlankName { name: name.to_owned() });
        }
        let meta = descriptor.table_meta(self.key_schema.clone(), namespace)?;
        let column = descriptor.column();
        let table = match self.rows.find_table(name) {
            Some(table) => {
                let known = &self.rows.tables[usize::from(table.0)];
                known.meta.check_usable_as(&meta)?;
                match &known.column {
                    Some(known) if (**known).type_id() != (*column).type_id() => {
                        return Err(StateError::OtherType { state: name.to_owned() });
                    }
                    // Namespaces of two Rust types of one schema.
                    Some(_) if known.space != space => {
                        return Err(StateError::OtherType { state: name.to_owned() });
                    }
                    Some(_) => {}
                    None => self.rows.attach(table, meta, space, column)?,
                }
                table
            }
            None => {
                let table = self.add_table(meta.clone())?;
                self.rows.attach(table, meta, space, column)?;
                table
            }
        };
        Ok(Slot { instance: self.instance, column: table.0, space })
    }
}

impl KeyedState {
    /// How the names of states begin that are the runtime's own.
    pub const RESERVED_PREFIX: &'static str = "_timer_state/";

    /// A handle on a map state of the runtime's own. Its name begins with [`KeyedState::RESERVED_PREFIX`], under which no
    /// function can register anything.
    pub fn reserved_map_state<UK: Key, UV: State>(
        &mut self,
        descriptor: &MapStateDescriptor<UK, UV>,
    ) -> Result<MapState<UK, UV>, StateError> {
        self.register_in(RowSpace::KEYS, Schema::unit(), descriptor).map(MapState::bound_to)
    }
}

impl KeyedStateStore for KeyedState {
    fn register(&mut self, descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError> {
        let name = descriptor.name();
        if name.starts_with(Self::RESERVED_PREFIX) {
            return Err(StateError::ReservedName { name: name.to_owned() });
        }
        self.register_in(RowSpace::KEYS, Schema::unit(), descriptor)
    }

    fn backend_type(&self) -> &str {
        self.backend.backend_type()
    }
}

#[cfg(test)]
#[path = "failures_test.rs"]
mod failures_test;
#[cfg(test)]
#[path = "keyed_state_test.rs"]
mod keyed_state_test;
#[cfg(test)]
#[path = "lists_test.rs"]
mod lists_test;
#[cfg(test)]
#[path = "namespaced_test.rs"]
mod namespaced_test;
#[cfg(test)]
#[path = "serializers_test.rs"]
mod serializers_test;
