//! Descriptors: the name, kind, type and serializer of a state, from which a store makes handles.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::rows::column::{Column, map_column, value_column};
use crate::{BincodeSerializer, Schema, Serializer, StateError};

/// A type that state can hold.
///
/// Equal values must write equal bytes. `HashMap` and `HashSet` do not, for their order is arbitrary: hold a `BTreeMap`
/// or a `BTreeSet`, or make the state a [`MapState`](crate::MapState). The first write of a state and one in some
/// thousands are checked, and [`StateError::NotRoundTrip`] says what differs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be held by state",
    note = "state holds owned types that derive `Clone`, `serde::Serialize` and `serde::Deserialize`"
)]
pub trait State: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}
impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> State for T {}

/// A type that a stream can be keyed by, or that a map state can have as its map keys.
///
/// `Hash` is asked for so that types without a stable identity (floats, hash maps) are refused by the compiler;
/// the hash that decides where a key lives is [`crate::KeyHasher`]'s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    note = "keys are owned types that derive `Clone`, `PartialEq`, `Eq`, `Hash`, `serde::Serialize` and \
            `serde::Deserialize`",
    note = "floats cannot be keys: use an integer, or a string"
)]
pub trait Key: State + Eq + Hash {}
impl<T: State + Eq + Hash> Key for T {}

/// The kinds of keyed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateKind {
    /// One value a key.
    Value,
    /// A map a key.
    Map,
    /// A list a key.
    List,
    /// One value a key, into which values are reduced.
    Reducing,
    /// One accumulator a key, into which values are aggregated.
    Aggregating,
    /// One accumulator a key, into which values are folded.
    Folding,
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "value state",
            Self::Map => "map state",
            Self::List => "list state",
            Self::Reducing => "reducing state",
            Self::Aggregating => "aggregating state",
            Self::Folding => "folding state",
        })
    }
}

/// What is recorded of a state in every snapshot: enough to know whether its bytes can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableMeta {
    /// The name, unique within the operator.
    pub name: String,
    /// The kind.
    pub kind: StateKind,
    /// Schema of the keys.
    pub key: Schema,
    /// Schema of the namespaces; that of `()` for state that is in none.
    pub namespace: Schema,
    /// Schema of the map keys; `None` unless the kind is [`StateKind::Map`].
    pub map_key: Option<Schema>,
    /// Schema of the values.
    pub value: Schema,
}

impl TableMeta {
    /// Checks that a table with this meta may be used as `requested`: same kind and same schemas.
    ///
    /// Schemas are compared as they are; reading old values through a newer schema is not done yet.
    pub fn check_usable_as(&self, requested: &TableMeta) -> Result<(), StateError> {
        let state = || self.name.clone();
        if self.kind != requested.kind {
            return Err(StateError::OtherKind { state: state(), existing: self.kind, requested: requested.kind });
        }
        let other = |part, existing: &Schema, requested: &Schema| {
            Err(StateError::OtherSchema {
                state: state(),
                part,
                existing: Box::new(existing.clone()),
                requested: Box::new(requested.clone()),
            })
        };
        if self.key != requested.key {
            return other("key", &self.key, &requested.key);
        }
        if self.namespace != requested.namespace {
            return other("namespace", &self.namespace, &requested.namespace);
        }
        match (&self.map_key, &requested.map_key) {
            (Some(existing), Some(requested)) if existing != requested => return other("map key", existing, requested),
            _ => {}
        }
        if self.value != requested.value {
            return other("value", &self.value, &requested.value);
        }
        Ok(())
    }
}

/// What a store needs to know of a descriptor, whatever its type. Implemented by the descriptors of this crate.
pub trait AnyDescriptor {
    /// The name of the state.
    fn name(&self) -> &str;

    /// The kind of the state.
    fn kind(&self) -> StateKind;

    /// The recorded form, for an operator whose keys have schema `key`, in namespaces of schema `namespace`.
    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError>;

    /// A new, empty column of the state's type.
    #[doc(hidden)]
    fn column(&self) -> Box<dyn Column>;
}

fn schema_of<T>(state: &str, part: &'static str, serializer: &dyn Serializer<T>) -> Result<Schema, StateError> {
    serializer.schema().map_err(|error| StateError::Untraceable { state: state.to_owned(), part, reason: error.reason })
}

/// Describes a state that holds one value a key.
#[derive(Debug, Clone)]
pub struct ValueStateDescriptor<T> {
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> ValueStateDescriptor<T> {
    /// A state of this name, serialised by [`BincodeSerializer`].
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), serializer: Arc::new(BincodeSerializer::traced()) }
    }

    /// Uses another serializer.
    pub fn with_serializer(mut self, serializer: impl Serializer<T> + 'static) -> Self {
        self.serializer = Arc::new(serializer);
        self
    }

    /// For types whose schema cannot be traced: a name and a version take its place. Raise the version whenever the
    /// bytes of the type change.
    pub fn opaque_schema(self, name: impl Into<String>, version: u32) -> Self {
        self.with_serializer(BincodeSerializer::opaque(name, version))
    }
}

impl<T: State> AnyDescriptor for ValueStateDescriptor<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Value
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        let value = schema_of(&self.name, "value", &*self.serializer)?;
        Ok(TableMeta { name: self.name.clone(), kind: StateKind::Value, key, namespace, map_key: None, value })
    }

    fn column(&self) -> Box<dyn Column> {
        value_column(self.name.clone(), self.serializer.clone())
    }
}

/// Describes a state that holds a list.
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

    /// Uses another serializer for the elements.
    pub fn with_serializer(mut self, serializer: impl Serializer<T> + 'static) -> Self {
        self.serializer = Arc::new(serializer);
        self
    }

    /// For types whose schema cannot be traced: a name and a version take its place. Raise the version whenever the
    /// bytes of the type change.
    pub fn opaque_schema(self, name: impl Into<String>, version: u32) -> Self {
        self.with_serializer(BincodeSerializer::opaque(name, version))
    }

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
        let map_key = Some(schema_of(&self.name, "map key", &*self.key_serializer)?);
        let value = schema_of(&self.name, "value", &*self.value_serializer)?;
        Ok(TableMeta { name: self.name.clone(), kind: StateKind::Map, key, namespace, map_key, value })
    }

    fn column(&self) -> Box<dyn Column> {
        map_column(self.name.clone(), self.key_serializer.clone(), self.value_serializer.clone())
    }
}
