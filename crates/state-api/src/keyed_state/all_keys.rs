//! Going through all keys of a state.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::KeyedState;
use crate::rows::{NO_ROW, TypedRows, byte_tables, key_rows};
use crate::{Key, KeyHash, KeyHasher, Prefix, Slot, StateError, TableId};

impl KeyedState {
    /// The keys that have state in `namespace`, each once, in no particular order. The namespace of states that are in
    /// none is `()`.
    ///
    /// They are collected before this returns, so that anything may be done to the state while they are gone through.
    /// Fails when the slot is not one of this store, and when keys or namespaces have other types.
    pub fn keys<K: Key, N: Key>(&mut self, state: Slot, namespace: &N) -> Result<Vec<K>, StateError> {
        let mut keys = Vec::new();
        self.for_each_key(state, |key: &K, own: Option<&N>| {
            if own.is_none_or(|own| own == namespace) {
                keys.push(key.clone());
            }
        })?;
        Ok(keys)
    }

    /// The pairs of key and namespace that have state, each once, in no particular order.
    ///
    /// There is none for a state in no namespace. Errors as for [`KeyedState::keys`].
    pub fn keys_and_namespaces<K: Key, N: Key>(&mut self, state: Slot) -> Result<Vec<(K, N)>, StateError> {
        let mut pairs = Vec::new();
        self.for_each_key(state, |key: &K, namespace| {
            pairs.extend(namespace.map(|own: &N| (key.clone(), own.clone())))
        })?;
        Ok(pairs)
    }

    /// Calls `apply` for every key that has state in `namespace`, with this key, and this namespace, as the current ones.
    ///
    /// The keys are collected first: the state may be changed and removed meanwhile. Afterwards, also after an error, the
    /// key and the batch are current that were before, and no namespace is. An error of `apply` ends it and is returned.
    pub fn apply_to_all_keys<K: Key, N: Key>(
        &mut self,
        state: Slot,
        namespace: &N,
        mut apply: impl FnMut(&mut KeyedState, &K) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let keys: Vec<K> = self.keys(state, namespace)?;
        let current = self.key_of_row::<K>(self.current)?;
        let batch: Result<Option<Vec<_>>, _> = self.batch.iter().map(|row| self.key_of_row::<K>(*row)).collect();
        let batch = batch?.unwrap_or_default();

        let mut hasher = KeyHasher::default();
        let applied = keys.iter().try_for_each(|key| {
            self.set_current_key(key, hasher.hash(key)?)?;
            self.set_current_namespace(namespace)?;
            apply(self, key)
        });

        self.end_batch()?;
        self.resolve_batch(batch.iter().map(|(key, hash)| (key, *hash)))?;
        if let Some((key, hash)) = current {
            let keys = &mut self.rows.keys;
            self.current = key_rows::row(&mut *keys.column, &key, hash, &mut keys.emptied)?;
        }
        applied
    }

    fn key_of_row<K: Key>(&self, row: u32) -> Result<Option<(K, KeyHash)>, StateError> {
        if row == NO_ROW {
            return Ok(None);
        }
        let column = &*self.rows.keys.column;
        Ok(key_rows::key::<K>(column, row)?.cloned().zip(column.hash(row)))
    }

    /// Visits every pair of key and namespace that has state, once. `None` where the state is in no namespace.
    fn for_each_key<K: Key, N: Key>(
        &mut self,
        state: Slot,
        visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        self.check(state)?;
        let is_of_type = match state.space.index() {
            Some(index) => self.rows.namespaces[index].typed::<N>().is_some(),
            None => size_of::<N>() == 0,
        };
        if !is_of_type {
            return Err(self.other_namespace_type::<N>(state));
        }
        if self.is_cache { self.for_each_key_in_bytes(state, visit) } else { self.for_each_key_in_rows(state, visit) }
    }

    fn for_each_key_in_rows<K: Key, N: Key>(
        &mut self,
        state: Slot,
        mut visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        let TypedRows { keys, namespaces, tables, .. } = &mut self.rows;
        let column = tables[usize::from(state.column)].column.as_ref().expect("a state with a slot is registered");
        let namespaces = state.space.index().and_then(|index| namespaces[index].typed::<N>());
        key_rows::for_each(&mut *keys.column, |row, key: &K, _| match namespaces {
            Some(namespaces) => namespaces.for_each(row, |row, namespace| {
                if !column.is_empty_at(row) {
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
        mut visit: impl FnMut(&K, Option<&N>),
    ) -> Result<(), StateError> {
        let keys = key_rows::serializer::<K>(&mut *self.rows.keys.column)?;
        self.write_back()?;
        // Maps and lists have many entries for one key.
        let mut found = BTreeSet::new();
        byte_tables(&mut *self.backend).scan(Prefix::Table(TableId(state.column)), &mut |entry| {
            found.insert((entry.at.key.to_vec(), entry.at.namespace.to_vec()));
            ControlFlow::Continue(())
        })?;
        let name = &self.rows.tables[usize::from(state.column)].meta.name;
        let failed = |source| StateError::Serializer { state: name.clone(), source };
        let namespaces = state.space.index().and_then(|index| self.rows.namespaces[index].typed::<N>());
        for (key, namespace) in found {
            let key = keys.deserialize(&key).map_err(failed)?;
            let namespace = namespaces.map(|namespaces| namespaces.serializer().deserialize(&namespace));
            visit(&key, namespace.transpose().map_err(failed)?.as_ref());
        }
        Ok(())
    }
}
