//! Going through all keys of a state.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::KeyedState;
use crate::error::handle_of;
use crate::rows::column::MapColumn;
use crate::rows::{Behind, NO_ROW, RowSpace, TypedRows, key_rows};
use crate::{Key, KeyHash, KeyHasher, MapState, Prefix, Slot, State, StateError, TableId};

impl KeyedState {
    /// The keys that have state in `namespace`, each once, in no particular order. The namespace of states that are in
    /// none is `()`.
    ///
    /// They are collected before this returns, so that anything may be done to the state while they are gone through.
    /// Fails when the slot is not one of this store, and when keys or namespaces have other types.
    pub fn keys<K: Key, N: Key>(&mut self, state: Slot, namespace: &N) -> Result<Vec<K>, StateError> {
        let mut keys = Vec::new();
        self.for_each_key(state, Some(namespace), |key: &K, _| keys.push(key.clone()))?;
        Ok(keys)
    }

    /// The pairs of key and namespace that have state, each once, in no particular order.
    ///
    /// There is none for a state in no namespace. Errors as for [`KeyedState::keys`].
    pub fn keys_and_namespaces<K: Key, N: Key>(&mut self, state: Slot) -> Result<Vec<(K, N)>, StateError> {
        let mut pairs = Vec::new();
        self.for_each_key(state, None, |key: &K, namespace: Option<&N>| {
            pairs.extend(namespace.map(|own: &N| (key.clone(), own.clone())))
        })?;
        Ok(pairs)
    }

    /// Calls `apply` for every key that has state in `namespace`, with this key, and this namespace, as the current ones.
    ///
    /// The keys are collected first: the state may be changed and removed meanwhile. Afterwards, also after an error, the
    /// key and the batch are current that were before, and no namespace is; listeners hear of that key too. An error of
    /// `apply` ends it and is returned.
    pub fn apply_to_all_keys<K: Key, N: Key, E: From<StateError>>(
        &mut self,
        state: Slot,
        namespace: &N,
        apply: impl FnMut(&mut KeyedState, &K) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows.leave_namespaces();
        let keys: Vec<K> = self.keys(state, namespace)?;
        let current = self.key_of_row::<K>(self.current)?;
        let batch: Result<Option<Vec<_>>, _> = self.batch.iter().map(|row| self.key_of_row::<K>(*row)).collect();
        let batch = batch?.unwrap_or_default();

        let applied = self.apply_to(&keys, namespace, apply);
        let ended = self.end_batch();
        let resolved = self.resolve_batch(batch.iter().map(|(key, hash)| (key, *hash)));
        if let Some((key, hash)) = current {
            let keys = &mut self.rows.keys;
            let row = key_rows::row(&mut *keys.column, &key, hash, &mut keys.emptied)?;
            self.make_current(row);
        }
        applied?;
        ended?;
        Ok(resolved?)
    }

    fn apply_to<K: Key, N: Key, E: From<StateError>>(
        &mut self,
        keys: &[K],
        namespace: &N,
        mut apply: impl FnMut(&mut KeyedState, &K) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut hasher = KeyHasher::default();
        for key in keys {
            let hash = hasher.hash(key).map_err(StateError::from)?;
            self.set_current_key(key, hash)?;
            self.set_current_namespace(namespace)?;
            apply(self, key)?;
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
        self.check(slot, handle_of::<MapState<UK, UV>>)?;
        if slot.space != RowSpace::KEYS {
            return Err(self.other_namespace_type::<()>(slot));
        }
        // Also finds out before anything is visited whether the keys are of this type.
        let serializer = key_rows::serializer::<K>(&mut *self.rows.keys.column)?;
        let table = &mut self.rows.tables[usize::from(slot.column)];
        let name = table.meta.name.clone();
        let column = table
            .typed_column::<MapColumn<UK, UV>>()
            .ok_or_else(|| StateError::ForeignHandle { handle: handle_of::<MapState<UK, UV>>() })?;
        if self.is_cache {
            let mut behind = Behind {
                backend: &mut self.backend,
                keys: &mut self.rows.keys,
                namespaces: None,
                table: TableId(slot.column),
            };
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

    fn key_of_row<K: Key>(&self, row: u32) -> Result<Option<(K, KeyHash)>, StateError> {
        if row == NO_ROW {
            return Ok(None);
        }
        let column = &*self.rows.keys.column;
        Ok(key_rows::key::<K>(column, row)?.cloned().zip(column.hash(row)))
    }

    /// Visits every pair of key and namespace that has state, once, or only those of one namespace. The visitor is given
    /// `None` where the state is in no namespace.
    fn for_each_key<K: Key, N: Key>(
        &mut self,
        state: Slot,
        wanted: Option<&N>,
        visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        self.check(state, crate::error::any_handle)?;
        let is_of_type = match state.space.index() {
            Some(index) => self.rows.namespaces[index].typed::<N>().is_some(),
            None => size_of::<N>() == 0,
        };
        if !is_of_type {
            return Err(self.other_namespace_type::<N>(state));
        }
        if self.is_cache {
            self.for_each_key_in_bytes(state, wanted, visit)
        } else {
            self.for_each_key_in_rows(state, wanted, visit)
        }
    }

    fn for_each_key_in_rows<K: Key, N: Key>(
        &mut self,
        state: Slot,
        wanted: Option<&N>,
        mut visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        let TypedRows { keys, namespaces, tables, .. } = &mut self.rows;
        let column = tables[usize::from(state.column)].column.as_ref().expect("a state with a slot is registered");
        let namespaces = state.space.index().and_then(|index| namespaces[index].typed::<N>());
        key_rows::for_each(&mut *keys.column, |row, key: &K, _| match namespaces {
            Some(namespaces) => namespaces.for_each(row, |row, namespace| {
                if wanted.is_none_or(|wanted| wanted == namespace) && !column.is_empty_at(row) {
                    visit(key, Some(namespace));
                }
            }),
            None if column.is_empty_at(row) => {}
            None => visit(key, None),
        })
    }

    fn for_each_key_in_bytes<K: Key, N: Key>(
        &mut self,
        state: Slot,
        wanted: Option<&N>,
        mut visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        let keys = key_rows::serializer::<K>(&mut *self.rows.keys.column)?;
        self.write_back()?;
        let name = self.rows.tables[usize::from(state.column)].meta.name.clone();
        let failed = |source| StateError::Serializer { state: name.clone(), source };
        let namespaces = state.space.index().and_then(|index| self.rows.namespaces[index].typed::<N>());
        let namespaces = namespaces.map(|namespaces| namespaces.serializer().clone());
        let wanted = match (wanted, &namespaces) {
            (Some(wanted), Some(serializer)) => {
                let mut bytes = Vec::new();
                serializer.serialize(wanted, &mut bytes).map_err(failed)?;
                Some(bytes)
            }
            _ => None,
        };
        // Maps and lists have many entries for one key.
        let mut found = BTreeSet::new();
        let (_, mut behind) = self.column_and_behind(usize::from(state.column));
        behind.tables().scan(Prefix::Table(TableId(state.column)), &mut |entry| {
            if wanted.as_ref().is_none_or(|wanted| wanted == entry.at.namespace) {
                found.insert((entry.at.key.to_vec(), entry.at.namespace.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        for (key, namespace) in found {
            let key = keys.deserialize(&key).map_err(failed)?;
            let namespace = namespaces.as_ref().map(|serializer| serializer.deserialize(&namespace));
            visit(&key, namespace.transpose().map_err(failed)?.as_ref());
        }
        Ok(())
    }
}
