//! The checkpoints of one subtask: which may be taken, which are being written, which it has heard the end of.

use std::collections::BTreeMap;

use highwater_state_api::CheckpointId;

use crate::aborted::AbortedCheckpoints;

/// Whether a subtask takes part in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Take the snapshot.
    Snapshot,
    /// The checkpoint is not newer than one that was begun already: do nothing.
    Late,
    /// The checkpoint was aborted before its barrier came: forward the barrier, take no snapshot.
    Aborted,
}

/// What to do with the result of an asynchronous part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncOutcome {
    /// Report it to the coordinator: acknowledge it, or decline it if it failed.
    Report,
    /// Nobody waits for it any more: delete what was written, report nothing.
    Discard,
}

/// What a notification means for a subtask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// The checkpoint to be reported complete to backends, functions and sinks, if it is.
    pub completed: Option<CheckpointId>,
    /// Checkpoints to be reported aborted, oldest first: this subtask has a snapshot of each, and none will complete.
    pub aborted: Vec<CheckpointId>,
    /// Those of `aborted` whose asynchronous part is still running: it may be cancelled.
    pub running: Vec<CheckpointId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Running,
    Reported,
}

/// The bookkeeping of one subtask.
#[derive(Debug, Clone)]
pub struct SubtaskCheckpoints {
    /// The newest checkpoint that was begun, or restored from.
    last_begun: Option<CheckpointId>,
    /// The newest checkpoint that was reported complete, or restored from.
    last_completed: Option<CheckpointId>,
    /// Checkpoints that were begun and of which no end is known.
    open: BTreeMap<CheckpointId, Part>,
    aborted: AbortedCheckpoints,
}

impl SubtaskCheckpoints {
    /// The bookkeeping of a subtask that starts from a checkpoint, or from nothing.
    pub fn new(restored: Option<CheckpointId>) -> Self {
        Self {
            last_begun: restored,
            last_completed: restored,
            open: BTreeMap::new(),
            aborted: AbortedCheckpoints::default(),
        }
    }

    /// The checkpoints whose asynchronous part is running, oldest first.
    pub fn running(&self) -> impl Iterator<Item = CheckpointId> {
        self.open.iter().filter(|(_, part)| **part == Part::Running).map(|(checkpoint, _)| *checkpoint)
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
        self.open.insert(checkpoint, Part::Running);
        Begin::Snapshot
    }

    /// The synchronous part has failed: there is nothing to be written. The checkpoint is to be declined.
    pub fn snapshot_failed(&mut self, checkpoint: CheckpointId) {
        self.open.remove(&checkpoint);
    }

    /// The asynchronous part is done.
    pub fn async_done(&mut self, checkpoint: CheckpointId) -> AsyncOutcome {
        match self.open.get_mut(&checkpoint) {
            Some(part @ Part::Running) => {
                *part = Part::Reported;
                AsyncOutcome::Report
            }
            Some(Part::Reported) | None => AsyncOutcome::Discard,
        }
    }

    /// The asynchronous part has failed.
    pub fn async_failed(&mut self, checkpoint: CheckpointId) -> AsyncOutcome {
        match self.open.get(&checkpoint) {
            Some(Part::Running) => {
                self.open.remove(&checkpoint);
                AsyncOutcome::Report
            }
            Some(Part::Reported) | None => AsyncOutcome::Discard,
        }
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
        let mut report = Ended { completed: Some(checkpoint), ..Ended::default() };
        for (checkpoint, part) in ended {
            report.abort(checkpoint, part);
        }
        report
    }

    /// The coordinator says that a checkpoint will never complete.
    pub fn abort(&mut self, checkpoint: CheckpointId) -> Ended {
        let mut report = Ended::default();
        if let Some(part) = self.open.remove(&checkpoint) {
            report.abort(checkpoint, part);
        } else if self.last_begun.is_none_or(|last| checkpoint > last) {
            self.aborted.insert(checkpoint);
        }
        report
    }
}

impl Ended {
    fn abort(&mut self, checkpoint: CheckpointId, part: Part) {
        self.aborted.push(checkpoint);
        if part == Part::Running {
            self.running.push(checkpoint);
        }
    }
}
