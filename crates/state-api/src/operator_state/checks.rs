//! Which values of operator state are checked before they are stored.

use crate::rows::round_trip::{RoundTrip, check_map_key, check_round_trip};
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

    /// Checks a map key if it is the turn of the value that it belongs to; that is to be checked next.
    pub(super) fn check_key<K: PartialEq>(
        &self,
        state: &str,
        serializer: &dyn Serializer<K>,
        key: &K,
    ) -> Result<(), StateError> {
        if self.values.is_due_or_early() { check_map_key(state, serializer, key) } else { Ok(()) }
    }
}
