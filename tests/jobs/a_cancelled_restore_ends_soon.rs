//! A job that is cancelled while it restores does not wait for the storage, and leaves nothing in the way of the next start.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::{CollectedRecords, FileSink};
use highwater::prelude::*;
use highwater::state::CheckpointStorage;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use tempfile::TempDir;

use crate::pace::Pace;
use crate::support::{assert_counted, count, environment, run_and_cancel, storage, wait_until};

const NUMBERS: u64 = 1_000;

fn files(folder: &TempDir) -> Arc<dyn CheckpointStorage> {
    Arc::new(FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap())
}

/// A storage that hangs in a call of an operation, the `nth` from now, until what is returned is dropped.
fn hanging(
    storage: Arc<dyn CheckpointStorage>,
    operation: Operation,
    nth: u64,
) -> (Arc<dyn CheckpointStorage>, Faults, SyncSender<()>) {
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let faults = Faults::default();
    let wait = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::nth(operation, nth), Fault::Delay(Arc::new(wait)));
    (Arc::new(FaultyStorage::new(storage, faults.clone())), faults, release)
}

/// Contract: O287.
#[test]
fn wherever_the_storage_hangs() {
    for operation in [Operation::List, Operation::Read, Operation::CreateIfAbsent, Operation::ReadRange] {
        let folder = TempDir::new().unwrap();
        let records = CollectedRecords::default();
        let env = environment("restored", files(&folder));
        count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
        run_and_cancel(&env, 3);

        let (storage, faults, release) = hanging(files(&folder), operation, 1);
        let env = environment("restored", storage);
        count(&env, NUMBERS, None, &records, |_| Ok(()));
        let handle = env.execute_async().unwrap();
        wait_until("the storage hangs", || faults.remaining() == 0);
        handle.cancel();
        // It hangs until this has returned.
        assert!(matches!(handle.wait(), Err(JobError::Cancelled)), "{operation}");

        // The start that hangs goes on beside the next one, and ends without having done anything.
        let env = environment("restored", files(&folder));
        count(&env, NUMBERS, Some(Pace::PerCheckpoint(50)), &records, |_| Ok(()));
        let next = env.execute_async().unwrap();
        // From now on a claim of the other one would fence it.
        wait_until("the next one has the job", || next.status().attempt.is_some());
        drop(release);
        let result = next.wait().unwrap();
        assert!(result.status.restored_from.is_some(), "{operation}");
        assert_counted(&records, NUMBERS);
    }
}

/// All that comes after that call is told of the cancel before it touches anything.
///
/// Contract: O287.
#[test]
fn and_does_nothing_any_more_when_its_last_call_returns_late() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out");
    // A claim is the last thing but for a look at the ten numbers that may follow it.
    let (storage, faults, release) = hanging(storage(), Operation::Read, 10);
    let env = environment("late", storage.clone());
    env.from_source(SequenceSource::new(0..NUMBERS)).sink_to(FileSink::csv::<u64>(&output));
    let handle = env.execute_async().unwrap();
    drop(env);
    wait_until("the storage hangs", || faults.remaining() == 0);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    drop(release);
    wait_until("nobody is there any more", || Arc::strong_count(&storage) == 1);
    assert!(!output.exists(), "the directory would be this job's");
}
