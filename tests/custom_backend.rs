//! The backend of the `custom_backend` example keeps the contract, and a job on it survives a kill and a rescale.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

#[path = "../examples/custom_backend/backend.rs"]
mod backend;
mod support;

use highwater_conformance::backend_conformance;
use support::flights::FlightsRun;

backend_conformance!(backend::BTreeStateBackend::default);

/// Contract: R326.
#[test]
fn flights_are_golden_after_kills_and_changes_of_parallelism() {
    let run = FlightsRun::of_example("custom_backend");
    let slow = ["--throttle", "2000", "--interval-ms", "60"];
    run.kill_after(6, &[&slow[..], &["--parallelism", "2"]].concat());
    let trace = run.kill_after(6, &[&slow[..], &["--parallelism", "3"]].concat());
    assert!(trace.contains("highwater::job: restoring"), "the second process did not go on from a checkpoint\n{trace}");

    let summary = run.finish(&["--parallelism", "1"]);
    assert!(summary.contains("resumed from checkpoint"), "{summary}");
    run.assert_golden();

    let summary = run.finish(&["--parallelism", "2"]);
    assert!(summary.contains("finished already"), "{summary}");
    run.assert_golden();
}

/// What is written of a snapshot is the same whatever backend took it.
#[test]
fn flights_move_between_backends() {
    let run = FlightsRun::of_example("custom_backend");
    run.kill_after(6, &["--throttle", "2000", "--interval-ms", "60", "--parallelism", "2"]);

    let on_the_heap = run.with_example("flights");
    let summary = on_the_heap.finish(&["--parallelism", "3"]);
    assert!(summary.contains("resumed from checkpoint"), "{summary}");
    on_the_heap.assert_golden();
}
