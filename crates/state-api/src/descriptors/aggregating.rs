//! The descriptor of aggregating state.

use std::fmt;
use std::sync::Arc;

use super::{AnyDescriptor, State, StateKind, TableMeta, plain_meta, serializer_methods};
use crate::rows::column::{Accumulate, AccumulatingColumn, Column};
use crate::{BincodeSerializer, BoxedError, Schema, Serializer, StateError};

/// Makes one result of many values, by way of an accumulator.
///
/// After an error the state is what it was before. For that the accumulator is cloned before every
/// [`add`](AggregateFunction::add): keep it small. What grows belongs into a list or map state.
pub trait AggregateFunction: Send + Sync + 'static {
    /// What is added.
    type In: 'static;
    /// What is kept between additions.
    type Acc: State;
    /// What comes out.
    type Out: 'static;

    /// The accumulator of no value.
    fn create_accumulator(&self) -> Self::Acc;

    /// Adds a value to an accumulator, by changing or by replacing it.
    fn add(&self, value: Self::In, accumulator: &mut Self::Acc) -> Result<(), BoxedError>;

    /// The result of an accumulator.
    fn result(&self, accumulator: &Self::Acc) -> Result<Self::Out, BoxedError>;

    /// The accumulator of the values of both: for namespaces that are merged. Must not depend on the order.
    fn merge(&self, one: Self::Acc, other: &Self::Acc) -> Result<Self::Acc, BoxedError>;
}

/// Describes a state that holds one accumulator a key.
pub struct AggregatingStateDescriptor<F: AggregateFunction> {
    name: String,
    serializer: Arc<dyn Serializer<F::Acc>>,
    function: Arc<F>,
}

impl<F: AggregateFunction> AggregatingStateDescriptor<F> {
    /// A state of this name, its accumulators serialised by [`BincodeSerializer`].
    pub fn new(name: impl Into<String>, function: F) -> Self {
        let serializer = Arc::new(BincodeSerializer::traced());
        Self { name: name.into(), serializer, function: Arc::new(function) }
    }

    serializer_methods!(F::Acc, BincodeSerializer);
}

struct Aggregate<F>(Arc<F>);

impl<F: AggregateFunction> Accumulate<F::In, F::Acc, F::Out> for Aggregate<F> {
    fn add(&self, accumulator: Option<&F::Acc>, value: F::In) -> Result<F::Acc, BoxedError> {
        let mut accumulator = accumulator.map_or_else(|| self.0.create_accumulator(), Clone::clone);
        self.0.add(value, &mut accumulator)?;
        Ok(accumulator)
    }

    fn result(&self, accumulator: &F::Acc) -> Result<F::Out, BoxedError> {
        self.0.result(accumulator)
    }

    fn merge(&self, one: F::Acc, other: &F::Acc) -> Result<F::Acc, BoxedError> {
        self.0.merge(one, other)
    }
}

impl<F: AggregateFunction> Clone for AggregatingStateDescriptor<F> {
    fn clone(&self) -> Self {
        let (serializer, function) = (self.serializer.clone(), self.function.clone());
        Self { name: self.name.clone(), serializer, function }
    }
}

impl<F: AggregateFunction> fmt::Debug for AggregatingStateDescriptor<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregatingStateDescriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F: AggregateFunction> AnyDescriptor for AggregatingStateDescriptor<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Aggregating
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        plain_meta(&self.name, StateKind::Aggregating, key, namespace, &*self.serializer)
    }

    fn column(&self) -> Box<dyn Column> {
        let function: Arc<dyn Accumulate<F::In, F::Acc, F::Out>> = Arc::new(Aggregate(self.function.clone()));
        Box::new(AccumulatingColumn::new(self.name.clone(), self.serializer.clone(), function))
    }
}
