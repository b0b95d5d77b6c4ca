//! A suite that nothing fails proves nothing: every backend with a defect fails the case that is meant to catch it.

use highwater_conformance::keyed::{self, BackendUnderTest};
use highwater_conformance::wrong::{Cases, hunt_backends};
use highwater_conformance::{ReferenceBackend, Verdict};

#[test]
fn the_right_backend_passes_every_case_and_no_case_passes_it_by() {
    for trial in keyed::run_all(&|| BackendUnderTest::behind_faults(ReferenceBackend)) {
        assert_eq!(trial.verdict, Verdict::Passed, "{trial}");
    }
}

#[test]
fn every_wrong_backend_fails_the_case_that_is_meant_to_catch_it() {
    let hunts = hunt_backends(Cases::Named);
    assert!(!hunts.is_empty());
    for hunt in hunts {
        assert!(hunt.is_caught(), "{} passes {}", hunt.defect, hunt.caught_by);
    }
}

/// A failure that nobody can inject is one that the cases about failures pass by, without a word.
#[test]
fn cases_about_outages_pass_a_backend_by_that_has_none() {
    let trials = keyed::run_all(&|| ReferenceBackend.into());
    assert_eq!(trials.iter().filter(|trial| trial.verdict == Verdict::PassedBy).count(), 5);
}
