//! A process that stands by waits as long as another one runs the job, and takes over when that one is gone or cut off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use highwater::checkpoint::AttemptFailure;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::ExternalizedCheckpointRetention;
use highwater::state::{CheckpointStorage, ObjectPath};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use pollster::block_on;

use crate::pace::{Grants, Pace};
use crate::support::{
    NEVER, assert_counted, count, environment, storage, take_checkpoints, wait_for_checkpoints, wait_until,
};

const NUMBERS: u64 = 6_000;
const SHORT_LEASE: Duration = Duration::from_millis(100);
/// So long that no machine is too busy to renew it in time.
const LONG_LEASE: Duration = Duration::from_secs(20);

fn standing_by(storage: Arc<dyn CheckpointStorage>, lease: Duration) -> StreamExecutionEnvironment {
    let env = environment("shared", storage);
    env.set_standby(true).set_lease_duration(lease);
    env
}

/// Contract: O288, M245.
#[test]
fn when_whoever_ran_the_job_is_gone() {
    let storage = storage();
    let records = CollectedRecords::default();
    let first = standing_by(storage.clone(), SHORT_LEASE);
    count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    wait_for_checkpoints(&first, 3);
    // Its lease is not given back: to those who wait this is a process that has died.
    first.cancel();
    assert!(matches!(first.wait().unwrap_err(), JobError::Cancelled));

    // Two wait: one of them goes on, and the other one finds the job finished, or goes on where that one was fenced.
    let others: Vec<JobHandle> = (0..2)
        .map(|_| {
            let env = standing_by(storage.clone(), LONG_LEASE.min(Duration::from_secs(2)));
            count(&env, NUMBERS, None, &records, |_| Ok(()));
            env.execute_async().unwrap()
        })
        .collect();
    let outcomes: Vec<_> = others.into_iter().map(JobHandle::wait).collect();
    let finished = |outcome: &&std::result::Result<JobResult, JobError>| {
        outcome.as_ref().is_ok_and(|result| result.outcome == JobOutcome::Finished)
    };
    assert_eq!(outcomes.iter().filter(finished).count(), 1, "{outcomes:?}");
    let result = outcomes.iter().find(finished).unwrap().as_ref().unwrap();
    assert!(result.status.restored_from.is_some());
    assert_counted(&records, NUMBERS);
}

