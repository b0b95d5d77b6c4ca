//! The coordinator from trigger to completion, and everything that can come between.

use insta::assert_snapshot;

use crate::script_test::{completed, config, describe, now, run, start};
use crate::{AttemptStart, Coordinator, CoordinatorConfig, Event};

pub(crate) fn check(config: CoordinatorConfig, script: &str) -> String {
    run(&mut Coordinator::new(config, start()), script)
}

/// A script that completes a checkpoint whose trigger is due.
pub(crate) fn complete(time: u64, checkpoint: u64, sequence: u64) -> String {
    format!("@{time}\n enumerated {checkpoint}\n ack {checkpoint}\n written {checkpoint}\n appended {sequence}\n")
}

/// Contract: J190, J194, J211, M247.
#[test]
fn a_checkpoint_completes() {
    assert_snapshot!(check(
        config(),
        "
        @0 running-only 0/0
        @50 running
        @1049
        @1050
        @1060 enumerated 1
        @1070 ack-only 1 0/0
        ack-only 1 0/1
        ack-only 1 1/1
        @1080 ack-only 1 1/0
        @1090 written 1
        @1100 appended 6
        @2050
        "
    ));
}

#[test]
fn the_first_checkpoint_waits_for_the_pause_if_it_is_longer() {
    assert_snapshot!(check(
        CoordinatorConfig { min_pause_ms: 1_500, ..config() },
        "
        @0 running
        @1000
        @1500
        "
    ));
}

/// Contract: J191, K224.
#[test]
fn the_pause_is_counted_from_the_last_completion_and_only_for_periodic_checkpoints() {
    let script = format!(
        "@0 running\n{}@3500\n@3799\n@3800\n{}",
        complete(2_000, 1, 6).replace(" appended 6", "@2300 appended 6"),
        "enumerated 2\n ack 2\n written 2\n @3900 appended 7\n @4000 request\n decline 3 0/0 async\n @5399\n @5400\n"
    );
    assert_snapshot!(check(CoordinatorConfig { interval_ms: Some(500), min_pause_ms: 1_500, ..config() }, &script));
}

/// Contract: J193.
#[test]
fn without_an_interval_only_requests_trigger() {
    assert_snapshot!(check(
        CoordinatorConfig { interval_ms: None, ..config() },
        "
        @0 request
        @10 running
        @20 request
        @30 request
        @40 enumerated 1
        ack 1
        @50 written 1
        @60 appended 6
        "
    ));
}

/// Contract: J192.
#[test]
fn a_trigger_that_found_no_room_comes_as_soon_as_there_is_some() {
    assert_snapshot!(check(
        CoordinatorConfig { timeout_ms: 10_000, ..config() },
        "
        @0 running
        @1000
        @2000
        @3500 enumerated 1
        ack 1
        @3510 written 1
        @3520 appended 6
        "
    ));
}

/// Contract: J197, J199.
#[test]
fn a_decline_aborts() {
    assert_snapshot!(check(
        config(),
        "
        @0 running
        @1000 enumerated 1
        ack-only 1 1/0
        decline 1 1/0 async
        decline 1 1/1 async
        decline 1 0/0 async
        ack-only 1 1/1
        written 1
        @2000
        "
    ));
}

/// Contract: J204, L226, L227, L235.
#[test]
fn only_failures_in_a_row_fail_the_attempt() {
    let script = format!(
        "@0 running\n@1000 decline 1 0/0 snapshot\n{}@3000 decline 3 0/0 async\n@4000\n@4600\n@5000",
        complete(2_000, 2, 6)
    );
    assert_snapshot!(check(CoordinatorConfig { tolerable_failures: 1, ..config() }, &script));
}

/// Contract: J206, L226.
#[test]
fn a_checkpoint_that_was_overtaken_has_not_failed() {
    assert_snapshot!(check(
        CoordinatorConfig { tolerable_failures: 0, ..config() },
        "
        @0 running
        @1000 decline 1 1/0 subsumed
        @2000 enumerated 2
        ack 2
        write-failed 2
        @3000
        "
    ));
}

