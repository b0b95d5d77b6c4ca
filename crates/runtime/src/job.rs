//! A running job as its owner sees it: handle, status and result.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use highwater_checkpoint::{CheckpointStatsCounts, CheckpointStatsSnapshot, CheckpointStatsTracker, Now, PoisonRecord};
use highwater_state_api::{Attempt, CheckpointId, OperatorUid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Sleep, sleep};

use crate::JobError;
use crate::checkpoint_coordinator::{Ask, CheckpointCoordinator, PendingCheckpoint};
use crate::fall_back::DamagedCheckpoint;
use crate::master::SharedStats;
use crate::metrics::SubtaskMetrics;

/// How long a cancelled job waits for its storage.
const CANCEL_DEADLINE: Duration = Duration::from_secs(2);

/// A job that was started. Waited for with [`JobHandle::wait`], or awaited. Dropping it lets the job run on.
#[derive(Debug)]
pub struct JobHandle {
    pub(crate) result: oneshot::Receiver<Result<JobResult, JobError>>,
    pub(crate) cancelled: watch::Sender<bool>,
    pub(crate) coordinator: CheckpointCoordinator,
    pub(crate) board: Arc<StatusBoard>,
}

/// Where a job hears what its owner wants.
pub(crate) struct Owner {
    /// Whether the job is to stop where it is. A state and not a message: no queue can be in its way.
    pub(crate) cancelled: watch::Receiver<bool>,
    /// What is asked of its coordinator.
    pub(crate) asks: mpsc::Receiver<Ask>,
    /// Ends some time after it was first seen that the job is cancelled.
    grace: Option<Pin<Box<Sleep>>>,
}

impl Owner {
    /// Of a job that is not cancelled yet.
    pub(crate) fn new(cancelled: watch::Receiver<bool>, asks: mpsc::Receiver<Ask>) -> Self {
        Self { cancelled, asks, grace: None }
    }

    /// Whether the job is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits until the job has been cancelled for [`CANCEL_DEADLINE`], however much of that was spent on other waits.
    pub(crate) async fn cancel_overdue(&mut self) {
        self.cancel().await;
        if let Some(grace) = self.grace.as_mut().filter(|grace| !grace.is_elapsed()) {
            grace.await;
        }
    }

    /// Begins the time of [`Self::cancel_overdue`] anew.
    pub(crate) fn wait_anew(&mut self) {
        self.grace = None;
    }

    /// Waits for something else than the storage, which does not count for [`Self::cancel_overdue`].
    pub(crate) async fn aside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let was_over = self.grace.as_ref().is_some_and(|grace| grace.is_elapsed());
        let done = other.await;
        if !was_over {
            self.wait_anew();
        }
        done
    }

    /// Waits until the job is cancelled.
    pub(crate) async fn cancel(&mut self) {
        until_cancelled(&mut self.cancelled).await;
        begin(&mut self.grace);
    }

    /// Waits for what is asked next; `None` when the job is cancelled.
    pub(crate) async fn next(&mut self) -> Option<Ask> {
        let Self { cancelled, asks, grace } = self;
        tokio::select! {
            biased;
            () = until_cancelled(cancelled) => {
                begin(grace);
                None
            }
            ask = async {
                match asks.recv().await {
                    Some(ask) => ask,
                    // Every handle was dropped: nobody will ask for anything any more.
                    None => std::future::pending().await,
                }
            } => Some(ask),
        }
    }
}

fn begin(grace: &mut Option<Pin<Box<Sleep>>>) {
    grace.get_or_insert_with(|| Box::pin(sleep(CANCEL_DEADLINE)));
}

pub(crate) async fn until_cancelled(cancelled: &mut watch::Receiver<bool>) {
    if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
        // The handle was dropped: nobody will cancel any more.
        std::future::pending::<()>().await;
    }
}

impl JobHandle {
    /// Waits until the job has ended. Must not be called from asynchronous code, which can await the handle instead.
    pub fn wait(self) -> Result<JobResult, JobError> {
        self.result.blocking_recv().unwrap_or_else(|_| Err(lost()))
    }

    /// Asks the job to stop where it is. It goes on from its last checkpoint when it is started again, unless
    /// [`crate::ExternalizedCheckpointRetention`] says that a cancelled job keeps none.
    ///
    /// It ends with [`JobError::Cancelled`] as soon as its tasks have stopped and the storage has answered. For a storage that
    /// hangs it waits two seconds; if that has not told by then what became of the record of a checkpoint that was being appended
    /// to the job log, it ends with [`JobError::CancelledUndecided`]. For code of its tasks that blocks, and for a sink that waits
    /// for the storage or its target, it waits 30 seconds, and ends with [`JobError::Threads`]. Where its checkpoints are to be
    /// deleted it waits up to 30 seconds more for that. A job that turns out to have finished meanwhile ends as finished, and takes
    /// up to two seconds more for what it deletes then, as a cancelled one does for deletions that are under way.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Asks for a checkpoint now, see [`CheckpointCoordinator::trigger_checkpoint`].
    pub fn trigger_checkpoint(&self) -> PendingCheckpoint {
        self.coordinator.trigger_checkpoint()
    }

