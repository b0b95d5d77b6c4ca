//! The coordinator of one attempt: triggers checkpoints, collects what comes of them, publishes them one after another.
//!
//! A checkpoint goes through location, enumerators, hooks, acknowledgements, metadata and publication ([`Phase`]). Until its
//! record is being appended to the job log it may be aborted; from then on the log alone decides. What answers to nothing
//! that is pending is dropped in one place, [`Coordinator::discard_stray`].
//!
//! Here events are taken and given to whom they belong, and acknowledgements are collected; the other steps have rooms of
//! their own.

mod begin;
mod due;
mod end;
mod failover;
mod publish;

use std::collections::BTreeMap;

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath};

use crate::cleaner::Cleaner;
use crate::config::CoordinatorConfig;
use crate::failure_count::FailureCount;
use crate::job_log::AttemptStart;
use crate::log_writer::{LogWriter, Outcome};
use crate::pending::{Pending, Phase};
use crate::request::RequestQueue;
use crate::retention::Retention;
use crate::settling::Settling;
use crate::task_progress::TaskProgress;
use crate::trigger::Trigger;
use crate::{
    Acknowledgement, Action, AttemptFailure, CheckpointFailure, CheckpointFailureReason, Decline, Discard, Event, Now,
    paths,
};

/// How many checkpoints may wait for the job log, written but not published. While there are as many, none is triggered.
const PUBLICATIONS_MAX: usize = 8;

/// The coordinator of one attempt of one job.
#[derive(Debug, Clone)]
pub struct Coordinator {
    config: CoordinatorConfig,
    attempt: Attempt,
    next_checkpoint: CheckpointId,
    tasks: TaskProgress,
    trigger: Trigger,
    requests: RequestQueue,
    pending: BTreeMap<CheckpointId, Pending>,
    log: LogWriter,
    retention: Retention,
    failures: FailureCount,
    cleaner: Cleaner,
    /// Whether hooks of the application take part in checkpoints.
    has_hooks: bool,
    settling: Option<Settling>,
    /// A region of the job has failed: what is being appended is decided, and nothing else is begun.
    is_failing_over: bool,
    /// Nothing is done any more: finished, failed, fenced or shut down.
    is_over: bool,
}

impl Coordinator {
    /// The coordinator of an attempt that has claimed the job.
    pub fn new(config: CoordinatorConfig, start: AttemptStart) -> Self {
        Self {
            attempt: start.attempt,
            next_checkpoint: start.first_checkpoint,
            tasks: TaskProgress::new(&config),
            trigger: Trigger::new(&config),
            requests: RequestQueue::default(),
            pending: BTreeMap::new(),
            log: LogWriter::new(start.next_sequence, config.timeout_ms.max(1)),
            retention: Retention::new(config.retain, &start),
            failures: FailureCount::new(config.tolerable_failures),
            cleaner: Cleaner::default(),
            has_hooks: false,
            settling: None,
            is_failing_over: false,
            is_over: false,
            config,
        }
    }

    /// Takes checkpoints at this interval while a source works through a backlog; 0: none but those that are asked for.
    pub fn with_backlog_interval(mut self, interval_ms: u64) -> Self {
        self.trigger.set_backlog_interval(interval_ms);
        self
    }

    /// Does not wait for the interval before the first periodic checkpoint, only for the minimum pause.
    pub fn with_early_first_checkpoint(mut self) -> Self {
        self.trigger.set_first_early();
        self
    }

    /// Has hooks of the application take part in each checkpoint, before its subtasks do.
    pub fn with_hooks(mut self) -> Self {
        self.has_hooks = true;
        self
    }

    /// Deletes what dead attempts have left, beside the checkpoints.
    pub fn with_left_overs(mut self, left_overs: Vec<Discard>) -> Self {
        self.cleaner.push_left_overs(left_overs);
        self
    }

    /// The job.
    pub fn job(&self) -> &JobName {
        &self.config.job
    }

    /// The id that the next checkpoint will have.
    pub fn next_checkpoint(&self) -> CheckpointId {
        self.next_checkpoint
    }

