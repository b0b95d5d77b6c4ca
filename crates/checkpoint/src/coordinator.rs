//! The coordinator of one attempt: triggers checkpoints, collects what comes of them, publishes them one after another.
//!
//! A checkpoint goes through enumerators, acknowledgements, metadata and publication ([`Phase`]). Until its record is
//! being appended to the job log it may be aborted; from then on the log alone decides. What answers to nothing that is
//! pending is dropped in one place, [`Coordinator::discard_stray`].

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, StateHandle, SubtaskId};

use crate::config::CoordinatorConfig;
use crate::job_log::{AttemptStart, CompletedCheckpoint};
use crate::log_writer::{LogWriter, Outcome};
use crate::pending::{Pending, Phase};
use crate::retention::Retention;
use crate::settling::Settling;
use crate::trigger::{Reason, Trigger};
use crate::{
    Acknowledgement, Action, AttemptFailure, CheckpointFailure, Decline, EnumeratorState, Event, LogRecord, Now, paths,
};

/// How many checkpoints may wait for the job log, written but not published. While there are as many, none is triggered.
const PUBLICATIONS_MAX: usize = 8;

/// The coordinator of one attempt of one job.
#[derive(Debug, Clone)]
pub struct Coordinator {
    config: CoordinatorConfig,
    attempt: Attempt,
    next_checkpoint: CheckpointId,
    subtasks: BTreeSet<SubtaskId>,
    running: BTreeSet<SubtaskId>,
    ended: BTreeSet<SubtaskId>,
    trigger: Trigger,
    pending: BTreeMap<CheckpointId, Pending>,
    log: LogWriter,
    retention: Retention,
    failures_in_a_row: u32,
    settling: Option<Settling>,
    /// Nothing is done any more: finished, failed, fenced or shut down.
    is_over: bool,
}

impl Coordinator {
    /// The coordinator of an attempt that has claimed the job.
    pub fn new(config: CoordinatorConfig, start: AttemptStart) -> Self {
        Self {
            attempt: start.attempt,
            next_checkpoint: start.first_checkpoint,
            subtasks: config.subtasks(),
            running: BTreeSet::new(),
            ended: BTreeSet::new(),
            trigger: Trigger::new(&config),
            pending: BTreeMap::new(),
            log: LogWriter::new(start.next_sequence, config.timeout_ms.max(1)),
            retention: Retention::new(config.retain, &start),
            failures_in_a_row: 0,
            settling: None,
            is_over: false,
            config,
        }
    }

    /// The id that the next checkpoint will have.
    pub fn next_checkpoint(&self) -> CheckpointId {
        self.next_checkpoint
    }

