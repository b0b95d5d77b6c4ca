//! The start of an attempt: reads the job log, claims the job, and reads the checkpoint to go on from.
//!
//! Plain asynchronous code over pure helpers: what the log says and who gets which state is decided in
//! `highwater-checkpoint`.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_checkpoint::{
    Assignment, AttemptStart, CheckpointMetadata, HookState, LogRecord, LogView, OperatorTarget, claim_record,
    decode_log_record, decode_metadata_with_hooks, encode_log_record, orphaned_checkpoints, paths, redistribute,
    successors,
};
use highwater_state_api::{
    BoxedError, CheckpointId, CheckpointStorage, JobName, MaxParallelism, ObjectPath, OperatorUid, StateHandle,
    StorageError, read_state,
};

use crate::JobError;

/// How often a claim is tried when others claim the job at the same time.
const CLAIM_TRIES_MAX: u32 = 20;

/// How an attempt begins.
pub enum Begun {
    /// The job is finished: there is nothing to do.
    Finished,
    /// The job is claimed.
    Claimed(Box<ClaimedJob>),
}

/// A job that is claimed, with what it goes on from.
pub struct ClaimedJob {
    /// What the attempt takes over.
    pub start: AttemptStart,
    /// The checkpoint to go on from, with the state of every operator and subtask; `None` to start from nothing.
    pub restored: Option<(CheckpointId, Assignment)>,
    /// What hooks of the application have in that checkpoint.
    pub hooks: Vec<HookState>,
    /// Number of key groups of every operator.
    pub max_parallelism: BTreeMap<OperatorUid, MaxParallelism>,
}

/// Claims a job and finds out what it goes on from. `nonce` is drawn at random by the caller for this one call.
///
/// A storage that fails is an error, never an empty storage.
pub async fn begin_attempt(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    targets: &[OperatorTarget],
    retain: usize,
    nonce: u64,
) -> Result<Begun, JobError> {
    begin_attempt_if(storage, job, targets, retain, nonce, &|_, _| Ok(())).await
}

/// Whether what hooks have in a checkpoint is acceptable.
pub(crate) type AcceptsHooks<'a> = dyn Fn(CheckpointId, &[HookState]) -> Result<(), JobError> + Sync + 'a;

/// The same, if what hooks have in the restored checkpoint is acceptable. Asked before the claim: a start that cannot go on
/// must not stop a run that can.
pub(crate) async fn begin_attempt_if(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    targets: &[OperatorTarget],
    retain: usize,
    nonce: u64,
    accepts: &AcceptsHooks<'_>,
) -> Result<Begun, JobError> {
    for _ in 0..CLAIM_TRIES_MAX {
        let log = storage.list(&paths::log_folder(job)).await?;
        // Also those of which a killed writer left no object.
        let folders = storage.list_folders(&paths::job_folder(job)).await?;
        let Some(records) = read_log(storage, job, &log).await? else { continue };
        let view = LogView::replay(records, retain).map_err(|error| JobError::Log(error.into()))?;
        let highest = paths::highest_checkpoint(job, &folders);
        if log.is_empty() && highest.is_some() {
            let folder = paths::job_folder(job);
            return Err(JobError::Log(
                format!(
                    "there are checkpoints under {folder}, but no record of the log that says which are complete: give the \
                     log back, or remove the folder to start from nothing"
                )
                .into(),
            ));
        }
        let (first_checkpoint, record) = claim_record(&view, highest, nonce);
        // What the attempt takes over, if its claim is the next record.
        let start = view.start(first_checkpoint);
        let orphans = orphaned_checkpoints(job, &folders, &start);
        if view.is_finished() {
            // What the last attempt failed to delete is still deleted: there will be no other that could.
            clean_up(storage, job, orphans, &view).await;
            return Ok(Begun::Finished);
        }
        // Before the claim: a start that cannot go on must not stop a run that can.
        let Some(latest) = read_latest(storage, job, &view, targets).await? else { continue };
        latest.as_ref().map_or(Ok(()), |((checkpoint, _), hooks)| accepts(*checkpoint, hooks))?;
        let (restored, hooks) = latest.unzip();
        let hooks = hooks.unwrap_or_default();
        let sequence = view.next_sequence();
        if append(storage, job, sequence, &record).await? {
            if has_been_passed(storage, job, sequence).await? {
                // Nobody has seen this claim who goes by it. If it cannot be removed, the next start knows it to be void.
                storage.delete(&paths::log_record(job, sequence)).await?;
                continue;
            }
            tracing::info!(target: "highwater::job", %job, attempt = %start.attempt, "claimed");
            clean_up(storage, job, orphans, &view).await;
            let max_parallelism = max_parallelism(targets, restored.as_ref());
            return Ok(Begun::Claimed(Box::new(ClaimedJob { start, restored, hooks, max_parallelism })));
        }
    }
    Err(JobError::Log(format!("{CLAIM_TRIES_MAX} times in a row another process was faster").into()))
}