#[test]
fn but_not_while_it_runs() {
    let storage = storage();
    let records = CollectedRecords::default();
    let grants = Grants::new(NUMBERS / 2);
    let first = standing_by(storage.clone(), LONG_LEASE);
    count(&first, NUMBERS, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    wait_for_checkpoints(&first, 1);

    let second = standing_by(storage, LONG_LEASE);
    count(&second, NUMBERS, None, &records, |_| Ok(()));
    let second = second.execute_async().unwrap();
    wait_for_checkpoints(&first, 20);
    assert_eq!(second.status().attempt, None, "it has claimed the job");
    grants.add_all();
    assert_eq!(first.wait().unwrap().outcome, JobOutcome::Finished);
    assert_eq!(second.wait().unwrap().outcome, JobOutcome::AlreadyFinished);
    assert_counted(&records, NUMBERS);
}

/// Contract: O288.
#[test]
fn and_whoever_cannot_reach_the_storage_stops_by_itself() {
    let (storage, faults) = (storage(), Faults::default());
    let records = CollectedRecords::default();
    let cut_off = standing_by(Arc::new(FaultyStorage::new(storage.clone(), faults.clone())), SHORT_LEASE);
    cut_off.set_restart_strategy(RestartStrategy::None).set_tolerable_checkpoint_failures(u32::MAX);
    count(&cut_off, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let cut_off = cut_off.execute_async().unwrap();
    wait_for_checkpoints(&cut_off, 3);
    let second = standing_by(storage, SHORT_LEASE);
    count(&second, NUMBERS, None, &records, |_| Ok(()));
    let second = second.execute_async().unwrap();
    faults.set_outage(true);

    // The log cannot be reached for much longer than the lease; the timeout of checkpoints is far away.
    let error = cut_off.wait().unwrap_err();
    let expired = |error: &JobError| matches!(error, JobError::Coordinator(AttemptFailure::LeaseExpired { .. }));
    let fenced = |error: &JobError| matches!(error, JobError::Coordinator(AttemptFailure::Fenced { .. }));
    assert!(expired(error.cause()) || fenced(&error), "{error:?}");
    assert_eq!(second.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}

#[test]
fn and_whoever_was_fenced_does_not_fence_in_return() {
    let storage = storage();
    let records = CollectedRecords::default();
    let fails = Arc::new(AtomicBool::new(false));
    let first = environment("shared", storage.clone());
    // No checkpoint by which it would learn that it is fenced.
    first.enable_checkpointing(Duration::from_secs(3_600));
    let grants = Grants::new(100);
    let seen = fails.clone();
    count(&first, NUMBERS, Some(Pace::Granted(grants.clone())), &records, move |_| {
        if seen.load(Ordering::SeqCst) { Err("as planned".into()) } else { Ok(()) }
    });
    let first = first.execute_async().unwrap();
    wait_until("the first one runs", || first.status().records_read > 0);

    let second = environment("shared", storage);
    count(&second, NUMBERS, Some(Pace::PerCheckpoint(1_000)), &records, |_| Ok(()));
    let second = second.execute_async().unwrap();
    wait_until("the second one has claimed the job", || second.status().attempt.is_some());
    // Its restart strategy would let it begin again.
    fails.store(true, Ordering::SeqCst);
    grants.add(100);
    let error = first.wait().unwrap_err();
    assert!(matches!(error, JobError::Coordinator(AttemptFailure::Fenced { .. })), "{error:?}");
    let result = second.wait().unwrap();
    assert_eq!((result.outcome, result.status.restarts), (JobOutcome::Finished, 0));
    assert_counted(&records, NUMBERS);
}

/// Contract: O287.
#[test]
fn and_whoever_waits_for_a_storage_that_hangs_can_be_cancelled() {
    let (release, released) = mpsc::sync_channel::<()>(0);
    let (released, faults) = (Mutex::new(released), Faults::default());
    let hang = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::next(Operation::List), Fault::Delay(Arc::new(hang)));
    let records = CollectedRecords::default();
    let waiting = standing_by(Arc::new(FaultyStorage::new(storage(), faults.clone())), LONG_LEASE);
    count(&waiting, NUMBERS, None, &records, |_| Ok(()));
    let waiting = waiting.execute_async().unwrap();
    wait_until("the storage hangs", || faults.remaining() == 0);
    waiting.cancel();
    // It hangs until this has returned.
    assert!(matches!(waiting.wait(), Err(JobError::Cancelled)));
    drop(release);
}

#[test]
fn but_not_when_whoever_ran_the_job_has_ended_it_and_dropped_its_checkpoints() {
    let lease = LONG_LEASE / 2;
    let (storage, faults) = (storage(), Faults::default());
    let records = CollectedRecords::default();
    let first = standing_by(storage.clone(), lease);
    first.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention::DeleteOnCancellation);
    count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    wait_for_checkpoints(&first, 1);
    // A look lists records and renewals: with the third list it looks for the second time.
    faults.arm(When::nth(Operation::List, 3), Fault::Delay(Arc::new(|| {})));
    let second = standing_by(Arc::new(FaultyStorage::new(storage.clone(), faults.clone())), lease);
    count(&second, NUMBERS, None, &records, |_| Ok(()));
    let second = second.execute_async().unwrap();
    wait_until("the second one has seen the first", || faults.remaining() == 0);
    first.cancel();
    assert!(matches!(first.wait(), Err(JobError::Cancelled)));
    assert!(matches!(second.wait(), Err(JobError::Dropped)));

    // Whoever starts the job now wants it anew.
    let (third, again) = (standing_by(storage, SHORT_LEASE), CollectedRecords::default());
    count(&third, NUMBERS, None, &again, |_| Ok(()));
    assert_eq!(third.execute().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&again, NUMBERS);
}

#[test]
fn nor_when_that_comes_between_its_last_look_and_its_claim() {
    let (storage, faults) = (storage(), Faults::default());
    let records = CollectedRecords::default();
    // Without standbys of its own it gives no sign of life but its checkpoints, and there is one.
    let first = environment("shared", storage.clone());
    first.enable_checkpointing(NEVER);
    first.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention::DeleteOnCancellation);
    count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    take_checkpoints(&first, 1);

    let (claims, is_claiming) = mpsc::sync_channel::<()>(0);
    let (may_claim, goes_on) = mpsc::sync_channel::<()>(0);
    let channels = Mutex::new((claims, goes_on));
    let until_dropped = move || {
        let (claims, goes_on) = &*channels.lock().unwrap();
        let _ = claims.send(());
        let _ = goes_on.recv();
    };
    // A standby creates nothing before its claim.
    faults.arm(When::next(Operation::CreateIfAbsent), Fault::Delay(Arc::new(until_dropped)));
    let second = standing_by(Arc::new(FaultyStorage::new(storage, faults)), SHORT_LEASE);
    count(&second, NUMBERS, None, &records, |_| Ok(()));
    let second = second.execute_async().unwrap();
    is_claiming.recv().unwrap();
    first.cancel();
    assert!(matches!(first.wait(), Err(JobError::Cancelled)));
    may_claim.send(()).unwrap();
    let outcome = second.wait();
    assert!(matches!(outcome, Err(JobError::Dropped)), "{outcome:?}");
}

/// Also when the storage has failed meanwhile, be it only once: its failures are why jobs are restarted.
#[test]
fn and_not_from_a_process_that_waits_for_a_restart() {
    let (storage, faults) = (storage(), Faults::default());
    let env = standing_by(Arc::new(FaultyStorage::new(storage.clone(), faults.clone())), SHORT_LEASE);
    env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: 3_600_000 });
    count(&env, NUMBERS, None, &CollectedRecords::default(), |_| Err("as planned".into()));
    let job = env.execute_async().unwrap();
    wait_until("it waits", || job.status().restarts == 1);
    let renewals = || block_on(storage.list(&ObjectPath::new(["shared", "lease"]))).unwrap();
    for outage in [false, true] {
        if outage {
            faults.arm(When::next(Operation::Read), Fault::FailBefore);
            wait_until("the storage has failed", || faults.remaining() == 0);
        }
        let before = renewals();
        wait_until("it renews its lease", || renewals().iter().any(|renewal| !before.contains(renewal)));
        let next = renewals();
        wait_until("it renews its lease again", || renewals().iter().any(|renewal| !next.contains(renewal)));
    }
    job.cancel();
    assert!(matches!(job.wait(), Err(JobError::Cancelled)));
}
