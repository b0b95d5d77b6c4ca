//! Standing by: waiting, without disturbing it, until whoever holds the job shows no sign of life any more.

use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{LogRecord, LogView, Silence, paths};
use highwater_state_api::{CheckpointStorage, JobName, ObjectPath, StorageError};
use tokio::runtime::Handle;

use crate::driver::Job;
use crate::error::chain_of;
use crate::job::Owner;
use crate::reminder::{self, watched};
use crate::restore::LogReader;
use crate::{JobError, threads};

/// How many times a standby looks within one lease.
const LOOKS_PER_LEASE: u64 = 6;

/// How long a standby waits at most: the last sign of life is seen by a look after it, and the end of the lease that follows by
/// another one.
pub(crate) fn takeover_max(lease: Duration) -> Duration {
    lease + 2 * (lease / LOOKS_PER_LEASE as u32)
}

/// What a standby has seen of whoever holds the job. Waits for nothing and measures no time itself, so that a simulation can
/// stand by too.
pub struct StandbyWatch {
    lease_ms: u64,
    nonce: u64,
    silence: Silence<(u64, Vec<ObjectPath>)>,
    known: Option<(Vec<ObjectPath>, Standing)>,
    /// Whether the holder was waited for while there was something to take over.
    has_waited: bool,
}

/// What a look of a standby has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandbyLook {
    /// Nobody holds the job: the log may be claimed, if its next record still has this number.
    Free(u64),
    /// Somebody does, or may.
    Held,
    /// Whoever did, and was waited for, has ended the job and has dropped its checkpoints.
    Dropped,
    /// The storage did not tell, which is no sign that the holder is dead.
    Failed(String),
}

/// The part of the log that matters here.
struct Standing {
    next_sequence: u64,
    /// There is nobody to wait for: the job was never started, has finished, or is this process's own.
    is_free: bool,
    /// Whoever held it has ended it, and nothing of it is left.
    is_dropped: bool,
}

impl StandbyWatch {
    /// Nothing was seen yet. `nonce` is in the claims of this process.
    pub fn new(lease_ms: u64, nonce: u64) -> Self {
        Self { lease_ms, nonce, silence: Silence::new(lease_ms), known: None, has_waited: false }
    }

    /// Waits anew, after a claim has not come about: whoever holds the job has shown to be alive. That it was waited for is
    /// not forgotten.
    fn begin_anew(&mut self) {
        self.silence = Silence::new(self.lease_ms);
    }

    /// Time between two looks.
    pub fn interval_ms(&self) -> u64 {
        (self.lease_ms / LOOKS_PER_LEASE).max(1)
    }

    /// Looks once. `now_ms` is a monotonic clock, `retain` how many checkpoints the job retains.
    ///
    /// # Errors
    /// When the log cannot be understood. A storage that fails is no error.
    pub async fn look(
        &mut self,
        storage: &dyn CheckpointStorage,
        job: &JobName,
        retain: usize,
        now_ms: &(dyn Fn() -> u64 + Sync),
    ) -> Result<StandbyLook, JobError> {
        let begun_ms = now_ms();
        let (log, leases) = match names(storage, job).await {
            Ok(names) => names,
            Err(error) => return Ok(StandbyLook::Failed(chain_of(&error))),
        };
        // Only when there are other records than before are they read.
        let standing = match self.known.take() {
            Some((known, standing)) if known == log => standing,
            _ => match LogReader::default().read(storage, job, &log).await {
                Ok(Some(records)) => self.standing(records, retain)?,
                // Records went away while they were read, which is a sign of life.
                Ok(None) => return Ok(StandbyLook::Held),
                Err(JobError::Storage(error)) if error.is_transient() => {
                    return Ok(StandbyLook::Failed(chain_of(&error)));
                }
                Err(error) => return Err(error),
            },
        };
        // Of a job that had been dropped before nobody has waited for the holder: whoever starts it wants it anew.
        if standing.is_dropped && self.has_waited {
            return Ok(StandbyLook::Dropped);
        }
        self.has_waited |= !standing.is_dropped;
        let next_sequence = standing.next_sequence;
        let is_free = standing.is_free || self.silence.seen(begun_ms, now_ms(), (next_sequence, leases));
        self.known = Some((log, standing));
        Ok(if is_free { StandbyLook::Free(next_sequence) } else { StandbyLook::Held })
    }

    fn standing(&self, records: Vec<(u64, LogRecord)>, retain: usize) -> Result<Standing, JobError> {
        let view = LogView::replay(records, retain).map_err(|error| JobError::Log(error.into()))?;
        let is_held = !view.is_finished() && view.claim().is_some_and(|claim| claim.nonce != self.nonce);
        let (next_sequence, is_dropped) = (view.next_sequence(), view.is_dropped());
        Ok(Standing { next_sequence, is_free: !is_held, is_dropped })
    }
}

/// The names of records and renewals.
async fn names(
    storage: &dyn CheckpointStorage,
    job: &JobName,
) -> Result<(Vec<ObjectPath>, Vec<ObjectPath>), StorageError> {
    Ok((storage.list(&paths::log_folder(job)).await?, storage.list(&paths::lease_folder(job)).await?))
}

/// What a process has seen, in all waits of all its attempts. One look at a time has it.
pub(crate) type SharedWatch = Arc<tokio::sync::Mutex<StandbyWatch>>;

/// Why a standby waits no longer.
pub(crate) enum Waited {
    /// Nobody holds the job: the log may be claimed, if its next record still has this number.
    Free(u64),
    /// Whoever held the job has ended it and has dropped its checkpoints.
    Dropped,
    /// The owner of this process does not want the job any more.
    Cancelled,
}

/// Waits until nobody holds the job. `watch` is that of the waits before, if there were any.
///
/// A storage that fails is a holder that cannot be seen, and not one that is dead.
pub(crate) async fn wait(job: &Arc<Job>, owner: &mut Owner, watch: &SharedWatch) -> Result<Waited, JobError> {
    let (interval, lease_ms) = {
        let mut watch = watch.lock().await;
        watch.begin_anew();
        (Duration::from_millis(watch.interval_ms()), watch.lease_ms)
    };
    let (mut is_announced, mut is_blind) = (false, false);
    loop {
        let (shared, watch, runtime) = (job.clone(), watch.clone(), Handle::current());
        // A storage that hangs must not keep the owner from cancelling.
        let looking = Handle::current().spawn_blocking(move || {
            let now_ms = || shared.clock.now().monotonic_ms;
            let mut watch = watch.blocking_lock();
            runtime.block_on(watch.look(&*shared.storage, &shared.name, shared.checkpoints.retain, &now_ms))
        });
        let looked = tokio::select! {
            biased;
            () = owner.cancel() => return Ok(Waited::Cancelled),
            looked = watched(&job.name, reminder::LOOK, looking) => threads::joined(looked)?,
        };
        match looked {
            StandbyLook::Free(next_sequence) => return Ok(Waited::Free(next_sequence)),
            StandbyLook::Dropped => return Ok(Waited::Dropped),
            StandbyLook::Held => {
                if !is_announced {
                    tracing::info!(target: "highwater::job", job = %job.name, lease_ms, "standing by");
                    is_announced = true;
                }
                is_blind = false;
            }
            StandbyLook::Failed(cause) => {
                if !is_blind {
                    tracing::warn!(target: "highwater::job", job = %job.name, cause, "the standby cannot see the job log");
                }
                is_blind = true;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = owner.cancel() => return Ok(Waited::Cancelled),
        }
    }
}
