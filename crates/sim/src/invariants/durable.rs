//! I3, complete means durable: when the first subtask hears of it, and as long as it is retained, the log has the record
//! of the checkpoint, and metadata and every object it names are there with their lengths and checksums.
//!
//! From: the global invariants, and the order of publishing (data, metadata, log record, notification).

use std::collections::BTreeSet;

use highwater_checkpoint::{CheckpointMetadata, LogRecord};
use highwater_state_api::{Attempt, CheckpointId, ObjectPath, StateHandle};

use super::Violation;
use crate::storage::SimStorage;
use crate::view::read_durable;

const NAME: &str = "I3 complete means durable";

/// The checkpoints that the log has ever said to be complete, and not to be dropped since, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    all: Vec<(Attempt, CheckpointId, StateHandle)>,
    /// How many the job retains.
    retain: usize,
    /// Those that newer ones have taken the place of.
    subsumed: BTreeSet<CheckpointId>,
    /// Those that somebody has damaged.
    damaged: BTreeSet<(Attempt, CheckpointId)>,
    /// Whether the log says that the job has finished.
    is_finished: bool,
    /// Which attempt has taken over which pipelines from which.
    taken_over: Vec<(Attempt, Attempt, BTreeSet<usize>)>,
}

impl Completed {
    /// None yet, of a job that retains so many.
    pub(crate) fn new(retain: usize) -> Self {
        Self { retain, ..Self::default() }
    }

    /// Somebody has damaged this one.
    pub(crate) fn damaged(&mut self, attempt: Attempt, checkpoint: CheckpointId) {
        self.damaged.insert((attempt, checkpoint));
    }

    /// Whether somebody has.
    pub(crate) fn is_damaged(&self, attempt: Attempt, checkpoint: CheckpointId) -> bool {
        self.damaged.contains(&(attempt, checkpoint))
    }

    /// Whether the newest one is damaged.
    pub(crate) fn is_newest_damaged(&self) -> bool {
        self.newest(1).iter().any(|(attempt, checkpoint, _)| self.is_damaged(*attempt, *checkpoint))
    }

    /// One that nobody has damaged and that is newer than this one.
    pub(crate) fn whole_after(&self, checkpoint: CheckpointId) -> Option<CheckpointId> {
        let mut newer = self.all.iter().filter(|(_, id, _)| *id > checkpoint);
        newer.find(|(by, id, _)| !self.is_damaged(*by, *id)).map(|(_, id, _)| *id)
    }

    /// The newest one, if it is whole and an older one could take its place.
    pub(crate) fn may_be_damaged(&self) -> Option<(Attempt, CheckpointId)> {
        let mut whole = self.retained(self.retain).filter(|(by, id, _)| !self.is_damaged(*by, *id));
        let (newest, older) = (whole.next_back()?, whole.next());
        (older.is_some() && !self.is_newest_damaged()).then_some((newest.0, newest.1))
    }

    /// A record was created.
    pub(crate) fn logged(&mut self, record: &LogRecord) {
        match record {
            LogRecord::Claim { .. } => {}
            LogRecord::Completed { attempt, checkpoint, metadata } => {
                self.all.push((*attempt, *checkpoint, metadata.clone()));
                let older = self.all.iter().rev().skip(self.retain).map(|(_, checkpoint, _)| *checkpoint);
                self.subsumed.extend(older);
            }
            LogRecord::Finished { .. } => self.is_finished = true,
            LogRecord::Dropped { newest, .. } => self.all.retain(|(_, checkpoint, _)| Some(*checkpoint) <= *newest),
        }
    }

    /// An attempt goes on with these pipelines of another one as they are.
    pub(crate) fn taken_over(&mut self, from: Attempt, by: Attempt, pipelines: BTreeSet<usize>) {
        self.taken_over.push((from, by, pipelines));
    }

    /// Whether a checkpoint is complete that covers what a pipeline did in this attempt for `checkpoint`: one of the attempt, or
    /// of one that has taken the pipeline over.
    pub(crate) fn covers(&self, pipeline: usize, attempt: Attempt, checkpoint: CheckpointId) -> bool {
        let mut attempts = BTreeSet::from([attempt]);
        for (from, by, pipelines) in &self.taken_over {
            if attempts.contains(from) && pipelines.contains(&pipeline) {
                attempts.insert(*by);
            }
        }
        self.all.iter().any(|(by, id, _)| attempts.contains(by) && *id >= checkpoint)
    }

    /// The newest checkpoints, oldest first.
    pub(crate) fn newest(&self, retain: usize) -> &[(Attempt, CheckpointId, StateHandle)] {
        &self.all[self.all.len().saturating_sub(retain)..]
    }

    /// Whether a checkpoint is, or was, complete.
    pub(crate) fn contains(&self, (checkpoint, attempt): (CheckpointId, Attempt)) -> bool {
        self.find(attempt, checkpoint).is_some()
    }

    /// The checkpoints that a job which retains so many must not lose. A finished one may lose all.
    fn retained(&self, retain: usize) -> impl DoubleEndedIterator<Item = &(Attempt, CheckpointId, StateHandle)> {
        let newest = self.newest(if self.is_finished { 0 } else { retain });
        // What was subsumed before the job went back is not there again.
        newest.iter().filter(|(_, checkpoint, _)| !self.subsumed.contains(checkpoint))
    }

    fn find(&self, attempt: Attempt, checkpoint: CheckpointId) -> Option<&StateHandle> {
        let found = self.all.iter().find(|(by, id, _)| (*by, *id) == (attempt, checkpoint));
        found.map(|(_, _, metadata)| metadata)
    }
}

/// The checkpoint, about which subtasks are being told, is durable. Returns its metadata.
pub(crate) fn check_told(
    storage: &SimStorage,
    completed: &Completed,
    attempt: Attempt,
    checkpoint: CheckpointId,
) -> Result<CheckpointMetadata, Violation> {
    let Some(metadata) = completed.find(attempt, checkpoint) else {
        let found = format!("subtasks are told of checkpoint {checkpoint}, the log has no record of it");
        return Err(Violation::new(NAME, found));
    };
    read_durable(storage, metadata)
        .map_err(|error| Violation::new(NAME, format!("subtasks are told of checkpoint {checkpoint}: {error}")))
}

/// Every retained checkpoint is durable.
pub(crate) fn check_retained(storage: &SimStorage, completed: &Completed, retain: usize) -> Result<(), Violation> {
    let is_whole = |(attempt, checkpoint, _): &&_| !completed.is_damaged(*attempt, *checkpoint);
    for (attempt, checkpoint, metadata) in completed.retained(retain).filter(is_whole) {
        read_durable(storage, metadata).map_err(|error| {
            Violation::new(NAME, format!("checkpoint {checkpoint} of attempt {attempt} is retained: {error}"))
        })?;
    }
    Ok(())
}

/// An object was deleted: no retained checkpoint lies in its folder. Of a finished job none is retained.
pub(crate) fn check_deleted(completed: &Completed, retain: usize, deleted: &ObjectPath) -> Result<(), Violation> {
    for (attempt, checkpoint, metadata) in completed.retained(retain) {
        let folder = metadata.object().and_then(|path| path.as_str().rsplit_once('/')).map(|(folder, _)| folder);
        let lies_in = |folder: &str| deleted.as_str().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if folder.is_some_and(lies_in) {
            let found = format!("{deleted} was deleted, checkpoint {checkpoint} of attempt {attempt} is retained");
            return Err(Violation::new(NAME, found));
        }
    }
    Ok(())
}
