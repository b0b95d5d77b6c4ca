//! How checkpoints, and the coordinator itself, come to an end without being complete, and what is deleted then.

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, StateHandle};

use super::Coordinator;
use crate::failure_count::TooMany;
use crate::log_writer::Outcome;
use crate::pending::Pending;
use crate::{
    Action, AttemptFailure, CheckpointFailure, CheckpointFailureReason, Discard, Event, LogRecord, Now, RequestId,
};

impl Coordinator {
    /// A checkpoint that is pending and whose append has not begun will not complete.
    pub(super) fn abort(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        failure: CheckpointFailure,
        actions: &mut Vec<Action>,
    ) {
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
    pub(super) fn fail_requests(&mut self, reason: CheckpointFailureReason, actions: &mut Vec<Action>) {
        let begun = self.pending.values_mut().flat_map(|pending| std::mem::take(&mut pending.requests));
        let requests: Vec<RequestId> = begun.chain(self.requests.drain()).collect();
        actions.extend(requests.into_iter().map(|request| Action::RequestFailed { request, failure: reason.into() }));
    }

    /// No checkpoints until further notice, but for the final one.
    pub(super) fn suspend(&mut self, now: Now, actions: &mut Vec<Action>) {
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
    pub(super) fn end(&mut self, failure: &CheckpointFailure, actions: &mut Vec<Action>) {
        let undecided = |checkpoint: &CheckpointId| !self.log.has_begun(*checkpoint);
        for checkpoint in self.pending.keys().copied().filter(undecided).collect::<Vec<_>>() {
            self.discard(checkpoint, failure.clone(), actions);
        }
        self.fail_requests(CheckpointFailureReason::CoordinatorShutdown, actions);
        self.cleaner.end(actions);
        self.is_over = true;
    }

    /// After the end: nothing is done any more, but people want to know what the log says of the last append.
    pub(super) fn late_answer(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        let outcome = match event {
            Event::LogAppended { sequence } => self.log.appended(sequence),
            Event::LogRead { sequence, record } => self.log.read(now.monotonic_ms, sequence, record),
            _ => None,
        };
        if outcome.is_some() {
            self.pending.clear();
        }
        match outcome {
            Some(Outcome::Appended { record: LogRecord::Completed { checkpoint, .. }, .. }) => {
                actions.push(Action::NoteComplete { checkpoint });
            }
            Some(Outcome::Appended { record: LogRecord::Finished { .. }, .. }) => actions.push(Action::Finished),
            _ => {}
        }
    }

    pub(super) fn discard(
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
    pub(super) fn discard_stray(
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
        let objects: Vec<ObjectPath> = handles.iter().filter_map(StateHandle::object).cloned().collect();
        Discard::of_objects(&objects).for_each(|discard| self.cleaner.push(discard));
    }

    /// A checkpoint of this attempt has failed: everything in its folder goes.
    pub(super) fn discard_folder(&mut self, checkpoint: CheckpointId) {
        if !self.retention.contains(self.attempt, checkpoint) {
            self.cleaner.push(Discard::Folder(self.folder(self.attempt, checkpoint)));
        }
    }
}
