//! After the final checkpoint: who still has to carry out what its completion asked for.

use std::collections::BTreeSet;

use highwater_state_api::{CheckpointId, SubtaskId};

/// How often subtasks are told again that the final checkpoint is complete, until all of them have settled it. The first
/// notification, or the answer to it, may have been lost.
const REMINDER_MS: u64 = 1_000;

/// The final checkpoint is complete; its effects outside the job are being carried out.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    checkpoint: CheckpointId,
    open: BTreeSet<SubtaskId>,
    remind_at_ms: u64,
}

impl Settling {
    pub(crate) fn new(checkpoint: CheckpointId, subtasks: BTreeSet<SubtaskId>, now_ms: u64) -> Self {
        Self { checkpoint, open: subtasks, remind_at_ms: now_ms.saturating_add(REMINDER_MS) }
    }

    /// A subtask has settled a checkpoint. Whether it was the last one to settle the final one.
    pub(crate) fn settled(&mut self, subtask: SubtaskId, checkpoint: CheckpointId) -> bool {
        checkpoint >= self.checkpoint && self.open.remove(&subtask) && self.open.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        (!self.open.is_empty()).then_some(self.remind_at_ms)
    }

    /// The checkpoint that subtasks are to be told about once more, if it is time.
    pub(crate) fn reminder(&mut self, now_ms: u64) -> Option<CheckpointId> {
        self.next_deadline().filter(|at_ms| *at_ms <= now_ms)?;
        self.remind_at_ms = now_ms.saturating_add(REMINDER_MS);
        Some(self.checkpoint)
    }
}
