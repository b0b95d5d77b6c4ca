//! Whether a checkpoint may be triggered now, and why: because of the end, because somebody asked for it, or because its
//! time has come.

use super::{Coordinator, PUBLICATIONS_MAX};
use crate::pending::Phase;
use crate::trigger::Reason;
use crate::{Action, CheckpointFailure, CheckpointFailureReason, CheckpointRequest, RequestId};

impl Coordinator {
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
    pub(super) fn has_room(&self) -> bool {
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
    pub(super) fn due(&mut self, now_ms: u64, actions: &mut Vec<Action>) -> Option<Reason> {
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

    pub(super) fn requested(
        &mut self,
        now_ms: u64,
        id: RequestId,
        request: CheckpointRequest,
        actions: &mut Vec<Action>,
    ) {
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
}
