//! The rows of state in namespaces: one for each key and namespace in use, chained for each key.
//!
//! Every type of namespace has a set of such rows. The states of one type are columns over the same rows, as states in no
//! namespace are columns over the rows of the keys.

use std::any::Any;
use std::sync::Arc;

use super::access::serializer_error;
use super::index::NO_ROW;
use super::map_entries::{FrozenMapEntries, MapEntries};
use super::round_trip::{RoundTrip, check_key, check_written_key, key_error};
use crate::{Key, Schema, Serializer, SerializerError, StateError};

/// The namespaces of one type, whatever the type is.
pub(crate) struct Namespaces {
    pub(crate) rows: Box<dyn NamespaceRows>,
    pub(crate) schema: Schema,
    /// The row of the current key and namespace, or [`NO_ROW`].
    pub(crate) current: u32,
    /// Rows that were made, or lost a state, in this batch.
    pub(crate) emptied: Vec<u32>,
    round_trip: RoundTrip,
}

impl Namespaces {
    pub(crate) fn new<N: Key>(serializer: Arc<dyn Serializer<N>>, schema: Schema, hash_seed: u64) -> Self {
        let rows = TypedNamespaces { entries: MapEntries::new(hash_seed), serializer };
        Self { rows: Box::new(rows), schema, current: NO_ROW, emptied: Vec::new(), round_trip: RoundTrip::default() }
    }

    /// The rows by the type of their namespaces; `None` when they have another.
    pub(crate) fn typed<N: Key>(&self) -> Option<&TypedNamespaces<N>> {
        let rows: &dyn Any = &*self.rows;
        rows.downcast_ref()
    }

    /// Finds or makes the row of a namespace of a key. Fails when the namespace is not read as it is written; as a cache
    /// every new one is tried.
    ///
    /// # Panics
    /// When the namespaces have another type.
    pub(crate) fn row<N: Key>(&mut self, key_row: u32, namespace: &N, is_cache: bool) -> Result<u32, StateError> {
        let rows: &mut dyn Any = &mut *self.rows;
        let typed: &mut TypedNamespaces<N> = rows.downcast_mut().expect("the caller has looked up the type");
        if let Some(row) = typed.entries.find(key_row, namespace) {
            return Ok(row);
        }
        let check = || check_key(&*typed.serializer, namespace).map_err(key_error("namespace"));
        if is_cache {
            check()?;
        } else {
            self.round_trip.check(check)?;
        }
        let row = typed.entries.insert(key_row, namespace.clone(), Some(()));
        self.emptied.push(row);
        Ok(row)
    }

    /// Finds or makes the row of a serialised namespace of a key, and says whether it was made.
    pub(crate) fn restore(&mut self, key_row: u32, namespace: &[u8]) -> Result<(u32, bool), SerializerError> {
        self.rows.restore(key_row, namespace)
    }

    /// As a cache: gives all rows back.
    pub(crate) fn forget(&mut self) {
        self.rows.forget();
        self.emptied.clear();
        self.current = NO_ROW;
    }
}

/// See [`Namespaces`].
pub(crate) trait NamespaceRows: Any + Send {
    /// The row of the key that a row belongs to; `None` when the row is not in use.
    fn key_row(&self, row: u32) -> Option<u32>;

    /// Appends the serialised namespace of a row in use to `out`.
    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError>;

    /// See [`Namespaces::restore`].
    fn restore(&mut self, key_row: u32, namespace: &[u8]) -> Result<(u32, bool), SerializerError>;

    /// Whether a key has any row.
    fn has_rows(&self, key_row: u32) -> bool;

    /// Gives a row in use back.
    fn release(&mut self, row: u32);

    /// Freezes the rows of all keys.
    fn freeze(&mut self) -> Box<dyn FrozenNamespaces>;

    /// See [`Paged::fold`](super::paged::Paged::fold).
    fn fold(&mut self) -> bool;

    /// Gives all rows back.
    fn forget(&mut self);

    /// How many rows are in use.
    fn len(&self) -> usize;
}

/// The namespaces as they were at a freeze.
pub(crate) trait FrozenNamespaces: Send {
    /// Visits the rows of a key with their serialised namespaces, for the entries of state `state`. `buffer` is memory to
    /// serialise into.
    fn visit(
        &self,
        state: &str,
        key_row: u32,
        buffer: &mut Vec<u8>,
        visit: &mut NamespaceVisitor<'_>,
    ) -> Result<(), StateError>;
}

/// Receives a row and its serialised namespace.
pub(crate) type NamespaceVisitor<'v> = dyn FnMut(u32, &[u8]) -> Result<(), StateError> + 'v;

/// The rows of namespaces of type `N`.
pub(crate) struct TypedNamespaces<N> {
    entries: MapEntries<N, ()>,
    serializer: Arc<dyn Serializer<N>>,
}

impl<N: Key> TypedNamespaces<N> {
    pub(crate) fn serializer(&self) -> &Arc<dyn Serializer<N>> {
        &self.serializer
    }

    /// Visits the rows of a key with their namespaces.
    pub(crate) fn for_each(&self, key_row: u32, mut visit: impl FnMut(u32, &N)) {
        let mut next = self.entries.first(key_row);
        while let Some(row) = next {
            visit(row, self.entries.key(row));
            next = self.entries.next(row);
        }
    }
}

impl<N: Key> NamespaceRows for TypedNamespaces<N> {
    fn key_row(&self, row: u32) -> Option<u32> {
        self.entries.is_in_use(row).then(|| self.entries.owner(row))
    }

    fn serialize(&self, row: u32, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        self.serializer.serialize(self.entries.key(row), out)
    }

    fn restore(&mut self, key_row: u32, namespace: &[u8]) -> Result<(u32, bool), SerializerError> {
        let namespace = self.serializer.deserialize(namespace)?;
        Ok(match self.entries.find(key_row, &namespace) {
            Some(row) => (row, false),
            None => (self.entries.insert(key_row, namespace, Some(())), true),
        })
    }

    fn has_rows(&self, key_row: u32) -> bool {
        self.entries.first(key_row).is_some()
    }

    fn release(&mut self, row: u32) {
        self.entries.remove(row);
    }

    fn freeze(&mut self) -> Box<dyn FrozenNamespaces> {
        Box::new(FrozenTypedNamespaces { entries: self.entries.freeze(), serializer: self.serializer.clone() })
    }

    fn fold(&mut self) -> bool {
        self.entries.fold()
    }

    fn forget(&mut self) {
        self.entries.forget();
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

struct FrozenTypedNamespaces<N> {
    entries: FrozenMapEntries<N, ()>,
    serializer: Arc<dyn Serializer<N>>,
}

impl<N: Key> FrozenNamespaces for FrozenTypedNamespaces<N> {
    fn visit(
        &self,
        state: &str,
        key_row: u32,
        buffer: &mut Vec<u8>,
        visit: &mut NamespaceVisitor<'_>,
    ) -> Result<(), StateError> {
        for (row, namespace, ()) in self.entries.of_row(key_row) {
            buffer.clear();
            self.serializer.serialize(namespace, buffer).map_err(serializer_error(state))?;
            check_written_key(&*self.serializer, namespace, buffer).map_err(key_error("namespace"))?;
            visit(row, buffer)?;
        }
        Ok(())
    }
}
