//! Holds back what split enumerators say to readers while a checkpoint is between the two.
//!
//! The enumerators are snapshotted before the readers. A split that was handed out in between would be in both
//! snapshots, or in none after the reader lost it, so a reader gets none until its own snapshot is taken.

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::{CheckpointId, SubtaskId};

/// Which readers may be given splits now.
#[derive(Debug, Default)]
pub(crate) struct SplitGate {
    /// Readers that may not, each with the newest checkpoint it has not acknowledged.
    closed: BTreeMap<SubtaskId, CheckpointId>,
    /// Readers that asked while they might not.
    waiting: BTreeSet<SubtaskId>,
    /// The newest checkpoint that the gate was closed for.
    newest: Option<CheckpointId>,
}

/// Checkpoints come in ascending order: an enumerator that is snapshotted for an older one has said things since.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("checkpoint {checkpoint} came to the gate between enumerators and readers after checkpoint {newest}")]
pub(crate) struct FallingOrder {
    checkpoint: CheckpointId,
    newest: CheckpointId,
}

impl SplitGate {
    /// The enumerators are snapshotted for a checkpoint, which is newer than those before: readers get nothing until they
    /// have acknowledged it. An error changes nothing.
    pub(crate) fn close(
        &mut self,
        checkpoint: CheckpointId,
        readers: impl IntoIterator<Item = SubtaskId>,
    ) -> Result<(), FallingOrder> {
        if let Some(newest) = self.newest.filter(|newest| *newest >= checkpoint) {
            return Err(FallingOrder { checkpoint, newest });
        }
        self.newest = Some(checkpoint);
        for reader in readers {
            self.closed.insert(reader, checkpoint);
        }
        Ok(())
    }

    /// A reader asks for a split. Whether it may be given one now; if not, it will be named when it may.
    pub(crate) fn request(&mut self, reader: SubtaskId) -> bool {
        let is_open = !self.closed.contains_key(&reader);
        if !is_open {
            self.waiting.insert(reader);
        }
        is_open
    }

    /// A reader has acknowledged a checkpoint. Whether it has waited and may now be given a split.
    pub(crate) fn acknowledged(&mut self, reader: SubtaskId, checkpoint: CheckpointId) -> bool {
        if self.closed.get(&reader).is_some_and(|closed| *closed <= checkpoint) {
            self.closed.remove(&reader);
            return self.waiting.remove(&reader);
        }
        false
    }

    /// A checkpoint is complete or will never be. The readers that have waited and may now be given splits.
    pub(crate) fn ended(&mut self, checkpoint: CheckpointId) -> Vec<SubtaskId> {
        self.closed.retain(|_, closed| *closed > checkpoint);
        self.waiting.extract_if(.., |reader| !self.closed.contains_key(reader)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: SubtaskId = SubtaskId { task: 0, subtask: 0 };
    const OTHER: SubtaskId = SubtaskId { task: 0, subtask: 1 };

    /// Contract: R322.
    #[test]
    fn a_reader_waits_for_its_own_snapshot() {
        let mut gate = SplitGate::default();
        assert!(gate.request(READER));
        gate.close(CheckpointId(1), [READER, OTHER]).unwrap();
        assert!(!gate.request(READER));
        assert!(!gate.acknowledged(OTHER, CheckpointId(1)));
        assert!(gate.request(OTHER));
        assert!(gate.acknowledged(READER, CheckpointId(1)));
        assert!(gate.request(READER));
    }

    /// Contract: R322.
    #[test]
    fn an_older_checkpoint_does_not_open_the_gate_of_a_newer_one() {
        let mut gate = SplitGate::default();
        gate.close(CheckpointId(1), [READER]).unwrap();
        gate.close(CheckpointId(2), [READER]).unwrap();
        assert!(!gate.request(READER));
        assert!(!gate.acknowledged(READER, CheckpointId(1)));
        assert_eq!(gate.ended(CheckpointId(1)), []);
        assert_eq!(gate.ended(CheckpointId(2)), [READER]);
    }

    /// Contract: R324.
    #[test]
    fn checkpoints_in_a_falling_order_are_an_error_that_changes_nothing() {
        let mut gate = SplitGate::default();
        gate.close(CheckpointId(4), [READER]).unwrap();
        for older in [4, 3] {
            let error = gate.close(CheckpointId(older), [READER]).unwrap_err();
            let text =
                format!("checkpoint {older} came to the gate between enumerators and readers after checkpoint 4");
            assert_eq!(error.to_string(), text);
        }
        assert!(!gate.acknowledged(READER, CheckpointId(3)));
        assert!(!gate.request(READER), "the gate is closed for checkpoint 4 as before");
        assert_eq!(gate.ended(CheckpointId(4)), [READER]);
    }
}
