//! Panics of user code as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::StateError;

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Writes a part of a snapshot. A panic in it is an error that says whose it is, which `whose` knows; nothing that was in
/// the hands of who panicked is to be used again.
pub(crate) fn caught<T>(
    whose: impl FnOnce() -> String,
    write: impl FnOnce() -> Result<T, StateError>,
) -> Result<T, StateError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|panic| Err(StateError::Panicked { whose: whose(), message: panic_message(&*panic) }))
}

/// Whose panic it is when state `state` is serialised.
pub(crate) fn serializer_of(state: &str) -> String {
    format!("a serializer of state {state:?}")
}
