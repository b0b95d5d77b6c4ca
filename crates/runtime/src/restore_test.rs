//! The start of an attempt on a real storage: what it finds, claims and tidies up.

use std::sync::Arc;

use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
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

/// Two processes start a job for the first time, and the folders that the faster one makes come before its record in what the slower
/// one sees.
#[test]
fn a_log_that_another_process_has_begun_meanwhile_is_not_lost() {
    let inner = Arc::new(MemoryCheckpointStorage::new());
    let faults = Faults::default();
    let faster = inner.clone();
    let overtake = move || {
        assert!(matches!(begin(&faster, 7), Begun::Claimed(_)));
        leave_behind(&faster, 1, 1);
    };
    faults.arm(When::next(Operation::ListFolders), Fault::Delay(Arc::new(overtake)));
    let storage = FaultyStorage::new(inner, faults);
    let (job, options) = (job(), RestoreOptions { retain: 1, falls_back: false, ignores_unclaimed: false });
    let claim = JobClaim::new(&job, &[], options, Claimant { nonce: 8, over: Over::Anyone });
    let Begun::Claimed(claimed) = block_on(begin_attempt(&storage, claim)).unwrap() else { panic!("it is free") };
    assert_eq!((claimed.start.attempt, claimed.start.first_checkpoint), (Attempt(2), CheckpointId(2)));
}

/// Begins an attempt and removes what earlier ones left.
fn begin_over(storage: &MemoryCheckpointStorage, nonce: u64, over: Over) -> Begun {
    let (job, options) = (job(), RestoreOptions { retain: 1, falls_back: false, ignores_unclaimed: false });
    let claim = JobClaim::new(&job, &[], options, Claimant { nonce, over });
    let mut begun = block_on(begin_attempt(storage, claim)).unwrap();
    if let Begun::Claimed(claimed) = &mut begun {
        let left_overs = std::mem::take(&mut claimed.left_overs);
        block_on(remove_left_overs(storage, &job, &left_overs));
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
    assert!(matches!(begin(&storage, 8), Begun::Finished { by_own: false, .. }));
    let Begun::Finished { by_own: true, left_overs } = begin(&storage, 7) else { panic!("who has not heard of it") };
    block_on(remove_left_overs(&storage, &job(), &left_overs));
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

#[test]
fn a_number_whose_record_goes_away_while_it_is_tried_is_taken() {
    let inner = Arc::new(MemoryCheckpointStorage::new());
    assert!(matches!(begin(&inner, 7), Begun::Claimed(_)));
    let (faults, deletes) = (Faults::default(), inner.clone());
    let delete = move || block_on(deletes.delete(&paths::log_record(&job(), 1))).unwrap();
    faults.arm(When::next(Operation::Read), Fault::Delay(Arc::new(delete)));
    let storage = FaultyStorage::new(inner, faults);
    let record = LogRecord::Claim { nonce: 8, first_checkpoint: CheckpointId(1) };
    assert!(!block_on(append(&storage, &job(), 1, &record)).unwrap());
}

#[test]
fn a_folder_of_a_checkpoint_behind_which_ids_would_run_out_is_an_error_that_names_it() {
    for checkpoint in [u64::MAX, u64::MAX / 2 + 1] {
        let storage = MemoryCheckpointStorage::new();
        assert!(matches!(begin(&storage, 7), Begun::Claimed(_)));
        leave_behind(&storage, checkpoint, 1);
        let (options, claimant) = (
            RestoreOptions { retain: 1, falls_back: false, ignores_unclaimed: false },
            Claimant { nonce: 8, over: Over::Anyone },
        );
        let begun = block_on(begin_attempt(&storage, JobClaim::new(&job(), &[], options, claimant)));
        let Err(error) = begun else { panic!("it was begun") };
        assert!(crate::error::chain_of(&error).contains(&format!("a folder of checkpoint {checkpoint} under job")));
    }
}

/// However fast its records go, a start comes to the end of reading the log.
#[test]
fn a_log_of_which_records_are_deleted_at_every_call_is_read() {
    let inner = Arc::new(MemoryCheckpointStorage::new());
    let Begun::Claimed(claimed) = begin(&inner, 7) else { panic!("the job is not finished") };
    let attempt = claimed.start.attempt;
    for checkpoint in 1..=200 {
        let metadata = StateHandle::Inline(Bytes::from_static(b"1"));
        let record = LogRecord::Completed { attempt, checkpoint: CheckpointId(checkpoint), metadata };
        assert!(block_on(append(&*inner, &job(), claimed.start.next_sequence + checkpoint - 1, &record)).unwrap());
    }
    let faults = Faults::default();
    let (log, deletes) = (paths::log_folder(&job()), inner.clone());
    // The cleaner of the running attempt is as fast as the reader, which begins with the oldest record, too.
    let delete = move || {
        let records = block_on(deletes.list(&log)).unwrap();
        if records.len() > 3 {
            block_on(deletes.delete(&records[2])).unwrap();
        }
    };
    faults.arm(When::every(Operation::Read), Fault::Delay(Arc::new(delete)));
    let storage = FaultyStorage::new(inner.clone(), faults);
    let mut reader = LogReader::default();
    let tries = (1..CLAIM_TRIES_MAX).find(|_| {
        let listed = block_on(inner.list(&paths::log_folder(&job()))).unwrap();
        block_on(reader.read(&storage, &job(), &listed)).unwrap().is_some()
    });
    assert!(tries.is_some_and(|tries| tries <= 5), "{tries:?}");
}
