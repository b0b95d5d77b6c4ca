//! The one place where the runtime starts threads, and how a thread waits for its subtask to be woken.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use highwater_state_api::panic_message;
use tokio::task::JoinError;

use crate::JobError;

/// Starts a thread. Its name is for debuggers; nothing is identified by it.
pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(work)
}

/// What work on another thread has resulted in. A panic of code of the user goes on as if it had been on this one.
pub(crate) fn joined<T>(joined: Result<Result<T, JobError>, JoinError>) -> Result<T, JobError> {
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(error) => Err(JobError::Threads(error.to_string())),
    })
}

/// The message of a panic. What it was raised with is dropped here: if that panics in its turn, nothing more comes of it.
pub(crate) fn message_of(panic: Box<dyn Any + Send>) -> String {
    let message = panic_message(&*panic);
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // It may do the same.
        std::mem::forget(another);
    }
    message
}

/// Lets a thread wait until it is woken. A wake-up that comes first is not lost.
#[derive(Default)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Parker {
    /// The waker of this parker.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }

    /// Waits until it is woken, or for `timeout` if one is given.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        match timeout {
            None => {
                while !*woken {
                    woken = self.wakes.wait(woken).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Some(timeout) if !*woken => {
                (woken, _) = self.wakes.wait_timeout(woken, timeout).unwrap_or_else(PoisonError::into_inner);
            }
            Some(_) => {}
        }
        *woken = false;
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !*woken {
            *woken = true;
            self.wakes.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            std::panic::panic_any(PanicsWhenDropped);
        }
    }

    #[test]
    fn a_panic_that_panics_again_when_it_is_dropped_has_a_message_all_the_same() {
        let panic = |payload: Box<dyn Any + Send>| message_of(payload);
        assert_eq!(panic(Box::new("boom")), "boom");
        assert_eq!(panic(Box::new(PanicsWhenDropped)), "no message");
    }
}
