//! The descriptor of map state.

use std::sync::Arc;

use super::{AnyDescriptor, Key, State, StateKind, TableMeta, schema_of};
use crate::rows::column::{Column, MapColumn};
use crate::{BincodeSerializer, Schema, Serializer, StateError};

/// Describes a state that holds a map a key.
#[derive(Debug, Clone)]
pub struct MapStateDescriptor<UK, UV> {
    name: String,
    key_serializer: Arc<dyn Serializer<UK>>,
    value_serializer: Arc<dyn Serializer<UV>>,
}

impl<UK: Key, UV: State> MapStateDescriptor<UK, UV> {
    /// A state of this name, serialised by [`BincodeSerializer`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            key_serializer: Arc::new(BincodeSerializer::traced()),
            value_serializer: Arc::new(BincodeSerializer::traced()),
        }
    }

    /// Uses other serializers for the map keys and the values.
    pub fn with_serializers(
        mut self,
        key: impl Serializer<UK> + 'static,
        value: impl Serializer<UV> + 'static,
    ) -> Self {
        self.key_serializer = Arc::new(key);
        self.value_serializer = Arc::new(value);
        self
    }

    /// For map keys whose schema cannot be traced: a name and a version take its place. Raise the version whenever the
    /// bytes of the type change.
    pub fn opaque_key_schema(mut self, name: impl Into<String>, version: u32) -> Self {
        self.key_serializer = Arc::new(BincodeSerializer::opaque(name, version));
        self
    }

    /// As [`MapStateDescriptor::opaque_key_schema`], for the values.
    pub fn opaque_value_schema(mut self, name: impl Into<String>, version: u32) -> Self {
        self.value_serializer = Arc::new(BincodeSerializer::opaque(name, version));
        self
    }

    /// The schemas of the map keys and of the values.
    pub(crate) fn schemas(&self) -> Result<(Schema, Schema), StateError> {
        let map_key = schema_of(&self.name, "map key", &*self.key_serializer)?;
        Ok((map_key, schema_of(&self.name, "map value", &*self.value_serializer)?))
    }

    /// Writes the map keys, and the values.
    pub(crate) fn serializers(&self) -> (Arc<dyn Serializer<UK>>, Arc<dyn Serializer<UV>>) {
        (self.key_serializer.clone(), self.value_serializer.clone())
    }
}

impl<UK: Key, UV: State> AnyDescriptor for MapStateDescriptor<UK, UV> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Map
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        let (map_key, value) = self.schemas()?;
        Ok(TableMeta { name: self.name.clone(), kind: StateKind::Map, key, namespace, map_key: Some(map_key), value })
    }

    fn column(&self) -> Box<dyn Column> {
        Box::new(MapColumn::new(self.name.clone(), self.key_serializer.clone(), self.value_serializer.clone()))
    }
}
