//! Replay of the job log: what the records of a job mean together, and the claim of the next attempt.
//!
//! Records are defined in `docs/format/job-log.md`. Reading them is the shell's; here is only what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, StateHandle};

use crate::log_numbers::successor;
use crate::{LogRecord, paths};

/// Number of the first record of a job.
const FIRST_SEQUENCE: u64 = 1;

/// A checkpoint that the job log says is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedCheckpoint {
    /// Number of the record that says so.
    pub sequence: u64,
    /// The attempt that completed it.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Its metadata.
    pub metadata: StateHandle,
}

/// What an attempt takes over from those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptStart {
    /// The attempt: the number of its claim.
    pub attempt: Attempt,
    /// The first checkpoint it may take.
    pub first_checkpoint: CheckpointId,
    /// Number of the next record of the job log.
    pub next_sequence: u64,
    /// Complete checkpoints of earlier attempts that are retained, oldest first.
    pub retained: Vec<CompletedCheckpoint>,
}

/// The last claim of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The attempt that began.
    pub attempt: Attempt,
    /// What its writer drew.
    pub nonce: u64,
    /// Its checkpoints have this id or a larger one.
    pub first_checkpoint: CheckpointId,
}

/// The job log as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogView {
    next_sequence: u64,
    claim: Option<Claim>,
    completed: Vec<CompletedCheckpoint>,
    highest_completed: Option<CheckpointId>,
    obsolete: Vec<u64>,
    finished: bool,
    dropped: bool,
}

/// The largest id of a checkpoint. A larger one was not left by any run: ids would come to an end behind it.
pub const CHECKPOINT_ID_MAX: CheckpointId = CheckpointId(u64::MAX / 2);

/// The largest number of a record, for the same reason.
pub const SEQUENCE_MAX: u64 = u64::MAX / 2;

/// The records contradict each other: they were not written by this protocol, or some were changed or lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A number is not larger than the one before it.
    #[error("job log record {sequence} comes after record {previous}")]
    OutOfOrder {
        /// The record.
        sequence: u64,
        /// The one before it.
        previous: u64,
    },
    /// Only an attempt can complete or finish anything, and none has begun.
    #[error("job log record {sequence} comes before any claim")]
    BeforeClaim {
        /// The record.
        sequence: u64,
    },
    /// The record is of an attempt that is not the last that claimed the job.
    #[error("job log record {sequence} is of attempt {found}, but attempt {expected} has claimed the job")]
    OtherAttempt {
        /// The record.
        sequence: u64,
        /// The attempt that may write.
        expected: Attempt,
        /// The attempt that wrote.
        found: Attempt,
    },
    /// The id of a checkpoint is taken already, or reserved for an earlier one.
    #[error("job log record {sequence} is about checkpoint {found}, expected {expected} or a larger one")]
    CheckpointReused {
        /// The record.
        sequence: u64,
        /// The smallest id possible.
        expected: CheckpointId,
        /// The id in the record.
        found: CheckpointId,
    },
    /// No run has come to such an id: there are too many below it.
    #[error("job log record {sequence} is about checkpoint {found}, the largest possible is {CHECKPOINT_ID_MAX}")]
    CheckpointTooLarge {
        /// The record.
        sequence: u64,
        /// The id in the record.
        found: CheckpointId,
    },
    /// A job that has finished goes on.
    #[error("job log record {sequence} comes after the job has finished")]
    AfterFinished {
        /// The record.
        sequence: u64,
    },
    /// No run has come to such a number: there are too many below it.
    #[error("there is a job log record {sequence}, the largest possible is {SEQUENCE_MAX}")]
    SequenceTooLarge {
        /// The record.
        sequence: u64,
    },
}

