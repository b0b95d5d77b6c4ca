//! The coordinator of one attempt: triggers checkpoints, collects what comes of them, publishes them one after another.
//!
//! A checkpoint goes through location, enumerators, hooks, acknowledgements, metadata and publication ([`Phase`]). Until its
//! record is being appended to the job log it may be aborted; from then on the log alone decides. What answers to nothing
//! that is pending is dropped in one place, [`Coordinator::discard_stray`].

mod begin;
mod failover;

use std::collections::BTreeMap;

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, StateHandle, SubtaskId};

use crate::cleaner::Cleaner;
use crate::config::CoordinatorConfig;
use crate::failure_count::{FailureCount, TooMany};
use crate::job_log::{AttemptStart, CompletedCheckpoint};
use crate::log_writer::{LogWriter, Outcome};
use crate::pending::{Pending, Phase};
use crate::request::RequestQueue;
use crate::retention::Retention;
use crate::settling::Settling;
use crate::task_progress::TaskProgress;
use crate::trigger::{Reason, Trigger};
use crate::{
    Acknowledgement, Action, AttemptFailure, CheckpointFailure, CheckpointFailureReason, CheckpointRequest, Decline,
    Discard, Event, LogRecord, Now, RequestId, paths,
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
        match event {
            // Whoever asks is answered, also when it is too late.
            Event::CheckpointRequested { id, .. } if self.is_over => {
                actions.push(Action::RequestFailed {
                    request: id,
                    failure: CheckpointFailureReason::CoordinatorShutdown.into(),
                });
            }
            _ if self.is_over => {}
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
            Event::SubtaskSettled { subtask, checkpoint } => self.subtask_settled(subtask, checkpoint, actions),
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
            Event::MetadataWritten { checkpoint, metadata } => self.metadata_written(checkpoint, metadata, actions),
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
            Event::LogTaken { sequence } => self.log.taken(sequence, actions),
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

    // --- Triggering ---------------------------------------------------------------------------------------------

    /// Why no checkpoint may be triggered now, whoever asks; `None` when one may.
    fn barred(&self) -> Option<CheckpointFailure> {
        let ended = self.config.name_of(self.tasks.missing()?);
        let message = format!("{ended} has ended, and checkpoints after the end of tasks are turned off");
        Some(CheckpointFailure::new(CheckpointFailureReason::NotAllRequiredTasksRunning, message))
    }

    /// Whether another checkpoint may be triggered.
    ///
    /// While the log does not say what became of an append, checkpoints that wait for it do not count: they must not
    /// stop those that do not need it yet.
    fn has_room(&self) -> bool {
        let waived = if self.log.is_stalled() { self.unpublished() } else { 0 };
        self.may_publish() && self.pending.len() - waived < self.config.max_concurrent.max(1) as usize
    }

    /// Whether the job log can take another checkpoint: this bound holds for forced ones too.
    fn may_publish(&self) -> bool {
        self.settling.is_none() && self.unpublished() < PUBLICATIONS_MAX
    }

    fn unpublished(&self) -> usize {
        self.pending.values().filter(|pending| pending.phase == Phase::Publication).count()
    }

    /// Why a checkpoint is to be triggered now: the last one when everything has ended, or else what was asked for, or
    /// else what the interval says. A request that may not be carried out any more fails.
    fn due(&mut self, now_ms: u64, actions: &mut Vec<Action>) -> Option<Reason> {
        let is_barred = self.tasks.missing().is_some();
        if self.trigger.is_final() {
            return self.trigger.final_due(now_ms).filter(|_| !is_barred && self.has_room());
        }
        while self.trigger.is_running()
            && let Some(request) = self.requests.next()
        {
            if let Err(failure) = self.may_begin(now_ms, request) {
                actions.extend(self.requests.pop().map(|request| Action::RequestFailed { request, failure }));
            } else if self.has_room() || (request.forced && self.may_publish()) {
                return Some(Reason::Requested);
            } else {
                break;
            }
        }
        self.trigger.periodic_due(now_ms).filter(|_| !is_barred && self.has_room())
    }

    fn requested(&mut self, now_ms: u64, id: RequestId, request: CheckpointRequest, actions: &mut Vec<Action>) {
        let refused = match self.may_begin(now_ms, request) {
            Ok(()) => self.requests.push(id, request),
            Err(failure) => Some((id, failure)),
        };
        actions.extend(refused.map(|(request, failure)| Action::RequestFailed { request, failure }));
    }

    /// A tick of the periodic trigger that somebody else makes is bound to the interval's rules.
    fn may_begin(&self, now_ms: u64, request: CheckpointRequest) -> Result<(), CheckpointFailure> {
        if self.is_failing_over {
            return Err(CheckpointFailureReason::JobFailoverRegion.into());
        }
        if let Some(failure) = self.barred() {
            return Err(failure);
        }
        if !request.periodic {
            return Ok(());
        }
        if !self.trigger.is_periodic() {
            return Err(CheckpointFailureReason::PeriodicSchedulerShutdown.into());
        }
        if !self.trigger.is_running() {
            let reason = CheckpointFailureReason::NotAllRequiredTasksRunning;
            return Err(CheckpointFailure::new(reason, self.config.names_of(self.tasks.not_running().iter())));
        }
        match self.trigger.pause_left_ms(now_ms) {
            0 => Ok(()),
            left_ms if !request.forced => {
                let message = format!("{left_ms} ms are left");
                Err(CheckpointFailure::new(CheckpointFailureReason::MinimumTimeBetweenCheckpoints, message))
            }
            _ => Ok(()),
        }
    }

    // --- Collecting ---------------------------------------------------------------------------------------------

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

    fn finalize_if_complete(&mut self, now: Now, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
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
                self.discard_stray(&job, attempt, checkpoint, vec![metadata]);
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
        if !dropped.records.is_empty() {
            actions.push(Action::TruncateLog { sequences: dropped.records });
        }
        if let Some(subtasks) = settles {
            if subtasks.is_empty() {
                self.log.push(LogRecord::Finished { attempt: self.attempt }, actions);
            }
            self.settling = Some(Settling::new(checkpoint, subtasks, now.monotonic_ms));
        }
    }

    fn subtask_settled(&mut self, subtask: SubtaskId, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        self.tasks.settled(subtask, checkpoint);
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
        if let Err(TooMany { failed, tolerated }) = self.failures.failed(checkpoint, &failure) {
            self.end(&CheckpointFailureReason::CoordinatorShutdown.into(), actions);
            actions.push(Action::Fail(AttemptFailure::TooManyFailedCheckpoints {
                failed,
                tolerated,
                checkpoint,
                failure,
            }));
        }
    }

    /// Everything that somebody still waits for fails.
    fn fail_requests(&mut self, reason: CheckpointFailureReason, actions: &mut Vec<Action>) {
        let begun = self.pending.values_mut().flat_map(|pending| std::mem::take(&mut pending.requests));
        let requests: Vec<RequestId> = begun.chain(self.requests.drain()).collect();
        actions.extend(requests.into_iter().map(|request| Action::RequestFailed { request, failure: reason.into() }));
    }

    /// No checkpoints until further notice, but for the final one.
    fn suspend(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.trigger.stop_periodic();
        let may_go = |(checkpoint, pending): (&CheckpointId, &Pending)| {
            (!pending.is_final && !self.log.has_begun(*checkpoint)).then_some(*checkpoint)
        };
        for checkpoint in self.pending.iter().filter_map(may_go).collect::<Vec<_>>() {
            self.abort(now, checkpoint, CheckpointFailureReason::CoordinatorSuspend.into(), actions);
        }
        let failure = CheckpointFailure::from(CheckpointFailureReason::CoordinatorSuspend);
        let waiting = self.requests.drain();
        actions.extend(waiting.map(|request| Action::RequestFailed { request, failure: failure.clone() }));
    }

    /// Everything that may still be aborted is. What is being appended is left alone: the next attempt reads the log.
    fn end(&mut self, failure: &CheckpointFailure, actions: &mut Vec<Action>) {
        let undecided = |checkpoint: &CheckpointId| !self.log.has_begun(*checkpoint);
        for checkpoint in self.pending.keys().copied().filter(undecided).collect::<Vec<_>>() {
            self.discard(checkpoint, failure.clone(), actions);
        }
        self.fail_requests(CheckpointFailureReason::CoordinatorShutdown, actions);
        self.cleaner.end(actions);
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
        let requests = pending.iter().flat_map(|pending| pending.requests.iter().copied());
        actions.extend(requests.map(|request| Action::RequestFailed { request, failure: failure.clone() }));
        let latest_complete = self.retention.latest();
        actions.push(Action::NotifyAborted { checkpoint, failure, latest_complete });
        self.discard_folder(checkpoint);
        pending
    }

    /// State that no pending checkpoint takes: late, foreign, or of a subtask that does not exist.
    ///
    /// It is deleted, unless somebody else may need it. It may have been written after its folder was deleted, so that
    /// the folder is gone does not mean that there is nothing to delete.
    fn discard_stray(
        &mut self,
        job: &JobName,
        attempt: Attempt,
        checkpoint: CheckpointId,
        mut handles: Vec<StateHandle>,
    ) {
        // Another job's state is not ours to delete, nor is that of an attempt that has come after this one.
        if *job != self.config.job || attempt > self.attempt || self.retention.contains(attempt, checkpoint) {
            return;
        }
        // A checkpoint that is still to come may have state under the same name when this is deleted.
        if attempt == self.attempt && checkpoint >= self.next_checkpoint {
            return;
        }
        let folder = self.folder(attempt, checkpoint);
        let pending = self.pending.get(&checkpoint).filter(|_| attempt == self.attempt);
        handles.retain(|handle| {
            let path = handle.object().filter(|path| path.is_under(&folder));
            path.is_some_and(|path| pending.is_none_or(|pending| !pending.names(path)))
        });
        if !handles.is_empty() {
            self.cleaner.push(Discard::State(handles));
        }
    }

    /// A checkpoint of this attempt has failed: everything in its folder goes.
    fn discard_folder(&mut self, checkpoint: CheckpointId) {
        if !self.retention.contains(self.attempt, checkpoint) {
            self.cleaner.push(Discard::Folder(self.folder(self.attempt, checkpoint)));
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
