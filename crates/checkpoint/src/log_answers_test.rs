//! Answers of the job log that come late or never.

use highwater_state_api::CheckpointId;
use insta::assert_snapshot;

use crate::coordinator_test::check;
use crate::script_test::{config, run, start};
use crate::{Coordinator, CoordinatorConfig};

/// The record of checkpoint 1 is to be appended under number 6.
const APPENDING: &str = "@0 running\n@1000 enumerated 1\n ack 1\n written 1\n";

/// What follows from there.
fn appending(config: CoordinatorConfig, script: &str) -> String {
    check(config, &format!("{APPENDING}{script}"))
}

#[test]
fn an_append_that_is_not_answered_is_looked_into_and_made_again() {
    assert_snapshot!(appending(
        CoordinatorConfig { timeout_ms: 600_000, retain: 2, ..config() },
        "
        @30999
        @31000
        @31010 read-none 6
        @31020 appended 6
        @32010 enumerated 2
        ack 2
        written 2
        @62010
        @62020 read-own 7
        "
    ));
}

#[test]
fn what_is_answered_late_counts() {
    assert_snapshot!(appending(
        CoordinatorConfig { timeout_ms: 600_000, ..config() },
        "
        @31000
        @31010 taken 6
        @31020 appended 6
        read-none 6
        @40000
        "
    ));
}

#[test]
fn no_more_than_three_calls_of_the_log_hang_in_an_attempt() {
    assert_snapshot!(appending(
        CoordinatorConfig { timeout_ms: 60_000, ..config() },
        "
        @31000
        @61000
        @61100
        @90999
        @91000
        "
    ));
}

#[test]
fn a_call_that_comes_back_makes_room_for_another_one() {
    assert_snapshot!(appending(
        CoordinatorConfig { timeout_ms: 90_000, ..config() },
        "
        @31000
        @61000
        @61100
        @61200 taken 6
        @91100
        @91300 read-own 6
        "
    ));
}

#[test]
fn also_when_no_other_one_was_to_be_made() {
    for answer in ["taken 6", "unknown 6"] {
        let script = "
            @31000
            @61000
            @61100
            @91100
            @100000
            ";
        let config = || CoordinatorConfig { timeout_ms: 600_000, ..config() };
        let silent = appending(config(), script);
        assert!(silent.ends_with("@100000\ndeadline: 631000\n"), "{silent}");
        let answered = appending(config(), &format!("{script}\n@100000 {answer}"));
        assert!(answered.ends_with(&format!("{answer}\n    read 6\ndeadline: 130000\n")), "{answered}");
    }
}

#[test]
fn an_attempt_that_is_over_hears_what_became_of_the_last_append() {
    for (last, undecided) in [
        ("", Some(CheckpointId(1))),
        ("unknown 6", Some(CheckpointId(1))),
        ("taken 6", Some(CheckpointId(1))),
        ("read-none 6", Some(CheckpointId(1))),
        ("appended 7", Some(CheckpointId(1))),
        ("unknown 6\n read-own 6", None),
        ("appended 6", None),
        ("read-own 6", None),
        ("read-claim 6", None),
    ] {
        let mut coordinator = Coordinator::new(config(), start());
        let transcript = run(&mut coordinator, &format!("{APPENDING} shutdown\n {last}"));
        assert_eq!(coordinator.undecided(), undecided, "{last}");
        let is_complete = transcript.contains("note complete 1");
        assert_eq!(is_complete, undecided.is_none() && last != "read-claim 6", "{transcript}");
        assert!(!transcript.contains("notify"), "{transcript}");
        assert_eq!(coordinator.next_deadline(), None);
    }
}
