//! Which values of operator state are checked before they are stored.

use crate::rows::round_trip::check_round_trip;
use crate::{Serializer, StateError};

/// The first values of a state are all checked: a type that does not survive is found out by any test.
const FIRST_VALUES: u64 = 1024;

/// After those, one in so many is.
const VALUES_A_CHECK: u64 = 4096;

/// Counts the values that were written to one state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Checks {
    values: u64,
}

impl Checks {
    /// Counts a value, and checks it if it is its turn. What failed is not counted.
    pub(super) fn check<T>(
        &mut self,
        state: &str,
        serializer: &dyn Serializer<T>,
        value: &T,
    ) -> Result<(), StateError> {
        if self.values < FIRST_VALUES || self.values.is_multiple_of(VALUES_A_CHECK) {
            check_round_trip(state, serializer, value)?;
        }
        self.values += 1;
        Ok(())
    }
}
