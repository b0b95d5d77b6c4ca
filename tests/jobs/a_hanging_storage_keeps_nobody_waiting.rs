//! A storage that hangs keeps no owner of a job from cancelling it: neither while it stands by nor while it publishes a
//! checkpoint nor when it has failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::{CheckpointFailureReason, ExternalizedCheckpointRetention};
use highwater::state::CheckpointId;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, When};

use crate::pace::{Grants, Pace};
use crate::support::{Gate, NEVER, assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 1_000;

/// Lets the next call of an operation hang until what is returned is dropped.
fn hang(faults: &Faults, operation: Operation) -> SyncSender<()> {
    hang_nth(faults, operation, 1)
}

/// The same for the call that comes after others.
fn hang_nth(faults: &Faults, operation: Operation, nth: u64) -> SyncSender<()> {
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let wait = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::nth(operation, nth), Fault::Delay(Arc::new(wait)));
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
    handle.cancel();
    // It hangs until this has returned.
    let error = handle.wait().unwrap_err();
    assert!(matches!(error, JobError::CancelledUndecided { checkpoint: CheckpointId(1) }), "{error:?}");
    assert!(error.to_string().contains("whether checkpoint 1 is complete: the job log decides"), "{error}");
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

/// Passes the gate when it is dropped.
#[derive(Clone)]
struct Slow(Arc<Gate>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// What became of it is heard as long as the attempt is being taken down.
#[test]
fn while_a_checkpoint_is_published_that_is_complete_before_the_job_has_ended() {
    let (faults, recording, records) = (Faults::default(), Recording::default(), CollectedRecords::default());
    let storage = Arc::new(RecordingStorage::new(storage(), recording.clone()));
    let env = environment("publishing", Arc::new(FaultyStorage::new(storage, faults.clone())));
    env.enable_checkpointing(NEVER);
    let grants = Grants::new(NUMBERS / 2);
    let (gate, entered, leave) = Gate::new();
    let passed = gate.clone();
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, move |_| {
        passed.pass();
        Ok(())
    });
    let handle = env.execute_async().unwrap();
    wait_until("the job runs", || handle.status().records_read > 0);
    let appended = || recording.calls().iter().filter(|call| call.operation == Operation::CreateIfAbsent).count();
    let before = appended();
    let release = hang(&faults, Operation::CreateIfAbsent);
    let pending = handle.trigger_checkpoint();
    wait_until("the storage hangs", || faults.remaining() == 0);
    gate.close();
    grants.add(1);
    entered.recv().unwrap();
    // From here on the job waits for the function, while the storage answers.
    handle.cancel();
    let failure = pending.wait().unwrap_err();
    assert_eq!(failure.reason, CheckpointFailureReason::CoordinatorShutdown, "{failure}");
    drop(release);
    wait_until("the record is there", || appended() > before);
    drop((entered, leave));
    let monitor = handle.monitor();
    let error = handle.wait().unwrap_err();
    assert!(matches!(error, JobError::Cancelled), "{error:?}");
    let (status, counts) = (monitor.status(), monitor.checkpoint_stats().counts);
    assert_eq!((status.last_checkpoint, status.checkpoints_completed), (Some(CheckpointId(1)), 1));
    assert_eq!((counts.completed, counts.failed, counts.in_progress), (1, 0, 0));
}

/// The log knows better than whoever has cancelled.
#[test]
fn while_it_says_that_the_job_has_finished() {
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let recording = Recording::default();
    let storage = Arc::new(RecordingStorage::new(storage(), recording.clone()));
    let env = environment("finishing", Arc::new(FaultyStorage::new(storage, faults.clone())));
    env.enable_checkpointing(NEVER);
    let (gate, entered, leave) = Gate::new();
    let (grants, function) = (Grants::new(NUMBERS / 2), Slow(gate.clone()));
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, move |_| {
        let _ = &function;
        Ok(())
    });
    let handle = env.execute_async().unwrap();
    wait_until("the job runs", || handle.status().records_read > 0);
    // The record of the final checkpoint is created before that of the end.
    let release = hang_nth(&faults, Operation::CreateIfAbsent, 2);
    grants.add_all();
    wait_until("the storage hangs", || faults.remaining() == 0);
    let appended = || recording.calls().iter().filter(|call| call.operation == Operation::CreateIfAbsent).count();
    let before = appended();
    gate.close();
    handle.cancel();
    // From here on the job waits for the function, while the storage answers.
    entered.recv().unwrap();
    drop(release);
    wait_until("the record is there", || appended() > before);
    drop((entered, leave));
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}

/// Neither the end of the failed attempt nor the delay of the restart has told.
#[test]
fn while_a_checkpoint_is_published_in_an_attempt_that_fails() {
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("publishing", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER);
    env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 1, delay_ms: NEVER.as_millis() as u64 });
    let (grants, is_to_fail) = (Grants::new(NUMBERS / 2), Arc::new(AtomicBool::new(false)));
    let fail = is_to_fail.clone();
    let fails = move |_| if fail.load(Ordering::Relaxed) { Err("as planned".into()) } else { Ok(()) };
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, fails);
    let clones = grants.clones();
    let handle = env.execute_async().unwrap();
    wait_until("the job runs", || handle.status().records_read > 0);
    let release = hang(&faults, Operation::CreateIfAbsent);
    let _pending = handle.trigger_checkpoint();
    wait_until("the storage hangs", || faults.remaining() == 0);
    is_to_fail.store(true, Ordering::Relaxed);
    grants.add(1);
    wait_until("the attempt is being taken down", || grants.clones() == clones);
    handle.cancel();
    let error = handle.wait().unwrap_err();
    assert!(matches!(error, JobError::CancelledUndecided { checkpoint: CheckpointId(1) }), "{error:?}");
    drop(release);
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