/// Contract: J197, J204, J205.
#[test]
fn a_checkpoint_expires_in_every_phase_before_its_append() {
    assert_snapshot!(check(
        CoordinatorConfig { interval_ms: None, ..config() },
        "
        @0 running
        request
        @599
        @600
        enumerated 1
        @1000 request
        enumerated 2
        ack-only 2 0/0
        @1600
        ack-only 2 1/0
        @2000 request
        enumerated 3
        ack 3
        @2600
        written 3
        @3000 request
        enumerated 4
        ack 4
        written 4
        @9999
        appended 6
        "
    ));
}

/// Contract: J190, J200, M238.
#[test]
fn a_newer_checkpoint_subsumes_older_ones() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 3, timeout_ms: 60_000, ..config() },
        "
        @0 running
        @1000 enumerated 1
        @2000 enumerated 2
        @3000 enumerated 3
        @4000
        ack 2
        ack-only 1 0/0
        written 2
        @4500 appended 6
        ack-only 1 1/1
        ack 3
        written 3
        appended 7
        "
    ));
}

#[test]
fn records_are_appended_one_at_a_time_in_order_of_completion() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 3, timeout_ms: 60_000, retain: 2, ..config() },
        "
        @0 running
        @1000 enumerated 1
        @2000 enumerated 2
        @3000 enumerated 3
        ack 1
        ack 2
        ack 3
        written 1
        written 3
        written 2
        appended 6
        appended 7
        "
    ));
}

#[test]
fn an_append_that_does_not_end_stops_only_later_appends() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 2, timeout_ms: 1_500, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        @2000 enumerated 2
        ack 2
        written 2
        @2400 unknown 6
        @3000 read-failed 6
        @3500
        @3550 read-own 6
        "
    ));
}

#[test]
fn a_log_that_does_not_tell_within_the_timeout_ends_the_attempt() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 3, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        @1300 request
        enumerated 2
        ack 2
        written 2
        @1400 request
        unknown 6 disk-full
        @1410 read-failed 6
        @1510 read-none 6
        @1710 unknown 6 disk-full
        read-failed 6 no-such-folder
        @1899
        @1999
        @2000
        read-own 6
        appended 6
        ack 3
        @9000 request
        shutdown
        "
    ));
}

#[test]
fn a_log_that_tells_in_time_starts_the_patience_anew() {
    assert_snapshot!(check(
        CoordinatorConfig { retain: 2, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        @1100 unknown 6
        @1699 read-own 6
        @2000 enumerated 2
        ack 2
        written 2
        @2100 taken 7
        @2200 read-failed 7
        @2300
        @2799 read-none 7
        @2799 appended 7
        @2800
        "
    ));
}

#[test]
fn an_answer_that_comes_with_the_timeout_counts() {
    let script = "@0 running\n@1000 enumerated 1\n ack 1\n written 1\n unknown 6\n";
    let mut coordinator = Coordinator::new(config(), start());
    let transcript = run(&mut coordinator, script);
    assert!(transcript.ends_with("read 6\ndeadline: 1600\n"), "{transcript}");
    let actions = coordinator.on_event(now(1_600), Event::LogAppended { sequence: 6 });
    assert_eq!(actions.iter().map(describe).collect::<Vec<_>>(), ["notify complete 1"]);
}

#[test]
fn the_log_must_tell_what_became_of_the_last_record_too() {
    assert_snapshot!(check(
        config(),
        "
        @0 ended
        enumerated 1
        ack 1
        written 1
        appended 6
        @100 settled 1
        @200 unknown 7
        read-none 7
        unknown 7 disk-full
        read-failed 7
        @799
        @800
        @900 appended 7
        "
    ));
}

#[test]
fn a_bounded_number_of_checkpoints_waits_for_the_log() {
    let mut script = "@0 running\n".to_owned();
    for checkpoint in 1..=9 {
        if checkpoint == 2 {
            script += "unknown 6\n";
        }
        script += &format!("@{checkpoint}000\n enumerated {checkpoint}\n ack {checkpoint}\n written {checkpoint}\n");
    }
    let transcript = check(CoordinatorConfig { timeout_ms: 60_000, ..config() }, &script);
    assert!(transcript.contains("snapshot enumerators for 8"), "{transcript}");
    assert!(!transcript.contains("snapshot enumerators for 9"), "{transcript}");
}

#[test]
fn a_taken_number_with_the_own_record_counts_as_appended() {
    assert_snapshot!(check(
        config(),
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        taken 6
        read-own 6
        "
    ));
}

#[test]
fn a_foreign_claim_fences_for_ever() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 2, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        @1500 request
        taken 6
        read-claim 6
        enumerated 2
        ack 2
        @9000 request
        decline 2 0/0 async
        shutdown
        "
    ));
}

