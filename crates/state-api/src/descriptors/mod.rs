//! Descriptors: the name, kind, type and serializer of a state, from which a store makes handles.

mod aggregating;
mod folding;
mod list;
mod map;
mod reducing;
mod value;

use std::fmt;
use std::hash::Hash;

pub use aggregating::{AggregateFunction, AggregatingStateDescriptor};
pub use folding::FoldingStateDescriptor;
pub use list::ListStateDescriptor;
pub use map::MapStateDescriptor;
pub use reducing::ReducingStateDescriptor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub use value::ValueStateDescriptor;

use crate::rows::column::Column;
use crate::{Schema, Serializer, StateError};

/// A type that state can hold.
///
/// Equal values must write equal bytes. `HashMap` and `HashSet` do not, for their order is arbitrary: hold a `BTreeMap`
/// or a `BTreeSet`, or make the state a [`MapState`](crate::MapState). The first 1,024 values of a state and then one in
/// 4,096 are checked when they are written, and [`StateError::NotRoundTrip`] says what differs; of large values fewer are,
/// so that no task is held up.
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
///
/// ```
/// # use highwater_state_api::Key;
/// fn is_key<K: Key>() {}
/// is_key::<(String, [u8; 2])>();
/// ```
///
/// A float is no key, nor is anything with a float in it, nor a map or a set without an order:
///
/// ```compile_fail,E0277
/// # use highwater_state_api::Key;
/// fn is_key<K: Key>() {}
/// is_key::<f64>();
/// ```
///
/// ```compile_fail,E0277
/// # use highwater_state_api::Key;
/// fn is_key<K: Key>() {}
/// is_key::<(String, [f32; 2])>();
/// ```
///
/// ```compile_fail,E0277
/// # use highwater_state_api::Key;
/// fn is_key<K: Key>() {}
/// is_key::<std::collections::HashMap<String, u8>>();
/// ```
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

impl StateKind {
    /// Whether the state of several namespaces can become that of one.
    pub fn is_mergeable(self) -> bool {
        match self {
            Self::List | Self::Reducing | Self::Aggregating => true,
            Self::Value | Self::Map | Self::Folding => false,
        }
    }
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
        if self.map_key != requested.map_key {
            return other("map key", &or_none(&self.map_key), &or_none(&requested.map_key));
        }
        if self.value != requested.value {
            return other("value", &self.value, &requested.value);
        }
        Ok(())
    }
}

/// The schema of map keys, as an error shows it where there are none, too.
pub(crate) fn or_none(map_key: &Option<Schema>) -> Schema {
    map_key.clone().unwrap_or_else(|| Schema::Opaque { name: "none".to_owned(), version: 0 })
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

/// The recorded form of a state without map keys.
fn plain_meta<T>(
    name: &str,
    kind: StateKind,
    key: Schema,
    namespace: Schema,
    serializer: &dyn Serializer<T>,
) -> Result<TableMeta, StateError> {
    let value = schema_of(name, "value", serializer)?;
    Ok(TableMeta { name: name.to_owned(), kind, key, namespace, map_key: None, value })
}

fn schema_of<T>(state: &str, part: &'static str, serializer: &dyn Serializer<T>) -> Result<Schema, StateError> {
    serializer.schema().map_err(|error| StateError::Untraceable { state: state.to_owned(), part, reason: error.reason })
}

/// The methods by which every descriptor of one serializer changes it.
macro_rules! serializer_methods {
    ($value:ty, $bincode:ty) => {
        /// Uses another serializer.
        pub fn with_serializer(mut self, serializer: impl $crate::Serializer<$value> + 'static) -> Self {
            self.serializer = std::sync::Arc::new(serializer);
            self
        }

        /// For types whose schema cannot be traced: a name and a version take its place. Raise the version whenever the
        /// bytes of the type change.
        pub fn opaque_schema(self, name: impl Into<String>, version: u32) -> Self {
            self.with_serializer(<$bincode>::opaque(name, version))
        }
    };
}
use serializer_methods;
