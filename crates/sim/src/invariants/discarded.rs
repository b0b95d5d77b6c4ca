//! I7, state of failed, aborted, late and subsumed checkpoints is discarded in the end: the storage holds the log and the
//! retained checkpoints, and nothing else.
//!
//! From: the global invariants. What a storage that failed kept from being deleted is found again at the next start.

use std::collections::BTreeSet;

use highwater_checkpoint::paths;
use highwater_state_api::JobName;

use super::Violation;
use super::durable::Completed;
use crate::storage::SimStorage;

/// The job is over and all storage work is done.
pub(crate) fn check(
    storage: &SimStorage,
    job: &JobName,
    completed: &Completed,
    retain: usize,
) -> Result<(), Violation> {
    let retained: BTreeSet<_> =
        completed.newest(retain).iter().map(|(attempt, checkpoint, _)| (*checkpoint, *attempt)).collect();
    for path in storage.peek_paths() {
        let is_needed = match paths::checkpoint_of(job, &path) {
            Some(id) => retained.contains(&id),
            None => paths::sequence_of(job, &path).is_some(),
        };
        if !is_needed {
            return Err(Violation::new("I7 what failed is discarded", format!("{path} was left behind")));
        }
    }
    Ok(())
}
