//! The start of an attempt: reads the job log, claims the job, and reads the checkpoint to go on from.
//!
//! Plain asynchronous code over pure helpers: what the log says and who gets which state is decided in
//! `highwater-checkpoint`.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_checkpoint::{
    Assignment, AttemptStart, CHECKPOINT_ID_MAX, CheckpointMetadata, CompletedCheckpoint, Discard, FormatError,
    HookState, LogRecord, LogView, OperatorTarget, SEQUENCE_MAX, claim_record, decode_log_record,
    decode_metadata_with_hooks, encode_log_record, orphaned_checkpoints, paths, redistribute, successors,
    unclaimed_operators,
};
use highwater_state_api::{
    CheckpointId, CheckpointStorage, JobName, MaxParallelism, ObjectPath, OperatorUid, StateHandle, StorageError,
    read_state,
};

use crate::JobError;
use crate::fall_back::{Damage, DamagedCheckpoint, restore_failed};
use crate::storage_work::delete;

/// How often a claim, or another record of a start or an end, is tried while others append to the log.
pub(crate) const CLAIM_TRIES_MAX: u32 = 20;
/// How many deletions may fail before the rest is left to the next start: a storage that deletes nothing must not hold up this
/// one.
const CLEAN_UP_FAILURES_MAX: u32 = 3;

/// How an attempt begins.
pub enum Begun {
    /// The job is finished: there is nothing to do.
    Finished {
        /// Whether the attempt that says so was the claimant's.
        by_own: bool,
        /// What its attempts have failed to delete: there will be no other that could. Nobody can claim the job any more, so that
        /// there is nobody who could fence this.
        left_overs: Vec<Discard>,
    },
    /// The job is another process's, and was to be claimed only if it is not.
    Held {
        /// Number of the record that says so: a claim, or the next number if that has been taken meanwhile.
        sequence: u64,
    },
    /// The job is claimed.
    Claimed(Box<ClaimedJob>),
}

/// Who claims a job, and over whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    /// Drawn at random, once for all attempts of a process: by it the process knows its own claims again.
    pub nonce: u64,
    /// Over whom.
    pub over: Over,
}

/// Whose job may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Anybody's. Whoever runs the job is fenced.
    Anyone,
    /// Only one whose last claim is the claimant's own: its next attempt. Who has been fenced does not fence in return.
    Own,
    /// Only one whose log still ends before this number.
    Unchanged(u64),
}

impl Claimant {
    /// The number of the record because of which this claimant must not claim a job whose log is `view`.
    fn is_kept_out_by(&self, view: &LogView) -> Option<u64> {
        match self.over {
            Over::Anyone => None,
            Over::Own => view.claim().filter(|claim| claim.nonce != self.nonce).map(|claim| claim.attempt.0),
            Over::Unchanged(next_sequence) => {
                (view.next_sequence() != next_sequence).then(|| view.next_sequence().saturating_sub(1))
            }
        }
    }
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
    /// Newer checkpoints that are damaged, newest first.
    pub damaged: Vec<DamagedCheckpoint>,
    /// What dead attempts left and nobody can need any more.
    pub left_overs: Vec<Discard>,
    /// What the operators want of a checkpoint.
    pub(crate) targets: Vec<OperatorTarget>,
    /// What the job wants of the checkpoints that it finds.
    pub(crate) options: RestoreOptions,
}

/// What a job wants of the checkpoints that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreOptions {
    /// How many complete checkpoints are kept.
    pub retain: usize,
    /// Whether an older checkpoint takes the place of a damaged one. If not, the job is not started.
    pub falls_back: bool,
    /// Whether state of operators that the job does not have is lost. If not, the job is not started.
    pub ignores_unclaimed: bool,
}

/// Whether the job can go on from a checkpoint and what hooks have in it; an error says why not.
pub type Accepts<'a> = dyn Fn(&Restored, &[HookState]) -> Result<(), JobError> + Sync + 'a;