    /// The checkpoints that were triggered and have not come to an end, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> {
        self.pending.keys().copied()
    }

    /// The checkpoint about which the job log alone decides: its record is being appended. Also an attempt that is over hears what
    /// became of it.
    pub fn undecided(&self) -> Option<CheckpointId> {
        self.log.undecided().filter(|checkpoint| self.pending.contains_key(checkpoint))
    }

    /// Takes what happened and says what is to be done.
    pub fn on_event(&mut self, now: Now, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            // Whoever asks is answered, also when it is too late.
            Event::CheckpointRequested { id, .. } if self.is_over => {
                actions.push(Action::RequestFailed {
                    request: id,
                    failure: CheckpointFailureReason::CoordinatorShutdown.into(),
                });
            }
            event if self.is_over => self.late_answer(now, event, &mut actions),
            event => self.handle(now, event, &mut actions),
        }
        if !self.is_over {
            self.on_time(now, &mut actions);
        }
        actions
    }

    /// Whether every subtask has reported that it runs: what it restored is settled. Stays true.
    pub fn all_running(&self) -> bool {
        self.trigger.is_running()
    }

    /// How much that nothing can need any more is not deleted yet.
    pub fn discards_outstanding(&self) -> usize {
        self.cleaner.backlog()
    }

    /// When to send [`Event::Tick`] if nothing else happens before, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        let undecided = self.pending.iter().filter(|(checkpoint, _)| !self.log.has_begun(**checkpoint));
        let expiry = undecided.map(|(_, pending)| pending.expires_at_ms).min();
        let may_trigger = || {
            let is_barred = self.tasks.missing().is_some() || self.is_failing_over;
            !is_barred && self.has_room() && !self.is_beginning()
        };
        let trigger = self.trigger.next_deadline().filter(|_| may_trigger());
        let reminder = self.settling.as_ref().and_then(Settling::next_deadline);
        // With tasks alone that had finished before there is nobody to be waited for, and nobody who says anything.
        let at_once = (self.tasks.is_running() && !self.trigger.is_running()).then_some(0);
        let deadlines = [expiry, trigger, self.log.next_deadline(), reminder, self.cleaner.next_deadline(), at_once];
        deadlines.into_iter().flatten().min()
    }

    fn handle(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        let now_ms = now.monotonic_ms;
        match event {
            Event::Tick => {}
            Event::SubtaskRunning { subtask } => self.tasks.running(subtask),
            Event::SubtaskEnded { subtask } => self.tasks.ended(subtask),
            Event::SubtaskSettled { subtask, checkpoint } => {
                self.subtask_settled(now_ms, subtask, checkpoint, actions);
            }
            Event::CheckpointRequested { id, request } => self.requested(now_ms, id, request, actions),
            Event::BacklogChanged { is_processing_backlog } => self.trigger.set_backlog(now_ms, is_processing_backlog),
            Event::SchedulerStarted => self.trigger.start_periodic(now_ms),
            Event::SchedulerStopped => self.suspend(now, actions),
            Event::LocationInitialized { checkpoint } => self.location_initialized(checkpoint, actions),
            Event::LocationFailed { checkpoint, cause } => self.location_failed(now, checkpoint, cause, actions),
            Event::EnumeratorsSnapshotted { checkpoint, states } => {
                self.enumerators_snapshotted(now, checkpoint, states, actions);
            }
            Event::EnumeratorFailed { checkpoint, operator, cause } => {
                self.enumerator_failed(now, checkpoint, &operator, &cause, actions);
            }
            Event::HooksTriggered { checkpoint, states } => self.hooks_triggered(now, checkpoint, states, actions),
            Event::HookFailed { checkpoint, identifier, cause } => {
                self.hook_failed(now, checkpoint, identifier.as_deref(), &cause, actions);
            }
            Event::Acknowledged(acknowledgement) => self.acknowledged(now, acknowledgement, actions),
            Event::Declined(decline) => self.declined(now, decline, actions),
            Event::MetadataWritten { checkpoint, metadata } => {
                self.metadata_written(now_ms, checkpoint, metadata, actions);
            }
            Event::MetadataFailed { checkpoint, cause } => {
                if self.is_in(checkpoint, Phase::Metadata) {
                    let message = format!("its metadata could not be written: {cause}");
                    let reason = CheckpointFailureReason::FinalizeCheckpointFailure;
                    self.abort(now, checkpoint, CheckpointFailure::new(reason, message), actions);
                }
            }
            Event::LogAppended { sequence } => {
                let outcome = self.log.appended(sequence);
                self.log_decided(now, outcome, actions);
            }
            Event::LogTaken { sequence } => self.log.taken(now_ms, sequence, actions),
            Event::LogUnknown { sequence, cause } => self.log.unknown(now_ms, sequence, cause, actions),
            Event::LogRead { sequence, record } => {
                let outcome = self.log.read(now_ms, sequence, record);
                self.log_decided(now, outcome, actions);
            }
            Event::LogReadFailed { sequence, cause } => self.log.read_failed(now_ms, sequence, cause),
            Event::Discarded { id } => self.cleaner.discarded(id),
            Event::DiscardFailed { id } => self.cleaner.failed(now_ms, id),
            Event::Fenced { sequence } => self.log_decided(now, Some(Outcome::Fenced { sequence }), actions),
            Event::LeaseExpired { lease_ms, cause } => {
                self.end(&CheckpointFailureReason::CoordinatorShutdown.into(), actions);
                actions.push(Action::Fail(AttemptFailure::LeaseExpired { lease_ms, cause }));
            }
            Event::TaskFailed { subtask, cause } => {
                let message = format!("{}: {cause}", self.config.name_of(subtask));
                self.end(&CheckpointFailure::new(CheckpointFailureReason::TaskFailure, message), actions);
            }
            Event::RegionFailed { subtask, cause } => self.region_failed(subtask, &cause, actions),
            Event::Shutdown => self.end(&CheckpointFailureReason::CoordinatorShutdown.into(), actions),
        }
    }

    fn on_time(&mut self, now: Now, actions: &mut Vec<Action>) {
        let now_ms = now.monotonic_ms;
        if self.tasks.is_running() {
            self.trigger.running(now_ms);
        }
        if self.tasks.has_ended() {
            self.trigger.ended(now_ms);
        }
        if let Some(failure) = self.log.unavailable(now_ms) {
            self.end(&CheckpointFailureReason::CoordinatorShutdown.into(), actions);
            actions.push(Action::Fail(failure));
            return;
        }
        self.log.on_time(now_ms, actions);
        let expired = |(checkpoint, pending): (&CheckpointId, &Pending)| {
            (pending.expires_at_ms <= now_ms && !self.log.has_begun(*checkpoint)).then_some(*checkpoint)
        };
        for checkpoint in self.pending.iter().filter_map(expired).collect::<Vec<_>>() {
            let late = self.pending.get(&checkpoint).map(|pending| pending.late(&self.config)).unwrap_or_default();
            let failure = CheckpointFailure::new(CheckpointFailureReason::Expired, late);
            self.abort(now, checkpoint, failure, actions);
            if self.is_over {
                return;
            }
        }
        // Everybody goes at once when the job is done; and who has finished while tasks are restarted is told by the next attempt.
        if self.settling.is_none() && !self.is_failing_over {
            let subtasks = self.tasks.take_gone(self.pending.values().map(|pending| &pending.plan));
            actions.extend((!subtasks.is_empty()).then_some(Action::FinishSubtasks { subtasks }));
        }
        if let Some(checkpoint) = self.settling.as_mut().and_then(|settling| settling.reminder(now_ms)) {
            actions.push(Action::NotifyComplete { checkpoint });
        }
        while !self.is_beginning()
            && !self.is_failing_over
            && let Some(reason) = self.due(now_ms, actions)
        {
            self.trigger(now, reason, actions);
        }
        self.cleaner.on_time(now_ms, actions);
    }

    fn acknowledged(&mut self, now: Now, acknowledgement: Acknowledgement, actions: &mut Vec<Action>) {
        let Acknowledgement { job, attempt, checkpoint, subtask, snapshot, .. } = acknowledgement;
        let is_known = self.is_ours(&job, attempt) && self.tasks.contains(subtask);
        match self.pending.get_mut(&checkpoint).filter(|pending| is_known && pending.includes(subtask)) {
            // All subtasks are in: this one, again.
            Some(pending) if matches!(pending.phase, Phase::Metadata | Phase::Publication) => {}
            Some(pending) => {
                pending.acknowledged(subtask, snapshot);
                self.finalize_if_complete(now, checkpoint, actions);
            }
            None => {
                let handles = snapshot.operators.iter().flat_map(|(_, snapshot)| snapshot.handles());
                self.discard_stray(&job, attempt, checkpoint, handles.cloned().collect());
            }
        }
    }

    fn declined(&mut self, now: Now, decline: Decline, actions: &mut Vec<Action>) {
        let Decline { job, attempt, checkpoint, subtask, failure } = decline;
        let is_known = self.is_ours(&job, attempt) && self.tasks.contains(subtask);
        let is_awaited = |pending: &&Pending| {
            !matches!(pending.phase, Phase::Metadata | Phase::Publication)
                && pending.includes(subtask)
                && !pending.has_acknowledged(subtask)
        };
        if is_known && self.pending.get(&checkpoint).filter(is_awaited).is_some() {
            let who = self.config.name_of(subtask);
            let message = if failure.message.is_empty() { who } else { format!("{who}: {}", failure.message) };
            self.abort(now, checkpoint, CheckpointFailure::new(failure.reason, message), actions);
        } else if is_known && !self.pending.contains_key(&checkpoint) && checkpoint < self.next_checkpoint {
            // The subtask may have written into the folder after it was deleted.
            self.discard_folder(checkpoint);
        } else {
            self.discard_late(&job, attempt, checkpoint);
        }
    }

    fn folder(&self, attempt: Attempt, checkpoint: CheckpointId) -> ObjectPath {
        paths::checkpoint_folder(&self.config.job, attempt, checkpoint)
    }

    fn is_ours(&self, job: &JobName, attempt: Attempt) -> bool {
        *job == self.config.job && attempt == self.attempt
    }

    fn is_in(&self, checkpoint: CheckpointId, phase: Phase) -> bool {
        self.pending.get(&checkpoint).is_some_and(|pending| pending.phase == phase)
    }
}
