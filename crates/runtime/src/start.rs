//! The start of an attempt beside the coordinator's thread: a storage that hangs does not keep the owner from cancelling.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::HookState;
use highwater_state_api::RowSettings;
use tokio::runtime::Handle;

use crate::driver::Job;
use crate::job::Owner;
use crate::patience::StartPatience;
use crate::prepare::{Preparation, Prepared, prepare_if};
use crate::restore::{Begun, ClaimedJob, begin_attempt_if};
use crate::{JobError, random};

/// How long a cancelled start is waited for. It ends at its next call of the storage; if the storage does not return from
/// the one before, nobody waits for it any longer: all that it can still do is to claim the job, which harms nobody.
const CANCEL_DEADLINE: Duration = Duration::from_secs(2);

/// How the start of an attempt came out.
pub(crate) enum Started {
    /// The job has finished before.
    Finished,
    /// Its owner has cancelled it.
    Cancelled,
    /// The subtasks can be built and opened.
    Prepared(Box<ClaimedJob>, Prepared),
}

/// Claims the job and reads what it goes on from.
pub(crate) async fn start(job: &Arc<Job>, owner: &mut Owner) -> Result<Started, JobError> {
    let (shared, runtime, mut cancelled) = (job.clone(), Handle::current(), owner.cancelled.clone());
    let pool = runtime.clone();
    let patience = StartPatience::until(owner.cancelled.clone());
    let mut work = pool.spawn_blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = crate::job::until_cancelled(&mut cancelled) => Ok(Started::Cancelled),
                prepared = prepare_attempt(&shared, patience) => prepared,
            }
        })
    });
    let joined = tokio::select! {
        biased;
        joined = &mut work => joined,
        () = owner.cancel() => match tokio::time::timeout(CANCEL_DEADLINE, work).await {
            // What was prepared meanwhile is dropped.
            Ok(joined) => joined.map(|started| started.map(|_| Started::Cancelled)),
            Err(_) => {
                tracing::warn!(target: "highwater::job", job = %job.name, "the storage has not answered before the start was cancelled");
                return Ok(Started::Cancelled);
            }
        },
    };
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        // Code of the user has panicked: the same as if it had done so on this thread.
        Ok(panic) => resume_unwind(panic),
        Err(error) => Err(JobError::Threads(error.to_string())),
    })
}

async fn prepare_attempt(job: &Job, patience: StartPatience) -> Result<Started, JobError> {
    let (targets, storage) = (job.targets()?, job.patient_storage(patience));
    let (hooks, ignores_unclaimed) = (&job.config.hooks, job.checkpoints.ignores_unclaimed);
    let accepts = |checkpoint, states: &[HookState]| hooks.check(checkpoint, states, ignores_unclaimed);
    let begun =
        begin_attempt_if(&storage, &job.name, &targets, job.restore_options(), random::nonce(), &accepts).await?;
    let Begun::Claimed(mut claimed) = begun else { return Ok(Started::Finished) };
    note_claimed(job, &claimed);
    let preparation = Preparation {
        job: &job.name,
        graph: &job.graph,
        state_backend: &job.state_backend,
        storage: &storage,
        row_settings: RowSettings { cached_rows_max: job.config.cached_rows_max, hash_seed: random::nonce() },
        now: job.clock.monotonic(),
    };
    let prepared = prepare_if(&preparation, &mut claimed, &accepts).await?;
    if !claimed.damaged.is_empty() {
        note_claimed(job, &claimed);
    }
    restore_hooks(job, &claimed)?;
    Ok(Started::Prepared(claimed, prepared))
}

/// Tells the hooks where the attempt begins, which is not decided before all state was read. They may wait, as this thread
/// may.
fn restore_hooks(job: &Job, claimed: &ClaimedJob) -> Result<(), JobError> {
    match &claimed.restored {
        Some((checkpoint, _)) => job.config.hooks.restore(*checkpoint, &claimed.hooks),
        None => job.config.hooks.reset(),
    }
}

/// The owner sees what the attempt goes on from.
fn note_claimed(job: &Job, claimed: &ClaimedJob) {
    let (attempt, restored_from) =
        (claimed.start.attempt, claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint));
    let status = &mut job.board.lock().status;
    (status.attempt, status.restored_from) = (Some(attempt), restored_from);
    status.damaged_checkpoints.clone_from(&claimed.damaged);
    match restored_from {
        Some(checkpoint) => {
            tracing::info!(target: "highwater::job", job = %job.name, %attempt, %checkpoint, "restoring")
        }
        None => tracing::info!(target: "highwater::job", job = %job.name, %attempt, "starting from nothing"),
    }
}
