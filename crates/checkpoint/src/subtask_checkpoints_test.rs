//! The bookkeeping of one subtask.

use highwater_state_api::CheckpointId;

use crate::{Begin, Ended, SubtaskCheckpoints};

fn id(id: u64) -> CheckpointId {
    CheckpointId(id)
}

fn ids(ids: &[u64]) -> Vec<CheckpointId> {
    ids.iter().copied().map(CheckpointId).collect()
}

#[test]
fn a_checkpoint_is_begun_and_completed() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    assert_eq!(checkpoints.begin(id(1)), Begin::Snapshot);
    assert_eq!(checkpoints.complete(id(1)), Ended { completed: Some(id(1)), aborted: vec![] });
}

/// Contract: G150.
#[test]
fn a_checkpoint_that_is_not_newer_is_not_begun() {
    let mut checkpoints = SubtaskCheckpoints::new(Some(id(4)));
    assert_eq!(checkpoints.begin(id(4)), Begin::Late);
    assert_eq!(checkpoints.begin(id(6)), Begin::Snapshot);
    assert_eq!(checkpoints.begin(id(6)), Begin::Late);
    assert_eq!(checkpoints.begin(id(5)), Begin::Late);
}

/// Contract: G149, G150.
#[test]
fn a_checkpoint_that_was_aborted_before_its_barrier_is_skipped() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    assert_eq!(checkpoints.abort(id(2)), Ended::default());
    assert_eq!(checkpoints.begin(id(1)), Begin::Snapshot);
    assert_eq!(checkpoints.begin(id(2)), Begin::Aborted);
    assert_eq!(checkpoints.begin(id(2)), Begin::Late);
    assert_eq!(checkpoints.begin(id(3)), Begin::Snapshot);
}

#[test]
fn an_abort_is_reported_once() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    checkpoints.begin(id(1));
    assert_eq!(checkpoints.abort(id(1)), Ended { completed: None, aborted: ids(&[1]) });
    assert_eq!(checkpoints.abort(id(1)), Ended::default());
}

#[test]
fn completing_a_checkpoint_ends_older_ones() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    for number in 1..=4 {
        checkpoints.begin(id(number));
    }
    assert_eq!(checkpoints.complete(id(3)), Ended { completed: Some(id(3)), aborted: ids(&[1, 2]) });
    assert_eq!(checkpoints.complete(id(4)), Ended { completed: Some(id(4)), aborted: vec![] });
}

/// Contract: O285.
#[test]
fn completions_are_reported_in_ascending_order_and_once() {
    let mut checkpoints = SubtaskCheckpoints::new(Some(id(5)));
    let mut reported = Vec::new();
    for number in [4, 5, 7, 6, 7, 9, 8, 9] {
        reported.extend(checkpoints.complete(id(number)).completed);
    }
    assert_eq!(reported, ids(&[7, 9]));
}

#[test]
fn a_late_abort_takes_nothing_back() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    checkpoints.begin(id(1));
    checkpoints.complete(id(1));
    assert_eq!(checkpoints.abort(id(1)), Ended::default());
    assert_eq!(checkpoints.begin(id(2)), Begin::Snapshot);
}

/// Field case: R37.
#[test]
fn what_a_lost_notification_would_have_ended_ends_with_the_next_one_and_once() {
    let mut checkpoints = SubtaskCheckpoints::new(None);
    for number in 1..=9 {
        assert_eq!(checkpoints.begin(id(number)), Begin::Snapshot);
    }
    checkpoints.complete(id(3));
    // Nothing is heard of 4 to 8.
    assert_eq!(checkpoints.complete(id(9)), Ended { completed: Some(id(9)), aborted: ids(&[4, 5, 6, 7, 8]) });
    assert_eq!(checkpoints.complete(id(9)), Ended::default());
}
