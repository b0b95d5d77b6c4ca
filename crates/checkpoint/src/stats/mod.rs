//! How checkpoints went: how long they took and who was late, how much state there is, why one failed. For people.

mod display;
mod tracker;

use std::time::Duration;

use highwater_state_api::{Attempt, CheckpointId, OperatorUid, SubtaskId};

use crate::{CheckpointFailure, CheckpointMetrics};

pub use tracker::{CheckpointStatsCounts, CheckpointStatsSnapshot, CheckpointStatsTracker};

#[cfg(test)]
mod stats_test;

/// How one checkpoint went, or goes. Flink's `AbstractCheckpointStats`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointStats {
    /// The attempt that took it.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// When it was triggered, on the wall clock, in milliseconds since the epoch.
    pub triggered_at_ms: u64,
    /// How it stands.
    pub status: CheckpointStatsStatus,
    /// How long it took until it was complete or had failed; `None` while it is pending.
    pub ended_after: Option<Duration>,
    /// Whether the subtasks have been asked to take part.
    pub is_begun: bool,
    /// The tasks of the job, by their index in the job graph.
    pub tasks: Vec<TaskStateStats>,
}

/// How a checkpoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointStatsStatus {
    /// It is pending.
    InProgress,
    /// It is complete.
    Completed,
    /// It will never be complete, as far as this process knows.
    Failed(CheckpointFailure),
}

/// What a checkpoint has of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStateStats {
    /// The operators in chain order.
    pub operators: Vec<OperatorUid>,
    /// What each subtask has done, by index; `None` for those that have not acknowledged. Empty if the task had finished
    /// before: nothing was asked of it.
    pub subtasks: Vec<Option<SubtaskStateStats>>,
}

/// What a checkpoint has of one subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtaskStateStats {
    /// How long after the trigger its acknowledgement came.
    pub acknowledged_after: Duration,
    /// What it measured.
    pub metrics: CheckpointMetrics,
    /// Bytes of the state of each operator, in chain order.
    pub operator_state_bytes: Vec<u64>,
}

impl SubtaskStateStats {
    /// How long the checkpoint was on its way to the subtask and back: what is left of the time until the acknowledgement
    /// when all that the subtask did is taken away. What a slow channel costs is here.
    pub fn start_delay(&self) -> Duration {
        self.acknowledged_after.saturating_sub(self.metrics.duration())
    }
}

impl CheckpointStats {
    /// Bytes of all state, that of earlier checkpoints that is needed included. Flink's `getStateSize`.
    pub fn state_size(&self) -> u64 {
        self.acknowledged().map(|(_, subtask)| subtask.metrics.total_bytes_persisted).sum()
    }

    /// Bytes that were written for this checkpoint. Flink's `getCheckpointedSize`.
    pub fn checkpointed_size(&self) -> u64 {
        self.acknowledged().map(|(_, subtask)| subtask.metrics.bytes_persisted_of_this_checkpoint).sum()
    }

    /// Estimated bytes of the records that were processed during alignments. Flink's `getProcessedData`.
    pub fn processed_data(&self) -> u64 {
        self.acknowledged().map(|(_, subtask)| subtask.metrics.bytes_processed_during_alignment).sum()
    }

    /// Of a complete checkpoint: until the last subtask had acknowledged it. Of one that failed: until then. `None` while
    /// it is pending. Flink's `getEndToEndDuration`.
    pub fn end_to_end_duration(&self) -> Option<Duration> {
        match self.status {
            CheckpointStatsStatus::InProgress => None,
            CheckpointStatsStatus::Completed => self.latest_acknowledgement().map(|(_, it)| it.acknowledged_after),
            CheckpointStatsStatus::Failed(_) => self.ended_after,
        }
    }

    /// Bytes of the state of an operator in each subtask that has acknowledged.
    pub fn operator_state_bytes(&self, operator: &OperatorUid) -> Vec<(SubtaskId, u64)> {
        let bytes = |(subtask, stats): (SubtaskId, &SubtaskStateStats)| {
            let operators = &self.tasks[subtask.task as usize].operators;
            let index = operators.iter().position(|uid| uid == operator)?;
            Some((subtask, stats.operator_state_bytes.get(index).copied().unwrap_or(0)))
        };
        self.acknowledged().filter_map(bytes).collect()
    }

    /// The subtasks that have acknowledged.
    pub fn acknowledged(&self) -> impl Iterator<Item = (SubtaskId, &SubtaskStateStats)> {
        self.subtasks().filter_map(|(subtask, stats)| Some((subtask, stats?)))
    }

    /// The subtasks that were asked and have not acknowledged: of a checkpoint that expires, those that are late. None as long
    /// as nobody was asked ([`Self::is_begun`]), and none of a task that had finished before.
    pub fn not_acknowledged(&self) -> impl Iterator<Item = SubtaskId> {
        self.subtasks().filter(|(_, stats)| self.is_begun && stats.is_none()).map(|(subtask, _)| subtask)
    }

    /// The subtask that was the last to acknowledge.
    pub fn latest_acknowledgement(&self) -> Option<(SubtaskId, &SubtaskStateStats)> {
        self.acknowledged().max_by_key(|(_, stats)| stats.acknowledged_after)
    }

    /// A subtask as people know it: the uid of its first operator and its index.
    pub fn name_of(&self, subtask: SubtaskId) -> String {
        let task = self.tasks.get(subtask.task as usize);
        match task.and_then(|task| Some((task, task.operators.first()?))) {
            Some((task, head)) => format!("{head} ({} of {})", subtask.subtask, task.subtasks.len()),
            None => format!("subtask {subtask}"),
        }
    }

    fn subtasks(&self) -> impl Iterator<Item = (SubtaskId, Option<&SubtaskStateStats>)> {
        (0..).zip(&self.tasks).flat_map(|(task, stats)| {
            let subtasks = (0..).zip(&stats.subtasks);
            subtasks.map(move |(subtask, stats)| (SubtaskId { task, subtask }, stats.as_ref()))
        })
    }
}
