//! A suite that nothing fails proves nothing: storages that are deliberately wrong fail it, each in the right cases.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use highwater_conformance::storage::{CASES, StorageUnderTest};
use support::simple_storage::{Mistake, SimpleStorage};

/// The cases that a storage fails.
fn failed(storage: impl Fn() -> SimpleStorage) -> Vec<&'static str> {
    let failed = CASES
        .iter()
        .filter(|(_, case)| catch_unwind(AssertUnwindSafe(|| case(&|| StorageUnderTest::new(storage())))).is_err());
    failed.map(|(name, _)| *name).collect()
}

#[track_caller]
fn check(mistake: Mistake, expected: &[&str]) {
    let failed = failed(|| SimpleStorage::with(mistake));
    for case in expected {
        assert!(failed.contains(case), "{mistake:?} passes {case}; it fails {failed:?}");
    }
    assert!(failed.len() < CASES.len() / 2, "{mistake:?} fails {failed:?}: too many to tell what is wrong");
}

#[test]
fn a_storage_without_mistakes_passes() {
    assert_eq!(failed(SimpleStorage::default), [""; 0]);
}

#[test]
fn publishing_before_the_finish_is_caught() {
    check(
        Mistake::PublishesBeforeFinish,
        &[
            "an_unfinished_upload_is_invisible",
            "a_dropped_upload_leaves_nothing",
            "a_listing_does_not_show_unfinished_uploads",
        ],
    );
}

#[test]
fn overwriting_is_caught() {
    check(
        Mistake::Overwrites,
        &[
            "creating_over_an_object_fails_and_leaves_it_unharmed",
            "creating_whole_over_an_object_fails_and_leaves_it_unharmed",
            "the_first_of_two_uploads_to_finish_has_the_path",
            "of_racing_creations_exactly_one_wins",
        ],
    );
}

#[test]
fn taking_an_error_for_empty_is_caught() {
    check(Mistake::TakesAnErrorForEmpty, &["reading_an_absent_object_is_not_found", "a_folder_is_not_an_object"]);
}

#[test]
fn forgetting_to_sort_is_caught() {
    check(Mistake::ForgetsToSort, &["a_listing_is_sorted_and_recursive"]);
}
