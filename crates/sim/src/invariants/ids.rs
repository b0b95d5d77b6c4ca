//! I4, ids strictly increase over attempts: a complete checkpoint has a larger id than every complete one before it, an
//! attempt begins above every id that is known, and no attempt triggers an id twice.
//!
//! From: the global invariants. An id that was triggered and left no trace may come again in a later attempt: together
//! with the attempt it is still unique.

use highwater_checkpoint::LogRecord;
use highwater_state_api::{Attempt, CheckpointId};

use super::Violation;

const NAME: &str = "I4 ids increase";

/// The ids so far.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    claimed: Option<(Attempt, CheckpointId)>,
    completed: Option<CheckpointId>,
    triggered: Option<(Attempt, CheckpointId)>,
}

impl Ids {
    /// A record was created.
    pub(crate) fn logged(&mut self, sequence: u64, record: &LogRecord) -> Result<(), Violation> {
        let violation = |found: String| Err(Violation::new(NAME, format!("log record {sequence}: {found}")));
        match record {
            LogRecord::Claim { first_checkpoint, .. } => {
                if self.completed.is_some_and(|completed| completed >= *first_checkpoint) {
                    return violation(format!(
                        "an attempt begins with checkpoint {first_checkpoint}, which is complete"
                    ));
                }
                if self.claimed.is_some_and(|(attempt, first)| attempt.0 >= sequence || first >= *first_checkpoint) {
                    return violation(format!("the claim {record:?} does not come after {:?}", self.claimed));
                }
                self.claimed = Some((Attempt(sequence), *first_checkpoint));
            }
            LogRecord::Completed { attempt, checkpoint, .. } => {
                if self.claimed.is_none_or(|(claimed, first)| claimed != *attempt || first > *checkpoint) {
                    return violation(format!(
                        "attempt {attempt} completes checkpoint {checkpoint}, the job is claimed by {:?}",
                        self.claimed
                    ));
                }
                if self.completed.is_some_and(|completed| completed >= *checkpoint) {
                    return violation(format!("checkpoint {checkpoint} comes after {:?}", self.completed));
                }
                self.completed = Some(*checkpoint);
            }
            LogRecord::Finished { attempt } => {
                if self.claimed.is_none_or(|(claimed, _)| claimed != *attempt) {
                    return violation(format!("attempt {attempt} finishes a job that is not its own"));
                }
            }
            LogRecord::Dropped { .. } => return violation("nobody drops checkpoints here".to_owned()),
        }
        Ok(())
    }

    /// An attempt triggers a checkpoint; once for each of its sources.
    pub(crate) fn triggered(&mut self, attempt: Attempt, checkpoint: CheckpointId) -> Result<(), Violation> {
        if self.triggered == Some((attempt, checkpoint)) {
            return Ok(());
        }
        let too_small = self.completed.is_some_and(|completed| completed >= checkpoint)
            || self.triggered.is_some_and(|last| last >= (attempt, checkpoint));
        if too_small {
            let found = format!(
                "attempt {attempt} triggers checkpoint {checkpoint} after {:?}, complete is {:?}",
                self.triggered, self.completed
            );
            return Err(Violation::new(NAME, found));
        }
        self.triggered = Some((attempt, checkpoint));
        Ok(())
    }
}
