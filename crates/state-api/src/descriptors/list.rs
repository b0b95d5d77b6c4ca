//! The descriptor of list state.

use std::sync::Arc;

use super::{AnyDescriptor, State, StateKind, TableMeta, plain_meta, schema_of, serializer_methods};
use crate::rows::column::{Column, ListColumn};
use crate::{BincodeSerializer, Schema, Serializer, StateError};

/// Describes a state that holds a list of `T` a key.
#[derive(Debug, Clone)]
pub struct ListStateDescriptor<T> {
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> ListStateDescriptor<T> {
    /// A state of this name, its elements serialised by [`BincodeSerializer`].
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), serializer: Arc::new(BincodeSerializer::traced()) }
    }

    serializer_methods!(T, BincodeSerializer);

    /// The name of the state.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes the elements.
    pub(crate) fn serializer(&self) -> Arc<dyn Serializer<T>> {
        self.serializer.clone()
    }

    /// The schema of the elements.
    pub(crate) fn element_schema(&self) -> Result<Schema, StateError> {
        schema_of(&self.name, "element", &*self.serializer)
    }
}

impl<T: State> AnyDescriptor for ListStateDescriptor<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::List
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        plain_meta(&self.name, StateKind::List, key, namespace, &*self.serializer)
    }

    fn column(&self) -> Box<dyn Column> {
        Box::new(ListColumn::new(self.name.clone(), self.serializer.clone()))
    }
}
