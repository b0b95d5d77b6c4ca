//! What a job in batch mode can go on from: a checkpoint that was taken when all input had ended, and no other.

use highwater_checkpoint::HaveEnded;
use highwater_state_api::OperatorUid;

use crate::JobError;
use crate::restore::Restored;

/// A job in batch mode was to go on from a checkpoint that was taken in the middle of its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "operator {operator} had not come to the end of its input: in batch mode input is read from its beginning, and the job \
     goes on from no checkpoint but the one that was taken when all input had ended; run it as a stream to go on from here \
     (`execution.runtime-mode: STREAMING`)"
)]
pub struct NotEndedError {
    /// An operator that had not.
    pub operator: OperatorUid,
}

/// Refuses what only a job in streaming mode can have left.
pub(crate) fn check((checkpoint, assignment): &Restored) -> Result<(), JobError> {
    let mut not_ended = assignment.operators.iter().filter(|(_, operator)| operator.ended != HaveEnded::All);
    not_ended.next().map_or(Ok(()), |(operator, _)| {
        let error = NotEndedError { operator: operator.clone() };
        Err(JobError::Restore { checkpoint: *checkpoint, source: error.into() })
    })
}
