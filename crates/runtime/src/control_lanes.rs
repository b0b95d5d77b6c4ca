//! The control lanes of one attempt: who can be told something, and what it means if somebody cannot.

use std::collections::{BTreeMap, BTreeSet};

use highwater_checkpoint::{CheckpointFailure, CheckpointFailureReason};
use highwater_state_api::{Attempt, SubtaskId};

use crate::control::{Control, ControlSender};

/// The coordinator's ends of the control lanes of one attempt.
#[derive(Clone)]
pub(crate) struct ControlLanes {
    attempt: Attempt,
    lanes: BTreeMap<SubtaskId, ControlSender>,
}

impl ControlLanes {
    pub(crate) fn new(attempt: Attempt) -> Self {
        Self { attempt, lanes: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, subtask: SubtaskId, lane: ControlSender) {
        self.lanes.insert(subtask, lane);
    }

    /// Goes on as the lanes of the attempt that `restarted` are of, which take the place of those of these tasks.
    pub(crate) fn take_in(&mut self, tasks: &BTreeSet<u32>, mut restarted: Self) {
        self.attempt = restarted.attempt;
        self.lanes.retain(|subtask, _| !tasks.contains(&subtask.task));
        self.lanes.append(&mut restarted.lanes);
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn subtasks(&self) -> impl Iterator<Item = SubtaskId> {
        self.lanes.keys().copied()
    }

    /// Tells a subtask of an attempt something. A subtask or attempt that is not here is a mistake of whoever sends: it is
    /// told so, and nobody else hears of it.
    pub(crate) fn tell(&self, attempt: Attempt, subtask: SubtaskId, message: Control) -> Result<(), CheckpointFailure> {
        match self.lanes.get(&subtask).filter(|_| attempt == self.attempt) {
            Some(lane) => {
                lane.send(message);
                Ok(())
            }
            None => {
                let reason = match message {
                    Control::Trigger { .. } => CheckpointFailureReason::TaskCheckpointFailure,
                    _ => CheckpointFailureReason::UnknownTaskCheckpointNotificationFailure,
                };
                let message = format!("there is no subtask {subtask} of attempt {attempt}");
                Err(CheckpointFailure::new(reason, message))
            }
        }
    }

    /// Tells a subtask something that is of no interest to one that is not there.
    pub(crate) fn tell_if_there(&self, subtask: SubtaskId, message: Control) {
        if let Some(lane) = self.lanes.get(&subtask) {
            lane.send(message);
        }
    }

    /// Tells all of them something.
    pub(crate) fn tell_all(&self, message: &Control) {
        self.lanes.values().for_each(|lane| lane.send(message.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use highwater_state_api::CheckpointId;

    use super::*;
    use crate::control::{ControlReceiver, control_lane};

    const SUBTASK: SubtaskId = SubtaskId { task: 0, subtask: 0 };

    fn lanes() -> (ControlLanes, ControlReceiver) {
        let (sender, receiver) = control_lane(Waker::noop().clone());
        let mut lanes = ControlLanes::new(Attempt(5));
        lanes.insert(SUBTASK, sender);
        (lanes, receiver)
    }

    /// Contract: L236.
    #[test]
    fn what_is_sent_to_an_attempt_or_a_subtask_that_is_not_there_is_an_error_of_the_sender_and_reaches_nobody() {
        let (lanes, receiver) = lanes();
        let checkpoint = CheckpointId(3);
        let other = SubtaskId { task: 0, subtask: 7 };
        let mut errors = Vec::new();
        for (attempt, subtask) in [(Attempt(4), SUBTASK), (Attempt(5), other)] {
            let aborted = Control::Aborted { checkpoint, latest_complete: None };
            for message in [Control::Trigger { checkpoint, triggered_at_ms: 1 }, Control::Complete(checkpoint), aborted]
            {
                let failure = lanes.tell(attempt, subtask, message).unwrap_err();
                errors.push(format!("{}: {failure}", failure.reason.name()));
            }
        }
        assert_eq!(receiver.receive(), None);
        insta::assert_snapshot!(errors.join("\n"));
        // Whoever is there hears everything as before.
        lanes.tell(Attempt(5), SUBTASK, Control::Complete(checkpoint)).unwrap();
        assert_eq!(receiver.receive(), Some(Control::Complete(checkpoint)));
    }
}
