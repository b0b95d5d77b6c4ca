//! Regional failover: what becomes of an attempt of which some tasks are restarted and the others go on.
//!
//! The next attempt takes these over. Until it does, this one begins nothing: what is pending fails, but for the checkpoint
//! whose record is being appended to the job log, since the log alone decides about that one, and the restart goes back to it
//! if it is complete.

use std::collections::BTreeSet;

use highwater_state_api::{Attempt, CheckpointId, JobName, SubtaskId};

use super::Coordinator;
use crate::{Action, CheckpointFailure, CheckpointFailureReason, Discard};

impl Coordinator {
    /// Whether some tasks may be restarted while the others go on: not when the job is about to be over.
    pub fn may_fail_over(&self) -> bool {
        !self.is_over && !self.is_failing_over && self.settling.is_none()
    }

    /// Goes on with these tasks of the attempt before, whose subtasks still run: what has finished there has finished here.
    /// They report anew that they run and that they have ended, as if they had been started.
    pub fn taking_over(mut self, previous: &Self, tasks: &BTreeSet<u32>) -> Self {
        self.tasks.take_over(&previous.tasks, tasks);
        self
    }

    /// The newest complete checkpoint that is kept.
    pub fn latest_complete(&self) -> Option<CheckpointId> {
        self.retention.latest()
    }

    /// A subtask that goes on has given up a checkpoint of the attempt before, and may have written for it after the claim.
    pub(super) fn discard_late(&mut self, job: &JobName, attempt: Attempt, checkpoint: CheckpointId) {
        if *job == self.config.job && attempt < self.attempt && !self.retention.contains(attempt, checkpoint) {
            self.cleaner.push(Discard::Folder(self.folder(attempt, checkpoint)));
        }
    }

    pub(super) fn region_failed(&mut self, subtask: SubtaskId, cause: &str, actions: &mut Vec<Action>) {
        let message = format!("{}: {cause}", self.config.name_of(subtask));
        let failure = CheckpointFailure::new(CheckpointFailureReason::JobFailoverRegion, message);
        let undecided = |checkpoint: &CheckpointId| !self.log.has_begun(*checkpoint);
        for checkpoint in self.pending.keys().copied().filter(undecided).collect::<Vec<_>>() {
            self.discard(checkpoint, failure.clone(), actions);
        }
        let waiting = self.requests.drain();
        actions.extend(waiting.map(|request| Action::RequestFailed { request, failure: failure.clone() }));
        self.is_failing_over = true;
    }
}
