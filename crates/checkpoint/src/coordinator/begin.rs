//! How a checkpoint begins: its place is made ready, the split enumerators are snapshotted, hooks take part, then the
//! subtasks are told that no barrier will reach.
//!
//! One after the other, so that nothing is held back from readers while the storage is slow, and no barrier exists before
//! the splits are known. Whatever fails here fails this checkpoint alone.

use highwater_state_api::{CheckpointId, OperatorUid};

use super::Coordinator;
use crate::pending::{Pending, Phase};
use crate::trigger::Reason;
use crate::{Action, CheckpointFailure, CheckpointFailureReason, EnumeratorState, HookState, Now, paths};

impl Coordinator {
    /// Whether a checkpoint is being begun. Until it is, no other one is: enumerators are snapshotted one after the other.
    pub(super) fn is_beginning(&self) -> bool {
        self.pending.values().any(|pending| pending.phase.is_beginning())
    }

    pub(super) fn trigger(&mut self, now: Now, reason: Reason, actions: &mut Vec<Action>) {
        let requests = match reason {
            Reason::Periodic => Vec::new(),
            Reason::Requested => self.requests.pop().into_iter().collect(),
            // There will be no other one.
            Reason::Final => self.requests.drain().collect(),
        };
        let checkpoint = self.next_checkpoint;
        self.next_checkpoint = checkpoint.next();
        self.trigger.triggered(now.monotonic_ms, reason);
        let expires_at_ms = now.monotonic_ms.saturating_add(self.config.timeout_ms.max(1));
        let (plan, is_final) = (self.tasks.plan(), reason == Reason::Final);
        let pending = Pending::new(plan, is_final, requests, now.wall_clock_ms, expires_at_ms);
        self.pending.insert(checkpoint, pending);
        let folder = paths::checkpoint_folder(&self.config.job, self.attempt, checkpoint);
        actions.push(Action::InitializeLocation { checkpoint, folder });
    }

    pub(super) fn location_initialized(&mut self, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        if let Some(pending) = self.pending_in(checkpoint, Phase::Location) {
            pending.phase = Phase::Enumerators;
            actions.push(Action::SnapshotEnumerators { checkpoint });
        } else if !self.pending.contains_key(&checkpoint) && checkpoint < self.next_checkpoint {
            // Its folder may have been made after it was deleted.
            self.discard_folder(checkpoint);
        }
    }

    pub(super) fn location_failed(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        cause: String,
        actions: &mut Vec<Action>,
    ) {
        if self.is_in(checkpoint, Phase::Location) {
            let failure = CheckpointFailure::new(CheckpointFailureReason::IoException, cause);
            self.abort(now, checkpoint, failure, actions);
        }
    }

    pub(super) fn enumerators_snapshotted(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        states: Vec<EnumeratorState>,
        actions: &mut Vec<Action>,
    ) {
        let Some(pending) = self.pending_in(checkpoint, Phase::Enumerators) else { return };
        pending.enumerators_snapshotted(states);
        let triggered_at_ms = pending.triggered_at_ms;
        if self.has_hooks {
            if let Some(pending) = self.pending_in(checkpoint, Phase::Enumerators) {
                pending.phase = Phase::Hooks;
            }
            actions.push(Action::TriggerHooks { checkpoint, triggered_at_ms });
        } else {
            self.trigger_subtasks(now, checkpoint, actions);
        }
    }

    pub(super) fn hooks_triggered(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        mut states: Vec<HookState>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(pending) = self.pending_in(checkpoint, Phase::Hooks) {
            states.sort_by(|one, other| one.identifier.cmp(&other.identifier));
            pending.hooks = states;
            self.trigger_subtasks(now, checkpoint, actions);
        }
    }

    pub(super) fn hook_failed(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        identifier: Option<&str>,
        cause: &str,
        actions: &mut Vec<Action>,
    ) {
        if self.is_in(checkpoint, Phase::Hooks) {
            let message = match identifier {
                Some(identifier) => format!("the hook {identifier:?} failed: {cause}"),
                None => format!("the hooks could not be called: {cause}"),
            };
            let failure = CheckpointFailure::new(CheckpointFailureReason::TriggerCheckpointFailure, message);
            self.abort(now, checkpoint, failure, actions);
        }
    }

    pub(super) fn enumerator_failed(
        &mut self,
        now: Now,
        checkpoint: CheckpointId,
        operator: &OperatorUid,
        cause: &str,
        actions: &mut Vec<Action>,
    ) {
        if self.is_in(checkpoint, Phase::Enumerators) {
            let message = format!("the split enumerator of {operator} could not be snapshotted: {cause}");
            let failure = CheckpointFailure::new(CheckpointFailureReason::TriggerCheckpointFailure, message);
            self.abort(now, checkpoint, failure, actions);
        }
    }

    fn trigger_subtasks(&mut self, now: Now, checkpoint: CheckpointId, actions: &mut Vec<Action>) {
        if let Some(pending) = self.pending.get_mut(&checkpoint) {
            pending.phase = Phase::Acknowledgements;
            let (triggered_at_ms, plan) = (pending.triggered_at_ms, &pending.plan);
            let (subtasks, finished) = (plan.to_trigger.clone(), plan.finished.clone());
            actions.push(Action::TriggerSubtasks { checkpoint, triggered_at_ms, subtasks, finished });
        }
        self.finalize_if_complete(now, checkpoint, actions);
    }

    fn pending_in(&mut self, checkpoint: CheckpointId, phase: Phase) -> Option<&mut Pending> {
        self.pending.get_mut(&checkpoint).filter(|pending| pending.phase == phase)
    }
}
