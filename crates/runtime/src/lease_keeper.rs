//! Keeps the lease of an attempt: a thread of its own renews it, whatever else the attempt waits for, and until the next one
//! has claimed the job.
//!
//! A renewal is an empty object with a name that no other has; the one before is deleted. Nothing is overwritten, the log
//! does not grow, and nobody reads a time out of it: whoever waits looks whether the names change.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::{Event, paths, renewal_interval_ms};
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

/// The renewals that an attempt writes.
pub struct Renewals {
    storage: Arc<dyn CheckpointStorage>,
    job: JobName,
    attempt: Attempt,
    fence: Fence,
    number: u64,
    /// Those that were written and not yet deleted, or may have been.
    old: VecDeque<ObjectPath>,
}

impl Renewals {
    /// None was written yet.
    pub fn new(storage: Arc<dyn CheckpointStorage>, job: JobName, attempt: Attempt, fence: Fence) -> Self {
        Self { storage, job, attempt, fence, number: 0, old: VecDeque::new() }
    }

    /// Writes the next renewal. If the lease has run out all the same, or the attempt is over, looks into the log, and returns what
    /// it says if that is the end of the attempt.
    pub async fn renew(&mut self) -> Option<Event> {
        let written = self.write().await;
        if self.fence.is_valid() {
            return None;
        }
        match self.fence.check().await {
            Ok(()) if self.fence.is_over() => None,
            Ok(()) => {
                let cause = written.err().unwrap_or_else(|| "the renewal came too late".to_owned());
                tracing::info!(target: "highwater::job", job = %self.job, cause, "the lease has run out, and nobody has taken over");
                None
            }
            Err(FenceError::Fenced { sequence }) => Some(Event::Fenced { sequence }),
            Err(FenceError::Unknown { lease_ms, cause }) => Some(Event::LeaseExpired { lease_ms, cause }),
        }
    }

    async fn write(&mut self) -> Result<(), String> {
        self.number += 1;
        let path = paths::lease_renewal(&self.job, self.attempt, self.number);
        let begun = self.fence.now();
        // Also after a failure it may be there.
        self.old.push_back(path.clone());
        self.storage.create_if_absent(&path, Bytes::new()).await.map_err(|error| chain_of(&error))?;
        self.fence.renewed(begun);
        // Renewals are the attempt's own and nobody goes on from them: this needs no fence.
        while self.old.len() > 1 {
            let Some(oldest) = self.old.front() else { break };
            match self.storage.delete(oldest).await {
                Ok(()) => {}
                Err(_) if self.old.len() < OLD_RENEWALS_MAX => break,
                Err(_) => {}
            }
            self.old.pop_front();
        }
        Ok(())
    }
}

/// What is needed to keep a lease.
pub(crate) struct LeaseKeeping {
    pub(crate) renewals: Renewals,
    pub(crate) lease: Duration,
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
        threads::spawn(format!("{}-lease", keeping.renewals.job), move || keeping.run(&seen))
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
    fn run(mut self, stop: &Stop) {
        let interval = Duration::from_millis(renewal_interval_ms(self.lease.as_millis() as u64));
        while !stop.is_over.load(Ordering::Relaxed) {
            if let Some(event) = self.runtime.block_on(self.renewals.renew()) {
                let is_fenced = matches!(event, Event::Fenced { .. });
                // The coordinator is gone when its attempt is over.
                let _ = self.inputs.blocking_send(Input::Event(self.renewals.attempt, event));
                // Otherwise the process goes on with another attempt, and wants the job until then.
                if is_fenced {
                    return;
                }
            }
            stop.parker.park(Some(interval));
        }
    }
}
