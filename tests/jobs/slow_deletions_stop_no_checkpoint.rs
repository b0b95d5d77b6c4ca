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
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let wait = move || {
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

/// What the attempt before has left is deleted while the next one runs.
///
/// Contract: M243.
#[test]
fn nor_the_start_of_the_next_attempt() {
    const NUMBERS: u64 = 1_000;
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("restarted", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER);
    let (grants, is_to_fail) = (Grants::new(NUMBERS / 2), Arc::new(AtomicBool::new(false)));
    let fail = is_to_fail.clone();
    let fails = move |_| if fail.swap(false, Ordering::Relaxed) { Err("as planned".into()) } else { Ok(()) };
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, fails);
    // One folder is left that cannot be deleted, in this attempt or in the next.
    let release = hang(&faults, Operation::DeleteFolder);
    let handle = env.execute_async().unwrap();
    take_checkpoints(&handle, 2);
    is_to_fail.store(true, Ordering::Relaxed);
    grants.add(NUMBERS / 2);
    // The end of the failed attempt waits half a minute for its own deletion.
    wait_until("the job is restarted", || handle.status().restored_from.is_some());
    take_checkpoints(&handle, 1);
    drop(release);
    grants.add_all();
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}
