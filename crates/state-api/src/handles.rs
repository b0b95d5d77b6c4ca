//! Handles on keyed state: small values that name a registered state and are used with the context of the call.

use std::marker::PhantomData;

use crate::rows::column::{MapColumn, ValueColumn};
use crate::{Key, KeyedState, Slot, State, StateError};

/// A context in which a key may be current. Contexts of keyed functions implement it.
pub trait KeyCx {
    /// The state of the operator that is running.
    fn keyed_state(&mut self) -> &mut KeyedState;
}

impl KeyCx for KeyedState {
    fn keyed_state(&mut self) -> &mut KeyedState {
        self
    }
}

/// One value for each key. `Default` is a handle bound to nothing, so that it can be a field of a function.
///
/// Equal values must write equal bytes (see [`State`]): a value with a `HashMap` or `HashSet` in it does not, one with a
/// `BTreeMap` does, and [`MapState`] holds a map entry by entry.
///
/// Every method works on the current key of the context and fails with [`StateError::Unbound`],
/// [`StateError::ForeignHandle`] or [`StateError::NoCurrentKey`] when there is no such state.
#[derive(Debug)]
pub struct ValueState<T> {
    slot: Slot,
    of: PhantomData<fn() -> T>,
}

impl<T: State> ValueState<T> {
    pub(crate) fn bound_to(slot: Slot) -> Self {
        Self { slot, of: PhantomData }
    }

    /// The value, if there is one. Zero, `false` and the empty string are values.
    pub fn value(&self, cx: &mut impl KeyCx) -> Result<Option<T>, StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>>(self.slot)?;
        column.get(&mut access).map(|value| value.cloned())
    }

    /// Sets the value.
    pub fn update(&self, cx: &mut impl KeyCx, value: T) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>>(self.slot)?;
        column.set(&mut access, value)
    }

    /// Changes the value in place: the closure sees it as it is and leaves it as it shall be; `None` is no value.
    ///
    /// Cheaper than [`ValueState::value`] and [`ValueState::update`]: nothing is cloned and the value is found once.
    pub fn modify<R>(&self, cx: &mut impl KeyCx, change: impl FnOnce(&mut Option<T>) -> R) -> Result<R, StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>>(self.slot)?;
        column.modify(&mut access, change)
    }

    /// Removes the value.
    pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ValueColumn<T>>(self.slot)?;
        column.clear(&mut access)
    }
}

/// A map for each key. `Default` is a handle bound to nothing. An empty map and an absent map are the same.
///
/// Every method works on the current key of the context; errors as for [`ValueState`].
#[derive(Debug)]
pub struct MapState<UK, UV> {
    slot: Slot,
    of: PhantomData<fn() -> (UK, UV)>,
}

impl<UK: Key, UV: State> MapState<UK, UV> {
    pub(crate) fn bound_to(slot: Slot) -> Self {
        Self { slot, of: PhantomData }
    }

    /// The value under a map key, if there is one.
    pub fn get(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<Option<UV>, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.get(&mut access, map_key).map(|value| value.cloned())
    }

    /// Whether there is a value under a map key.
    pub fn contains(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<bool, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.get(&mut access, map_key).map(|value| value.is_some())
    }

    /// Sets the value under a map key.
    pub fn put(&self, cx: &mut impl KeyCx, map_key: UK, value: UV) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.put(&mut access, map_key, value)
    }

    /// Removes the value under a map key; there need not be one.
    pub fn remove(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.remove(&mut access, map_key)
    }

    /// The entries, cloned, each once, in no particular order.
    pub fn entries(&self, cx: &mut impl KeyCx) -> Result<Vec<(UK, UV)>, StateError> {
        let mut entries = Vec::new();
        self.for_each(cx, |map_key, value| entries.push((map_key.clone(), value.clone())))?;
        Ok(entries)
    }

    /// Visits the entries, each once, in no particular order.
    pub fn for_each(&self, cx: &mut impl KeyCx, visit: impl FnMut(&UK, &UV)) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.for_each(&mut access, visit)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self, cx: &mut impl KeyCx) -> Result<bool, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.is_empty(&mut access)
    }

    /// Removes all entries.
    pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>>(self.slot)?;
        column.clear(&mut access)
    }

    /// The slot of the state, for code that goes through all keys of a store.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

impl<T> Clone for ValueState<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for ValueState<T> {}
impl<T> Default for ValueState<T> {
    fn default() -> Self {
        Self { slot: Slot::default(), of: PhantomData }
    }
}
impl<UK, UV> Clone for MapState<UK, UV> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<UK, UV> Copy for MapState<UK, UV> {}
impl<UK, UV> Default for MapState<UK, UV> {
    fn default() -> Self {
        Self { slot: Slot::default(), of: PhantomData }
    }
}