impl LogView {
    /// Replays the records of a job, in ascending order of number, and keeps the newest `retain` complete checkpoints.
    ///
    /// Numbers may be missing: records of checkpoints that are no longer retained are deleted. Claims never are, so
    /// that what is left can still be checked. Of a finished job nothing is retained, nor what was dropped.
    pub fn replay(records: Vec<(u64, LogRecord)>, retain: usize) -> Result<Self, LogError> {
        let mut view = Self {
            next_sequence: FIRST_SEQUENCE,
            claim: None,
            completed: Vec::new(),
            highest_completed: None,
            obsolete: Vec::new(),
            finished: false,
            dropped: false,
        };
        let mut claims = Claims::default();
        let mut gone = Vec::new();
        let mut last_of = BTreeMap::new();
        let mut previous = None;
        for (sequence, record) in records {
            if let Some(previous) = previous.filter(|previous| *previous >= sequence) {
                return Err(LogError::OutOfOrder { sequence, previous });
            }
            if view.finished {
                return Err(LogError::AfterFinished { sequence });
            }
            if sequence > SEQUENCE_MAX {
                return Err(LogError::SequenceTooLarge { sequence });
            }
            view.next_sequence = sequence + 1;
            previous = Some(sequence);
            view.dropped = matches!(record, LogRecord::Dropped { newest: None, .. });
            match record {
                LogRecord::Claim { nonce, first_checkpoint } => {
                    at_least(sequence, claims.expected(), first_checkpoint)?;
                    claims.add(Claim { attempt: Attempt(sequence), nonce, first_checkpoint });
                }
                LogRecord::Completed { attempt, checkpoint, metadata } => {
                    view.obsolete.extend(claims.confirm(sequence, attempt)?);
                    at_least(sequence, claims.expected(), checkpoint)?;
                    claims.expected = Some(checkpoint.next());
                    view.highest_completed = Some(checkpoint);
                    last_of.insert(attempt, sequence);
                    view.completed.push(CompletedCheckpoint { sequence, attempt, checkpoint, metadata });
                }
                LogRecord::Finished { attempt } => {
                    view.obsolete.extend(claims.confirm(sequence, attempt)?);
                    view.finished = true;
                    gone.append(&mut view.completed);
                }
                LogRecord::Dropped { attempt, newest } => {
                    view.obsolete.extend(claims.confirm(sequence, attempt)?);
                    let kept = view.completed.iter().filter(|one| Some(one.checkpoint) <= newest).count();
                    gone.extend(view.completed.drain(kept..));
                }
            }
        }
        view.claim = claims.last();
        let subsumed = view.completed.len().saturating_sub(retain.max(1));
        gone.extend(view.completed.drain(..subsumed));
        // The last of an attempt stays, see `obsolete_records`.
        let has_next = |one: &CompletedCheckpoint| last_of.get(&one.attempt) != Some(&one.sequence);
        view.obsolete.extend(gone.into_iter().filter(has_next).map(|one| one.sequence));
        let may_go = |sequence: &u64| successor(*sequence).is_some_and(|successor| successor < view.next_sequence);
        view.obsolete.retain(may_go);
        view.obsolete.sort_unstable();
        Ok(view)
    }

    /// Number of the next record.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The last claim; `None` when the job has never been started.
    pub fn claim(&self) -> Option<Claim> {
        self.claim
    }

    /// The retained complete checkpoints, oldest first.
    pub fn completed(&self) -> &[CompletedCheckpoint] {
        &self.completed
    }

    /// The checkpoint to restore from; `None` when none is complete, or none is kept.
    pub fn latest(&self) -> Option<&CompletedCheckpoint> {
        self.completed.last()
    }

    /// The largest id of any checkpoint that was ever complete, be it kept or not.
    pub fn highest_completed(&self) -> Option<CheckpointId> {
        self.highest_completed
    }

    /// Numbers of records that no start can need any more and that were not deleted yet, because the attempt that should
    /// have did not live to do it. The last `Completed` of an attempt is never one of them: whoever wrote it may still
    /// be reading back whether it did.
    pub fn obsolete_records(&self) -> &[u64] {
        &self.obsolete
    }

