//! A job that fails in the same place again and again says so, and ends if it is to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::TaskError;

use crate::pace::Pace;
use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

/// A job that is restarted without end and fails at each number that is bad.
fn start(
    action: &str,
    numbers: u64,
    records: &CollectedRecords<(u64, u64)>,
    is_bad: impl Fn(u64) -> bool + Clone + Send + Sync + 'static,
) -> JobHandle {
    let env = environment("poisoned", storage());
    env.configure(Configuration::from([("restart-strategy.poison-record.action", action)]));
    env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: u32::MAX, delay_ms: 1 });
    count(&env, numbers, Some(Pace::PerCheckpoint(100)), records, move |number| {
        if is_bad(number) { Err("no number".into()) } else { Ok(()) }
    });
    env.execute_async().unwrap()
}

/// Contract: O282.
#[test]
fn and_the_job_ends_with_what_is_known_of_it() {
    let is_bad = Arc::new(AtomicBool::new(false));
    let until_told = is_bad.clone();
    let bad = move |_| until_told.load(Ordering::SeqCst);
    let handle = start("fail", u64::MAX / 2, &CollectedRecords::default(), bad);
    wait_for_checkpoints(&handle, 1);
    is_bad.store(true, Ordering::SeqCst);
    let monitor = handle.monitor();
    let error = handle.wait().unwrap_err();
    let JobError::PoisonRecord { operator, checkpoint, failures, source } = &error else { panic!("{error:?}") };
    let TaskError::User { source, .. } = &**source else { panic!("{source:?}") };
    assert_eq!((operator.as_str(), *failures, source.to_string().as_str()), ("counter", 3, "no number"));
    let status = monitor.status();
    assert!(checkpoint.is_some());
    assert_eq!(*checkpoint, status.restored_from, "it has failed on the way from another checkpoint");
    assert!(status.restarts >= 2);
    let suspected = status.suspected_poison_record.unwrap();
    assert_eq!((suspected.operator.as_str(), suspected.failures), ("counter", 3));
}

/// What looks like a record may be an outage of another system, which ends.
///
/// Contract: O282.
#[test]
fn and_the_job_goes_on_when_it_was_not_the_record() {
    const NUMBERS: u64 = 2_000;
    let records = CollectedRecords::default();
    let is_bad = Arc::new(AtomicBool::new(true));
    let until_told = is_bad.clone();
    let bad = move |number| number == NUMBERS / 2 && until_told.load(Ordering::SeqCst);
    let handle = start("report", NUMBERS, &records, bad);
    let mut suspected = None;
    wait_until("a record is suspected", || {
        suspected = handle.status().suspected_poison_record;
        suspected.is_some()
    });
    let suspected = suspected.unwrap();
    assert_eq!(suspected.operator, "counter");
    assert!(suspected.failures >= 3 && suspected.error.ends_with("no number"), "{suspected:?}");
    is_bad.store(false, Ordering::SeqCst);
    let result = handle.wait().unwrap();
    assert_eq!(result.outcome, JobOutcome::Finished);
    assert_eq!(result.status.suspected_poison_record, None);
    assert_counted(&records, NUMBERS);
}
