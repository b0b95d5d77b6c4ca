//! Numbers of log records: which may be deleted, and how to find out that one has been.
//!
//! A writer whose list of the log is old may believe that a number is free which is only free again because its record was
//! deleted. So every record has a *successor* further on, and is deleted only once its successor is in the log: the next
//! multiple of 64, whose own is the next multiple of 64², and so on. Whoever looks for a record, then for its successor, then
//! for the successor's, in this order, finds one of them if the record was ever there: when it was deleted its successor was
//! in the log, and if that had been deleted before it was looked for, then the next one was. Few records stay for ever: of
//! 64 one stays until 4,096 are full, of these one until 262,144 are.

/// How many records have a successor in common.
const FAN_OUT: u64 = 64;

/// The record that must be in the log before record `sequence` may be deleted; `None` when it is never deleted.
pub(crate) fn successor(sequence: u64) -> Option<u64> {
    let mut step = FAN_OUT;
    while sequence.is_multiple_of(step) {
        step = step.checked_mul(FAN_OUT)?;
    }
    sequence.checked_next_multiple_of(step)
}

/// The records of which one is in the log if record `sequence` was there and has been deleted. To be looked for in this
/// order: each is deleted only when the next one is there.
///
/// An attempt that has appended its claim looks for them: if there is one, the claim has fallen into the hole that a
/// deleted record left, another attempt is far ahead of it, and it is void.
pub fn successors(sequence: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(successor(sequence), |sequence| successor(*sequence))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_successor_is_the_next_multiple_of_the_next_power() {
        let first = |sequence| successors(sequence).take(3).collect::<Vec<_>>();
        assert_eq!(first(1), [64, 4_096, 262_144]);
        assert_eq!(first(63), [64, 4_096, 262_144]);
        assert_eq!(first(64), [4_096, 262_144, 16_777_216]);
        assert_eq!(first(65), [128, 4_096, 262_144]);
        assert_eq!(first(4_096), [262_144, 16_777_216, 1_073_741_824]);
        assert_eq!(first(4_097), [4_160, 8_192, 262_144]);
        assert_eq!(successor(u64::MAX), None);
        assert!(successors(1).count() < 12, "few have to be looked for");
    }

    #[test]
    fn a_record_that_was_there_is_found_however_the_looking_and_the_deleting_interleave() {
        // A log that deletes all it may after each append; between any two looks it goes on by any number of records.
        for (sought, behind) in [(1, 5), (7, 70), (63, 64), (64, 200), (100, 4_000), (127, 9_000)] {
            for stride in [0, 1, 13, 64, 100, 5_000] {
                let mut log: BTreeSet<u64> = (1..=sought + behind).collect();
                let mut last = sought + behind;
                let mut go_on = |by: u64| {
                    log.extend(last + 1..=last + by);
                    last += by;
                    let deletable = |sequence: &u64| successor(*sequence).is_some_and(|next| next <= last);
                    log.retain(|sequence| *sequence == last || !deletable(sequence));
                    log.clone()
                };
                let found = std::iter::once(sought).chain(successors(sought)).any(|look| go_on(stride).contains(&look));
                assert!(found, "record {sought} was missed, {behind} behind it, {stride} between looks");
            }
        }
    }
}
