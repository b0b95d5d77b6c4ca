//! Two-phase commit: the sink commits only what a complete checkpoint covers, each transaction once, loses none, and the
//! job is finished only when its last effect is visible.
//!
//! From: the contract of transactional sinks, and of `LogRecord::Finished`.

use std::collections::BTreeSet;

use super::Violation;
use super::durable::Completed;
use crate::job::{Pipeline, SinkEvent};

const NAME: &str = "commits follow checkpoints";

/// Something happened outside, where the pipeline in this place writes to.
pub(crate) fn check(
    completed: &Completed,
    (place, pipeline): (usize, &Pipeline),
    event: &SinkEvent,
) -> Result<(), Violation> {
    match event {
        SinkEvent::Committed(transaction) => {
            if !completed.covers(place, transaction.attempt, transaction.checkpoint) {
                let found = format!("{transaction:?} was committed, no complete checkpoint covers it");
                return Err(Violation::new(NAME, found));
            }
            let mut seen = BTreeSet::new();
            for counted in pipeline.outside.committed().values().flatten() {
                if !seen.insert(counted.record.id()) {
                    let found = format!("{transaction:?} made record {:?} visible again", counted.record.id());
                    return Err(Violation::new(NAME, found));
                }
            }
            Ok(())
        }
        SinkEvent::Lost(transaction) => {
            Err(Violation::new(NAME, format!("{transaction:?} was to be committed and is nowhere any more")))
        }
        SinkEvent::Prepared(_) | SinkEvent::CommittedAgain(_) | SinkEvent::Failed(..) | SinkEvent::Removed(_) => Ok(()),
    }
}

/// The log says that the job is finished: everything is visible.
pub(crate) fn check_finished(pipeline: &Pipeline) -> Result<(), Violation> {
    let Pipeline { input, outside, .. } = pipeline;
    let (expected, visible) = (input.records().count(), outside.committed().values().flatten().count());
    if expected != visible {
        let found = format!("the job counts as finished when {visible} of {expected} records are visible");
        return Err(Violation::new(NAME, found));
    }
    Ok(())
}
