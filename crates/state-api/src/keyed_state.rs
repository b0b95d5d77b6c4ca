//! The keyed state of one operator subtask: typed rows before a backend, and the key that is current.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use crate::rows::column::{Access, Column, MapColumn};
use crate::rows::{
    AccessError, Behind, Keys, NO_ROW, OwnedGroups, TypedRows, byte_tables, key_rows, restored_sections,
};
use crate::{
    AnyDescriptor, CheckpointId, FrozenState, Key, KeyGroup, KeyHash, KeyHasher, KeyedBackendParameters,
    KeyedStateBackend, KeyedStateStore, MapState, Residence, Schema, Serializer, Slot, SnapshotRequest, State,
    StateError, TableId, TableMeta,
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
        let keys = key_rows::key_column(key_serializer, groups, settings.hash_seed);
        Ok(Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            current: NO_ROW,
            is_cache: matches!(backend.residence(), Residence::Bytes(_)),
            rows: TypedRows::new(Keys::new(groups, keys), settings.hash_seed),
            backend,
            batch: Vec::new(),
            key_schema,
            settings,
            single_keys: 0,
        })
    }

    /// Takes the canonical stream of one key group of a snapshot in which the tables were `tables`.
    ///
    /// Before any state is registered. States are decoded when they are registered; those that never are go into every
    /// later snapshot unchanged. Fails when tables of the same name do not agree between streams, when the group is
    /// not one of this subtask, and when the stream is damaged.
    ///
    /// # Panics
    /// When a state is registered already.
    pub fn restore_key_group(
        &mut self,
        tables: &[TableMeta],
        group: KeyGroup,
        stream: Bytes,
    ) -> Result<(), StateError> {
        self.rows.keys.groups.check(group)?;
        self.restore_tables(tables)?;
        for (meta, section) in restored_sections(tables, stream)? {
            let table = self.rows.find_table(&meta.name).expect("the tables have just been made known");
            if self.is_cache {
                let bytes = byte_tables(&mut *self.backend);
                section.visit(table, group, &mut |entry| bytes.put(entry.at, entry.value))?;
            } else {
                self.rows.add_dormant(table, group, section)?;
            }
        }
        Ok(())
    }

    /// Makes the tables of a snapshot known although no key group of it is restored, so that they go on to exist.
    ///
    /// Fails when a table does not agree with one of the same name that is known already.
    ///
    /// # Panics
    /// When a state is registered already.
    pub fn restore_tables(&mut self, tables: &[TableMeta]) -> Result<(), StateError> {
        assert!(
            self.rows.tables.iter().all(|table| table.column.is_none()),
            "state is restored before the first state is registered"
        );
        for (number, meta) in tables.iter().enumerate() {
            if tables[..number].iter().any(|other| other.name == meta.name) {
                return Err(StateError::Damaged(format!("state {:?} is in a snapshot twice", meta.name)));
            }
            if let Some(table) = self.rows.find_table(&meta.name) {
                self.rows.tables[usize::from(table.0)].meta.check_usable_as(meta)?;
            }
        }
        for meta in tables {
            if self.rows.find_table(&meta.name).is_none() {
                self.add_table(meta.clone())?;
            }
        }
        Ok(())
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
    /// Fails when the keys have another type or one of them does not belong to this subtask; then no batch is resolved.
    pub fn resolve_batch<'k, K: Key>(
        &mut self,
        keys: impl Iterator<Item = (&'k K, KeyHash)> + Clone,
    ) -> Result<(), StateError> {
        self.current = NO_ROW;
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
    /// # Panics
    /// When the resolved batch has no such record.
    #[inline]
    pub fn select(&mut self, index: usize) {
        self.current = self.batch[index];
    }

    /// Makes one key current. Ends the resolved batch.
    ///
    /// Fails when the key has another type or does not belong to this subtask; then no key is current.
    pub fn set_current_key<K: Key>(&mut self, key: &K, hash: KeyHash) -> Result<(), StateError> {
        self.batch.clear();
        self.current = NO_ROW;
        self.single_keys += 1;
        let is_over_bound = self.is_cache && self.rows.cached_rows() > self.settings.cached_rows_max;
        if self.single_keys > SINGLE_KEYS_A_BATCH || is_over_bound {
            self.end_batch()?;
        }
        let Keys { column, emptied, .. } = &mut self.rows.keys;
        self.current = key_rows::row(&mut **column, key, hash, emptied)?;
        Ok(())
    }

    /// The key that is current.
    ///
    /// Fails when no key is, and when keys have another type.
    pub fn current_key<K: Key>(&self) -> Result<&K, StateError> {
        let key = key_rows::key(&*self.rows.keys.column, self.current)?;
        key.ok_or_else(|| StateError::NoCurrentKey { state: "every state".to_owned() })
    }

    /// The stable hash of the key that is current. Fails when no key is.
    pub fn current_key_hash(&self) -> Result<KeyHash, StateError> {
        let hash = self.rows.keys.column.hash(self.current);
        hash.ok_or_else(|| StateError::NoCurrentKey { state: "every state".to_owned() })
    }

    /// Ends a batch: no key is current, rows without any state are given back, the cache is kept within its bound,
    /// a bounded part of what a finished snapshot left behind is folded back.
    pub fn end_batch(&mut self) -> Result<(), StateError> {
        self.current = NO_ROW;
        self.batch.clear();
        self.single_keys = 0;
        if !self.is_cache {
            self.rows.release_emptied();
            self.rows.fold();
            return Ok(());
        }
        self.rows.keys.emptied.clear();
        if self.rows.cached_rows() > self.settings.cached_rows_max {
            self.write_back()?;
            self.rows.forget();
        }
        Ok(())
    }

    /// As a cache: writes back everything that is newer than the byte tables.
    fn write_back(&mut self) -> Result<(), StateError> {
        for (number, table) in self.rows.tables.iter_mut().enumerate() {
            if let Some(column) = &mut table.column {
                column.write_back(&mut Behind {
                    backend: &mut self.backend,
                    keys: &mut self.rows.keys,
                    table: TableId(number as u16),
                })?;
            }
        }
        Ok(())
    }

    /// Visits every map entry of every key of a map state. The key that was current is current afterwards.
    ///
    /// Fails when the handle is not one of this store, when `K` is not the type of the keys, and when an entry cannot
    /// be read.
    pub fn for_each_map_entry<K: Key, UK: Key, UV: State>(
        &mut self,
        state: &MapState<UK, UV>,
        mut visit: impl FnMut(&K, KeyHash, &UK, &UV),
    ) -> Result<(), StateError> {
        let slot = state.slot();
        self.check(slot)?;
        // Also finds out before anything is visited whether the keys are of this type.
        let serializer = key_rows::serializer::<K>(&mut *self.rows.keys.column)?;
        let table = &mut self.rows.tables[usize::from(slot.column)];
        let name = table.meta.name.clone();
        let column = table.typed_column::<MapColumn<UK, UV>>().ok_or(StateError::ForeignHandle)?;
        if self.is_cache {
            let mut behind =
                Behind { backend: &mut self.backend, keys: &mut self.rows.keys, table: TableId(slot.column) };
            let mut hasher = KeyHasher::default();
            return column.for_each_in_bytes(&mut behind, |key, map_key, value| {
                let key = serializer.deserialize(key);
                let key = key.map_err(|source| StateError::Serializer { state: name.clone(), source })?;
                visit(&key, hasher.hash(&key)?, &map_key, &value);
                Ok(())
            });
        }
        key_rows::for_each(&mut *self.rows.keys.column, |row, key, hash| {
            column.for_each_in_rows(row, |map_key, value| visit(key, hash, map_key, value));
        })
    }

    /// The names of restored states that nobody has registered so far. They go into every snapshot unchanged; a name that
    /// was changed in the program is one of them.
    pub fn unregistered_states(&self) -> impl Iterator<Item = &str> {
        self.rows.tables.iter().filter(|table| table.column.is_none()).map(|table| table.meta.name.as_str())
    }

    /// Takes a snapshot. What happens to the live state afterwards does not show in it.
    ///
    /// Fails when dirty rows cannot be written back, or when the backend fails; the task is then to fail too.
    pub fn freeze(&mut self, request: &SnapshotRequest) -> Result<FrozenKeyedState, StateError> {
        if self.is_cache {
            self.write_back()?;
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
    fn check(&self, slot: Slot) -> Result<(), StateError> {
        if slot.instance == self.instance {
            Ok(())
        } else if slot == Slot::default() {
            Err(StateError::Unbound)
        } else {
            Err(StateError::ForeignHandle)
        }
    }

    #[cold]
    #[inline(never)]
    fn no_access(&self, slot: Slot) -> AccessError {
        let no_current_key = || {
            let table = self.rows.tables.get(usize::from(slot.column));
            StateError::NoCurrentKey { state: table.map(|table| table.meta.name.clone()).unwrap_or_default() }
        };
        self.check(slot).err().unwrap_or_else(no_current_key).into()
    }

    /// The column behind a slot, and how to reach the current key in it.
    #[inline]
    pub(crate) fn access<C: Column>(&mut self, slot: Slot) -> Result<(&mut C, Access<'_>), AccessError> {
        if slot.instance != self.instance || self.current == NO_ROW {
            return Err(self.no_access(slot));
        }
        let table = self.rows.tables.get_mut(usize::from(slot.column));
        let Some(column) = table.and_then(|table| table.typed_column()) else {
            return Err(StateError::ForeignHandle.into());
        };
        let behind = Behind { backend: &mut self.backend, keys: &mut self.rows.keys, table: TableId(slot.column) };
        let access = Access { behind, row: self.current, is_cache: self.is_cache };
        Ok((column, access))
    }
}

impl KeyedStateStore for KeyedState {
    fn register(&mut self, descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError> {
        let name = descriptor.name();
        if name.trim().is_empty() {
            return Err(StateError::BlankName { name: name.to_owned() });
        }
        let meta = descriptor.table_meta(self.key_schema.clone(), Schema::unit())?;
        let column = descriptor.column();
        let table = match self.rows.find_table(name) {
            Some(table) => {
                let known = &self.rows.tables[usize::from(table.0)];
                known.meta.check_usable_as(&meta)?;
                match &known.column {
                    Some(known) if (**known).type_id() != (*column).type_id() => {
                        return Err(StateError::OtherType { state: name.to_owned() });
                    }
                    Some(_) => {}
                    None => self.rows.attach(table, meta, column)?,
                }
                table
            }
            None => {
                let table = self.add_table(meta.clone())?;
                self.rows.attach(table, meta, column)?;
                table
            }
        };
        Ok(Slot { instance: self.instance, column: table.0 })
    }

    fn backend_type(&self) -> &str {
        self.backend.backend_type()
    }
}

#[cfg(test)]
#[path = "keyed_state_test.rs"]
mod keyed_state_test;