    /// The checkpoints that were triggered and have not come to an end, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> {
        self.pending.keys().copied()
    }

    /// Takes what happened and says what is to be done.
    pub fn on_event(&mut self, now: Now, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.is_over {
            self.handle(now, event, &mut actions);
        }
        if !self.is_over {
            self.on_time(now, &mut actions);
        }
        actions
    }

    /// When to send [`Event::Tick`] if nothing else happens before, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        let undecided = self.pending.iter().filter(|(checkpoint, _)| !self.log.has_begun(**checkpoint));
        let expiry = undecided.map(|(_, pending)| pending.expires_at_ms).min();
        let trigger = self.trigger.next_deadline().filter(|_| self.has_room());
        let reminder = self.settling.as_ref().and_then(Settling::next_deadline);
        [expiry, trigger, self.log.next_deadline(), reminder].into_iter().flatten().min()
    }

    fn handle(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        let now_ms = now.monotonic_ms;
        match event {
            Event::Tick => {}
            Event::SubtaskRunning { subtask } => self.subtask_running(now_ms, subtask),
            Event::SubtaskEnded { subtask } => self.subtask_ended(now_ms, subtask),
            Event::SubtaskSettled { subtask, checkpoint } => self.subtask_settled(subtask, checkpoint, actions),
            Event::TriggerRequested => self.trigger.requested(),
            Event::EnumeratorsSnapshotted { checkpoint, states } => {
                self.enumerators_snapshotted(now, checkpoint, states, actions);
            }
            Event::Acknowledged(acknowledgement) => self.acknowledged(now, acknowledgement, actions),
            Event::Declined(decline) => self.declined(now, decline, actions),
            Event::MetadataWritten { checkpoint, metadata } => self.metadata_written(checkpoint, metadata, actions),
            Event::MetadataFailed { checkpoint, cause } => {
                if self.is_in(checkpoint, Phase::Metadata) {
                    self.abort(now, checkpoint, CheckpointFailure::FinalizeFailed { cause }, actions);
                }
            }
            Event::LogAppended { sequence } => {
                let outcome = self.log.appended(sequence);
                self.log_decided(now, outcome, actions);
            }
            Event::LogTaken { sequence } => self.log.taken(sequence, actions),
            Event::LogUnknown { sequence, cause } => self.log.unknown(now_ms, sequence, cause, actions),
            Event::LogRead { sequence, record } => {
                let outcome = self.log.read(now_ms, sequence, record);
                self.log_decided(now, outcome, actions);
            }
            Event::LogReadFailed { sequence, cause } => self.log.read_failed(now_ms, sequence, cause),
            Event::Shutdown => self.end(actions),
        }
    }

    fn on_time(&mut self, now: Now, actions: &mut Vec<Action>) {
        let now_ms = now.monotonic_ms;
        if let Some(failure) = self.log.unavailable(now_ms) {
            self.end(actions);
            actions.push(Action::Fail(failure));
            return;
        }
        self.log.on_time(now_ms, actions);
        let expired = |(checkpoint, pending): (&CheckpointId, &Pending)| {
            (pending.expires_at_ms <= now_ms && !self.log.has_begun(*checkpoint)).then_some(*checkpoint)
        };
        for checkpoint in self.pending.iter().filter_map(expired).collect::<Vec<_>>() {
            self.abort(now, checkpoint, CheckpointFailure::Expired, actions);
            if self.is_over {
                return;
            }
        }
        if let Some(checkpoint) = self.settling.as_mut().and_then(|settling| settling.reminder(now_ms)) {
            actions.push(Action::NotifyComplete { checkpoint });
        }
        while self.has_room()
            && let Some(reason) = self.trigger.due(now_ms)
        {
            self.trigger(now, reason, actions);
        }
    }

    // --- Triggering ---------------------------------------------------------------------------------------------

    fn subtask_running(&mut self, now_ms: u64, subtask: SubtaskId) {
        if self.subtasks.contains(&subtask) && self.running.insert(subtask) && self.running == self.subtasks {
            self.trigger.running(now_ms);
        }
    }

    fn subtask_ended(&mut self, now_ms: u64, subtask: SubtaskId) {
        self.subtask_running(now_ms, subtask); // it ran, even if it had nothing to do
        if self.subtasks.contains(&subtask) && self.ended.insert(subtask) && self.ended == self.subtasks {
            self.trigger.ended(now_ms);
        }
    }

    /// Whether another checkpoint may be triggered.
    ///
    /// While the log does not say what became of an append, checkpoints that wait for it do not count: they must not
    /// stop those that do not need it yet.
    fn has_room(&self) -> bool {
        let unpublished = self.pending.values().filter(|pending| pending.phase == Phase::Publication).count();
        let waived = if self.log.is_stalled() { unpublished } else { 0 };
        self.settling.is_none()
            && self.pending.len() - waived < self.config.max_concurrent.max(1) as usize
            && unpublished < PUBLICATIONS_MAX
    }

    fn trigger(&mut self, now: Now, reason: Reason, actions: &mut Vec<Action>) {
        let checkpoint = self.next_checkpoint;
        self.next_checkpoint = checkpoint.next();
        self.trigger.triggered(now.monotonic_ms, reason);
        let expires_at_ms = now.monotonic_ms.saturating_add(self.config.timeout_ms.max(1));
        let pending = Pending::new(reason == Reason::Final, now.wall_clock_ms, expires_at_ms);
        self.pending.insert(checkpoint, pending);
        actions.push(Action::SnapshotEnumerators { checkpoint });
    }

    // --- Collecting ---------------------------------------------------------------------------------------------

    fn enumerators_snapshotted(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        states: Vec<EnumeratorState>,
        actions: &mut Vec<Action>,
    ) {
        let Some(pending) = self.pending.get_mut(&checkpoint).filter(|pending| pending.phase == Phase::Enumerators)
        else {
            return;
        };
        pending.enumerators_snapshotted(states);
        let (triggered_at_ms, subtasks) = (pending.triggered_at_ms, self.config.source_subtasks());
        actions.push(Action::TriggerSources { checkpoint, triggered_at_ms, subtasks });
        self.finalize_if_complete(now, checkpoint, actions);
    }

    fn acknowledged(&mut self, now: Now, acknowledgement: Acknowledgement, actions: &mut Vec<Action>) {
        let Acknowledgement { job, attempt, checkpoint, subtask, snapshot } = acknowledgement;
        let is_known = self.is_ours(&job, attempt) && self.subtasks.contains(&subtask);
        match self.pending.get_mut(&checkpoint).filter(|_| is_known) {
            // All subtasks are in: this one, again.
            Some(pending) if matches!(pending.phase, Phase::Metadata | Phase::Publication) => {}
            Some(pending) => {
                pending.acknowledged(subtask, snapshot);
                self.finalize_if_complete(now, checkpoint, actions);
            }
            None => {
                let handles = snapshot.operators.iter().flat_map(|(_, snapshot)| snapshot.handles());
                self.discard_stray(&job, attempt, checkpoint, handles.cloned().collect(), actions);
            }
        }
    }

    fn declined(&mut self, now: Now, decline: Decline, actions: &mut Vec<Action>) {
        let Decline { job, attempt, checkpoint, subtask, reason, message } = decline;
        let is_known = self.is_ours(&job, attempt) && self.subtasks.contains(&subtask);
        let is_awaited = |pending: &&Pending| {
            matches!(pending.phase, Phase::Enumerators | Phase::Acknowledgements) && !pending.has_acknowledged(subtask)
        };
        if is_known && self.pending.get(&checkpoint).filter(is_awaited).is_some() {
            self.abort(now, checkpoint, CheckpointFailure::Declined { reason, message }, actions);
        }
    }

    fn finalize_if_complete(&mut self, now: Now, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        let Some(pending) = self.pending.get_mut(&checkpoint).filter(|p| p.is_complete(self.subtasks.len())) else {
            return;
        };
        match pending.metadata(&self.config, self.attempt, checkpoint) {
            Ok(metadata) => {
                pending.phase = Phase::Metadata;
                let path = paths::checkpoint_metadata(&self.config.job, self.attempt, checkpoint);
                actions.push(Action::WriteMetadata { checkpoint, path, metadata: Box::new(metadata) });
            }
            Err(cause) => self.abort(now, checkpoint, CheckpointFailure::FinalizeFailed { cause }, actions),
        }
    }

    // --- Publishing ---------------------------------------------------------------------------------------------

    fn metadata_written(&mut self, checkpoint: CheckpointId, metadata: StateHandle, actions: &mut Vec<Action>) {
        match self.pending.get_mut(&checkpoint) {
            Some(pending) if pending.phase == Phase::Metadata => {
                pending.phase = Phase::Publication;
                self.log.push(LogRecord::Completed { attempt: self.attempt, checkpoint, metadata }, actions);
            }
            Some(_) => {}
            None => {
                let (job, attempt) = (self.config.job.clone(), self.attempt);
                self.discard_stray(&job, attempt, checkpoint, vec![metadata], actions);
            }
        }
    }

    fn log_decided(&mut self, now: Now, outcome: Option<Outcome>, actions: &mut Vec<Action>) {
        match outcome {
            Some(Outcome::Appended { sequence, record: LogRecord::Completed { attempt, checkpoint, metadata } }) => {
                let completed = CompletedCheckpoint { sequence, attempt, checkpoint, metadata };
                self.completed(now, completed, actions);
                self.log.begin_next(actions);
            }
            Some(Outcome::Appended { .. }) => {
                actions.push(Action::Finished);
                self.is_over = true;
            }
            Some(Outcome::Fenced { sequence }) => {
                // Whatever is pending may be the successor's concern by now: it is left to the successor to clean up.
                actions.push(Action::Fail(AttemptFailure::Fenced { sequence }));
                self.is_over = true;
            }
            None => {}
        }
    }

    fn completed(&mut self, now: Now, completed: CompletedCheckpoint, actions: &mut Vec<Action>) {
        let checkpoint = completed.checkpoint;
        self.failures_in_a_row = 0;
        self.trigger.completed(now.monotonic_ms);
        actions.push(Action::NotifyComplete { checkpoint });
        let is_final = self.pending.remove(&checkpoint).is_some_and(|pending| pending.is_final);
        for older in self.pending.range(..checkpoint).map(|(older, _)| *older).collect::<Vec<_>>() {
            self.abort(now, older, CheckpointFailure::Subsumed, actions);
        }
        let dropped = self.retention.add(&self.config.job, completed);
        actions.extend(dropped.checkpoints.into_iter().map(|checkpoint| Action::NotifySubsumed { checkpoint }));
        actions.extend(dropped.folders.into_iter().map(|folder| Action::DiscardCheckpoint { folder }));
        if !dropped.records.is_empty() {
            actions.push(Action::TruncateLog { sequences: dropped.records });
        }
        if is_final {
            self.settling = Some(Settling::new(checkpoint, self.subtasks.clone(), now.monotonic_ms));
        }
    }

    fn subtask_settled(&mut self, subtask: SubtaskId, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        if self.settling.as_mut().is_some_and(|settling| settling.settled(subtask, checkpoint)) {
            self.log.push(LogRecord::Finished { attempt: self.attempt }, actions);
        }
    }

    // --- Ending -------------------------------------------------------------------------------------------------

    /// A checkpoint that is pending and whose append has not begun will not complete.
    fn abort(&mut self, now: Now, checkpoint: CheckpointId, failure: CheckpointFailure, actions: &mut Vec<Action>) {
        if self.discard(checkpoint, failure.clone(), actions).is_some_and(|pending| pending.is_final) {
            self.trigger.final_failed(now.monotonic_ms);
        }
        // A failure that a newer checkpoint has made up for is none.
        if !failure.counts() || self.retention.latest() > Some(checkpoint) {
            return;
        }
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let (failed, tolerated) = (self.failures_in_a_row, self.config.tolerable_failures);
        if failed > tolerated {
            self.end(actions);
            actions.push(Action::Fail(AttemptFailure::TooManyFailedCheckpoints {
                failed,
                tolerated,
                checkpoint,
                failure,
            }));
        }
    }

    /// Everything that may still be aborted is. What is being appended is left alone: the next attempt reads the log.
    fn end(&mut self, actions: &mut Vec<Action>) {
        let undecided = |checkpoint: &CheckpointId| !self.log.has_begun(*checkpoint);
        for checkpoint in self.pending.keys().copied().filter(undecided).collect::<Vec<_>>() {
            self.discard(checkpoint, CheckpointFailure::Shutdown, actions);
        }
        self.is_over = true;
    }

    fn discard(
        &mut self,
        checkpoint: CheckpointId,
        failure: CheckpointFailure,
        actions: &mut Vec<Action>,
    ) -> Option<Pending> {
        let pending = self.pending.remove(&checkpoint);
        self.log.withdraw(checkpoint);
        actions.push(Action::NotifyAborted { checkpoint, failure });
        actions.push(Action::DiscardCheckpoint { folder: self.folder(self.attempt, checkpoint) });
        pending
    }

    /// State that no pending checkpoint takes: late, foreign, or of a subtask that does not exist.
    ///
    /// It is deleted, unless somebody else may need it. It may have been written after its folder was deleted, so that
    /// the folder is gone does not mean that there is nothing to delete.
    fn discard_stray(
        &self,
        job: &JobName,
        attempt: Attempt,
        checkpoint: CheckpointId,
        mut handles: Vec<StateHandle>,
        actions: &mut Vec<Action>,
    ) {
        // Another job's state is not ours to delete, nor is that of an attempt that has come after this one.
        if *job != self.config.job || attempt > self.attempt || self.retention.contains(attempt, checkpoint) {
            return;
        }
        let folder = self.folder(attempt, checkpoint);
        let pending = self.pending.get(&checkpoint).filter(|_| attempt == self.attempt);
        handles.retain(|handle| {
            let path = handle.object().filter(|path| path.is_under(&folder));
            path.is_some_and(|path| pending.is_none_or(|pending| !pending.names(path)))
        });
        if !handles.is_empty() {
            actions.push(Action::DiscardState { handles });
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
