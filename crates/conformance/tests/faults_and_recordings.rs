//! What the wrappers are for: calls fail when they are told to, and every call is on record.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater_conformance::{
    Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, ReferenceDisk, ReferenceStorage, When,
};
use highwater_state_api::{CheckpointStorage, ObjectPath, StorageError};
use pollster::block_on;

fn object(path: &str) -> ObjectPath {
    ObjectPath::parse(path).unwrap()
}

fn reference() -> ReferenceStorage {
    ReferenceStorage::on(&ReferenceDisk::default())
}

fn faulty() -> (FaultyStorage, Faults) {
    let faults = Faults::default();
    (FaultyStorage::new(Arc::new(reference()), faults.clone()), faults)
}

fn upload(storage: &dyn CheckpointStorage, path: &str) -> Result<(), StorageError> {
    block_on(async {
        let mut upload = storage.create(&object(path)).await?;
        upload.write("content".into()).await?;
        upload.finish().await.map(drop)
    })
}

fn is_unavailable(result: Result<(), StorageError>) -> bool {
    matches!(result, Err(StorageError::Unavailable { .. }))
}

#[test]
fn a_fault_before_has_no_effect_and_a_fault_after_has_the_whole() {
    for (operation, fault, there) in [
        (Operation::CreateIfAbsent, Fault::FailBefore, false),
        (Operation::CreateIfAbsent, Fault::FailAfter, true),
        (Operation::Finish, Fault::FailBefore, false),
        (Operation::Finish, Fault::FailAfter, true),
        (Operation::Write, Fault::FailAfter, false),
        (Operation::Create, Fault::FailAfter, false),
    ] {
        let (storage, faults) = faulty();
        faults.arm(When::next(operation), fault.clone());
        let result = match operation {
            Operation::CreateIfAbsent => block_on(storage.create_if_absent(&object("job/a"), "content".into())),
            _ => upload(&storage, "job/a"),
        };
        assert!(is_unavailable(result), "{operation} {fault:?}");
        assert_eq!(block_on(storage.read(&object("job/a"))).is_ok(), there, "{operation} {fault:?}");
        assert_eq!(faults.remaining(), 0);
    }
}

#[test]
fn a_fault_hits_the_call_it_is_meant_for() {
    let (storage, faults) = faulty();
    faults.arm(When::nth(Operation::Finish, 2).named("metadata"), Fault::FailBefore);
    assert!(upload(&storage, "job/chk-1/metadata").is_ok());
    assert!(upload(&storage, "job/chk-2/state").is_ok());
    assert!(is_unavailable(upload(&storage, "job/chk-2/metadata")));
    assert!(upload(&storage, "job/chk-2/metadata").is_ok());
    faults.arm(When::every(Operation::List), Fault::FailBefore);
    for _ in 0..3 {
        assert!(is_unavailable(block_on(storage.list(&object("job"))).map(drop)));
    }
    faults.clear();
    assert_eq!(block_on(storage.list(&object("job"))).unwrap().len(), 3);
}

#[test]
fn a_delayed_call_waits_and_succeeds() {
    let (storage, faults) = faulty();
    let waited = Arc::new(AtomicU32::new(0));
    let counter = waited.clone();
    let wait = move || {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    faults.arm(When::next(Operation::Create), Fault::Delay(Arc::new(wait)));
    upload(&storage, "job/a").unwrap();
    upload(&storage, "job/b").unwrap();
    assert_eq!(waited.load(Ordering::Relaxed), 1);
}

#[test]
fn every_call_is_on_record_in_order() {
    let recording = Recording::default();
    let storage = RecordingStorage::new(Arc::new(reference()), recording.clone());
    upload(&storage, "job/chk-1/state").unwrap();
    block_on(async {
        drop(storage.create(&object("job/chk-1/lost")).await?);
        storage.create_if_absent(&object("job/log/1"), "completed".into()).await?;
        storage.create_if_absent(&object("job/log/1"), "completed".into()).await.unwrap_err();
        storage.read_range(&object("job/log/1"), 0, 4).await?;
        storage.list(&object("job")).await?;
        storage.delete(&object("job/log/1")).await?;
        storage.read(&object("job/log/1")).await.unwrap_err();
        storage.delete_folder(&object("job")).await
    })
    .unwrap();
    assert_eq!(
        recording.lines(),
        [
            "create job/chk-1/state",
            "write job/chk-1/state (7 bytes)",
            "finish job/chk-1/state (7 bytes)",
            "create job/chk-1/lost",
            "abandon job/chk-1/lost",
            "create if absent job/log/1 (9 bytes)",
            "create if absent job/log/1: AlreadyExists",
            "read range job/log/1 (4 bytes)",
            "list job (2 objects)",
            "delete job/log/1",
            "read job/log/1: NotFound",
            "delete folder job",
        ]
    );
    assert_eq!(recording.take().len(), 12);
    assert!(recording.calls().is_empty());
}
