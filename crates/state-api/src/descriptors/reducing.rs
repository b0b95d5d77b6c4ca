//! The descriptor of reducing state.

use std::fmt;
use std::sync::Arc;

use super::{AnyDescriptor, State, StateKind, TableMeta, plain_meta, serializer_methods};
use crate::rows::column::{Accumulate, AccumulatingColumn, Column};
use crate::{BincodeSerializer, BoxedError, Schema, Serializer, StateError};

/// Describes a state that holds one value a key, into which every added value is reduced.
#[derive(Clone)]
pub struct ReducingStateDescriptor<T> {
    name: String,
    serializer: Arc<dyn Serializer<T>>,
    reduce: Arc<dyn Accumulate<T, T, T>>,
}

impl<T: State> ReducingStateDescriptor<T> {
    /// A state of this name. `reduce` makes one value of the one that is there and the one that is added; the first value
    /// is taken as it is. It must be associative, for namespaces are merged by it too.
    pub fn new(name: impl Into<String>, reduce: impl Fn(&T, T) -> T + Send + Sync + 'static) -> Self {
        Self::fallible(name, move |one, other| Ok(reduce(one, other)))
    }

    /// As [`ReducingStateDescriptor::new`], with a function that may fail. Then the state stays as it was.
    pub fn fallible(
        name: impl Into<String>,
        reduce: impl Fn(&T, T) -> Result<T, BoxedError> + Send + Sync + 'static,
    ) -> Self {
        let serializer = Arc::new(BincodeSerializer::traced());
        Self { name: name.into(), serializer, reduce: Arc::new(Reduce(reduce)) }
    }

    serializer_methods!(T, BincodeSerializer);
}

struct Reduce<F>(F);

impl<T: State, F: Fn(&T, T) -> Result<T, BoxedError> + Send + Sync + 'static> Accumulate<T, T, T> for Reduce<F> {
    fn add(&self, accumulator: Option<&T>, value: T) -> Result<T, BoxedError> {
        match accumulator {
            None => Ok(value),
            Some(accumulator) => self.0(accumulator, value),
        }
    }

    fn result(&self, accumulator: &T) -> Result<T, BoxedError> {
        Ok(accumulator.clone())
    }

    fn merge(&self, one: T, other: &T) -> Result<T, BoxedError> {
        self.0(&one, other.clone())
    }
}

impl<T> fmt::Debug for ReducingStateDescriptor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReducingStateDescriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: State> AnyDescriptor for ReducingStateDescriptor<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Reducing
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        plain_meta(&self.name, StateKind::Reducing, key, namespace, &*self.serializer)
    }

    fn column(&self) -> Box<dyn Column> {
        Box::new(AccumulatingColumn::new(self.name.clone(), self.serializer.clone(), self.reduce.clone()))
    }
}
