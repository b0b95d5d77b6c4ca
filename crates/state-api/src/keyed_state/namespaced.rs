//! State in namespaces: apart by a second part of the address beside the key, as windows are.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::KeyedState;
use crate::rows::column::Access;
use crate::rows::{NO_ROW, RowSpace};
use crate::{AnyDescriptor, BincodeSerializer, Key, KeyedStateStore, Schema, Serializer, Slot, StateError};

/// A store whose states are in namespaces of type `N`. Made by [`KeyedState::in_namespaces`].
///
/// The handles that it gives are those of any store. They are used while a key and a namespace are current; see
/// [`KeyedState::set_current_namespace`].
pub struct NamespacedStore<'a, N> {
    state: &'a mut KeyedState,
    serializer: Arc<dyn Serializer<N>>,
    schema: Schema,
}

impl KeyedState {
    /// The store of states in namespaces of type `N`. Those of `()` are the states that are in no namespace.
    ///
    /// Fails when no schema can be found for the namespaces.
    pub fn in_namespaces<N: Key>(&mut self) -> Result<NamespacedStore<'_, N>, StateError> {
        self.in_namespaces_with(Arc::new(BincodeSerializer::traced()))
    }

    /// As [`KeyedState::in_namespaces`], with a serializer for the namespaces. The first one for a type is used.
    pub fn in_namespaces_with<N: Key>(
        &mut self,
        serializer: Arc<dyn Serializer<N>>,
    ) -> Result<NamespacedStore<'_, N>, StateError> {
        let schema = if is_none::<N>() {
            Schema::unit()
        } else {
            serializer.schema().map_err(|error| StateError::Untraceable {
                state: "every state in these namespaces".to_owned(),
                part: "namespace",
                reason: error.reason,
            })?
        };
        Ok(NamespacedStore { state: self, serializer, schema })
    }

    /// Makes a namespace current for the states in namespaces of its type, until another is or the current key changes.
    ///
    /// Fails when no key is current, and when no state is in namespaces of this type.
    pub fn set_current_namespace<N: Key>(&mut self, namespace: &N) -> Result<(), StateError> {
        let row = self.namespace_row(namespace)?;
        if let Some((space, row)) = row {
            self.rows.namespaces[space].current = row;
        }
        Ok(())
    }

    /// Finds or makes the row of a namespace of the current key: index of the type of namespaces, and row. `None` for
    /// a type of which there is only one value, and so always the same namespace.
    fn namespace_row<N: Key>(&mut self, namespace: &N) -> Result<Option<(usize, u32)>, StateError> {
        if self.current == NO_ROW {
            return Err(StateError::NoKey);
        }
        match self.rows.find_space::<N>().and_then(RowSpace::index) {
            Some(index) => Ok(Some((index, self.rows.namespaces[index].row(self.current, namespace, self.is_cache)?))),
            None if is_none::<N>() => Ok(None),
            None => Err(StateError::NoSuchNamespaces { namespace: std::any::type_name::<N>() }),
        }
    }

    #[cold]
    pub(super) fn other_namespace_type<N>(&self, state: Slot) -> StateError {
        let name = &self.rows.tables[usize::from(state.column)].meta.name;
        StateError::OtherNamespaceType { state: name.clone(), namespace: std::any::type_name::<N>() }
    }

    /// Merges the state of the source namespaces of the current key into that of the target, and removes it from them.
    /// Whether a namespace is current, and which, does not change.
    ///
    /// Sources without state count as nothing, and so does the target among the sources, and a source that is named
    /// again. Fails when the kind of the state cannot be merged, when the namespaces of the state have another type, and
    /// when its function fails; then nothing has changed.
    pub fn merge_namespaces<N: Key>(&mut self, state: Slot, target: &N, sources: &[N]) -> Result<(), StateError> {
        self.check(state, crate::error::any_handle)?;
        let table = &self.rows.tables[usize::from(state.column)];
        let (name, kind) = (&table.meta.name, table.meta.kind);
        if !kind.is_mergeable() {
            return Err(StateError::NotMergeable { state: name.clone(), kind });
        }
        if is_none::<N>() && state.space == RowSpace::KEYS {
            // There is one namespace only, and it is the target.
            return Ok(());
        }
        if state.space.index().is_none_or(|index| self.rows.namespaces[index].typed::<N>().is_none()) {
            return Err(self.other_namespace_type::<N>(state));
        }
        if self.current == NO_ROW {
            return Err(StateError::NoCurrentKey { state: name.clone() });
        }
        let mut row_of = |namespace| self.namespace_row(namespace).map(|row| row.map_or(NO_ROW, |(_, row)| row));
        let target = row_of(target)?;
        let mut seen = BTreeSet::from([target]);
        let mut rows = Vec::with_capacity(sources.len());
        for source in sources {
            let row = row_of(source)?;
            if seen.insert(row) {
                rows.push(row);
            }
        }
        let is_cache = self.is_cache;
        let (column, behind) = self.column_and_behind(usize::from(state.column));
        let column = column.expect("a state with a slot is registered");
        column.merge(&mut Access { behind, row: target, is_cache }, &rows)
    }
}

/// Whether there is only one namespace of a type, so that state in it is state in none.
fn is_none<N>() -> bool {
    size_of::<N>() == 0
}

impl<N: Key> KeyedStateStore for NamespacedStore<'_, N> {
    fn register(&mut self, descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError> {
        let (state, schema) = (&mut *self.state, &self.schema);
        if is_none::<N>() {
            return state.register_in(RowSpace::KEYS, schema.clone(), descriptor);
        }
        if let Some(space) = state.rows.find_space::<N>() {
            let known = space.index().map(|index| &state.rows.namespaces[index].schema);
            if let Some(known) = known.filter(|known| *known != schema) {
                return Err(StateError::OtherSchema {
                    state: descriptor.name().to_owned(),
                    part: "namespace",
                    existing: Box::new(known.clone()),
                    requested: Box::new(schema.clone()),
                });
            }
            return state.register_in(space, schema.clone(), descriptor);
        }
        let space = state.rows.add_space(self.serializer.clone(), schema.clone());
        let registered = state.register_in(space, schema.clone(), descriptor);
        if registered.is_ok() {
            state.is_watched = true;
        } else {
            state.rows.namespaces.pop();
        }
        registered
    }

    fn backend_type(&self) -> &str {
        self.state.backend_type()
    }
}
