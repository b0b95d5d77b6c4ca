//! The handle on a list of operator state.

use std::marker::PhantomData;

use super::OperatorCx;
use super::list_cell::ListCell;
use crate::{Slot, State, StateError};

/// A list that belongs to a subtask. `Default` is a handle bound to nothing, so that it can be a field of a function.
///
/// The elements keep the order in which they were added. What fails changes nothing. Every method fails with
/// [`StateError::Unbound`] or [`StateError::ForeignHandle`] when the state of the context has no such list, and every
/// method that writes with [`StateError::NotRoundTrip`] or [`StateError::Serializer`] when an element would not survive
/// being written and read: every element is checked, for operator state is small.
#[derive(Debug)]
pub struct OperatorListState<T> {
    slot: Slot,
    of: PhantomData<fn() -> T>,
}

impl<T: State> OperatorListState<T> {
    pub(super) fn bound_to(slot: Slot) -> Self {
        Self { slot, of: PhantomData }
    }

    /// The elements, cloned, in order.
    pub fn get(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<Vec<T>, StateError> {
        let cell = self.cell(cx)?;
        let mut elements = Vec::with_capacity(cell.len());
        elements.extend(cell.iter().cloned());
        Ok(elements)
    }

    /// Visits the elements in order.
    pub fn for_each(&self, cx: &mut (impl OperatorCx + ?Sized), visit: impl FnMut(&T)) -> Result<(), StateError> {
        self.cell(cx)?.iter().for_each(visit);
        Ok(())
    }

    /// How many elements there are.
    pub fn len(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<usize, StateError> {
        Ok(self.cell(cx)?.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<bool, StateError> {
        Ok(self.cell(cx)?.len() == 0)
    }

    /// Appends an element.
    pub fn add(&self, cx: &mut (impl OperatorCx + ?Sized), element: T) -> Result<(), StateError> {
        self.cell(cx)?.add(element)
    }

    /// Appends elements, all or none.
    pub fn add_all(
        &self,
        cx: &mut (impl OperatorCx + ?Sized),
        elements: impl IntoIterator<Item = T>,
    ) -> Result<(), StateError> {
        self.cell(cx)?.add_all(elements.into_iter().collect())
    }

    /// Puts these elements in place of those that there are, all or none.
    pub fn update(
        &self,
        cx: &mut (impl OperatorCx + ?Sized),
        elements: impl IntoIterator<Item = T>,
    ) -> Result<(), StateError> {
        self.cell(cx)?.update(elements.into_iter().collect())
    }

    /// Removes all elements.
    pub fn clear(&self, cx: &mut (impl OperatorCx + ?Sized)) -> Result<(), StateError> {
        self.cell(cx)?.clear();
        Ok(())
    }

    fn cell<'c>(&self, cx: &'c mut (impl OperatorCx + ?Sized)) -> Result<&'c mut ListCell<T>, StateError> {
        cx.operator_state().cell(self.slot)
    }
}

impl<T> Clone for OperatorListState<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OperatorListState<T> {}
impl<T> Default for OperatorListState<T> {
    fn default() -> Self {
        Self { slot: Slot::default(), of: PhantomData }
    }
}
