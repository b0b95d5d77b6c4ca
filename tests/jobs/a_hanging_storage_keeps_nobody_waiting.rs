//! A storage that hangs keeps no owner of a job from cancelling it: neither while it stands by nor while it publishes a
//! checkpoint nor when it has failed.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::ExternalizedCheckpointRetention;
use highwater::state::CheckpointId;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::pace::{Grants, Pace};
use crate::support::{NEVER, assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 1_000;

/// Lets the next call of an operation hang until what is returned is dropped.
fn hang(faults: &Faults, operation: Operation) -> SyncSender<()> {
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let wait = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::next(operation), Fault::Delay(Arc::new(wait)));
    release
}

/// Contract: O287.
#[test]
fn while_the_job_stands_by() {
    let lease = Duration::from_secs(3_600);
    for operation in [Operation::List, Operation::Read] {
        let (storage, records) = (storage(), CollectedRecords::default());
        let first = environment("shared", storage.clone());
        first.set_standby(true).set_lease_duration(lease);
        count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
        let first = first.execute_async().unwrap();
        wait_for_checkpoints(&first, 1);

        let faults = Faults::default();
        let second = environment("shared", Arc::new(FaultyStorage::new(storage, faults.clone())));
        second.set_standby(true).set_lease_duration(lease);
        count(&second, NUMBERS, None, &records, |_| Ok(()));
        let release = hang(&faults, operation);
        let second = second.execute_async().unwrap();
        wait_until("the storage hangs", || faults.remaining() == 0);
        second.cancel();
        // It hangs until this has returned.
        assert!(matches!(second.wait(), Err(JobError::Cancelled)), "{operation}");
        drop(release);
        first.cancel();
        assert!(matches!(first.wait(), Err(JobError::Cancelled)));
    }
}

/// A cancelled job waits two seconds for the storage, and whatever is not cancelled half a minute.
const MUCH_LESS_THAN_UNCANCELLED: Duration = Duration::from_secs(20);

#[test]
fn while_a_checkpoint_is_published_and_nothing_is_lost_whatever_becomes_of_that() {
    let (storage, faults, records) = (storage(), Faults::default(), CollectedRecords::default());
    let env = environment("publishing", Arc::new(FaultyStorage::new(storage.clone(), faults.clone())));
    env.enable_checkpointing(NEVER);
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    let monitor = handle.monitor();
    wait_until("the job runs", || handle.status().records_read > 0);
    // Nothing is created but records of the log, and the claim is one of them.
    let release = hang(&faults, Operation::CreateIfAbsent);
    let _pending = handle.trigger_checkpoint();
    wait_until("the storage hangs", || faults.remaining() == 0);
    let cancelled = Instant::now();
    handle.cancel();
    let error = handle.wait().unwrap_err();
    assert!(cancelled.elapsed() < MUCH_LESS_THAN_UNCANCELLED);
    assert!(matches!(error, JobError::CancelledUndecided { checkpoint: CheckpointId(1) }), "{error:?}");
    assert!(error.to_string().contains("whether checkpoint 1 is complete is decided by the job log"), "{error}");
    // As far as this process will ever know, and as its statistics say.
    assert_eq!((monitor.status().checkpoints_failed, monitor.checkpoint_stats().counts.failed), (1, 1));

    // The record comes at any time from now on: before the claim of this start, or too late.
    let env = environment("publishing", storage);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let next = env.execute_async().unwrap();
    drop(release);
    assert_eq!(next.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}

#[test]
fn while_a_checkpoint_is_published_and_none_is_to_be_kept() {
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("publishing", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER);
    env.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention::DeleteOnCancellation);
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_until("the job runs", || handle.status().records_read > 0);
    let _release = hang(&faults, Operation::CreateIfAbsent);
    let _pending = handle.trigger_checkpoint();
    wait_until("the storage hangs", || faults.remaining() == 0);
    handle.cancel();
    // That they are dropped is in the log, where the record that hangs was to be.
    let error = handle.wait().unwrap_err();
    assert!(matches!(error, JobError::Cancelled), "{error:?}");
}

#[test]
fn when_the_job_has_failed() {
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("failing", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER).set_restart_strategy(RestartStrategy::None);
    let grants = Grants::new(NUMBERS / 2);
    let fails = |number| if number == NUMBERS - 1 { Err("as planned".into()) } else { Ok(()) };
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, fails);
    let handle = env.execute_async().unwrap();
    wait_until("the job runs", || handle.status().records_read > 0);
    // The end of a failed attempt looks whether another process has the job.
    let release = hang(&faults, Operation::Read);
    grants.add_all();
    wait_until("the storage hangs", || faults.remaining() == 0);
    handle.cancel();
    let error = handle.wait().unwrap_err();
    assert!(matches!(error.cause(), JobError::Task { .. }), "{error:?}");
    drop(release);
}
