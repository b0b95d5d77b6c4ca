//! Counters of subtasks, kept where others can look at them while the job runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use highwater_state_api::CheckpointId;

/// How many checkpoints' counts are remembered: those that may still complete.
const REMEMBERED_MAX: usize = 64;

/// The counters of one subtask in one attempt.
#[derive(Debug, Default)]
pub struct SubtaskMetrics {
    records_in: AtomicU64,
    late_records: AtomicU64,
    /// The count of records when each checkpoint was frozen.
    at_checkpoint: Mutex<BTreeMap<CheckpointId, u64>>,
}

impl SubtaskMetrics {
    /// Records that the head of the chain has taken in.
    pub fn records_in(&self) -> u64 {
        self.records_in.load(Ordering::Relaxed)
    }

    /// Records that were dropped because they came too late.
    pub fn late_records(&self) -> u64 {
        self.late_records.load(Ordering::Relaxed)
    }

    /// Records that were taken in before the snapshot of a checkpoint; forgets older checkpoints.
    pub fn records_before(&self, checkpoint: CheckpointId) -> Option<u64> {
        let mut at_checkpoint = self.at_checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        *at_checkpoint = at_checkpoint.split_off(&checkpoint);
        at_checkpoint.get(&checkpoint).copied()
    }

    pub(crate) fn publish(&self, records_in: u64, late_records: u64) {
        self.records_in.store(records_in, Ordering::Relaxed);
        self.late_records.store(late_records, Ordering::Relaxed);
    }

    pub(crate) fn frozen(&self, checkpoint: CheckpointId) {
        let mut at_checkpoint = self.at_checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        at_checkpoint.insert(checkpoint, self.records_in());
        if at_checkpoint.len() > REMEMBERED_MAX {
            at_checkpoint.pop_first();
        }
    }
}
