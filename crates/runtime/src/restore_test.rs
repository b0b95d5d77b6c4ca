//! The start of an attempt on a real storage: what it finds, claims and tidies up.

use highwater_state_api::Attempt;
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn begin(storage: &MemoryCheckpointStorage, nonce: u64) -> Begun {
    begin_over(storage, nonce, Over::Anyone)
}

/// Begins an attempt and removes what earlier ones left.
fn begin_over(storage: &MemoryCheckpointStorage, nonce: u64, over: Over) -> Begun {
    let mut begun = block_on(begin_attempt(
        storage,
        &job(),
        &[],
        RestoreOptions { retain: 1, falls_back: false },
        Claimant { nonce, over },
    ))
    .unwrap();
    if let Begun::Claimed(claimed) = &mut begun {
        let left_overs = std::mem::take(&mut claimed.left_overs);
        block_on(remove_left_overs(storage, &Fence::default(), left_overs)).unwrap();
    }
    begun
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

/// Contract: T346.
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

#[test]
fn who_has_been_fenced_does_not_fence_in_return() {
    let storage = MemoryCheckpointStorage::new();
    assert!(matches!(begin(&storage, 7), Begun::Claimed(_)));
    let again = begin_over(&storage, 7, Over::Own);
    assert!(
        matches!(&again, Begun::Claimed(claimed) if claimed.start.attempt == Attempt(2)),
        "its own job it goes on with"
    );
    assert!(matches!(begin(&storage, 8), Begun::Claimed(_)));
    assert!(matches!(begin_over(&storage, 7, Over::Own), Begun::Held { sequence: 3 }));
}

#[test]
fn whoever_waited_claims_only_what_it_has_seen() {
    let storage = MemoryCheckpointStorage::new();
    let Begun::Claimed(holder) = begin_over(&storage, 7, Over::Unchanged(1)) else { panic!("nobody holds the job") };
    // Both have seen the log end with the claim of the holder, which lives after all.
    let metadata = StateHandle::Inline(Bytes::new());
    let completed = LogRecord::Completed { attempt: holder.start.attempt, checkpoint: CheckpointId(1), metadata };
    assert!(block_on(append(&storage, &job(), 2, &completed)).unwrap());
    assert!(matches!(begin_over(&storage, 8, Over::Unchanged(2)), Begun::Held { sequence: 2 }));
    assert!(matches!(begin_over(&storage, 9, Over::Unchanged(2)), Begun::Held { .. }));
}

#[test]
fn a_start_deletes_the_renewals_of_earlier_leases() {
    let storage = MemoryCheckpointStorage::new();
    assert!(matches!(begin(&storage, 7), Begun::Claimed(_)));
    let renewal = |attempt| paths::lease_renewal(&job(), Attempt(attempt), 5);
    for attempt in [1, 2] {
        block_on(storage.create_if_absent(&renewal(attempt), Bytes::new())).unwrap();
    }
    assert!(matches!(begin(&storage, 8), Begun::Claimed(_)));
    assert!(!exists(&storage, &renewal(1)) && exists(&storage, &renewal(2)));
}
