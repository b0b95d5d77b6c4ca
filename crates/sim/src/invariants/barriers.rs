//! I2, barriers never overtake records, and no record overtakes a barrier: what a task put out before its snapshot is
//! exactly what the next task had taken in before its own.
//!
//! From: the global invariants of aligned checkpoints.

use highwater_state_api::CheckpointId;

use super::Violation;
use crate::probe::{Role, Testimony};
use crate::record::RecordId;

const NAME: &str = "I2 barriers keep their place";

/// Compares both sides of each edge, once every subtask of both has its snapshot or has finished.
pub(crate) fn check(testimony: &Testimony, checkpoint: CheckpointId) -> Result<(), Violation> {
    for (from, to) in [(Role::Source, Role::Counter), (Role::Counter, Role::Sink)] {
        let before = |role, side: fn(&crate::probe::Seen, (usize, usize)) -> &[RecordId]| {
            let mut records = Vec::new();
            for (_, seen) in testimony.seen.iter().filter(|((of, _), _)| *of == role) {
                records.extend_from_slice(side(seen, seen.before(checkpoint)?));
            }
            records.sort_unstable();
            Some(records)
        };
        let put = before(from, |seen, (_, put)| &seen.put[..put]);
        let taken = before(to, |seen, (taken, _)| &seen.taken[..taken]);
        let (Some(put), Some(taken)) = (put, taken) else { continue };
        if put != taken {
            let lost: Vec<_> = put.iter().filter(|id| taken.binary_search(id).is_err()).collect();
            let early: Vec<_> = taken.iter().filter(|id| put.binary_search(id).is_err()).collect();
            let found = format!(
                "checkpoint {checkpoint}, {from:?} to {to:?}: sent before the barrier and not processed before it \
                 {lost:?}; processed before it and sent after it {early:?}"
            );
            return Err(Violation::new(NAME, found));
        }
    }
    Ok(())
}
