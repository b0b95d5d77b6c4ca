//! A storage that fails, or whose content is damaged, is an error that names it: it is never taken for an empty one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::{CheckpointStorage, ObjectPath};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, When};

use crate::pace::{Grants, Pace};
use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 3_000;

/// A job that was stopped after some checkpoints, the last of them with state, in `storage`.
fn stopped_job(storage: &Arc<dyn CheckpointStorage>, records: &CollectedRecords<(u64, u64)>) {
    let env = environment("unlucky", storage.clone());
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 4)), records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 3);
    wait_until("some counts are committed", || !records.is_empty());
    handle.cancel();
    assert!(handle.wait().is_err());
}

fn restart(
    storage: &Arc<dyn CheckpointStorage>,
    records: &CollectedRecords<(u64, u64)>,
) -> Result<JobResult, JobError> {
    let env = environment("unlucky", storage.clone());
    env.set_restart_strategy(RestartStrategy::None);
    count(&env, NUMBERS, None, records, |_| Ok(()));
    env.execute()
}

/// Field case: R41.
#[test]
fn but_an_empty_directory_is_a_fresh_start() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn CheckpointStorage> = Arc::new(FileSystemCheckpointStorage::new(folder.path()).unwrap());
    let records = CollectedRecords::default();
    let result = restart(&storage, &records).unwrap();
    assert_eq!(result.status.restored_from, None);
    assert_counted(&records, NUMBERS);
}

/// Field case: R41.
#[test]
fn at_the_start() {
    let faults = Faults::default();
    let storage: Arc<dyn CheckpointStorage> = Arc::new(FaultyStorage::new(storage(), faults.clone()));
    let records = CollectedRecords::default();
    stopped_job(&storage, &records);
    let committed = records.len();
    for operation in [Operation::List, Operation::Read] {
        faults.arm(When::every(operation), Fault::FailBefore);
        let error = restart(&storage, &records).unwrap_err();
        assert!(matches!(error.cause(), JobError::Storage(_)), "{operation:?}: {error:?}");
        assert_eq!(records.len(), committed, "something was done although the storage failed");
        faults.clear();
    }
    restart(&storage, &records).unwrap();
    assert_counted(&records, NUMBERS);
}

/// Contract: M246.
/// Field case: R41.
#[test]
fn also_after_retries_and_when_only_a_state_file_cannot_be_read() {
    const RETRIES: u32 = 2;
    /// How often each attempt asks.
    const TRIES: u32 = 5;
    let folder = tempfile::tempdir().unwrap();
    let files = FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap();
    let faults = Faults::default();
    let recording = Recording::default();
    let faulty = FaultyStorage::new(Arc::new(files), faults.clone());
    let storage: Arc<dyn CheckpointStorage> = Arc::new(RecordingStorage::new(Arc::new(faulty), recording.clone()));
    let records = CollectedRecords::default();
    stopped_job(&storage, &records);
    let committed = records.len();
    for operation in [Operation::List, Operation::Read, Operation::ReadRange] {
        faults.arm(When::every(operation), Fault::FailBefore);
        recording.take();
        let env = environment("unlucky", storage.clone());
        env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: RETRIES, delay_ms: 1 });
        count(&env, NUMBERS, None, &records, |_| panic!("a job whose state cannot be read reads nothing"));
        let error = env.execute().unwrap_err();
        assert!(matches!(error.cause(), JobError::Storage(_)), "{operation:?}: {error:?}");
        let calls = recording.take();
        let tries = calls.iter().filter(|call| call.operation == operation && call.error == Some("Unavailable"));
        assert_eq!(tries.count() as u32, (1 + RETRIES) * TRIES, "{operation:?}");
        assert_eq!(records.len(), committed, "something was done although the storage failed");
        faults.clear();
    }
    let result = restart(&storage, &records).unwrap();
    assert!(result.status.restored_from.is_some());
    assert_counted(&records, NUMBERS);
}

#[test]
fn when_a_record_of_the_log_is_cut() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let records = CollectedRecords::default();
    stopped_job(&storage, &records);
    let log = pollster::block_on(storage.list(&ObjectPath::new(["unlucky", "log"]))).unwrap();
    replace(&*storage, log.last().unwrap(), |bytes| bytes.slice(..bytes.len() - 1));
    let error = restart(&storage, &records).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, JobError::Log(_)) && source.contains(log.last().unwrap().as_str()), "{source}");
}

