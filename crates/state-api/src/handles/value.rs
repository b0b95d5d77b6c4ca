//! The handle on value state.

use std::marker::PhantomData;

use super::{KeyCx, handle};
use crate::rows::column::ValueColumn;
use crate::{Slot, State, StateError};

/// One value for each key. `Default` is a handle bound to nothing, so that it can be a field of a function.
///
/// Equal values must write equal bytes (see [`State`]): a value with a `HashMap` or `HashSet` in it does not, one with a
/// `BTreeMap` does, and [`MapState`](crate::MapState) holds a map entry by entry.
///
/// Every method works on the current key of the context, and its current namespace if the state is in one, and fails with [`StateError::Unbound`],
/// [`StateError::ForeignHandle`] or [`StateError::NoCurrentKey`] when there is no such state.
#[derive(Debug)]
pub struct ValueState<T> {
    slot: Slot,
    of: PhantomData<fn() -> T>,
}

impl<T: State> ValueState<T> {
    /// The value, if there is one; otherwise the default of the descriptor, if it has one. Zero, `false` and the empty string are values.
    pub fn value(&self, cx: &mut impl KeyCx) -> Result<Option<T>, StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>, Self>(self.slot)?;
        column.get(&mut access).map(|value| value.cloned())
    }

    /// Sets the value.
    pub fn update(&self, cx: &mut impl KeyCx, value: T) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>, Self>(self.slot)?;
        column.set(&mut access, value)
    }

    /// Changes the value in place: the closure sees it as it is and leaves it as it shall be; `None` is no value.
    ///
    /// Cheaper than [`ValueState::value`] and [`ValueState::update`]: nothing is cloned and the value is found once.
    pub fn modify<R>(&self, cx: &mut impl KeyCx, change: impl FnOnce(&mut Option<T>) -> R) -> Result<R, StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>, Self>(self.slot)?;
        column.modify(&mut access, change)
    }

    /// Removes the value.
    pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>, Self>(self.slot)?;
        column.clear(&mut access)
    }
}

handle!(ValueState<T>);