#[test]
fn an_unknown_append_is_tried_again_under_its_number() {
    assert_snapshot!(check(
        CoordinatorConfig { timeout_ms: 60_000, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        unknown 6
        read-none 6
        unknown 6
        @1010 read-failed 6
        @1110
        @1120 read-failed 6
        @1320
        read-none 6
        @1720
        taken 6
        appended 5
        read-none 7
        read-own 6
        appended 6
        "
    ));
}

/// Contract: M238, M239.
#[test]
fn what_is_no_longer_retained_goes() {
    let earlier = AttemptStart {
        retained: vec![completed(2, 1, 3), completed(3, 1, 4), completed(5, 4, 6)],
        attempt: crate::script_test::ATTEMPT,
        first_checkpoint: highwater_state_api::CheckpointId(8),
        next_sequence: 6,
    };
    let mut coordinator = Coordinator::new(CoordinatorConfig { retain: 2, ..config() }, earlier);
    let mut script = "@0 running\n".to_owned();
    for index in 0..3 {
        script += &complete(1_000 * (index + 1), 8 + index, 6 + index);
    }
    assert_snapshot!(run(&mut coordinator, &script));
}

#[test]
fn the_final_checkpoint_finishes_the_job() {
    assert_snapshot!(check(
        CoordinatorConfig { min_pause_ms: 5_000, ..config() },
        "
        @0 running
        ended-only 0/0
        @100 ended
        enumerated 1
        ack 1
        @200 written 1
        settled-only 1 0/0
        @300 appended 6
        settled-only 1 0/0
        settled-only 1 0/0
        settled-only 0 0/1
        @1300
        settled 1
        appended 7
        "
    ));
}

/// Contract: P294.
#[test]
fn a_checkpoint_from_before_the_end_is_not_final() {
    assert_snapshot!(check(
        config(),
        "
        @0 running
        @1000 enumerated 1
        ack 1
        ended
        written 1
        @1100 appended 6
        enumerated 2
        ack 2
        written 2
        appended 7
        settled 1
        settled 2
        "
    ));
}

#[test]
fn a_final_checkpoint_that_fails_is_tried_again_after_a_pause() {
    assert_snapshot!(check(
        CoordinatorConfig { tolerable_failures: 1, ..config() },
        "
        @0 ended
        decline 1 0/0 subsumed
        @199
        @200
        write-failed 1
        decline 2 0/0 async
        @400 enumerated 3
        ack 3
        write-failed 3
        @9999
        "
    ));
}

#[test]
fn a_job_without_an_interval_still_takes_its_final_checkpoint() {
    assert_snapshot!(check(CoordinatorConfig { interval_ms: None, ..config() }, "@0 running\n@10 ended"));
}

/// Contract: J190, J207.
#[test]
fn the_end_discards_everything_but_what_the_log_decides() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 3, timeout_ms: 60_000, ..config() },
        "
        @0 running
        @1000 enumerated 1
        @2000 enumerated 2
        @3000 enumerated 3
        ack 1
        written 1
        ack 2
        written 2
        @4000
        unknown 6
        shutdown
        read-own 6
        ack 3
        @9000
        "
    ));
}