#[test]
fn when_the_metadata_of_the_checkpoint_is_changed() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let records = CollectedRecords::default();
    stopped_job(&storage, &records);
    let committed = records.len();
    let objects = pollster::block_on(storage.list(&ObjectPath::new(["unlucky"]))).unwrap();
    let metadata = objects.iter().rfind(|path| path.name() == "_metadata").unwrap();
    replace(&*storage, metadata, |bytes| {
        let mut changed = bytes.to_vec();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        Bytes::from(changed)
    });
    let error = restart(&storage, &records).unwrap_err();
    assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("is damaged: expected checksum") && source.contains(metadata.as_str()), "{source}");
    assert_eq!(records.len(), committed, "the job started although its checkpoint is damaged");
}

/// Field case: R39.
#[test]
fn when_the_metadata_of_the_checkpoint_is_cut_at_whatever_length() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let records = CollectedRecords::default();
    stopped_job(&storage, &records);
    let committed = records.len();
    let objects = pollster::block_on(storage.list(&ObjectPath::new(["unlucky"]))).unwrap();
    let metadata = objects.iter().rfind(|path| path.name() == "_metadata").unwrap();
    let whole = pollster::block_on(storage.read(metadata)).unwrap();
    let checkpoint = metadata.as_str().strip_prefix("unlucky/chk-").unwrap().split('-').next().unwrap();
    for length in 0..whole.len() {
        replace(&*storage, metadata, |_| whole.slice(..length));
        let error = restart(&storage, &records).unwrap_err();
        assert!(matches!(error, JobError::Restore { .. }), "{length} bytes: {error:?}");
        let text = format!("{error:?}");
        assert!(text.starts_with(&format!("checkpoint {checkpoint} cannot be restored: ")), "{length} bytes: {text}");
        assert_eq!(records.len(), committed, "the job started with {length} bytes of metadata");
    }
    replace(&*storage, metadata, |_| whole.clone());
    restart(&storage, &records).unwrap();
    assert_counted(&records, NUMBERS);
}

/// Contract: M243.
#[test]
fn while_checkpoints_are_taken_it_only_costs_checkpoints() {
    let faults = Faults::default();
    let storage: Arc<dyn CheckpointStorage> = Arc::new(FaultyStorage::new(storage(), faults.clone()));
    let records = CollectedRecords::default();
    let env = environment("unlucky", storage);
    env.set_tolerable_checkpoint_failures(u32::MAX).set_checkpoint_timeout(Duration::from_secs(1));
    let grants = Grants::new(0);
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        for operation in [Operation::Create, Operation::Finish, Operation::CreateIfAbsent, Operation::DeleteFolder] {
            let JobStatus { checkpoints_completed: completed, checkpoints_failed: failed, .. } = handle.status();
            // Once costs nothing: it is tried again, as long as the checkpoint has time. Nor does a finish that has happened: what is
            // there is what was to be.
            let costs = matches!((operation, &fault), (Operation::Create, _) | (Operation::Finish, Fault::FailBefore));
            if costs {
                faults.arm(When::every(operation), fault.clone());
                wait_until("a checkpoint has failed", || handle.status().checkpoints_failed > failed);
                faults.clear();
            } else {
                faults.arm(When::next(operation), fault.clone());
            }
            grants.add(NUMBERS / 10);
            wait_for_checkpoints(&handle, completed + 2);
        }
    }
    grants.add_all();
    let result = handle.wait().unwrap();
    assert_eq!(result.status.restarts, 0);
    assert!(result.status.checkpoints_failed > 0, "no fault was felt");
    assert_counted(&records, NUMBERS);
}

/// Damages an object, which the storage itself never does.
fn replace(storage: &dyn CheckpointStorage, path: &ObjectPath, change: impl FnOnce(Bytes) -> Bytes) {
    pollster::block_on(async {
        let bytes = storage.read(path).await.unwrap();
        storage.delete(path).await.unwrap();
        storage.create_if_absent(path, change(bytes)).await.unwrap();
    });
}
