//! The end of a job that is to keep no checkpoint: the log says so, then they are deleted.
//!
//! The order is that of `docs/format/job-log.md`: whatever dies in between, a start finds either a checkpoint that is whole
//! or nothing to restore.

use highwater_checkpoint::{AttemptStart, LogRecord, LogView, orphaned_checkpoints, paths};
use highwater_state_api::{Attempt, CheckpointId, CheckpointStorage, JobName, StorageError};

use crate::JobError;
use crate::externalized_retention::ExternalizedCheckpointRetention;
use crate::job::JobStatus;
use crate::restore::{CLAIM_TRIES_MAX, LogReader, append};

/// How a job has ended, as far as its checkpoints are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// All input was processed.
    Finished,
    /// Its owner has cancelled it.
    Cancelled,
    /// It failed, and no restart follows.
    Failed,
    /// It can be started again as if nothing had happened.
    Suspended,
}

/// What became of the checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DroppedCheckpoints {
    /// None is left.
    All,
    /// None will be restored, but some could not be deleted: the next start of the job does that.
    SomeAreLeft,
    /// They are another process's, which has claimed the job since: nothing was touched.
    NotOurs,
}

/// Deletes the checkpoints of a job whose attempts in this process have come to their end. `nonce` is in their claims: of a start
/// that was cancelled nobody knows whether it has claimed the job.
///
/// An error means that it is not known whether the log says that they were dropped; then nothing was deleted.
pub async fn drop_checkpoints(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    nonce: u64,
) -> Result<DroppedCheckpoints, JobError> {
    let Some(attempt) = say_dropped(storage, job, nonce).await? else { return Ok(DroppedCheckpoints::NotOurs) };
    if let Err(error) = delete_folders(storage, job, attempt).await {
        tracing::warn!(target: "highwater::job", %job, ?error, "dropped checkpoints could not be deleted, the next start will");
        return Ok(DroppedCheckpoints::SomeAreLeft);
    }
    Ok(DroppedCheckpoints::All)
}

/// Appends the record, unless the log says that the job has finished, which is as good. The last attempt of this process; `None`
/// when the job is another process's by now.
async fn say_dropped(storage: &dyn CheckpointStorage, job: &JobName, nonce: u64) -> Result<Option<Attempt>, JobError> {
    let mut reader = LogReader::default();
    for _ in 0..CLAIM_TRIES_MAX {
        let log = storage.list(&paths::log_folder(job)).await?;
        let Some(records) = reader.read(storage, job, &log).await? else { continue };
        let last = records.last().map(|(_, last)| last.clone());
        let view = LogView::replay(records, usize::MAX).map_err(|error| JobError::Log(error.into()))?;
        let own = view.claim().filter(|claim| claim.nonce == nonce);
        let Some(attempt) = own.map(|claim| claim.attempt) else { return Ok(None) };
        if view.is_finished() {
            return Ok(Some(attempt));
        }
        let record = LogRecord::Dropped { attempt, newest: None };
        // What is tried is the number behind the last record of this attempt: if another one has claimed the job, its claim
        // is exactly there. A last append of this attempt may have landed there too; then there is one number more.
        if last.as_ref() == Some(&record) || append(storage, job, view.next_sequence(), &record).await? {
            return Ok(Some(attempt));
        }
    }
    Err(JobError::Log(format!("{CLAIM_TRIES_MAX} times in a row the log has changed while it was read").into()))
}

/// Deletes all folders of this attempt and of those before it.
async fn delete_folders(storage: &dyn CheckpointStorage, job: &JobName, attempt: Attempt) -> Result<(), StorageError> {
    let folders = storage.list_folders(&paths::job_folder(job)).await?;
    let nothing = AttemptStart {
        attempt: Attempt(attempt.0 + 1),
        first_checkpoint: CheckpointId(1),
        next_sequence: 0,
        retained: Vec::new(),
    };
    let mut result = Ok(());
    for folder in orphaned_checkpoints(job, &folders, &nothing) {
        // One that cannot be deleted does not keep the others.
        if let Err(error) = storage.delete_folder(&folder).await {
            result = Err(error);
        }
    }
    result
}

/// Tells people that a job was cancelled and what becomes of its checkpoints, before anything does.
pub(crate) fn say_cancelled(
    job: &JobName,
    status: &JobStatus,
    policy: ExternalizedCheckpointRetention,
    undecided: Option<CheckpointId>,
) {
    let fate = match status.attempt {
        None => {
            "cancelled before it had begun: what there is of it stays as it is. If its claim is in the job log all the same, \
             whoever ran the job is fenced"
        }
        Some(_) if policy.keeps(JobEnd::Cancelled) => {
            "cancelled: its checkpoints stay, and the next start goes on from the newest complete one"
        }
        Some(_) => "cancelled: its checkpoints are deleted",
    };
    let newest = status.last_checkpoint.max(status.restored_from).map(|checkpoint| checkpoint.0);
    let undecided = undecided.map(|checkpoint| checkpoint.0);
    tracing::info!(target: "highwater::job", %job, newest, undecided, %policy, "{fate}");
}

#[cfg(test)]
#[path = "job_end_test.rs"]
mod job_end_test;
