//! A suite that nothing fails proves nothing: backends that are deliberately wrong fail it, each in the right cases.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use highwater_conformance::keyed::CASES;
use support::byte_backend::{ByteBackend, Mistake};

/// The cases that a backend fails.
fn failed(backend: ByteBackend) -> Vec<&'static str> {
    let failed = CASES.iter().filter(|(_, case)| {
        let run = AssertUnwindSafe(|| case(&|| Box::new(backend)));
        catch_unwind(run).is_err()
    });
    failed.map(|(name, _)| *name).collect()
}

#[track_caller]
fn check(mistake: Mistake, expected: &[&str]) {
    let failed = failed(ByteBackend::with(mistake));
    for case in expected {
        assert!(failed.contains(case), "{mistake:?} passes {case}; it fails {failed:?}");
    }
}

#[test]
fn a_backend_without_mistakes_passes() {
    assert_eq!(failed(ByteBackend::default()), [""; 0]);
}

#[test]
fn joining_without_lengths_is_caught() {
    check(
        Mistake::JoinsWithoutLengths,
        &["bytes_are_kept_under_their_whole_address", "maps_of_keys_that_look_alike_do_not_mix"],
    );
}

#[test]
fn scanning_too_far_is_caught() {
    // At the bytes only: the default serializer writes lengths first, so that no key begins like another.
    check(Mistake::ScansTooFar, &["a_scan_visits_exactly_its_prefix"]);
}

#[test]
fn taking_empty_for_absent_is_caught() {
    check(Mistake::TakesEmptyForAbsent, &["an_empty_value_is_a_value", "zero_false_empty_and_unit_are_values"]);
}

#[test]
fn freezing_nothing_is_caught() {
    check(
        Mistake::FreezesNothing,
        &[
            "a_snapshot_does_not_see_later_changes",
            "several_snapshots_can_be_open_at_once",
            "a_snapshot_can_be_written_on_another_thread",
        ],
    );
}

#[test]
fn keeping_what_was_removed_is_caught() {
    check(
        Mistake::KeepsWhatWasRemoved,
        &["a_snapshot_does_not_have_what_was_removed", "bytes_are_kept_under_their_whole_address"],
    );
}

#[test]
fn forgetting_the_group_is_caught() {
    check(Mistake::ForgetsTheGroup, &["bytes_are_kept_under_their_whole_address", "state_moves_with_its_key_groups"]);
}
