//! The handles on a map of operator state that is the same in every subtask.

use std::marker::PhantomData;

use super::OperatorCx;
use super::broadcast_cell::BroadcastCell;
use crate::{Key, Slot, State, StateError};

/// A map that is the same in every subtask. `Default` is a handle bound to nothing.
///
/// Nothing makes the copies equal but the functions: every subtask has to make the same changes, whatever records it is
/// given besides. There is no stream yet that gives every subtask the same records; what all of them do alike, such as
/// filling the map when they are initialised, is what it is for until then. What fails changes nothing; errors as for [`OperatorListState`](super::OperatorListState).
#[derive(Debug)]
pub struct BroadcastState<K, V> {
    slot: Slot,
    of: PhantomData<fn() -> (K, V)>,
}

/// A broadcast state for those who may not change it.
#[derive(Debug)]
pub struct ReadOnlyBroadcastState<K, V>(BroadcastState<K, V>);

impl<K: Key, V: State> BroadcastState<K, V> {
    pub(super) fn bound_to(slot: Slot) -> Self {
        Self { slot, of: PhantomData }
    }

    /// The same state for those who may not change it.
    pub fn read_only(&self) -> ReadOnlyBroadcastState<K, V> {
        ReadOnlyBroadcastState(*self)
    }

    /// The value of a key, if there is one.
    pub fn get(&self, cx: &mut (impl OperatorCx + ?Sized), key: &K) -> Result<Option<V>, StateError> {
        Ok(self.cell(cx)?.get(key).cloned())
    }

    /// Whether a key has a value.
    pub fn contains(&self, cx: &mut (impl OperatorCx + ?Sized), key: &K) -> Result<bool, StateError> {
        Ok(self.cell(cx)?.get(key).is_some())
    }

    /// Sets the value of a key.
    pub fn put(&self, cx: &mut (impl OperatorCx + ?Sized), key: K, value: V) -> Result<(), StateError> {
        self.cell(cx)?.put(key, value)
    }

    /// Sets the values of keys, all or none. Of equal keys the last counts.
    pub fn put_all(
        &self,
        cx: &mut (impl OperatorCx + ?Sized),
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), StateError> {
        self.cell(cx)?.put_all(entries.into_iter().collect())
    }

    /// Removes the value of a key; there need not be one.
    pub fn remove(&self, cx: &mut (impl OperatorCx + ?Sized), key: &K) -> Result<(), StateError> {
        self.cell(cx)?.remove(key);
        Ok(())
    }

    /// The entries, cloned, each once, in no particular order.
    pub fn entries(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<Vec<(K, V)>, StateError> {
        Ok(self.cell(cx)?.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Visits the entries, each once, in no particular order.
    pub fn for_each(
        &self,
        cx: &mut (impl OperatorCx + ?Sized),
        mut visit: impl FnMut(&K, &V),
    ) -> Result<(), StateError> {
        self.cell(cx)?.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    /// Removes the entries that `keep` does not want kept.
    pub fn retain(
        &self,
        cx: &mut (impl OperatorCx + ?Sized),
        keep: impl FnMut(&K, &V) -> bool,
    ) -> Result<(), StateError> {
        self.cell(cx)?.retain(keep);
        Ok(())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<bool, StateError> {
        Ok(self.cell(cx)?.len() == 0)
    }

    /// Removes all entries.
    pub fn clear(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<(), StateError> {
        self.cell(cx)?.clear();
        Ok(())
    }

    fn cell<'c>(&self, cx: &'c mut (impl OperatorCx + ?Sized)) -> Result<&'c mut BroadcastCell<K, V>, StateError> {
        cx.operator_state().cell(self.slot)
    }
}

impl<K: Key, V: State> ReadOnlyBroadcastState<K, V> {
    /// See [`BroadcastState::get`].
    pub fn get(&self, cx: &mut (impl OperatorCx + ?Sized), key: &K) -> Result<Option<V>, StateError> {
        self.0.get(cx, key)
    }

    /// See [`BroadcastState::contains`].
    pub fn contains(&self, cx: &mut (impl OperatorCx + ?Sized), key: &K) -> Result<bool, StateError> {
        self.0.contains(cx, key)
    }

    /// See [`BroadcastState::entries`].
    pub fn entries(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<Vec<(K, V)>, StateError> {
        self.0.entries(cx)
    }

    /// See [`BroadcastState::for_each`].
    pub fn for_each(&self, cx: &mut (impl OperatorCx + ?Sized), visit: impl FnMut(&K, &V)) -> Result<(), StateError> {
        self.0.for_each(cx, visit)
    }

    /// See [`BroadcastState::is_empty`].
    pub fn is_empty(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<bool, StateError> {
        self.0.is_empty(cx)
    }
}

impl<K, V> Clone for BroadcastState<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for BroadcastState<K, V> {}
impl<K, V> Default for BroadcastState<K, V> {
    fn default() -> Self {
        Self { slot: Slot::default(), of: PhantomData }
    }
}
impl<K, V> Clone for ReadOnlyBroadcastState<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for ReadOnlyBroadcastState<K, V> {}
impl<K, V> Default for ReadOnlyBroadcastState<K, V> {
    fn default() -> Self {
        Self(BroadcastState::default())
    }
}
