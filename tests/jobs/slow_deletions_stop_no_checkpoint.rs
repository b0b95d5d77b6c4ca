//! Deletions that take their time keep no checkpoint waiting, however few threads wait for the storage.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::pace::{Pace, Paced};
use crate::support::{NEVER, environment, storage, take_checkpoints};

/// Contract: K221.
#[test]
fn of_a_job_of_one_subtask() {
    let faults = Faults::default();
    let env = environment("small", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER);
    env.from_source(Paced::new(SequenceSource::new(0..100), Some(Pace::up_to(50))))
        .sink_to(CollectSink::new(CollectedRecords::default()));
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let hang = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::every(Operation::DeleteFolder), Fault::Delay(Arc::new(hang)));
    let handle = env.execute_async().unwrap();
    // Each one but the first subsumes the one before.
    take_checkpoints(&handle, 6);
    drop(release);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}
