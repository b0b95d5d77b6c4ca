//! Deletions that take their time keep no checkpoint waiting, however few threads wait for the storage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::pace::{Grants, Pace, Paced};
use crate::support::{NEVER, assert_counted, count, environment, storage, take_checkpoints, wait_until};

/// Every call of an operation hangs, until what is returned is dropped.
fn hang(faults: &Faults, operation: Operation) -> SyncSender<()> {
    hang_after(faults, operation, sync_channel(0).0)
}

/// The same, and says so.
fn hang_after(faults: &Faults, operation: Operation, hung: SyncSender<()>) -> SyncSender<()> {
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let wait = move || {
        // Perhaps nobody wants to know.
        let _ = hung.try_send(());
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::every(operation), Fault::Delay(Arc::new(wait)));
    release
}

/// Contract: K221, M243.
#[test]
fn of_a_job_of_one_subtask() {
    // Each checkpoint but the first subsumes the one before, and from time to time records of the log go, too.
    for (operation, checkpoints) in [(Operation::DeleteFolder, 6), (Operation::Delete, 400)] {
        let faults = Faults::default();
        let env = environment("small", Arc::new(FaultyStorage::new(storage(), faults.clone())));
        env.enable_checkpointing(NEVER);
        env.from_source(Paced::new(SequenceSource::new(0..100), Some(Pace::up_to(50))))
            .sink_to(CollectSink::new(CollectedRecords::default()));
        let release = hang(&faults, operation);
        let handle = env.execute_async().unwrap();
        take_checkpoints(&handle, checkpoints);
        drop(release);
        handle.cancel();
        assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    }
}

/// Nobody needs them any more.
///
/// Contract: M243.
#[test]
fn nor_what_a_start_says_of_a_job_that_has_finished() {
    let (faults, storage) = (Faults::default(), storage());
    let start = || {
        let env = environment("finished", Arc::new(FaultyStorage::new(storage.clone(), faults.clone())));
        env.from_source(SequenceSource::new(0..100)).sink_to(CollectSink::new(CollectedRecords::default()));
        env.execute_async().unwrap()
    };
    faults.arm(When::every(Operation::DeleteFolder), Fault::FailBefore);
    assert_eq!(start().wait().unwrap().outcome, JobOutcome::Finished);
    faults.clear();
    let (hang, hung) = sync_channel::<()>(1_000);
    let _release = hang_after(&faults, Operation::DeleteFolder, hang);
    let handle = start();
    hung.recv().unwrap();
    handle.cancel();
    // It hangs until this has returned.
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::AlreadyFinished);
}

/// What the attempts before have left is deleted while the next one runs, though every deletion of theirs hangs.
///
/// Contract: M243.
#[test]
fn nor_the_start_of_the_next_attempts() {
    const NUMBERS: u64 = 1_000;
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("restarted", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER);
    let (grants, is_to_fail) = (Grants::new(NUMBERS / 4), Arc::new(AtomicBool::new(false)));
    let fail = is_to_fail.clone();
    let fails = move |_| if fail.swap(false, Ordering::Relaxed) { Err("as planned".into()) } else { Ok(()) };
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, fails);
    let release = hang(&faults, Operation::DeleteFolder);
    let handle = env.execute_async().unwrap();
    for restarts in 1..=4 {
        // More folders than a job has threads for.
        take_checkpoints(&handle, 12);
        is_to_fail.store(true, Ordering::Relaxed);
        grants.add(1);
        wait_until("the job is restarted", || handle.status().restarts == restarts);
    }
    take_checkpoints(&handle, 1);
    drop(release);
    grants.add_all();
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}
