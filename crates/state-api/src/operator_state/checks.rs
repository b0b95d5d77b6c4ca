//! Which values of operator state are checked before they are stored.

use crate::rows::round_trip::{RoundTrip, check_round_trip};
use crate::{Serializer, StateError};

/// Counts the values that were written to one state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Checks {
    values: RoundTrip,
}

impl Checks {
    /// Counts a value, and checks it if it is its turn. What failed is not counted.
    pub(super) fn check<T>(
        &mut self,
        state: &str,
        serializer: &dyn Serializer<T>,
        value: &T,
    ) -> Result<(), StateError> {
        if self.values.is_due_or_early() {
            check_round_trip(state, serializer, value)?;
        }
        self.values.count();
        Ok(())
    }
}
