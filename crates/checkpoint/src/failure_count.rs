//! Which failures of checkpoints fail the attempt: more in a row than are tolerated.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

use crate::CheckpointFailure;

/// A number of tolerated failures that means any number.
pub(crate) const ANY_NUMBER: u32 = u32::MAX;

/// Counts the failures in a row. Flink's `CheckpointFailureManager`.
///
/// A checkpoint counts once, whatever fails of it. One that is older than the newest complete one does not count: that
/// one has made up for it.
#[derive(Debug, Clone)]
pub(crate) struct FailureCount {
    tolerated: u32,
    in_a_row: u32,
    counted: BTreeSet<CheckpointId>,
    last_complete: Option<CheckpointId>,
}

/// More failed in a row than are tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// How many failed in a row.
    pub(crate) failed: u32,
    /// How many are tolerated.
    pub(crate) tolerated: u32,
}

impl FailureCount {
    pub(crate) fn new(tolerated: u32) -> Self {
        Self { tolerated, in_a_row: 0, counted: BTreeSet::new(), last_complete: None }
    }

    /// A checkpoint is complete.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) {
        if self.last_complete.is_none_or(|last| checkpoint > last) {
            self.last_complete = Some(checkpoint);
            self.reset();
        }
    }

    /// A checkpoint has failed. An error ends the attempt, and the count begins anew.
    pub(crate) fn failed(&mut self, checkpoint: CheckpointId, failure: &CheckpointFailure) -> Result<(), TooMany> {
        let is_made_up_for = self.last_complete >= Some(checkpoint);
        if !failure.counts() || is_made_up_for || !self.counted.insert(checkpoint) {
            return Ok(());
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.tolerated == ANY_NUMBER || self.in_a_row <= self.tolerated {
            return Ok(());
        }
        let too_many = TooMany { failed: self.in_a_row, tolerated: self.tolerated };
        self.reset();
        Err(too_many)
    }

    fn reset(&mut self) {
        self.in_a_row = 0;
        self.counted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckpointFailureReason::{self, *};

    /// What each step says: whether the attempt fails.
    fn run(tolerated: u32, steps: &[(u64, Option<CheckpointFailureReason>)]) -> Vec<bool> {
        let mut count = FailureCount::new(tolerated);
        let step = |(id, reason): &(u64, Option<CheckpointFailureReason>)| match reason {
            Some(reason) => count.failed(CheckpointId(*id), &(*reason).into()).is_err(),
            None => {
                count.completed(CheckpointId(*id));
                false
            }
        };
        steps.iter().map(step).collect()
    }

    fn failures(fails: &[bool]) -> usize {
        fails.iter().filter(|fails| **fails).count()
    }

    /// Contract: L226, L233.
    #[test]
    fn one_failure_more_than_are_tolerated_fails_the_attempt_and_the_count_begins_anew() {
        let four = [(1, Some(Declined)), (2, Some(Declined)), (3, Some(JobFailoverRegion)), (4, Some(Declined))];
        assert_eq!(run(2, &four), [false, false, false, true]);
        let more: Vec<_> = (1..=9).map(|id| (id, Some(Expired))).collect();
        assert_eq!(run(2, &more), [false, false, true, false, false, true, false, false, true]);
    }

    /// Contract: L227.
    #[test]
    fn a_complete_checkpoint_sets_the_count_back() {
        let steps =
            [(1, Some(Expired)), (2, Some(Declined)), (3, Some(DeclinedSubsumed)), (4, None), (5, Some(Expired))];
        assert_eq!(failures(&run(2, &steps)), 0);
    }

    /// Contract: L228.
    #[test]
    fn a_failure_that_a_newer_checkpoint_has_made_up_for_does_not_count() {
        let steps = [
            (1, Some(Expired)),
            (2, Some(Expired)),
            (2, None),
            (1, Some(Declined)),
            (2, Some(Declined)),
            (3, Some(Expired)),
            (4, Some(Expired)),
        ];
        assert_eq!(failures(&run(2, &steps)), 0);
    }

    /// Contract: L229.
    #[test]
    fn a_checkpoint_that_fails_twice_counts_once() {
        let steps = [(1, Some(Expired)), (1, Some(Declined)), (1, Some(AsyncException)), (2, Some(Expired))];
        assert_eq!(run(1, &steps), [false, false, false, true]);
    }

    /// Contract: L230.
    #[test]
    fn with_none_tolerated_exactly_these_reasons_fail_the_attempt() {
        let fails =
            |reason: &CheckpointFailureReason| FailureCount::new(0).failed(CheckpointId(1), &(*reason).into()).is_err();
        let failing: Vec<_> = CheckpointFailureReason::all().filter(fails).map(CheckpointFailureReason::name).collect();
        let expected = [
            "IO_EXCEPTION",
            "CHECKPOINT_DECLINED_TIME_OUT",
            "CHECKPOINT_DECLINED",
            "CHECKPOINT_ASYNC_EXCEPTION",
            "CHECKPOINT_EXPIRED",
            "FINALIZE_CHECKPOINT_FAILURE",
        ];
        assert_eq!(failing, expected);
    }

    /// Contract: L231.
    #[test]
    fn any_number_is_never_too_many() {
        let mut count = FailureCount::new(ANY_NUMBER);
        count.in_a_row = u32::MAX - 1;
        for id in 0..4 {
            assert_eq!(count.failed(CheckpointId(id), &Expired.into()), Ok(()));
        }
    }

    /// Field case: R13.
    #[test]
    fn expiries_in_a_row_are_counted_and_a_success_sets_them_back() {
        let expired = |id| (id, Some(Expired));
        assert_eq!(run(2, &[expired(1), expired(2), expired(3)]), [false, false, true]);
        let with_success = [expired(1), expired(2), (3, None), expired(4), expired(5), expired(6)];
        assert_eq!(run(2, &with_success), [false, false, false, false, false, true]);
        let free = [expired(1), expired(2), (3, Some(Subsumed)), (4, Some(DeclinedTaskNotReady)), expired(5)];
        assert_eq!(run(2, &free), [false, false, false, false, true]);
    }
}