    /// What can be asked about checkpoints, for whoever does not have this handle.
    pub fn checkpoint_coordinator(&self) -> CheckpointCoordinator {
        self.coordinator.clone()
    }

    /// How the job stands now.
    pub fn status(&self) -> JobStatus {
        self.board.status()
    }

    /// How checkpoints went and go: sizes, durations, who is late, why some failed. It is a text too. Flink's
    /// `getCheckpointStats`.
    pub fn checkpoint_stats(&self) -> CheckpointStatsSnapshot {
        self.board.checkpoint_stats_snapshot()
    }

    /// Something that tells how the job stands, also after this handle was consumed.
    pub fn monitor(&self) -> JobMonitor {
        JobMonitor(self.board.clone())
    }
}

impl Future for JobHandle {
    type Output = Result<JobResult, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map(|result| result.unwrap_or_else(|_| Err(lost())))
    }
}

fn lost() -> JobError {
    JobError::Threads("the coordinator's thread was lost".to_owned())
}

/// Tells how a job stands.
#[derive(Debug, Clone)]
pub struct JobMonitor(Arc<StatusBoard>);

impl JobMonitor {
    /// How the job stands now.
    pub fn status(&self) -> JobStatus {
        self.0.status()
    }

    /// How checkpoints went and go, see [`JobHandle::checkpoint_stats`].
    pub fn checkpoint_stats(&self) -> CheckpointStatsSnapshot {
        self.0.checkpoint_stats_snapshot()
    }
}

/// How a job ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// All input was processed.
    Finished,
    /// All input had been processed before: nothing was done.
    AlreadyFinished,
}

/// The result of a job.
#[derive(Debug, Clone)]
pub struct JobResult {
    /// How it ended.
    pub outcome: JobOutcome,
    /// How it stood then.
    pub status: JobStatus,
}

/// How a job stands. Counters are of this process; they are not part of checkpoints.
#[derive(Debug, Clone, Default)]
pub struct JobStatus {
    /// The attempt that is running, or ran last.
    pub attempt: Option<Attempt>,
    /// The checkpoint that the attempt went on from.
    pub restored_from: Option<CheckpointId>,
    /// Newer checkpoints that were damaged, newest first: the attempt went on from an older one, as the settings allow.
    pub damaged_checkpoints: Vec<DamagedCheckpoint>,
    /// How often the job was restarted by this process.
    pub restarts: u32,
    /// A record that probably makes the job fail whenever it is read; gone when a checkpoint is complete, since the job has
    /// got on.
    pub suspected_poison_record: Option<PoisonRecord>,
    /// How many of these restarts were of one region of the job, while the tasks of the others went on.
    pub regional_restarts: u32,
    /// How many checkpoints were completed by this process.
    pub checkpoints_completed: u64,
    /// The last complete checkpoint.
    pub last_checkpoint: Option<CheckpointId>,
    /// How many checkpoints failed in this process. As in [`CheckpointStatsSnapshot::counts`], which are the same numbers, those
    /// count too that were pending when their attempt or the job ended, though the job log may say that one is complete.
    pub checkpoints_failed: u64,
    /// Records read from sources by this process, those read again after a restart included.
    pub records_read: u64,
    /// Records that had to be read again because the job was restarted by this process.
    pub records_replayed: u64,
    /// Records that came too late to be used.
    pub late_records: u64,
    /// Records taken in by each subtask of the running attempt.
    pub subtasks: Vec<SubtaskStatus>,
}

/// How a subtask stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtaskStatus {
    /// The uid of the head of its chain.
    pub operator: OperatorUid,
    /// Its index.
    pub subtask: u32,
    /// Records it has taken in.
    pub records_in: u64,
}

/// The statistics, also after a panic: they are for people.
pub(crate) fn locked(stats: &SharedStats) -> MutexGuard<'_, CheckpointStatsTracker> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the driver writes how the job stands.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    board: Mutex<Board>,
    checkpoint_stats: SharedStats,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    /// What does not change with the records; counters in it are of attempts that have ended.
    pub(crate) status: JobStatus,
    /// The subtasks of the running attempt.
    pub(crate) running: Vec<RunningSubtask>,
    /// Whether the job has ended in this process.
    has_ended: bool,
}

#[derive(Debug)]
pub(crate) struct RunningSubtask {
    pub(crate) task: u32,
    pub(crate) operator: OperatorUid,
    pub(crate) subtask: u32,
    pub(crate) is_source: bool,
    pub(crate) metrics: Arc<SubtaskMetrics>,
    /// For a source: records that are before the last complete checkpoint.
    pub(crate) covered: u64,
}

