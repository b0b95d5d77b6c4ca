//! Panics of user code as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::StateError;

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Writes a part of state `state`. A serializer that panics is an error that names the state; nothing that was in its hands
/// is to be used again.
pub(crate) fn caught<T>(state: &str, write: impl FnOnce() -> Result<T, StateError>) -> Result<T, StateError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|panic| Err(StateError::Panicked { state: state.to_owned(), message: panic_message(&*panic) }))
}
