//! The checkpoints of one subtask: which may be taken, and which it has heard the end of.
//!
//! Whether the asynchronous part of a snapshot still matters when it is done is the coordinator's to decide, to whom it
//! reports: it outlives the abort that the subtask hears of.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

use crate::aborted::AbortedCheckpoints;

/// Whether a subtask takes part in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Take the snapshot. If that fails, decline the checkpoint: its abort is reported like any other.
    Snapshot,
    /// The checkpoint is not newer than one that was begun already: do nothing.
    Late,
    /// The checkpoint was aborted before its barrier came: forward the barrier, take no snapshot.
    Aborted,
}

/// What a notification means for a subtask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// The checkpoint to be reported complete to backends, functions and sinks, if it is.
    pub completed: Option<CheckpointId>,
    /// Checkpoints to be reported aborted, oldest first: this subtask has begun each, and none will complete. Also one that
    /// it has declined: some of its operators may have a snapshot of it.
    pub aborted: Vec<CheckpointId>,
}

/// The bookkeeping of one subtask.
#[derive(Debug, Clone)]
pub struct SubtaskCheckpoints {
    /// The newest checkpoint that was begun, or restored from.
    last_begun: Option<CheckpointId>,
    /// The newest checkpoint that was reported complete, or restored from.
    last_completed: Option<CheckpointId>,
    /// Checkpoints that were begun and of which no end is known.
    open: BTreeSet<CheckpointId>,
    aborted: AbortedCheckpoints,
}

impl SubtaskCheckpoints {
    /// The bookkeeping of a subtask that starts from a checkpoint, or from nothing.
    pub fn new(restored: Option<CheckpointId>) -> Self {
        Self {
            last_begun: restored,
            last_completed: restored,
            open: BTreeSet::new(),
            aborted: AbortedCheckpoints::default(),
        }
    }

    /// The barriers of a checkpoint are aligned, or a source was told to take it.
    pub fn begin(&mut self, checkpoint: CheckpointId) -> Begin {
        if self.last_begun.is_some_and(|last| checkpoint <= last) {
            return Begin::Late;
        }
        self.last_begun = Some(checkpoint);
        if self.aborted.take(checkpoint) {
            return Begin::Aborted;
        }
        self.open.insert(checkpoint);
        Begin::Snapshot
    }

    /// The coordinator says that a checkpoint is complete. Older ones that are still open will never be.
    ///
    /// Late and repeated notifications mean nothing: completions are reported in ascending order, each at most once.
    pub fn complete(&mut self, checkpoint: CheckpointId) -> Ended {
        if self.last_completed.is_some_and(|last| checkpoint <= last) {
            return Ended::default();
        }
        self.last_completed = Some(checkpoint);
        let newer = self.open.split_off(&checkpoint.next());
        let mut ended = std::mem::replace(&mut self.open, newer);
        ended.remove(&checkpoint);
        Ended { completed: Some(checkpoint), aborted: ended.into_iter().collect() }
    }

    /// The coordinator says that a checkpoint will never complete.
    pub fn abort(&mut self, checkpoint: CheckpointId) -> Ended {
        if self.open.remove(&checkpoint) {
            return Ended { completed: None, aborted: vec![checkpoint] };
        }
        if self.last_begun.is_none_or(|last| checkpoint > last) {
            self.aborted.insert(checkpoint);
        }
        Ended::default()
    }
}
