//! Checkpoints that were aborted before their barriers came: remembered, but not without bound.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

/// How many are remembered. One that is forgotten costs a snapshot in vain, which the coordinator then discards.
const REMEMBERED_MAX: usize = 64;

/// A bounded set of checkpoints that were aborted and whose barriers have not come.
#[derive(Debug, Clone, Default)]
pub(crate) struct AbortedCheckpoints {
    ids: BTreeSet<CheckpointId>,
}

impl AbortedCheckpoints {
    /// Remembers one; forgets the oldest if there are too many.
    pub(crate) fn insert(&mut self, checkpoint: CheckpointId) {
        self.ids.insert(checkpoint);
        if self.ids.len() > REMEMBERED_MAX {
            self.ids.pop_first();
        }
    }

    /// Whether `checkpoint` was aborted, and forgets it. Those before it may still come.
    pub(crate) fn remove(&mut self, checkpoint: CheckpointId) -> bool {
        self.ids.remove(&checkpoint)
    }

    /// The barrier of `checkpoint` has come: whether it was aborted. Older ones are forgotten, they can come no more.
    pub(crate) fn take(&mut self, checkpoint: CheckpointId) -> bool {
        let newer = self.ids.split_off(&checkpoint.next());
        let was_aborted = self.ids.contains(&checkpoint);
        self.ids = newer;
        was_aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_makes_older_ids_forgotten() {
        let mut aborted = AbortedCheckpoints::default();
        for id in [3, 5, 7] {
            aborted.insert(CheckpointId(id));
        }
        assert!(aborted.take(CheckpointId(5)));
        assert_eq!(aborted.ids, BTreeSet::from([CheckpointId(7)]));
        assert!(!aborted.take(CheckpointId(6)));
        assert!(aborted.take(CheckpointId(7)));
        assert!(!aborted.take(CheckpointId(7)));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let mut aborted = AbortedCheckpoints::default();
        for id in 0..1_000 {
            aborted.insert(CheckpointId(id));
        }
        assert_eq!(aborted.ids.len(), REMEMBERED_MAX);
        assert!(aborted.take(CheckpointId(999)));
    }
}
