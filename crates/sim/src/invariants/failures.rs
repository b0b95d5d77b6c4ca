//! I10, too many failures end the attempt: as soon as more checkpoints have failed in a row than are tolerated, the attempt
//! ends, whatever they failed of, as long as it says something about health.
//!
//! From: Flink's `CheckpointFailureManager`. Counted here from what the owner of the job is told.

use highwater_checkpoint::CheckpointFailureReason::{
    self, AsyncException, Declined, DeclinedTimeOut, Expired, FinalizeCheckpointFailure, IoException,
};
use highwater_state_api::CheckpointId;

use super::Violation;

const NAME: &str = "I10 failures are counted";

/// The failures of one attempt.
#[derive(Debug)]
pub(crate) struct Failures {
    tolerated: u32,
    in_a_row: u32,
    completed: Option<CheckpointId>,
}

impl Failures {
    /// An attempt that tolerates so many in a row; `u32::MAX` is any number.
    pub(crate) fn new(tolerated: u32) -> Self {
        Self { tolerated, in_a_row: 0, completed: None }
    }

    /// A checkpoint is complete.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) {
        if Some(checkpoint) > self.completed {
            self.completed = Some(checkpoint);
            self.in_a_row = 0;
        }
    }

    /// A checkpoint has failed.
    pub(crate) fn failed(&mut self, checkpoint: CheckpointId, reason: CheckpointFailureReason) {
        let counts = matches!(
            reason,
            IoException | DeclinedTimeOut | Declined | AsyncException | Expired | FinalizeCheckpointFailure
        );
        if counts && Some(checkpoint) > self.completed {
            self.in_a_row += 1;
        }
    }

    /// Everything that follows from what happened is done.
    pub(crate) fn check(&self, has_ended: bool) -> Result<(), Violation> {
        if !has_ended && self.tolerated != u32::MAX && self.in_a_row > self.tolerated {
            let Self { in_a_row, tolerated, .. } = self;
            let found =
                format!("{in_a_row} checkpoints failed in a row, {tolerated} are tolerated, and the attempt goes on");
            return Err(Violation::new(NAME, found));
        }
        Ok(())
    }
}
