//! The handle on map state.

use std::marker::PhantomData;

use super::{KeyCx, handle};
use crate::rows::column::MapColumn;
use crate::{Key, Slot, State, StateError};

/// A map for each key. `Default` is a handle bound to nothing. An empty map and an absent map are the same.
///
/// Every method works on the current key of the context; errors as for [`ValueState`](crate::ValueState).
#[derive(Debug)]
pub struct MapState<UK, UV> {
    slot: Slot,
    of: PhantomData<fn() -> (UK, UV)>,
}

impl<UK: Key, UV: State> MapState<UK, UV> {
    /// The value under a map key, if there is one.
    pub fn get(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<Option<UV>, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.get(&mut access, map_key).map(|value| value.cloned())
    }

    /// Whether there is a value under a map key.
    pub fn contains(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<bool, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.get(&mut access, map_key).map(|value| value.is_some())
    }

    /// Sets the value under a map key.
    pub fn put(&self, cx: &mut impl KeyCx, map_key: UK, value: UV) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.put(&mut access, map_key, value)
    }

    /// Sets the values under many map keys, all of them or, on an error, none.
    pub fn put_all(&self, cx: &mut impl KeyCx, entries: impl IntoIterator<Item = (UK, UV)>) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.put_all(&mut access, entries.into_iter().collect())
    }

    /// Removes the value under a map key; there need not be one.
    pub fn remove(&self, cx: &mut impl KeyCx, map_key: &UK) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
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
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.for_each(&mut access, visit)
    }

    /// The map keys, cloned, each once, in no particular order.
    pub fn keys(&self, cx: &mut impl KeyCx) -> Result<Vec<UK>, StateError> {
        let mut keys = Vec::new();
        self.for_each(cx, |map_key, _| keys.push(map_key.clone()))?;
        Ok(keys)
    }

    /// The values, cloned, one for each map key, in no particular order.
    pub fn values(&self, cx: &mut impl KeyCx) -> Result<Vec<UV>, StateError> {
        let mut values = Vec::new();
        self.for_each(cx, |_, value| values.push(value.clone()))?;
        Ok(values)
    }

    /// Visits the entries, each once, in no particular order, and removes those for which `keep` says `false`.
    pub fn retain(&self, cx: &mut impl KeyCx, keep: impl FnMut(&UK, &UV) -> bool) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.retain(&mut access, keep)
    }

    /// Visits the entries, each once, in no particular order, and sets their values to what `change` makes of them: all of
    /// them or, on an error, none.
    pub fn for_each_mut(&self, cx: &mut impl KeyCx, change: impl FnMut(&UK, &mut UV)) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.for_each_mut(&mut access, change)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self, cx: &mut impl KeyCx) -> Result<bool, StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.is_empty(&mut access)
    }

    /// Removes all entries.
    pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<MapColumn<UK, UV>, Self>(self.slot)?;
        column.clear(&mut access)
    }
}

handle!(MapState<UK, UV>);