    /// Whether the job has processed all its input, so that there is nothing to start.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether whoever has claimed the job last has ended it and has dropped all its checkpoints.
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// What the attempt takes over whose claim has been appended to this log under its next number.
    pub fn start(&self, first_checkpoint: CheckpointId) -> AttemptStart {
        AttemptStart {
            attempt: Attempt(self.next_sequence),
            first_checkpoint,
            next_sequence: self.next_sequence + 1,
            retained: self.completed.clone(),
        }
    }
}

/// The claims that may be the one that counts.
///
/// A claim that was appended to a list of the log that was too old may have fallen into the hole of a deleted record. It is
/// void: the attempt before it goes on, and its later records say so. A claim is confirmed by a record of its own attempt;
/// from then on no earlier attempt can have appended anything.
#[derive(Default)]
struct Claims {
    /// The last one that is confirmed, and those after it.
    open: Vec<Claim>,
    /// The smallest id that the next checkpoint of a confirmed claim can have.
    expected: Option<CheckpointId>,
}

impl Claims {
    fn last(&self) -> Option<Claim> {
        self.open.last().copied()
    }

    /// The smallest id that the next checkpoint can have, whoever takes it.
    fn expected(&self) -> CheckpointId {
        let claimed = self.last().map(|claim| claim.first_checkpoint);
        claimed.max(self.expected).unwrap_or(CheckpointId(1))
    }

    fn add(&mut self, claim: Claim) {
        self.open.push(claim);
    }

    /// Record `sequence` is of `attempt`. Returns the numbers of the claims that are void by that.
    fn confirm(&mut self, sequence: u64, attempt: Attempt) -> Result<Vec<u64>, LogError> {
        let last = self.last().ok_or(LogError::BeforeClaim { sequence })?;
        let found = self.open.iter().position(|claim| claim.attempt == attempt);
        let found = found.ok_or(LogError::OtherAttempt { sequence, expected: last.attempt, found: attempt })?;
        let void = self.open.drain(found + 1..).map(|claim| claim.attempt.0).collect();
        self.open.drain(..found);
        Ok(void)
    }
}

fn at_least(sequence: u64, expected: CheckpointId, found: CheckpointId) -> Result<(), LogError> {
    if found > CHECKPOINT_ID_MAX {
        return Err(LogError::CheckpointTooLarge { sequence, found });
    }
    if found < expected {
        return Err(LogError::CheckpointReused { sequence, expected, found });
    }
    Ok(())
}

/// The first checkpoint of the attempt that claims the job next, and its claim, to be appended under
/// [`LogView::next_sequence`].
///
/// `highest_seen` is the largest id that is known from anywhere else: a folder that a failed or unfinished checkpoint
/// left, or a checkpoint that the same process has triggered before.
pub fn claim_record(view: &LogView, highest_seen: Option<CheckpointId>, nonce: u64) -> (CheckpointId, LogRecord) {
    let claimed = view.claim.map(|claim| claim.first_checkpoint);
    let highest = [claimed, view.highest_completed, highest_seen].into_iter().flatten().max();
    let first_checkpoint = highest.map_or(CheckpointId(1), CheckpointId::next);
    (first_checkpoint, LogRecord::Claim { nonce, first_checkpoint })
}

/// The folders among `paths` that nothing can need any more: of checkpoints of earlier attempts that are not retained.
///
/// Only true once the attempt's claim is in the log: from then on no earlier attempt can complete anything.
pub fn orphaned_checkpoints<'a>(
    job: &JobName,
    paths: impl IntoIterator<Item = &'a ObjectPath>,
    start: &AttemptStart,
) -> Vec<ObjectPath> {
    let retained: BTreeSet<_> = start.retained.iter().map(|kept| (kept.checkpoint, kept.attempt)).collect();
    let found: BTreeSet<_> = paths.into_iter().filter_map(|path| paths::checkpoint_of(job, path)).collect();
    let is_orphan = |id: &&(CheckpointId, Attempt)| id.1 < start.attempt && !retained.contains(*id);
    found.iter().filter(is_orphan).map(|(id, attempt)| paths::checkpoint_folder(job, *attempt, *id)).collect()
}
