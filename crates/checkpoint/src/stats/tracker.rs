//! Collects how checkpoints went from what the coordinator is told and says, over all attempts of a job.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use highwater_state_api::{Attempt, CheckpointId, JobName};

use super::{CheckpointStats, CheckpointStatsStatus, SubtaskStateStats, TaskStateStats};
use crate::{Acknowledgement, Action, CheckpointFailure, CheckpointFailureReason, CoordinatorConfig, Event, Now};

/// Collects how checkpoints went. Flink's `CheckpointStatsTracker`.
///
/// It looks at what goes into a [`crate::Coordinator`] and at what comes out, and nobody depends on it.
#[derive(Debug, Clone)]
pub struct CheckpointStatsTracker {
    /// How many checkpoints that have ended are remembered.
    history_max: usize,
    attempt: Option<(JobName, Attempt)>,
    /// The tasks of the job, without anything acknowledged.
    tasks: Vec<TaskStateStats>,
    pending: BTreeMap<CheckpointId, Pending>,
    /// Newest last.
    history: VecDeque<Ended>,
    counts: CheckpointStatsCounts,
    restored: Option<CheckpointId>,
    latest_completed: Option<Arc<CheckpointStats>>,
    latest_failed: Option<Arc<CheckpointStats>>,
}

#[derive(Debug, Clone)]
struct Pending {
    /// On the monotonic clock.
    triggered_at_ms: u64,
    stats: CheckpointStats,
}

#[derive(Debug, Clone)]
struct Ended {
    /// On the monotonic clock.
    triggered_at_ms: u64,
    stats: Arc<CheckpointStats>,
}

/// How many checkpoints there were. Flink's `CheckpointStatsCounts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointStatsCounts {
    /// How often an attempt went on from a checkpoint.
    pub restored: u64,
    /// How many are pending.
    pub in_progress: u64,
    /// How many were completed.
    pub completed: u64,
    /// How many failed.
    pub failed: u64,
}

/// How checkpoints went until a moment. Flink's `CheckpointStatsSnapshot`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointStatsSnapshot {
    /// How many there were.
    pub counts: CheckpointStatsCounts,
    /// Those that are pending, oldest first.
    pub pending: Vec<CheckpointStats>,
    /// The last that have ended, newest first. Their number has a bound.
    pub history: Vec<Arc<CheckpointStats>>,
    /// The last complete one, also when it is not in the history any more.
    pub latest_completed: Option<Arc<CheckpointStats>>,
    /// The last that failed, also when it is not in the history any more.
    pub latest_failed: Option<Arc<CheckpointStats>>,
    /// The checkpoint that the last attempt went on from.
    pub restored: Option<CheckpointId>,
}

impl CheckpointStatsTracker {
    /// A tracker that remembers so many checkpoints that have ended.
    pub fn new(history_max: usize) -> Self {
        Self {
            history_max,
            attempt: None,
            tasks: Vec::new(),
            pending: BTreeMap::new(),
            history: VecDeque::new(),
            counts: CheckpointStatsCounts::default(),
            restored: None,
            latest_completed: None,
            latest_failed: None,
        }
    }

    /// An attempt has claimed the job. Of what an earlier one has left pending, the restored checkpoint was complete and no
    /// other.
    pub fn claimed(&mut self, now: Now, restored: Option<CheckpointId>) {
        for checkpoint in self.pending.keys().copied().collect::<Vec<_>>() {
            let status = if restored == Some(checkpoint) {
                CheckpointStatsStatus::Completed
            } else {
                CheckpointStatsStatus::Failed(CheckpointFailureReason::CoordinatorShutdown.into())
            };
            self.ended(now, checkpoint, status);
        }
    }

    /// An attempt begins, which has claimed the job.
    pub fn begin_attempt(
        &mut self,
        now: Now,
        attempt: Attempt,
        restored: Option<CheckpointId>,
        config: &CoordinatorConfig,
    ) {
        self.claimed(now, restored);
        self.attempt = Some((config.job.clone(), attempt));
        self.restored = restored;
        self.counts.restored += u64::from(restored.is_some());
        let task = |task: &crate::TaskPlan| TaskStateStats {
            operators: task.operators.iter().map(|operator| operator.uid.clone()).collect(),
            subtasks: vec![None; task.parallelism as usize],
        };
        self.tasks = config.tasks.iter().map(task).collect();
    }

    /// The job has ended in this process, so that nobody hears any more what becomes of what is pending: of an attempt that was
    /// fenced, or that ended before the job log had told. It counts as failed, as what is pending does when Flink's coordinator
    /// shuts down.
    pub fn end_job(&mut self, now: Now) {
        let reason = CheckpointFailureReason::CoordinatorShutdown;
        let failure = CheckpointFailure::new(reason, "it was pending when the job ended in this process");
        for checkpoint in self.pending.keys().copied().collect::<Vec<_>>() {
            self.failed(now, checkpoint, failure.clone());
        }
    }

