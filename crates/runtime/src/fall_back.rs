//! Damaged checkpoints: what counts as damage, and how a start goes on from an older checkpoint if it may.
//!
//! Going back behind a checkpoint that was complete is never harmless: what sinks have committed with it is there, and what
//! sources have acknowledged with it may not come again. Nobody but the owner of the job can weigh that, so that it happens
//! only where the settings say so.

use std::error::Error;
use std::fmt;

use highwater_checkpoint::{AttemptFailure, CompletedCheckpoint, LogRecord};
use highwater_state_api::{BoxedError, CheckpointId, CheckpointStorage, JobName, StorageError};

use crate::JobError;
use crate::fence::Fence;
use crate::options::checkpointing::FALL_BACK;
use crate::restore::{Accepts, ClaimedJob, append, max_parallelism, read_newest};

/// A complete checkpoint that was passed over because it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// What is wrong with it.
    pub cause: String,
}

impl DamagedCheckpoint {
    pub(crate) fn new(checkpoint: CheckpointId, damage: &Damage) -> Self {
        Self { checkpoint, cause: damage.cause.to_string() }
    }
}

/// A part of a complete checkpoint is missing or is not what was written: reading it again does not help.
///
/// Not damage: a storage that does not answer, a format of a later release, and state that does not fit the job.
#[derive(Debug)]
pub(crate) struct Damage {
    cause: BoxedError,
    /// What can be restored instead.
    older: Option<CheckpointId>,
}

impl Damage {
    pub(crate) fn new(cause: impl Into<BoxedError>) -> Self {
        Self { cause: cause.into(), older: None }
    }

    /// The damage that an error is about, if it is one.
    pub(crate) fn of(error: &JobError) -> Option<&Self> {
        match error {
            JobError::Restore { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }

    /// The same error, which says too that there are older checkpoints, if there are.
    pub(crate) fn with_advice(error: JobError, older: &[CompletedCheckpoint]) -> JobError {
        let older = older.last().map(|one| one.checkpoint);
        match error {
            JobError::Restore { checkpoint, source } => match source.downcast::<Self>() {
                Ok(damage) => JobError::Restore { checkpoint, source: Self { older, ..*damage }.into() },
                Err(source) => JobError::Restore { checkpoint, source },
            },
            other => other,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        match self.older {
            Some(older) => write!(
                f,
                "; checkpoint {older} is kept too, and with `{}: true` the job goes on from the next older one that can be \
                 read: then what followed the newer one outside the job, such as committed transactions, happens again",
                FALL_BACK.key()
            ),
            None => Ok(()),
        }
    }
}

impl Error for Damage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// The error of a start that could not read a part of a checkpoint.
pub(crate) fn restore_failed(checkpoint: CheckpointId, error: StorageError) -> JobError {
    match error {
        error if error.is_transient() => JobError::Storage(error),
        error @ (StorageError::NotFound { .. } | StorageError::Corrupt { .. }) => {
            JobError::Restore { checkpoint, source: Damage::new(error).into() }
        }
        error => JobError::Restore { checkpoint, source: error.into() },
    }
}

/// State of the checkpoint that the attempt was to go on from cannot be had: it goes on from an older one, if that may be
/// and there is one that is not damaged. Otherwise the error comes back.
pub(crate) async fn fall_back(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    claimed: &mut ClaimedJob,
    error: JobError,
    accepts: &Accepts<'_>,
) -> Result<(), JobError> {
    let (Some(damage), Some((checkpoint, _))) = (Damage::of(&error), &claimed.restored) else { return Err(error) };
    let (checkpoint, damaged) = (*checkpoint, DamagedCheckpoint::new(*checkpoint, damage));
    let older: Vec<_> = claimed.start.retained.iter().filter(|one| one.checkpoint < checkpoint).cloned().collect();
    if !claimed.options.falls_back {
        return Err(Damage::with_advice(error, &older));
    }
    let mut all_damaged = vec![damaged];
    match read_newest(storage, job, &older, &claimed.targets, claimed.options, &mut all_damaged).await {
        Ok(Some((restored, hooks))) => {
            accepts(&restored, &hooks)?;
            claimed.damaged.append(&mut all_damaged);
            claimed.max_parallelism = max_parallelism(&claimed.targets, Some(&restored));
            (claimed.restored, claimed.hooks) = (Some(restored), hooks);
            Ok(())
        }
        Ok(None) => Err(error),
        Err(other) if Damage::of(&other).is_some() => Err(error),
        Err(other) => Err(other),
    }
}

/// When the attempt has fallen back, the log says so before anything follows from it, and so does the log for people.
pub(crate) async fn say_dropped(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    fence: &Fence,
    claimed: &mut ClaimedJob,
) -> Result<(), JobError> {
    let Some((restored, _)) = claimed.restored.as_ref().filter(|_| !claimed.damaged.is_empty()) else { return Ok(()) };
    let (restored, start) = (*restored, &mut claimed.start);
    for DamagedCheckpoint { checkpoint, cause } in &claimed.damaged {
        tracing::warn!(
            target: "highwater::job",
            %job,
            %checkpoint,
            cause,
            "the checkpoint is damaged: the job goes back to checkpoint {restored}, and what followed the damaged one outside \
             the job, such as committed transactions, happens again"
        );
    }
    let record = LogRecord::Dropped { attempt: start.attempt, newest: Some(restored) };
    let begun = fence.now();
    if !append(storage, job, start.next_sequence, &record).await? {
        return Err(JobError::Coordinator(AttemptFailure::Fenced { sequence: start.next_sequence }));
    }
    fence.appended(start.next_sequence, begun);
    start.next_sequence += 1;
    start.retained.retain(|one| one.checkpoint <= restored);
    Ok(())
}

#[cfg(test)]
#[path = "fall_back_test.rs"]
mod fall_back_test;
