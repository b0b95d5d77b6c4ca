//! A task that returns an error or panics is restarted from the last checkpoint, and nothing is lost or repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::{CheckpointingMode, TaskError};

use crate::pace::Pace;
use crate::support::{assert_counted, count, environment, storage};

const NUMBERS: u64 = 3_000;

/// Fails once, in the middle of the input, by calling `fail`.
fn run_with_one_failure(parallelism: u32, fail: fn() -> Result<()>) {
    let env = environment("restarted", storage());
    env.set_parallelism(parallelism);
    let records = CollectedRecords::default();
    let has_failed = Arc::new(AtomicBool::new(false));
    count(&env, NUMBERS, Some(Pace::PerCheckpoint(100)), &records, move |number| {
        if number == 1_500 && !has_failed.swap(true, Ordering::SeqCst) { fail() } else { Ok(()) }
    });
    let result = env.execute().unwrap();
    assert_eq!(result.outcome, JobOutcome::Finished);
    assert_eq!(result.status.restarts, 1);
    assert!(result.status.restored_from.is_some(), "the restart went back to the beginning: {:?}", result.status);
    // What is counted as replayed is at most too much: a checkpoint that becomes complete while the attempt ends spares the
    // next one records that were to be read again.
    let (read, replayed) = (result.status.records_read, result.status.records_replayed);
    assert!((NUMBERS..=NUMBERS + replayed).contains(&read), "{read} records read, {replayed} of them again");
    assert_counted(&records, NUMBERS);
}

/// Contract: O273.
#[test]
fn after_an_error() {
    for parallelism in [1, 3] {
        run_with_one_failure(parallelism, || Err("as planned".into()));
    }
}

/// Contract: O273.
#[test]
fn after_a_panic() {
    run_with_one_failure(2, || panic!("as planned"));
}

/// Contract: O274.
#[test]
fn from_the_beginning_without_state_when_no_checkpoint_is_complete() {
    let env = environment("unfinished", storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    let records = CollectedRecords::default();
    let has_failed = Arc::new(AtomicBool::new(false));
    count(&env, NUMBERS, None, &records, move |number| {
        if number == 1_500 && !has_failed.swap(true, Ordering::SeqCst) { Err("as planned".into()) } else { Ok(()) }
    });
    let status = env.execute().unwrap().status;
    assert_eq!((status.restarts, status.restored_from), (1, None));
    assert_eq!(status.records_read, NUMBERS + status.records_replayed, "all that was read is read again");
    assert_counted(&records, NUMBERS);
}

/// Runs a job that counts at least once and fails in the middle.
fn run_at_least_once(parallelism: u32) -> CollectedRecords<(u64, u64)> {
    let env = environment("at-least-once", storage());
    env.set_parallelism(parallelism).set_checkpointing_mode(CheckpointingMode::AtLeastOnce);
    let records = CollectedRecords::default();
    let has_failed = Arc::new(AtomicBool::new(false));
    count(&env, NUMBERS, Some(Pace::PerCheckpoint(100)), &records, move |number| {
        let fails = number == 1_500 && !has_failed.swap(true, Ordering::SeqCst);
        if fails { Err("as planned".into()) } else { Ok(()) }
    });
    let status = env.execute().unwrap().status;
    assert_eq!(status.restarts, 1);
    assert!(status.restored_from.is_some(), "{status:?}");
    records
}

/// Contract: H158.
#[test]
fn at_least_once_is_exactly_once_where_every_task_has_one_input_channel() {
    assert_counted(&run_at_least_once(1), NUMBERS);
}

#[test]
fn at_least_once_loses_nothing() {
    let records = run_at_least_once(3).to_vec();
    for digit in 0..10 {
        let counted = records.iter().filter(|(of, _)| *of == digit).map(|(_, count)| *count).max();
        assert!(counted >= Some(NUMBERS / 10), "{counted:?} numbers that end in {digit} of {}", NUMBERS / 10);
    }
}

/// Contract: O276.
#[test]
fn until_the_restart_strategy_gives_up() {
    let env = environment("hopeless", storage());
    env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 2, delay_ms: 1 });
    let records = CollectedRecords::default();
    count(&env, NUMBERS, None, &records, |number| if number == 7 { Err("always".into()) } else { Ok(()) });
    let error = env.execute().unwrap_err();
    let strategy = "the restart strategy gives up: fixed-delay (restarts: 2, each after 1 ms)";
    assert_eq!(error.to_string(), strategy);
    match error.cause() {
        JobError::Task { task, restarts: 2, source: TaskError::User { operator, activity, source } } => {
            assert_eq!(task, "counter -> sink");
            assert_eq!(operator, "counter");
            assert_eq!(*activity, "process a record");
            assert_eq!(source.to_string(), "always");
        }
        other => panic!("{other:?}"),
    }
    assert!(records.is_empty(), "records of an attempt that never completed a checkpoint became visible");
}
