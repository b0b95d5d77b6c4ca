//! Handles on keyed state: small values that name a registered state and are used with the context of the call.

mod accumulating;
mod list;
mod map;
mod value;

pub use accumulating::{AggregatingState, FoldingState, ReducingState};
pub use list::ListState;
pub use map::MapState;
pub use value::ValueState;

use crate::KeyedState;

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

/// What every handle has: it is a copy of a slot, and its default is bound to none.
macro_rules! handle {
    ($handle:ident<$($of:ident),+>) => {
        impl<$($of),+> $handle<$($of),+> {
            pub(crate) fn bound_to(slot: $crate::Slot) -> Self {
                Self { slot, of: std::marker::PhantomData }
            }

            /// The slot of the state, for code that works on states of any kind.
            pub fn slot(&self) -> $crate::Slot {
                self.slot
            }
        }
        impl<$($of),+> Clone for $handle<$($of),+> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($of),+> Copy for $handle<$($of),+> {}
        impl<$($of),+> Default for $handle<$($of),+> {
            fn default() -> Self {
                Self::bound_to($crate::Slot::default())
            }
        }
    };
}
use handle;
