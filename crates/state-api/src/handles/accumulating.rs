//! The handles on states into which values go one by one: reducing, aggregating and folding state.

use std::marker::PhantomData;

use super::{KeyCx, handle};
use crate::rows::AccessError;
use crate::rows::column::{Access, AccumulatingColumn};
use crate::{Key, Slot, StateError};

/// One value for each key, into which every added value is reduced. `Default` is a handle bound to nothing.
///
/// Every method works on the current key of the context; errors as for [`ValueState`](crate::ValueState).
#[derive(Debug)]
pub struct ReducingState<T> {
    slot: Slot,
    of: PhantomData<fn() -> T>,
}

/// One accumulator for each key, into which values of type `In` are aggregated, and of which results of type `Out` are
/// made. `Default` is a handle bound to nothing.
///
/// Every method works on the current key of the context; errors as for [`ValueState`](crate::ValueState).
#[derive(Debug)]
pub struct AggregatingState<In, Out> {
    slot: Slot,
    of: PhantomData<fn(In) -> Out>,
}

/// One accumulator for each key, into which values of type `T` are folded. `Default` is a handle bound to nothing.
///
/// For programs that come from Flink 1.x; see [`FoldingStateDescriptor`](crate::FoldingStateDescriptor). Every method works
/// on the current key of the context; errors as for [`ValueState`](crate::ValueState).
#[derive(Debug)]
pub struct FoldingState<T, Acc> {
    slot: Slot,
    of: PhantomData<fn(T) -> Acc>,
}

macro_rules! accumulating_methods {
    ($in:ty, $out:ty) => {
        /// The result of everything that was added; `None` when nothing was. Fails with [`StateError::Function`] when the
        /// descriptor's function does.
        pub fn get(&self, cx: &mut impl KeyCx) -> Result<Option<$out>, StateError> {
            let (column, mut access) = self.access(cx)?;
            column.get(&mut access)
        }

        /// Adds a value. Fails with [`StateError::Function`] when the descriptor's function does; then nothing has changed.
        pub fn add(&self, cx: &mut impl KeyCx, value: $in) -> Result<(), StateError> {
            let (column, mut access) = self.access(cx)?;
            column.add(&mut access, value)
        }

        /// Forgets everything that was added.
        pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
            let (column, mut access) = self.access(cx)?;
            column.clear(&mut access)
        }

        #[inline]
        fn access<'c>(
            &self,
            cx: &'c mut impl KeyCx,
        ) -> Result<(&'c mut AccumulatingColumn<$in, $out>, Access<'c>), AccessError> {
            cx.keyed_state().access::<_, Self>(self.slot)
        }
    };
}

macro_rules! merge_method {
    () => {
        /// See [`KeyedState::merge_namespaces`](crate::KeyedState::merge_namespaces).
        pub fn merge_namespaces<N: Key>(
            &self,
            cx: &mut impl KeyCx,
            target: &N,
            sources: &[N],
        ) -> Result<(), StateError> {
            let state = cx.keyed_state();
            state.check(self.slot, crate::error::handle_of::<Self>)?;
            state.merge_namespaces(self.slot, target, sources)
        }
    };
}

impl<T: 'static> ReducingState<T> {
    accumulating_methods!(T, T);
    merge_method!();
}

impl<In: 'static, Out: 'static> AggregatingState<In, Out> {
    accumulating_methods!(In, Out);
    merge_method!();
}

impl<T: 'static, Acc: 'static> FoldingState<T, Acc> {
    accumulating_methods!(T, Acc);
}

handle!(ReducingState<T>);
handle!(AggregatingState<In, Out>);
handle!(FoldingState<T, Acc>);
