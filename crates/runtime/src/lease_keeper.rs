//! Keeps the lease of an attempt: a thread of its own renews it, whatever else the attempt waits for.
//!
//! A renewal is an empty object with a name that no other has; the one before is deleted. Nothing is overwritten, the log
//! does not grow, and nobody reads a time out of it: whoever waits looks whether the names change.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::{Event, paths};
use highwater_state_api::{Attempt, CheckpointStorage, JobName, ObjectPath};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::JobError;
use crate::driver::Input;
use crate::error::chain_of;
use crate::fence::{Fence, FenceError};
use crate::threads::{self, Parker};

/// Old renewals that could not be deleted and are still remembered. What is beyond is left to the next attempt.
const OLD_RENEWALS_MAX: usize = 100;

/// What is needed to keep a lease.
pub(crate) struct LeaseKeeping {
    pub(crate) storage: Arc<dyn CheckpointStorage>,
    pub(crate) job: JobName,
    pub(crate) attempt: Attempt,
    pub(crate) lease: Duration,
    pub(crate) fence: Fence,
    pub(crate) runtime: Handle,
    /// Where it says that the lease is lost.
    pub(crate) inputs: mpsc::Sender<Input>,
}

/// Renews a lease as long as it lives.
pub(crate) struct LeaseKeeper(Arc<Stop>);

#[derive(Default)]
struct Stop {
    is_over: AtomicBool,
    parker: Arc<Parker>,
}

impl LeaseKeeper {
    /// Writes the first renewal soon, and then one after the other.
    pub(crate) fn start(keeping: LeaseKeeping) -> Result<Self, JobError> {
        let stop = Arc::new(Stop::default());
        let seen = stop.clone();
        // Not on the pool that waits for the storage: snapshots would be in its way.
        threads::spawn(format!("{}-lease", keeping.job), move || keeping.run(&seen))
            .map_err(|error| JobError::Threads(error.to_string()))?;
        Ok(Self(stop))
    }
}

impl Drop for LeaseKeeper {
    /// Does not wait: a storage that hangs would hold up the end of the attempt, and one renewal more does no harm.
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.parker.waker().wake();
    }
}

impl LeaseKeeping {
    fn run(self, stop: &Stop) {
        let interval = Duration::from_millis(highwater_checkpoint::renewal_interval_ms(self.lease.as_millis() as u64));
        let mut old = VecDeque::new();
        for number in 1.. {
            if stop.is_over.load(Ordering::Relaxed) {
                return;
            }
            let written = self.renew(number, &mut old);
            if !self.fence.is_valid()
                && let Some(event) = self.look(written.err())
            {
                // The coordinator is gone when its attempt is over.
                let _ = self.inputs.blocking_send(Input::Event(self.attempt, event));
                return;
            }
            stop.parker.park(Some(interval));
        }
    }

    fn renew(&self, number: u64, old: &mut VecDeque<ObjectPath>) -> Result<(), String> {
        let path = paths::lease_renewal(&self.job, self.attempt, number);
        let begun = self.fence.now();
        // Also after a failure it may be there.
        old.push_back(path.clone());
        self.runtime.block_on(self.storage.create_if_absent(&path, Bytes::new())).map_err(|error| chain_of(&error))?;
        self.fence.renewed(begun);
        // Renewals are the attempt's own and nobody goes on from them: this needs no fence.
        while old.len() > 1 {
            let Some(oldest) = old.front() else { break };
            match self.runtime.block_on(self.storage.delete(oldest)) {
                Ok(()) => {}
                Err(_) if old.len() < OLD_RENEWALS_MAX => break,
                Err(_) => {}
            }
            old.pop_front();
        }
        Ok(())
    }

    /// The lease has run out: what the log says, if that is the end of the attempt.
    fn look(&self, not_written: Option<String>) -> Option<Event> {
        match self.runtime.block_on(self.fence.check()) {
            Ok(()) => {
                let cause = not_written.unwrap_or_else(|| "the renewal came too late".to_owned());
                tracing::info!(target: "highwater::job", job = %self.job, cause, "the lease has run out, and nobody has taken over");
                None
            }
            Err(FenceError::Fenced { sequence }) => Some(Event::Fenced { sequence }),
            Err(FenceError::Unknown { lease_ms, cause }) => Some(Event::LeaseExpired { lease_ms, cause }),
        }
    }
}
