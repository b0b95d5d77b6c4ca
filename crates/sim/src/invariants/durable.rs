//! I3, complete means durable: when the first subtask hears of it, and as long as it is retained, the log has the record
//! of the checkpoint, and metadata and every object it names are there with their lengths and checksums.
//!
//! From: the global invariants, and the order of publishing (data, metadata, log record, notification).

use highwater_checkpoint::{CheckpointMetadata, LogRecord};
use highwater_state_api::{Attempt, CheckpointId, ObjectPath, StateHandle};

use super::Violation;
use crate::storage::SimStorage;
use crate::view::read_durable;

const NAME: &str = "I3 complete means durable";

/// The checkpoints that the log has ever said to be complete, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    all: Vec<(Attempt, CheckpointId, StateHandle)>,
    /// Whether the log says that the job has finished.
    is_finished: bool,
}

impl Completed {
    /// A record was created.
    pub(crate) fn logged(&mut self, record: &LogRecord) {
        if let LogRecord::Completed { attempt, checkpoint, metadata } = record {
            self.all.push((*attempt, *checkpoint, metadata.clone()));
        }
        self.is_finished |= matches!(record, LogRecord::Finished { .. });
    }

    /// Whether a checkpoint of this attempt that covers `checkpoint` is complete.
    pub(crate) fn covers(&self, attempt: Attempt, checkpoint: CheckpointId) -> bool {
        self.all.iter().any(|(by, id, _)| *by == attempt && *id >= checkpoint)
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
    fn retained(&self, retain: usize) -> &[(Attempt, CheckpointId, StateHandle)] {
        self.newest(if self.is_finished { 0 } else { retain })
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
    for (attempt, checkpoint, metadata) in completed.retained(retain) {
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
