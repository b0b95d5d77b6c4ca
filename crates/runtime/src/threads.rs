//! The one place where the runtime starts threads, and how a thread waits for its subtask to be woken.

use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use highwater_state_api::panic_message as message_of;
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