/// Whether the log had gone on beyond a number before it was claimed, so that the claim lies in the hole that a deleted
/// record left: a running attempt will never meet it.
async fn has_been_passed(storage: &dyn CheckpointStorage, job: &JobName, sequence: u64) -> Result<bool, JobError> {
    for successor in successors(sequence) {
        match storage.read(&paths::log_record(job, successor)).await {
            Ok(_) => return Ok(true),
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

type Restored = (CheckpointId, Assignment);

/// The newest complete checkpoint, if there is one, and who gets what of it. `None` when it went away meanwhile, which it
/// does when a running attempt completes another.
async fn read_latest(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    view: &LogView,
    targets: &[OperatorTarget],
) -> Result<Option<Option<(Restored, Vec<HookState>)>>, JobError> {
    let Some(latest) = view.latest() else { return Ok(Some(None)) };
    let checkpoint = latest.checkpoint;
    let failed = |source: BoxedError| JobError::Restore { checkpoint, source };
    let (metadata, hooks) = match read_metadata(storage, &latest.metadata).await {
        Ok(read) => read,
        Err(ReadMetadataError::Storage(StorageError::NotFound { path })) => {
            // Superseded, if the log has gone on meanwhile; otherwise lost.
            let next = storage.read(&paths::log_record(job, view.next_sequence())).await;
            return match next {
                Ok(_) => Ok(None),
                Err(StorageError::NotFound { .. }) => Err(failed(StorageError::NotFound { path }.into())),
                Err(error) => Err(error.into()),
            };
        }
        Err(ReadMetadataError::Storage(error)) if error.is_transient() => return Err(JobError::Storage(error)),
        Err(other) => return Err(failed(other.into())),
    };
    let assignment = redistribute(&metadata, targets).map_err(|error| failed(error.into()))?;
    Ok(Some(Some(((checkpoint, assignment), hooks))))
}

/// Number of key groups of every operator: what its state has, or what was set, or what goes with its parallelism.
fn max_parallelism(targets: &[OperatorTarget], restored: Option<&Restored>) -> BTreeMap<OperatorUid, MaxParallelism> {
    let of_target = |target: &OperatorTarget| {
        let from_checkpoint = restored.and_then(|(_, assignment)| assignment.operators.get(&target.uid));
        let groups = from_checkpoint
            .map(|operator| operator.max_parallelism)
            .or(target.max_parallelism)
            .unwrap_or_else(|| MaxParallelism::default_for(target.parallelism));
        (target.uid.clone(), groups)
    };
    targets.iter().map(of_target).collect()
}

/// Deletes what dead attempts left and nobody can need any more. What cannot be deleted now is found again at the next
/// start.
async fn clean_up(storage: &dyn CheckpointStorage, job: &JobName, orphans: Vec<ObjectPath>, view: &LogView) {
    let warn = |path: &ObjectPath, error: StorageError| {
        tracing::warn!(target: "highwater::job", %path, %error, "what a dead attempt left could not be deleted");
    };
    for folder in orphans {
        if let Err(error) = storage.delete_folder(&folder).await {
            warn(&folder, error);
        }
    }
    for sequence in view.obsolete_records() {
        let path = paths::log_record(job, *sequence);
        if let Err(error) = storage.delete(&path).await {
            warn(&path, error);
        }
    }
}

/// The records of the log; `None` when one went away between the listing and the reading, which a running attempt does
/// to records that no start needs: list again.
async fn read_log(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    objects: &[ObjectPath],
) -> Result<Option<Vec<(u64, LogRecord)>>, JobError> {
    let mut records = Vec::new();
    for path in objects {
        let Some(sequence) = paths::sequence_of(job, path) else { continue };
        let bytes = match storage.read(path).await {
            Ok(bytes) => bytes,
            Err(StorageError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let record = decode_log_record(&bytes).map_err(|error| JobError::Log(format!("{path}: {error}").into()))?;
        records.push((sequence, record));
    }
    Ok(Some(records))
}

/// Appends a record under a number. Whether it is there now; `false` when another record has the number.
async fn append(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    sequence: u64,
    record: &LogRecord,
) -> Result<bool, JobError> {
    let path = paths::log_record(job, sequence);
    let content = encode_log_record(record).map_err(|error| JobError::Log(error.into()))?;
    match storage.create_if_absent(&path, Bytes::from(content)).await {
        Ok(()) => Ok(true),
        // Also after a failure the record may be there, and it may be ours.
        Err(error) => match storage.read(&path).await {
            Ok(found) => Ok(decode_log_record(&found).is_ok_and(|found| found == *record)),
            Err(StorageError::NotFound { .. }) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadMetadataError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Format(#[from] highwater_checkpoint::FormatError),
}

async fn read_metadata(
    storage: &dyn CheckpointStorage,
    handle: &StateHandle,
) -> Result<(CheckpointMetadata, Vec<HookState>), ReadMetadataError> {
    let bytes = read_state(storage, handle).await?;
    Ok(decode_metadata_with_hooks(&bytes)?)
}

#[cfg(test)]
#[path = "restore_test.rs"]
mod tests;
