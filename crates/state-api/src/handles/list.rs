//! The handle on list state.

use std::marker::PhantomData;

use super::{KeyCx, handle};
use crate::rows::column::ListColumn;
use crate::{Key, Slot, State, StateError};

/// A list for each key. `Default` is a handle bound to nothing. An empty list and an absent list are the same.
///
/// Elements keep the order in which they were added, through snapshots and merges too. Adding costs the same however long
/// the list is. Every method works on the current key of the context; errors as for [`ValueState`](crate::ValueState).
/// The first 1,024 elements are checked, of large ones fewer, and then one in 4,096; an element that is found not to
/// survive serialisation leaves the list as it was.
#[derive(Debug)]
pub struct ListState<T> {
    slot: Slot,
    of: PhantomData<fn() -> T>,
}

impl<T: State> ListState<T> {
    /// The elements, cloned, in order.
    pub fn get(&self, cx: &mut impl KeyCx) -> Result<Vec<T>, StateError> {
        let mut elements = Vec::new();
        self.for_each(cx, |element| elements.push(element.clone()))?;
        Ok(elements)
    }

    /// Visits the elements in order.
    pub fn for_each(&self, cx: &mut impl KeyCx, visit: impl FnMut(&T)) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        if let Some(list) = column.get(&mut access)? {
            list.iter().for_each(visit);
        }
        Ok(())
    }

    /// Whether the list is empty.
    pub fn is_empty(&self, cx: &mut impl KeyCx) -> Result<bool, StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        column.is_empty(&mut access)
    }

    /// Appends an element.
    pub fn add(&self, cx: &mut impl KeyCx, element: T) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        column.add(&mut access, element)
    }

    /// Appends elements, all of them or, on an error, none. Without elements it does nothing.
    pub fn add_all(&self, cx: &mut impl KeyCx, elements: impl IntoIterator<Item = T>) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        column.add_all(&mut access, elements.into_iter().collect())
    }

    /// Replaces the list. Without elements it is cleared.
    pub fn update(&self, cx: &mut impl KeyCx, elements: impl IntoIterator<Item = T>) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        column.update(&mut access, elements.into_iter().collect())
    }

    /// Removes all elements.
    pub fn clear(&self, cx: &mut impl KeyCx) -> Result<(), StateError> {
        let (column, mut access) = cx.keyed_state().access::<ListColumn<T>, Self>(self.slot)?;
        column.clear(&mut access)
    }

    /// See [`KeyedState::merge_namespaces`](crate::KeyedState::merge_namespaces): the elements of the sources come after
    /// those of the target, in the order in which the sources are named.
    pub fn merge_namespaces<N: Key>(&self, cx: &mut impl KeyCx, target: &N, sources: &[N]) -> Result<(), StateError> {
        let state = cx.keyed_state();
        state.check(self.slot, crate::error::handle_of::<Self>)?;
        state.merge_namespaces(self.slot, target, sources)
    }
}

handle!(ListState<T>);
