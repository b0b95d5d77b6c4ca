//! The start of an attempt on a real storage: what it finds, claims and tidies up.

use highwater_state_api::Attempt;
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn begin(storage: &MemoryCheckpointStorage, nonce: u64) -> Begun {
    block_on(begin_attempt(storage, &job(), &[], RestoreOptions { retain: 1, falls_back: false }, nonce)).unwrap()
}

fn leave_behind(storage: &MemoryCheckpointStorage, checkpoint: u64, attempt: u64) -> ObjectPath {
    let uid = OperatorUid::new("sum").unwrap();
    let path = paths::state_object(&job(), Attempt(attempt), CheckpointId(checkpoint), &uid, 0);
    block_on(storage.create_if_absent(&path, Bytes::from_static(b"late"))).unwrap();
    path
}

fn exists(storage: &MemoryCheckpointStorage, path: &ObjectPath) -> bool {
    block_on(storage.read(path)).is_ok()
}

/// Contract: T346.
#[test]
fn a_start_deletes_what_a_dead_attempt_left() {
    let storage = MemoryCheckpointStorage::new();
    assert!(matches!(begin(&storage, 7), Begun::Claimed(_)));
    let left = leave_behind(&storage, 3, 1);
    let Begun::Claimed(claimed) = begin(&storage, 8) else { panic!("the job is not finished") };
    assert_eq!(claimed.start.first_checkpoint, CheckpointId(4));
    assert!(!exists(&storage, &left));
}

#[test]
fn the_start_of_a_finished_job_deletes_what_its_last_attempt_could_not() {
    let storage = MemoryCheckpointStorage::new();
    let Begun::Claimed(claimed) = begin(&storage, 7) else { panic!("the job is not finished") };
    let finished = LogRecord::Finished { attempt: claimed.start.attempt };
    assert!(block_on(append(&storage, &job(), claimed.start.next_sequence, &finished)).unwrap());
    let left = leave_behind(&storage, 3, 1);
    assert!(matches!(begin(&storage, 8), Begun::Finished));
    assert!(!exists(&storage, &left));
    assert_eq!(block_on(storage.list(&paths::log_folder(&job()))).unwrap().len(), 2);
}
