//! The descriptor of value state.

use std::sync::Arc;

use super::{AnyDescriptor, State, StateKind, TableMeta, plain_meta, serializer_methods};
use crate::rows::column::{Column, ValueColumn};
use crate::{BincodeSerializer, Schema, Serializer, StateError};

/// Describes a state that holds one value a key.
#[derive(Debug, Clone)]
pub struct ValueStateDescriptor<T> {
    name: String,
    serializer: Arc<dyn Serializer<T>>,
    default: Option<T>,
}

impl<T: State> ValueStateDescriptor<T> {
    /// A state of this name, serialised by [`BincodeSerializer`].
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), serializer: Arc::new(BincodeSerializer::traced()), default: None }
    }

    /// What [`ValueState::value`](crate::ValueState::value) gives, as a clone, where there is no value. It is not stored.
    pub fn with_default(mut self, default: T) -> Self {
        self.default = Some(default);
        self
    }

    serializer_methods!(T, BincodeSerializer);
}

impl<T: State> AnyDescriptor for ValueStateDescriptor<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Value
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        plain_meta(&self.name, StateKind::Value, key, namespace, &*self.serializer)
    }

    fn column(&self) -> Box<dyn Column> {
        Box::new(ValueColumn::new(self.name.clone(), self.serializer.clone(), self.default.clone()))
    }
}