    /// Looks at what the coordinator is told.
    pub fn on_event(&mut self, now: Now, event: &Event) {
        if let Event::Acknowledged(acknowledgement) = event {
            self.acknowledged(now, acknowledgement);
        }
    }

    /// Looks at what the coordinator says.
    pub fn on_action(&mut self, now: Now, action: &Action) {
        match action {
            Action::InitializeLocation { checkpoint, .. } => self.triggered(now, *checkpoint),
            Action::TriggerSubtasks { checkpoint, finished, .. } => {
                if let Some(pending) = self.pending.get_mut(checkpoint) {
                    pending.stats.is_begun = true;
                    for task in finished {
                        pending.stats.tasks[*task as usize].subtasks.clear();
                    }
                }
            }
            Action::NotifyComplete { checkpoint } | Action::NoteComplete { checkpoint } => {
                self.ended(now, *checkpoint, CheckpointStatsStatus::Completed);
            }
            Action::NotifyAborted { checkpoint, failure, .. } => self.failed(now, *checkpoint, failure.clone()),
            _ => {}
        }
    }

    /// How checkpoints went until now.
    pub fn snapshot(&self) -> CheckpointStatsSnapshot {
        CheckpointStatsSnapshot {
            counts: CheckpointStatsCounts { in_progress: self.pending.len() as u64, ..self.counts },
            pending: self.pending.values().map(|pending| pending.stats.clone()).collect(),
            history: self.history.iter().rev().map(|ended| ended.stats.clone()).collect(),
            latest_completed: self.latest_completed.clone(),
            latest_failed: self.latest_failed.clone(),
            restored: self.restored,
        }
    }

    fn triggered(&mut self, now: Now, checkpoint: CheckpointId) {
        let Some((_, attempt)) = &self.attempt else { return };
        let stats = CheckpointStats {
            attempt: *attempt,
            checkpoint,
            triggered_at_ms: now.wall_clock_ms,
            status: CheckpointStatsStatus::InProgress,
            ended_after: None,
            is_begun: false,
            tasks: self.tasks.clone(),
        };
        self.pending.insert(checkpoint, Pending { triggered_at_ms: now.monotonic_ms, stats });
    }

    fn failed(&mut self, now: Now, checkpoint: CheckpointId, failure: CheckpointFailure) {
        self.ended(now, checkpoint, CheckpointStatsStatus::Failed(failure));
    }

    fn ended(&mut self, now: Now, checkpoint: CheckpointId, status: CheckpointStatsStatus) {
        // The completion of the last one is said again and again.
        let Some(Pending { triggered_at_ms, mut stats }) = self.pending.remove(&checkpoint) else { return };
        stats.status = status;
        stats.ended_after = Some(since(now, triggered_at_ms));
        let stats = Arc::new(stats);
        if stats.status == CheckpointStatsStatus::Completed {
            self.counts.completed += 1;
            self.latest_completed = Some(stats.clone());
        } else {
            self.counts.failed += 1;
            self.latest_failed = Some(stats.clone());
        }
        self.history.push_back(Ended { triggered_at_ms, stats });
        while self.history.len() > self.history_max {
            self.history.pop_front();
        }
    }

    /// Also one that comes too late is of interest: it says how late.
    fn acknowledged(&mut self, now: Now, acknowledgement: &Acknowledgement) {
        let Acknowledgement { job, attempt, checkpoint, subtask, snapshot, metrics } = acknowledgement;
        if self.attempt.as_ref().is_none_or(|(own, current)| own != job || current != attempt) {
            return;
        }
        let note = |triggered_at_ms: u64, stats: &mut CheckpointStats| {
            let task = stats.tasks.get_mut(subtask.task as usize);
            let slot = task.and_then(|task| task.subtasks.get_mut(subtask.subtask as usize));
            if let Some(slot @ None) = slot {
                *slot = Some(SubtaskStateStats {
                    acknowledged_after: since(now, triggered_at_ms),
                    metrics: *metrics,
                    operator_state_bytes: snapshot.operators.iter().map(|(_, it)| it.state_bytes()).collect(),
                });
            }
        };
        if let Some(pending) = self.pending.get_mut(checkpoint) {
            note(pending.triggered_at_ms, &mut pending.stats);
            return;
        }
        let is_it = |ended: &&mut Ended| ended.stats.checkpoint == *checkpoint && ended.stats.attempt == *attempt;
        if let Some(ended) = self.history.iter_mut().rev().find(is_it) {
            note(ended.triggered_at_ms, Arc::make_mut(&mut ended.stats));
            if self.latest_failed.as_ref().is_some_and(|latest| latest.checkpoint == *checkpoint) {
                self.latest_failed = Some(ended.stats.clone());
            }
        }
    }
}

fn since(now: Now, then_ms: u64) -> Duration {
    Duration::from_millis(now.monotonic_ms.saturating_sub(then_ms))
}
