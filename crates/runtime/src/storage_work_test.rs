//! What the coordinator's storage work does to objects that are there already.

use std::sync::Arc;

use highwater_checkpoint::{Discard, DiscardId};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use highwater_state_api::{Attempt, KEY_HASH_ID};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn metadata(triggered_at_ms: u64) -> CheckpointMetadata {
    CheckpointMetadata {
        job: job(),
        attempt: Attempt(1),
        checkpoint: CheckpointId(7),
        triggered_at_ms,
        key_hash: KEY_HASH_ID.to_owned(),
        operators: Vec::new(),
    }
}

fn write(storage: &MemoryCheckpointStorage, metadata: CheckpointMetadata) -> Event {
    let path = paths::checkpoint_metadata(&job(), Attempt(1), CheckpointId(7));
    let action =
        Action::WriteMetadata { checkpoint: CheckpointId(7), path, metadata: Box::new(metadata), hooks: Vec::new() };
    block_on(carry_out(storage, &job(), &Fence::default(), action)).unwrap()
}

/// Contract: T341.
#[test]
fn metadata_that_is_there_is_never_replaced() {
    let storage = MemoryCheckpointStorage::new();
    assert!(matches!(write(&storage, metadata(1)), Event::MetadataWritten { .. }));
    let Event::MetadataFailed { cause, .. } = write(&storage, metadata(2)) else { panic!("it was replaced") };
    assert!(cause.contains("job/chk-7-1/_metadata exists already"), "{cause}");
    let path = paths::checkpoint_metadata(&job(), Attempt(1), CheckpointId(7));
    let found = block_on(storage.read(&path)).unwrap();
    assert_eq!(highwater_checkpoint::decode_metadata(&found).unwrap(), metadata(1));
}

/// Contract: T343.
#[test]
fn the_folder_of_a_checkpoint_goes_alone() {
    let storage = MemoryCheckpointStorage::new();
    let names = ["chk-1-1", "chk-1-10", "chk-10-1", "chk-11-1", "log", "chk-1-2"];
    let objects: Vec<ObjectPath> =
        names.iter().map(|name| paths::job_folder(&job()).join(name).join("sum-0")).collect();
    for object in &objects {
        block_on(storage.create_if_absent(object, Bytes::from_static(b"state"))).unwrap();
    }
    let folder = paths::checkpoint_folder(&job(), Attempt(1), CheckpointId(1));
    let action = Action::Discard { id: DiscardId(0), discard: Discard::Folder(folder) };
    assert_eq!(
        block_on(carry_out(&storage, &job(), &Fence::default(), action)),
        Some(Event::Discarded { id: DiscardId(0) })
    );
    let mut left = objects[1..].to_vec();
    left.sort_unstable();
    assert_eq!(block_on(storage.list(&paths::job_folder(&job()))).unwrap(), left);
}

#[test]
fn an_object_that_cannot_be_deleted_keeps_no_other() {
    let (inner, faults) = (Arc::new(MemoryCheckpointStorage::new()), Faults::default());
    let paths: Vec<ObjectPath> = (1..=3).map(|sequence| paths::log_record(&job(), sequence)).collect();
    for path in &paths {
        block_on(inner.create_if_absent(path, Bytes::from_static(b"record"))).unwrap();
    }
    faults.arm(When::nth(Operation::Delete, 2), Fault::FailBefore);
    let storage = FaultyStorage::new(inner.clone(), faults);
    let action = || Action::Discard { id: DiscardId(0), discard: Discard::Objects(paths.clone()) };
    let discard = || block_on(carry_out(&storage, &job(), &Fence::default(), action()));
    assert_eq!(discard(), Some(Event::DiscardFailed { id: DiscardId(0) }));
    assert_eq!(block_on(inner.list(&paths::log_folder(&job()))).unwrap(), paths[1..2]);
    assert_eq!(discard(), Some(Event::Discarded { id: DiscardId(0) }));
    assert_eq!(block_on(inner.list(&paths::log_folder(&job()))).unwrap(), []);
}