impl StatusBoard {
    /// A board that remembers so many checkpoints that have ended.
    pub(crate) fn new(history: usize) -> Self {
        let tracker = CheckpointStatsTracker::new(history);
        Self { board: Mutex::default(), checkpoint_stats: Arc::new(Mutex::new(tracker)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn checkpoint_stats(&self) -> SharedStats {
        self.checkpoint_stats.clone()
    }

    /// A claim tells what an attempt goes on from, and with that what became of what the one before had left pending. `damaged` are
    /// newer checkpoints, which it has passed over. Whether the job goes on in this process.
    pub(crate) fn claimed(
        &self,
        now: Now,
        attempt: Attempt,
        restored: Option<CheckpointId>,
        damaged: &[DamagedCheckpoint],
    ) -> bool {
        // A start that was given up when the job ended may come as far as this.
        if self.lock().has_ended {
            return false;
        }
        let counts = {
            let mut stats = locked(&self.checkpoint_stats);
            stats.claimed(now, restored);
            stats.snapshot().counts
        };
        let mut board = self.lock();
        board.count_checkpoints(counts);
        let status = &mut board.status;
        (status.attempt, status.restored_from) = (Some(attempt), restored);
        // What is newer was dropped; or the claim has found one whose append was open.
        status.last_checkpoint = status.last_checkpoint.and(restored);
        for one in damaged {
            if status.damaged_checkpoints.iter().all(|known| known.checkpoint != one.checkpoint) {
                status.damaged_checkpoints.push(one.clone());
            }
        }
        status.damaged_checkpoints.sort_by_key(|one| Reverse(one.checkpoint));
        true
    }

    /// The job has ended in this process.
    pub(crate) fn end_job(&self, now: Now) {
        self.lock().has_ended = true;
        let counts = {
            let mut stats = locked(&self.checkpoint_stats);
            stats.end_job(now);
            stats.snapshot().counts
        };
        self.lock().count_checkpoints(counts);
    }

    fn checkpoint_stats_snapshot(&self) -> CheckpointStatsSnapshot {
        locked(&self.checkpoint_stats).snapshot()
    }

    pub(crate) fn status(&self) -> JobStatus {
        let board = self.lock();
        let mut status = board.status.clone();
        for running in &board.running {
            let records_in = running.metrics.records_in();
            status.records_read += if running.is_source { records_in } else { 0 };
            status.late_records += running.metrics.late_records();
            status.subtasks.push(SubtaskStatus {
                operator: running.operator.clone(),
                subtask: running.subtask,
                records_in,
            });
        }
        status
    }
}

impl Board {
    /// The newest complete checkpoint that this process knows of: its own, or the one that it went on from.
    pub(crate) fn newest_checkpoint(&self) -> Option<CheckpointId> {
        self.status.last_checkpoint.max(self.status.restored_from)
    }

    /// An attempt begins or the job has ended, so that it is known what counts of what was still pending.
    pub(crate) fn count_checkpoints(&mut self, counts: CheckpointStatsCounts) {
        (self.status.checkpoints_completed, self.status.checkpoints_failed) = (counts.completed, counts.failed);
    }

    /// A checkpoint of the running attempt is complete.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) {
        self.status.checkpoints_completed += 1;
        self.status.last_checkpoint = Some(checkpoint);
        self.status.suspected_poison_record = None;
        for running in self.running.iter_mut().filter(|running| running.is_source) {
            running.covered = running.metrics.records_before(checkpoint).unwrap_or(running.covered);
        }
    }

    /// The running attempt is over and will be followed by another: what is not in a checkpoint is read again.
    pub(crate) fn restarting(&mut self) {
        self.restarting_if(|_| true);
    }

    /// The same for these tasks alone: the others go on in the next attempt.
    pub(crate) fn restarting_region(&mut self, tasks: &BTreeSet<u32>) {
        self.restarting_if(|running| tasks.contains(&running.task));
        self.status.regional_restarts += 1;
    }

    fn restarting_if(&mut self, is_restarted: impl Fn(&RunningSubtask) -> bool) {
        for running in self.running.extract_if(.., |running| is_restarted(running)) {
            self.status.late_records += running.metrics.late_records();
            if running.is_source {
                let records_in = running.metrics.records_in();
                self.status.records_read += records_in;
                self.status.records_replayed += records_in - running.covered;
            }
        }
        self.status.restarts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fall_back::Damage;

    /// Contract: M246.
    #[test]
    fn after_a_fall_back_nothing_names_what_was_dropped_but_the_list_of_the_damaged() {
        let board = StatusBoard::new(10);
        board.lock().completed(CheckpointId(3));
        // One whose append was open turns out to be complete.
        board.claimed(Now::default(), Attempt(4), Some(CheckpointId(4)), &[]);
        assert_eq!(board.status().last_checkpoint, Some(CheckpointId(4)));
        let damaged = DamagedCheckpoint::new(CheckpointId(3), &Damage::new("cut off"));
        board.claimed(Now::default(), Attempt(5), Some(CheckpointId(2)), std::slice::from_ref(&damaged));
        let newer = DamagedCheckpoint { checkpoint: CheckpointId(5), cause: String::new() };
        board.claimed(Now::default(), Attempt(6), Some(CheckpointId(2)), std::slice::from_ref(&newer));
        let status = board.status();
        assert_eq!((status.last_checkpoint, status.restored_from), (Some(CheckpointId(2)), Some(CheckpointId(2))));
        assert_eq!(board.lock().newest_checkpoint(), Some(CheckpointId(2)));
        assert_eq!(status.damaged_checkpoints, [newer, damaged]);
    }
}
