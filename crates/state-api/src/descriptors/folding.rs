//! The descriptor of folding state.

use std::fmt;
use std::sync::Arc;

use super::{AnyDescriptor, State, StateKind, TableMeta, plain_meta, serializer_methods};
use crate::rows::column::{Accumulate, AccumulatingColumn, Column};
use crate::{BincodeSerializer, BoxedError, Schema, Serializer, StateError};

/// Describes a state that holds one accumulator a key, into which every added `T` is folded.
///
/// For programs that come from Flink 1.x. New ones use [`AggregatingStateDescriptor`](super::AggregatingStateDescriptor),
/// which can also be merged: folding state cannot be used in windows that are.
///
/// After an error the state is what it was before. For that the accumulator is cloned before every value: keep it small.
#[derive(Clone)]
pub struct FoldingStateDescriptor<T, Acc> {
    name: String,
    serializer: Arc<dyn Serializer<Acc>>,
    fold: Arc<dyn Accumulate<T, Acc, Acc>>,
}

impl<T: 'static, Acc: State> FoldingStateDescriptor<T, Acc> {
    /// A state of this name. The first value is folded into a clone of `initial`.
    pub fn new(name: impl Into<String>, initial: Acc, fold: impl Fn(Acc, T) -> Acc + Send + Sync + 'static) -> Self {
        Self::fallible(name, initial, move |accumulator, value| Ok(fold(accumulator, value)))
    }

    /// As [`FoldingStateDescriptor::new`], with a function that may fail. Then the state stays as it was.
    pub fn fallible(
        name: impl Into<String>,
        initial: Acc,
        fold: impl Fn(Acc, T) -> Result<Acc, BoxedError> + Send + Sync + 'static,
    ) -> Self {
        let serializer = Arc::new(BincodeSerializer::traced());
        Self { name: name.into(), serializer, fold: Arc::new(Fold { initial, fold }) }
    }

    serializer_methods!(Acc, BincodeSerializer);
}

struct Fold<Acc, F> {
    initial: Acc,
    fold: F,
}

impl<T: 'static, Acc: State, F> Accumulate<T, Acc, Acc> for Fold<Acc, F>
where
    F: Fn(Acc, T) -> Result<Acc, BoxedError> + Send + Sync + 'static,
{
    fn add(&self, accumulator: Option<&Acc>, value: T) -> Result<Acc, BoxedError> {
        (self.fold)(accumulator.unwrap_or(&self.initial).clone(), value)
    }

    fn result(&self, accumulator: &Acc) -> Result<Acc, BoxedError> {
        Ok(accumulator.clone())
    }

    fn merge(&self, _: Acc, _: &Acc) -> Result<Acc, BoxedError> {
        unreachable!("folding state is not mergeable, and the store knows")
    }
}

impl<T, Acc> fmt::Debug for FoldingStateDescriptor<T, Acc> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoldingStateDescriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: 'static, Acc: State> AnyDescriptor for FoldingStateDescriptor<T, Acc> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> StateKind {
        StateKind::Folding
    }

    fn table_meta(&self, key: Schema, namespace: Schema) -> Result<TableMeta, StateError> {
        plain_meta(&self.name, StateKind::Folding, key, namespace, &*self.serializer)
    }

    fn column(&self) -> Box<dyn Column> {
        Box::new(AccumulatingColumn::new(self.name.clone(), self.serializer.clone(), self.fold.clone()))
    }
}
