//! Retention: which complete checkpoints are kept, and what goes when a newer one completes.

use std::collections::{BTreeSet, VecDeque};

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath};

use crate::job_log::{AttemptStart, CompletedCheckpoint};
use crate::paths;

/// The retained checkpoints of a job.
#[derive(Debug, Clone)]
pub(crate) struct Retention {
    retain: usize,
    completed: VecDeque<CompletedCheckpoint>,
    /// Records that are never deleted: the last `Completed` of each earlier attempt. The attempt that wrote it may still
    /// be waiting to learn whether it did; if the number were free again, it would write it a second time.
    kept_records: BTreeSet<u64>,
}

/// What is no longer retained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Folders of checkpoints.
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
        Self { retain: retain.max(1), completed: start.retained.clone().into(), kept_records }
    }

    pub(crate) fn contains(&self, attempt: Attempt, checkpoint: CheckpointId) -> bool {
        self.completed.iter().any(|kept| kept.attempt == attempt && kept.checkpoint == checkpoint)
    }

    pub(crate) fn latest(&self) -> Option<CheckpointId> {
        self.completed.back().map(|kept| kept.checkpoint)
    }

    pub(crate) fn add(&mut self, job: &JobName, completed: CompletedCheckpoint) -> Dropped {
        self.completed.push_back(completed);
        let mut dropped = Dropped::default();
        while self.completed.len() > self.retain
            && let Some(oldest) = self.completed.pop_front()
        {
            dropped.folders.push(paths::checkpoint_folder(job, oldest.attempt, oldest.checkpoint));
            if !self.kept_records.contains(&oldest.sequence) {
                dropped.records.push(oldest.sequence);
            }
        }
        dropped
    }
}
