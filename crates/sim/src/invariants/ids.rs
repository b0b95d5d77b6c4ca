//! I4, ids strictly increase over attempts: a complete checkpoint has a larger id than every complete one before it, an
//! attempt begins above every id that is known, and no attempt triggers an id twice.
//!
//! From: the global invariants. An id that was triggered and left no trace may come again in a later attempt: together
//! with the attempt it is still unique.

use std::collections::BTreeMap;

use highwater_checkpoint::LogRecord;
use highwater_state_api::{Attempt, CheckpointId};

use super::Violation;

const NAME: &str = "I4 ids increase";

/// The ids so far.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    claimed: Option<(Attempt, CheckpointId)>,
    completed: Option<CheckpointId>,
    attempts: BTreeMap<Attempt, AttemptIds>,
    last_sequence: u64,
}

/// The ids of one attempt.
#[derive(Debug)]
struct AttemptIds {
    /// The first that is its own: larger than every one that was complete when it claimed the job.
    first: CheckpointId,
    triggered: Option<CheckpointId>,
}

impl Ids {
    /// The attempt that has claimed the job last.
    pub(crate) fn claimed(&self) -> Option<Attempt> {
        self.claimed.map(|(attempt, _)| attempt)
    }

    /// A record was created.
    pub(crate) fn logged(&mut self, sequence: u64, record: &LogRecord) -> Result<(), Violation> {
        let violation = |found: String| Err(Violation::new(NAME, format!("log record {sequence}: {found}")));
        let is_in_hole = sequence < self.last_sequence;
        self.last_sequence = self.last_sequence.max(sequence);
        match record {
            // The claim of an attempt whose list of the log was old: it is void, and the attempt finds out.
            LogRecord::Claim { .. } if is_in_hole => {}
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
                self.attempts.insert(Attempt(sequence), AttemptIds { first: *first_checkpoint, triggered: None });
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
            LogRecord::Dropped { attempt, .. } => {
                if self.claimed.is_none_or(|(claimed, _)| claimed != *attempt) {
                    return violation(format!("attempt {attempt} drops checkpoints of a job that is not its own"));
                }
            }
        }
        Ok(())
    }

    /// An attempt takes subtasks over that may have heard of whatever the one before has triggered: an id that they know already
    /// they would take for an old one.
    pub(crate) fn taken_over(&self, from: Attempt, by: Attempt) -> Result<(), Violation> {
        let (Some(old), Some(new)) = (self.attempts.get(&from), self.attempts.get(&by)) else {
            return Err(Violation::new(NAME, format!("attempt {by} takes over {from}, and one has no claim")));
        };
        if old.triggered.is_some_and(|triggered| triggered >= new.first) {
            let found =
                format!("attempt {by} begins with {}, attempt {from}, whose subtasks go on, was at {old:?}", new.first);
            return Err(Violation::new(NAME, found));
        }
        Ok(())
    }

    /// An attempt triggers a checkpoint; once for each of its sources. One that is fenced and does not know it yet may.
    pub(crate) fn triggered(&mut self, attempt: Attempt, checkpoint: CheckpointId) -> Result<(), Violation> {
        let violation = |found: String| Err(Violation::new(NAME, found));
        let Some(ids) = self.attempts.get_mut(&attempt) else {
            return violation(format!(
                "attempt {attempt} triggers checkpoint {checkpoint} without having claimed the job"
            ));
        };
        if ids.first > checkpoint || ids.triggered.is_some_and(|last| last > checkpoint) {
            return violation(format!("attempt {attempt} triggers checkpoint {checkpoint} after {ids:?}"));
        }
        ids.triggered = Some(checkpoint);
        Ok(())
    }
}
