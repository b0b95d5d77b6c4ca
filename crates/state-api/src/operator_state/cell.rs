//! What is behind the slot of a registered state, whatever its type.

use std::any::Any;

use crate::StateError;

/// The elements of one registered state.
pub trait Cell: Any + Send {
    /// What the handles on states of this type are called in messages.
    fn handle() -> String
    where
        Self: Sized;

    /// Takes restored elements, after those it has. Returns how many these are.
    fn load(&mut self, content: &[u8]) -> Result<u64, StateError>;

    /// Freezes the elements as they are; also how many there are.
    fn freeze(&mut self) -> (u64, Box<dyn FrozenElements>);

    /// Does a bounded part of the work that finished snapshots have left behind.
    fn fold(&mut self);
}

impl dyn Cell {
    pub(super) fn typed<C: Cell>(&mut self) -> Option<&mut C> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// The elements of one state as they were at a freeze.
pub trait FrozenElements: Send {
    /// Appends the next elements to `out`, about `bytes_max` bytes of them. Returns whether these were the last.
    ///
    /// After an error what is in `out` is of no use, and this is to be dropped: nobody knows which element comes next.
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError>;
}
