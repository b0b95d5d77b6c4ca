//! A subtask that goes on when another attempt takes it over.

use highwater_checkpoint::CheckpointingMode;
use highwater_state_api::{Attempt, CheckpointId};

use super::subtask_test::Fixture;
use crate::control::Control;

/// Contract: O275.
#[test]
fn it_says_once_more_how_far_it_has_come_and_goes_on_where_it_is() {
    let mut fixture = Fixture::with_mode(CheckpointingMode::ExactlyOnce, 2, 1 << 20);
    fixture.records(0, &[1]).barrier(0, 7);
    assert_eq!(fixture.run().0, ["running", "record 1"]);
    // Checkpoint 7 waits for the other barrier, and is of an attempt that is over.
    fixture.control.send(Control::Aborted { checkpoint: CheckpointId(7), latest_complete: None });
    fixture.control.send(Control::Adopt(Attempt(4)));
    fixture.records(0, &[2]);
    assert_eq!(fixture.run().0, ["adopted", "running", "record 2"]);
    fixture.barrier(0, 9).barrier(1, 7).barrier(1, 9);
    assert_eq!(fixture.run().0, ["snapshot 9 of attempt 4"]);
}

/// Contract: O275.
#[test]
fn one_that_has_ended_says_that_too_and_what_it_has_settled() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.end(0);
    assert_eq!(fixture.run().0, ["running", "ended"]);
    fixture.barrier(0, 7);
    fixture.control.send(Control::Complete(CheckpointId(7)));
    assert!(fixture.run().0.contains(&"settled 7".to_owned()));
    fixture.control.send(Control::Adopt(Attempt(4)));
    fixture.control.send(Control::Complete(CheckpointId(7)));
    assert_eq!(fixture.run().0, ["adopted", "running", "ended", "settled 7"]);
}
