//! How a checkpoint that all have acknowledged becomes complete: its metadata is written, then its record is appended to the
//! job log. What it subsumes goes, and the final one ends the job as soon as everybody has settled it.

use highwater_state_api::{CheckpointId, StateHandle, SubtaskId};

use super::Coordinator;
use crate::job_log::CompletedCheckpoint;
use crate::log_writer::Outcome;
use crate::pending::Phase;
use crate::settling::Settling;
use crate::{Action, AttemptFailure, CheckpointFailure, CheckpointFailureReason, Discard, LogRecord, Now, paths};

impl Coordinator {
    pub(super) fn finalize_if_complete(&mut self, now: Now, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        let Some(pending) = self.pending.get_mut(&checkpoint).filter(|pending| pending.is_complete()) else {
            return;
        };
        match pending.metadata(&self.config, self.attempt, checkpoint) {
            Ok(metadata) => {
                pending.phase = Phase::Metadata;
                let path = paths::checkpoint_metadata(&self.config.job, self.attempt, checkpoint);
                let hooks = std::mem::take(&mut pending.hooks);
                actions.push(Action::WriteMetadata { checkpoint, path, metadata: Box::new(metadata), hooks });
            }
            Err(cause) => {
                let failure = CheckpointFailure::new(CheckpointFailureReason::FinalizeCheckpointFailure, cause);
                self.abort(now, checkpoint, failure, actions);
            }
        }
    }

    pub(super) fn metadata_written(
        &mut self,
        now_ms: u64,
        checkpoint: CheckpointId,
        metadata: StateHandle,
        actions: &mut Vec<Action>,
    ) {
        match self.pending.get_mut(&checkpoint) {
            Some(pending) if pending.phase == Phase::Metadata => {
                pending.phase = Phase::Publication;
                let record = LogRecord::Completed { attempt: self.attempt, checkpoint, metadata };
                self.log.push(now_ms, record, actions);
            }
            Some(_) => {}
            None => {
                let (job, attempt) = (self.config.job.clone(), self.attempt);
                self.discard_stray(&job, attempt, checkpoint, vec![metadata]);
            }
        }
    }

    pub(super) fn log_decided(&mut self, now: Now, outcome: Option<Outcome>, actions: &mut Vec<Action>) {
        match outcome {
            Some(Outcome::Appended { sequence, record: LogRecord::Completed { attempt, checkpoint, metadata } }) => {
                let completed = CompletedCheckpoint { sequence, attempt, checkpoint, metadata };
                self.completed(now, completed, actions);
                self.log.begin_next(now.monotonic_ms, actions);
            }
            Some(Outcome::Appended { .. }) => {
                self.fail_requests(CheckpointFailureReason::CoordinatorShutdown, actions);
                self.cleaner.end(actions);
                actions.push(Action::Finished);
                self.is_over = true;
            }
            Some(Outcome::Fenced { sequence }) => {
                // Whatever is pending may be the successor's concern by now: it is left to the successor to clean up.
                self.fail_requests(CheckpointFailureReason::CoordinatorShutdown, actions);
                actions.push(Action::Fail(AttemptFailure::Fenced { sequence }));
                self.is_over = true;
            }
            None => {}
        }
    }

    fn completed(&mut self, now: Now, completed: CompletedCheckpoint, actions: &mut Vec<Action>) {
        let checkpoint = completed.checkpoint;
        self.failures.completed(checkpoint);
        self.trigger.completed(now.monotonic_ms);
        actions.push(Action::NotifyComplete { checkpoint });
        let pending = self.pending.remove(&checkpoint);
        let settles = pending.as_ref().filter(|pending| pending.is_final).map(|it| it.plan.to_wait_for.clone());
        if let Some(pending) = &pending {
            self.tasks.completed(&pending.plan, checkpoint);
        }
        let requests = pending.into_iter().flat_map(|pending| pending.requests);
        actions.extend(requests.map(|request| Action::RequestCompleted { request, checkpoint }));
        let dropped = self.retention.add(&self.config.job, completed);
        for older in self.pending.range(..checkpoint).map(|(older, _)| *older).collect::<Vec<_>>() {
            self.abort(now, older, CheckpointFailureReason::Subsumed.into(), actions);
        }
        actions.extend(dropped.checkpoints.into_iter().map(|checkpoint| Action::NotifySubsumed { checkpoint }));
        dropped.folders.into_iter().for_each(|folder| self.cleaner.push(Discard::Folder(folder)));
        let records = dropped.records.iter().map(|record| paths::log_record(&self.config.job, *record));
        Discard::of_objects(&records.collect::<Vec<_>>()).for_each(|discard| self.cleaner.push(discard));
        if let Some(subtasks) = settles {
            if subtasks.is_empty() {
                self.finish(now.monotonic_ms, actions);
            }
            self.settling = Some(Settling::new(checkpoint, subtasks, now.monotonic_ms));
        }
    }

    pub(super) fn subtask_settled(
        &mut self,
        now_ms: u64,
        subtask: SubtaskId,
        checkpoint: CheckpointId,
        actions: &mut Vec<Action>,
    ) {
        self.tasks.settled(subtask, checkpoint);
        if self.settling.as_mut().is_some_and(|settling| settling.settled(subtask, checkpoint)) {
            self.finish(now_ms, actions);
        }
    }

    /// Everybody has settled the final checkpoint. While a region is restarted its claim is on the way to the same number of the
    /// log: then it is the next attempt that ends the job.
    fn finish(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if !self.is_failing_over {
            self.log.push(now_ms, LogRecord::Finished { attempt: self.attempt }, actions);
        }
    }
}
