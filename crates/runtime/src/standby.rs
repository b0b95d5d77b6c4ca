//! Standing by: waiting, without disturbing it, until whoever holds the job shows no sign of life any more.

use std::time::Duration;

use highwater_checkpoint::{LogView, Silence, paths};
use highwater_state_api::ObjectPath;

use crate::JobError;
use crate::driver::Job;
use crate::error::chain_of;
use crate::job::Owner;
use crate::restore::read_log;

/// How many times a standby looks within one lease.
const LOOKS_PER_LEASE: u32 = 6;

/// Why a standby waits no longer.
pub(crate) enum Waited {
    /// Nobody holds the job: the log may be claimed, if its next record still has this number.
    Free(u64),
    /// The owner of this process does not want the job any more.
    Cancelled,
}

/// The part of the log that matters here.
struct Standing {
    next_sequence: u64,
    /// There is nobody to wait for: the job was never started, has finished, or is this process's own.
    is_free: bool,
}

/// Waits until nobody holds the job. `nonce` is in the claims of this process.
///
/// A storage that fails is a holder that cannot be seen, and not one that is dead.
pub(crate) async fn wait(job: &Job, owner: &mut Owner, nonce: u64) -> Result<Waited, JobError> {
    let lease = job.high_availability.lease;
    let mut silence = Silence::new(lease.as_millis() as u64);
    let mut known: Option<(Vec<ObjectPath>, Standing)> = None;
    let mut is_announced = false;
    let mut is_blind = false;
    loop {
        let begun_ms = job.clock.now().monotonic_ms;
        match look(job, nonce, &mut known).await? {
            Look::Saw { standing, leases } => {
                let ended_ms = job.clock.now().monotonic_ms;
                if standing.is_free || silence.seen(begun_ms, ended_ms, (standing.next_sequence, leases)) {
                    return Ok(Waited::Free(standing.next_sequence));
                }
                if !is_announced {
                    tracing::info!(target: "highwater::job", job = %job.name, lease_ms = lease.as_millis() as u64, "standing by");
                    is_announced = true;
                }
                is_blind = false;
            }
            Look::Changing => {}
            Look::Failed(cause) => {
                if !is_blind {
                    tracing::warn!(target: "highwater::job", job = %job.name, cause, "the standby cannot see the job log");
                }
                is_blind = true;
            }
        }
        tokio::select! {
            () = tokio::time::sleep((lease / LOOKS_PER_LEASE).max(Duration::from_millis(1))) => {}
            () = owner.cancel() => return Ok(Waited::Cancelled),
        }
    }
}

enum Look<'a> {
    Saw {
        standing: &'a Standing,
        leases: Vec<ObjectPath>,
    },
    /// Records went away while they were read, which is a sign of life.
    Changing,
    Failed(String),
}

/// Looks at the names of records and renewals. Only when there are other records than before are they read.
async fn look<'a>(
    job: &Job,
    nonce: u64,
    known: &'a mut Option<(Vec<ObjectPath>, Standing)>,
) -> Result<Look<'a>, JobError> {
    let listed = async {
        let log = job.storage.list(&paths::log_folder(&job.name)).await?;
        Ok((log, job.storage.list(&paths::lease_folder(&job.name)).await?))
    };
    let (log, leases) = match listed.await {
        Ok(listed) => listed,
        Err(error) => return Ok(failed(&error)),
    };
    if known.as_ref().is_none_or(|(before, _)| *before != log) {
        let records = match read_log(&*job.storage, &job.name, &log).await {
            Ok(Some(records)) => records,
            Ok(None) => return Ok(Look::Changing),
            Err(JobError::Storage(error)) if error.is_transient() => return Ok(failed(&error)),
            Err(error) => return Err(error),
        };
        let view = LogView::replay(records, job.checkpoints.retain).map_err(|error| JobError::Log(error.into()))?;
        let is_held = !view.is_finished() && view.claim().is_some_and(|claim| claim.nonce != nonce);
        *known = Some((log, Standing { next_sequence: view.next_sequence(), is_free: !is_held }));
    }
    Ok(match known {
        Some((_, standing)) => Look::Saw { standing, leases },
        None => Look::Changing,
    })
}

fn failed<'a>(error: &highwater_state_api::StorageError) -> Look<'a> {
    Look::Failed(chain_of(error))
}
