//! A suite that nothing fails proves nothing: every sink with a defect fails the case that is meant to catch it.

use std::sync::Arc;

use highwater_conformance::sink::{self, SinkUnderTest};
use highwater_conformance::wrong::{Cases, hunt_sinks};
use highwater_conformance::{ReferenceSink, ReferenceTarget, Verdict};

fn reference() -> SinkUnderTest {
    let target = ReferenceTarget::default();
    let visible = target.clone();
    SinkUnderTest::new(move || ReferenceSink::on(&target), move || visible.visible())
}

#[test]
fn the_right_sink_passes_every_case_and_no_case_passes_it_by() {
    let trials = sink::run_all(&|| {
        let target = ReferenceTarget::default();
        let (visible, uncommitted, outage) = (target.clone(), target.clone(), target.clone());
        SinkUnderTest::new(move || ReferenceSink::on(&target), move || visible.visible())
            .with_uncommitted(move || uncommitted.uncommitted())
            .with_outage(move |is_away| outage.set_outage(is_away))
    });
    for trial in trials {
        assert_eq!(trial.verdict, Verdict::Passed, "{trial}");
    }
}

#[test]
fn every_wrong_sink_fails_the_case_that_is_meant_to_catch_it() {
    let hunts = hunt_sinks(Cases::Named);
    assert!(!hunts.is_empty());
    for hunt in hunts {
        assert!(hunt.is_caught(), "{} passes {}", hunt.defect, hunt.caught_by);
    }
}

#[test]
fn every_case_catches_something() {
    let hunts = hunt_sinks(Cases::All);
    for (case, _) in sink::CASES {
        assert!(hunts.iter().any(|hunt| hunt.failed().any(|failed| failed == *case)), "{case}");
    }
}

/// A failure that nobody can inject is one that the cases about failures pass by, without a word.
#[test]
fn cases_pass_a_sink_by_that_does_not_say_how_to_try_them() {
    let trials = sink::run_all(&reference);
    assert!(trials.iter().all(|trial| !trial.failed()));
    assert_eq!(trials.iter().filter(|trial| trial.verdict == Verdict::PassedBy).count(), 4);
}

#[test]
fn everything_that_a_target_keeps_is_kept_as_long_as_the_target() {
    let (first, second) = (Arc::new(()), Arc::new(()));
    let target = reference().keeping(first.clone()).keeping(second.clone());
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 2));
    drop(target);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
}

mod by_macro {
    highwater_conformance::transactional_sink_conformance!(super::reference);
}
