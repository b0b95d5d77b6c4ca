//! Retention: which complete checkpoints are kept, and what goes when a newer one completes.

use std::collections::{BTreeSet, VecDeque};

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath};

use crate::job_log::{AttemptStart, CompletedCheckpoint};
use crate::log_numbers::successor;
use crate::paths;

/// The retained checkpoints of a job.
#[derive(Debug, Clone)]
pub(crate) struct Retention {
    retain: usize,
    completed: VecDeque<CompletedCheckpoint>,
    /// Records that are never deleted: the last `Completed` of each earlier attempt. The attempt that wrote it may still
    /// be waiting to learn whether it did; if the number were free again, it would write it a second time.
    kept_records: BTreeSet<u64>,
    /// Records of checkpoints that are no longer retained, and whose successors are not in the log yet.
    droppable_records: BTreeSet<u64>,
}

/// What is no longer retained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The checkpoints, oldest first.
    pub(crate) checkpoints: Vec<CheckpointId>,
    /// Their folders.
    pub(crate) folders: Vec<ObjectPath>,
    /// Records of the job log.
    pub(crate) records: Vec<u64>,
}

impl Retention {
    pub(crate) fn new(retain: usize, start: &AttemptStart) -> Self {
        let mut kept_records = BTreeSet::new();
        for (index, kept) in start.retained.iter().enumerate() {
            let is_last = start.retained.get(index + 1).is_none_or(|next| next.attempt != kept.attempt);
            if is_last {
                kept_records.insert(kept.sequence);
            }
        }
        Self {
            retain: retain.max(1),
            completed: start.retained.clone().into(),
            kept_records,
            droppable_records: BTreeSet::new(),
        }
    }

    pub(crate) fn contains(&self, attempt: Attempt, checkpoint: CheckpointId) -> bool {
        self.completed.iter().any(|kept| kept.attempt == attempt && kept.checkpoint == checkpoint)
    }

    pub(crate) fn latest(&self) -> Option<CheckpointId> {
        self.completed.back().map(|kept| kept.checkpoint)
    }

    pub(crate) fn add(&mut self, job: &JobName, completed: CompletedCheckpoint) -> Dropped {
        let last_record = completed.sequence;
        self.completed.push_back(completed);
        let mut dropped = Dropped::default();
        while self.completed.len() > self.retain
            && let Some(oldest) = self.completed.pop_front()
        {
            dropped.checkpoints.push(oldest.checkpoint);
            dropped.folders.push(paths::checkpoint_folder(job, oldest.attempt, oldest.checkpoint));
            if !self.kept_records.contains(&oldest.sequence) {
                self.droppable_records.insert(oldest.sequence);
            }
        }
        let may_go = |record: &u64| successor(*record).is_some_and(|successor| successor <= last_record);
        dropped.records = self.droppable_records.extract_if(.., may_go).collect();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use highwater_state_api::StateHandle;

    use super::*;

    /// Contract: M240.
    #[test]
    fn at_least_one_checkpoint_is_retained() {
        let job = JobName::new("job").unwrap();
        let attempt = Attempt(1);
        let start = AttemptStart { attempt, first_checkpoint: CheckpointId(1), next_sequence: 2, retained: Vec::new() };
        let mut retention = Retention::new(0, &start);
        for sequence in 2..5 {
            let metadata = StateHandle::Inline(bytes::Bytes::new());
            let completed = CompletedCheckpoint { sequence, attempt, checkpoint: CheckpointId(sequence), metadata };
            let dropped = retention.add(&job, completed);
            assert_eq!(dropped.folders.len(), usize::from(sequence > 2), "the one before");
            assert_eq!(retention.latest(), Some(CheckpointId(sequence)));
        }
    }

    #[test]
    fn a_record_is_deleted_only_when_its_successor_is_in_the_log() {
        let job = JobName::new("job").unwrap();
        let attempt = Attempt(1);
        let start = AttemptStart { attempt, first_checkpoint: CheckpointId(1), next_sequence: 2, retained: Vec::new() };
        let mut retention = Retention::new(1, &start);
        let mut deleted = BTreeSet::new();
        for sequence in 2..=9_000 {
            let metadata = StateHandle::Inline(bytes::Bytes::new());
            let completed = CompletedCheckpoint { sequence, attempt, checkpoint: CheckpointId(sequence), metadata };
            let dropped = retention.add(&job, completed);
            assert_eq!(dropped.folders.len(), usize::from(sequence > 2), "folders go at once");
            for record in dropped.records {
                assert!(successor(record).is_some_and(|successor| successor <= sequence), "{record} at {sequence}");
                assert!(deleted.insert(record), "{record} was deleted twice");
            }
        }
        let left: Vec<u64> = (2..=9_000).filter(|record| !deleted.contains(record)).collect();
        // 4096 and 8192, twelve multiples of 64 beyond, and forty since the last of these.
        assert_eq!(left.len(), 2 + 12 + 40, "{left:?}");
    }
}