/// How a job is to be claimed.
#[derive(Clone, Copy)]
pub struct JobClaim<'a> {
    /// Its name.
    pub job: &'a JobName,
    /// What its operators want of a checkpoint.
    pub targets: &'a [OperatorTarget],
    /// What it wants of the checkpoints that are found.
    pub options: RestoreOptions,
    /// Who claims it.
    pub claimant: Claimant,
    /// No checkpoint gets this id or a smaller one: subtasks that go on, or hooks, know of these.
    pub(crate) triggered: Option<CheckpointId>,
    /// Asked before the claim: a start that cannot go on must not stop a run that can.
    pub(crate) accepts: &'a Accepts<'a>,
}

impl<'a> JobClaim<'a> {
    /// The claim of a job that can go on from any of its checkpoints, with whatever ids.
    pub fn new(job: &'a JobName, targets: &'a [OperatorTarget], options: RestoreOptions, claimant: Claimant) -> Self {
        Self { job, targets, options, claimant, triggered: None, accepts: &|_, _| Ok(()) }
    }
}

/// Claims a job and finds out what it goes on from.
///
/// A storage that fails is an error, never an empty storage.
pub async fn begin_attempt(storage: &dyn CheckpointStorage, claim: JobClaim<'_>) -> Result<Begun, JobError> {
    let JobClaim { job, targets, options, claimant, triggered, accepts } = claim;
    let mut reader = LogReader::default();
    for _ in 0..CLAIM_TRIES_MAX {
        let log = storage.list(&paths::log_folder(job)).await?;
        let renewals = storage.list(&paths::lease_folder(job)).await?;
        // Also those of which a killed writer left no object.
        let folders = storage.list_folders(&paths::job_folder(job)).await?;
        let Some(records) = reader.read(storage, job, &log).await? else { continue };
        let view = LogView::replay(records, options.retain).map_err(|error| JobError::Log(error.into()))?;
        let highest = paths::highest_checkpoint(job, &folders);
        if let Some(highest) = highest.filter(|highest| *highest > CHECKPOINT_ID_MAX) {
            let folder = paths::job_folder(job);
            return Err(JobError::Log(
                format!("there is a folder of checkpoint {highest} under {folder}, which no run has left: remove it")
                    .into(),
            ));
        }
        if log.is_empty() && highest.is_some() {
            // Whoever has claimed the job meanwhile makes folders after its record.
            if !storage.list(&paths::log_folder(job)).await?.is_empty() {
                continue;
            }
            let folder = paths::job_folder(job);
            return Err(JobError::Log(
                format!(
                    "there are checkpoints under {folder}, but no record of the log that says which are complete: give the \
                     log back, or remove the folder to start from nothing"
                )
                .into(),
            ));
        }
        let (first_checkpoint, record) = claim_record(&view, highest.max(triggered), claimant.nonce);
        if first_checkpoint > CHECKPOINT_ID_MAX {
            return Err(JobError::Log(
                format!("there is no id left behind that of checkpoint {CHECKPOINT_ID_MAX}").into(),
            ));
        }
        // What the attempt takes over, if its claim is the next record.
        let start = view.start(first_checkpoint);
        let is_old = |path: &ObjectPath| paths::renewing_attempt(job, path).is_some_and(|by| by < start.attempt);
        let records = view.obsolete_records().iter().map(|sequence| paths::log_record(job, *sequence));
        let objects: Vec<ObjectPath> = records.chain(renewals.into_iter().filter(is_old)).collect();
        let mut left_overs: Vec<Discard> =
            orphaned_checkpoints(job, &folders, &start).into_iter().map(Discard::Folder).collect();
        left_overs.extend(Discard::of_objects(&objects));
        if view.is_finished() {
            let by_own = view.claim().is_some_and(|claim| claim.nonce == claimant.nonce);
            return Ok(Begun::Finished { by_own, left_overs });
        }
        if let Some(sequence) = claimant.is_kept_out_by(&view) {
            return Ok(Begun::Held { sequence });
        }
        // Before the claim: a start that cannot go on must not stop a run that can.
        if view.next_sequence() > SEQUENCE_MAX {
            return Err(JobError::Log(format!("there is no number left behind log record {SEQUENCE_MAX}").into()));
        }
        let mut damaged = Vec::new();
        let found = match read_newest(storage, job, view.completed(), targets, options, &mut damaged).await {
            Ok(found) => found,
            // A running attempt may have completed another checkpoint and deleted this one.
            Err(error) if Damage::of(&error).is_some() && has_gone_on(storage, job, &view).await? => continue,
            Err(error) => return Err(error),
        };
        found.as_ref().map_or(Ok(()), |(restored, hooks)| accepts(restored, hooks))?;
        let (restored, hooks) = found.unzip();
        let hooks = hooks.unwrap_or_default();
        let sequence = view.next_sequence();
        if append(storage, job, sequence, &record).await? {
            if has_been_passed(storage, job, sequence).await? {
                // Nobody has seen this claim who goes by it. If it cannot be removed, the next start knows it to be void.
                storage.delete(&paths::log_record(job, sequence)).await?;
                continue;
            }
            tracing::info!(target: "highwater::job", %job, attempt = %start.attempt, "claimed");
            let max_parallelism = max_parallelism(targets, restored.as_ref());
            let targets = targets.to_vec();
            let claimed = ClaimedJob { start, restored, hooks, max_parallelism, damaged, left_overs, targets, options };
            return Ok(Begun::Claimed(Box::new(claimed)));
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

/// A checkpoint, and who gets what of it.
pub type Restored = (CheckpointId, Assignment);

/// The same, and what hooks of the application have in it.
pub(crate) type RestoredWithHooks = (Restored, Vec<HookState>);

/// The newest of these checkpoints that is not damaged; `None` when there are none. Those that were passed over are added to
/// `damaged`. Unless the job may fall back, or when all are damaged, the damage is the error.
pub(crate) async fn read_newest(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    completed: &[CompletedCheckpoint],
    targets: &[OperatorTarget],
    options: RestoreOptions,
    damaged: &mut Vec<DamagedCheckpoint>,
) -> Result<Option<RestoredWithHooks>, JobError> {
    let mut first_error = None;
    for (index, one) in completed.iter().enumerate().rev() {
        let error = match read_checkpoint(storage, job, one, targets, options.ignores_unclaimed).await {
            Ok(restored) => return Ok(Some(restored)),
            Err(error) => error,
        };
        match Damage::of(&error) {
            Some(cause) if options.falls_back => damaged.push(DamagedCheckpoint::new(one.checkpoint, cause)),
            Some(_) => return Err(Damage::with_advice(error, &completed[..index])),
            None => return Err(error),
        }
        first_error.get_or_insert(error);
    }
    // The error is about one of them.
    for DamagedCheckpoint { checkpoint, cause } in damaged.iter().filter(|_| first_error.is_some()) {
        tracing::error!(target: "highwater::job", %job, %checkpoint, cause, "damaged, and no older one can be read");
    }
    first_error.map_or(Ok(None), Err)
}

/// A complete checkpoint and who gets what of it.
async fn read_checkpoint(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    completed: &CompletedCheckpoint,
    targets: &[OperatorTarget],
    ignores_unclaimed: bool,
) -> Result<RestoredWithHooks, JobError> {
    let checkpoint = completed.checkpoint;
    let (mut metadata, hooks) = read_metadata(storage, checkpoint, &completed.metadata).await?;
    let unclaimed = if ignores_unclaimed { unclaimed_operators(&metadata, targets) } else { Vec::new() };
    for operator in &unclaimed {
        tracing::warn!(target: "highwater::job", %job, %operator, %checkpoint, "the state of an operator is lost");
    }
    metadata.operators.retain(|operator| !unclaimed.contains(&operator.uid));
    let assignment =
        redistribute(&metadata, targets).map_err(|error| JobError::Restore { checkpoint, source: error.into() })?;
    Ok(((checkpoint, assignment), hooks))
}

/// Whether there is a record behind those of the view.
async fn has_gone_on(storage: &dyn CheckpointStorage, job: &JobName, view: &LogView) -> Result<bool, JobError> {
    match storage.read(&paths::log_record(job, view.next_sequence())).await {
        Ok(_) => Ok(true),
        Err(StorageError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Number of key groups of every operator: what its state has, or what was set, or what goes with its parallelism.
pub(crate) fn max_parallelism(
    targets: &[OperatorTarget],
    restored: Option<&Restored>,
) -> BTreeMap<OperatorUid, MaxParallelism> {
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

/// Deletes what the attempts of a finished job have left. What cannot be deleted now is found again at the next start.
pub async fn remove_left_overs(storage: &dyn CheckpointStorage, job: &JobName, left_overs: &[Discard]) {
    let mut failures = 0;
    for discard in left_overs.iter().flat_map(Discard::each) {
        if let Err(error) = delete(storage, &discard).await {
            tracing::warn!(target: "highwater::job", %job, %discard, %error, "what a dead attempt left could not be deleted");
            failures += 1;
        }
        if failures == CLEAN_UP_FAILURES_MAX {
            return;
        }
    }
}

/// Reads the job log, as often as it changes meanwhile.
#[derive(Default)]
pub(crate) struct LogReader {
    /// What was read before. Claims are read again: one that is void may have been removed, and another be in its place.
    known: BTreeMap<u64, LogRecord>,
}

impl LogReader {
    /// The records of the log; `None` when some went away between the listing and the reading, which a running attempt does to
    /// records that no start needs: list again. Then only few are left to be read, so that it does not matter how fast they go.
    pub(crate) async fn read(
        &mut self,
        storage: &dyn CheckpointStorage,
        job: &JobName,
        objects: &[ObjectPath],
    ) -> Result<Option<Vec<(u64, LogRecord)>>, JobError> {
        let (mut records, mut are_all_there) = (Vec::new(), true);
        for path in objects {
            let Some(sequence) = paths::sequence_of(job, path) else { continue };
            if let Some(record) = self.known.get(&sequence) {
                records.push((sequence, record.clone()));
                continue;
            }
            let bytes = match storage.read(path).await {
                Ok(bytes) => bytes,
                Err(StorageError::NotFound { .. }) => {
                    are_all_there = false;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let record = decode_log_record(&bytes).map_err(|error| JobError::Log(format!("{path}: {error}").into()))?;
            if !matches!(record, LogRecord::Claim { .. }) {
                self.known.insert(sequence, record.clone());
            }
            records.push((sequence, record));
        }
        Ok(are_all_there.then_some(records))
    }
}

/// Appends a record under a number. Whether it is there now; `false` when another record has the number.
pub(crate) async fn append(
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
            // Whoever had the number has deleted its record since.
            Err(StorageError::NotFound { .. }) if matches!(error, StorageError::AlreadyExists { .. }) => Ok(false),
            Err(StorageError::NotFound { .. }) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
    }
}

async fn read_metadata(
    storage: &dyn CheckpointStorage,
    checkpoint: CheckpointId,
    handle: &StateHandle,
) -> Result<(CheckpointMetadata, Vec<HookState>), JobError> {
    let bytes = read_state(storage, handle).await.map_err(|error| restore_failed(checkpoint, error))?;
    decode_metadata_with_hooks(&bytes).map_err(|error| match error {
        // It may be whole; a later release can tell.
        FormatError::UnknownVersion { .. } => JobError::Restore { checkpoint, source: error.into() },
        error => JobError::Restore { checkpoint, source: Damage::new(error).into() },
    })
}

#[cfg(test)]
#[path = "restore_test.rs"]
mod tests;
