//! Dropping checkpoints on a real storage: whatever goes wrong at whatever step, a start finds all or nothing.

use std::sync::Arc;

use bytes::Bytes;
use highwater_checkpoint::{CheckpointMetadata, encode_metadata};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use highwater_state_api::{CheckpointId, KEY_HASH_ID, ObjectPath, StateHandle};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;
use crate::log_test::log_of;
use crate::restore::{Begun, Claimant, ClaimedJob, JobClaim, Over, RestoreOptions, begin_attempt, remove_left_overs};

/// In the claims of the process whose job ends.
const OWN: u64 = 7;

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn start(storage: &dyn CheckpointStorage, nonce: u64) -> ClaimedJob {
    let options = RestoreOptions { retain: 2, falls_back: false, ignores_unclaimed: false };
    let claimant = Claimant { nonce, over: Over::Anyone };
    let job = job();
    let begun = block_on(begin_attempt(storage, JobClaim::new(&job, &[], options, claimant)));
    let Begun::Claimed(mut claimed) = begun.unwrap() else {
        panic!("the job is free and not finished");
    };
    let left_overs = std::mem::take(&mut claimed.left_overs);
    block_on(remove_left_overs(storage, &job, &left_overs));
    *claimed
}

fn write(storage: &dyn CheckpointStorage, path: &ObjectPath, content: Bytes) -> StateHandle {
    block_on(async {
        let mut upload = storage.create(path).await.unwrap();
        upload.write(content).await.unwrap();
        upload.finish().await.unwrap()
    })
}

/// Completes a checkpoint as the next record of the log.
fn complete(storage: &dyn CheckpointStorage, attempt: Attempt, checkpoint: u64, sequence: u64) {
    let (job, checkpoint) = (job(), CheckpointId(checkpoint));
    let folder = paths::checkpoint_folder(&job, attempt, checkpoint);
    write(storage, &folder.join("sum-0"), Bytes::from_static(b"state"));
    let metadata = CheckpointMetadata {
        job: job.clone(),
        attempt,
        checkpoint,
        triggered_at_ms: 0,
        key_hash: KEY_HASH_ID.to_owned(),
        operators: Vec::new(),
    };
    let path = paths::checkpoint_metadata(&job, attempt, checkpoint);
    let metadata = write(storage, &path, Bytes::from(encode_metadata(&metadata).unwrap()));
    let record = LogRecord::Completed { attempt, checkpoint, metadata };
    assert!(block_on(append(storage, &job, sequence, &record)).unwrap());
}

/// A job with two checkpoints of its first attempt, and the attempt.
fn with_checkpoints(storage: &dyn CheckpointStorage) -> Attempt {
    let attempt = start(storage, OWN).start.attempt;
    complete(storage, attempt, 1, 2);
    complete(storage, attempt, 2, 3);
    attempt
}

fn folders(storage: &dyn CheckpointStorage) -> Vec<String> {
    let folders = block_on(storage.list_folders(&paths::job_folder(&job()))).unwrap();
    folders.iter().map(|path| path.name().to_owned()).filter(|name| name != "log").collect()
}

/// Contract: M244, M247.
#[test]
fn dropped_checkpoints_are_gone_and_the_next_start_begins_from_nothing() {
    let storage = MemoryCheckpointStorage::new();
    with_checkpoints(&storage);
    assert_eq!(block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap(), DroppedCheckpoints::All);
    assert_eq!(folders(&storage), [""; 0]);
    let claimed = start(&storage, 8);
    assert!(claimed.restored.is_none());
    assert_eq!(claimed.start.first_checkpoint, CheckpointId(3), "ids never restart");
    // What that attempt completes is restored as ever.
    complete(&storage, claimed.start.attempt, 3, claimed.start.next_sequence);
    assert_eq!(start(&storage, 9).restored.unwrap().0, CheckpointId(3));
}

/// Contract: J190, M239, M244, M247.
#[test]
fn whatever_step_is_the_last_one_the_next_start_finds_all_or_nothing() {
    let operations =
        [Operation::List, Operation::Read, Operation::CreateIfAbsent, Operation::ListFolders, Operation::DeleteFolder];
    let (mut kept, mut dropped) = (0, 0);
    for operation in operations {
        for nth in 1..=4 {
            for fault in [Fault::FailBefore, Fault::FailAfter] {
                let inner = Arc::new(MemoryCheckpointStorage::new());
                with_checkpoints(&*inner);
                let faults = Faults::default();
                let storage = FaultyStorage::new(inner.clone(), faults.clone());
                faults.arm(When::nth(operation, nth), fault.clone());
                let ended = block_on(drop_checkpoints(&storage, &job(), OWN));
                let claimed = start(&*inner, 8);
                let what = format!("{operation} {nth} {fault:?}: {ended:?}");
                assert_eq!(claimed.start.first_checkpoint, CheckpointId(3), "{what}");
                match &claimed.restored {
                    Some((checkpoint, _)) => {
                        assert!(ended.is_err(), "{what}");
                        assert_eq!(*checkpoint, CheckpointId(2), "{what}");
                        assert_eq!(folders(&*inner), ["chk-1-1", "chk-2-1"], "{what}");
                        kept += 1;
                    }
                    None => {
                        assert_eq!(folders(&*inner), [""; 0], "the start has made up for it: {what}");
                        dropped += 1;
                    }
                }
            }
        }
    }
    assert!(kept > 0 && dropped > 0, "{kept} times all was there, {dropped} times nothing");
}

/// Its last record had been on its way when its owner cancelled.
#[test]
fn a_job_that_has_finished_keeps_nothing_either() {
    let storage = MemoryCheckpointStorage::new();
    with_checkpoints(&storage);
    let next = block_on(storage.list(&paths::log_folder(&job()))).unwrap().len() as u64 + 1;
    let finished = LogRecord::Finished { attempt: Attempt(1) };
    assert!(block_on(append(&storage, &job(), next, &finished)).unwrap());
    assert_eq!(block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap(), DroppedCheckpoints::All);
    assert_eq!(folders(&storage), [""; 0]);
    let log = block_on(storage.list(&paths::log_folder(&job()))).unwrap();
    assert_eq!(log.len() as u64, next, "nothing comes after the end");
}

/// Contract: M239, M244.
#[test]
fn a_job_that_another_process_has_taken_over_loses_nothing() {
    let storage = MemoryCheckpointStorage::new();
    with_checkpoints(&storage);
    let successor = start(&storage, 8).start;
    assert_eq!(block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap(), DroppedCheckpoints::NotOurs);
    assert_eq!(folders(&storage), ["chk-1-1", "chk-2-1"]);
    complete(&storage, successor.attempt, 3, successor.next_sequence);
    assert_eq!(start(&storage, 9).restored.unwrap().0, CheckpointId(3));
}

/// Contract: M244.
#[test]
fn a_start_that_was_cancelled_when_it_had_claimed_keeps_nothing() {
    let storage = MemoryCheckpointStorage::new();
    with_checkpoints(&storage);
    start(&storage, OWN);
    assert_eq!(block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap(), DroppedCheckpoints::All);
    assert!(start(&storage, 8).restored.is_none());
}

#[test]
fn a_successor_that_began_after_the_record_keeps_what_it_has_completed() {
    let inner = Arc::new(MemoryCheckpointStorage::new());
    with_checkpoints(&*inner);
    let faults = Faults::default();
    let storage = FaultyStorage::new(inner.clone(), faults.clone());
    // Between the record and the deletions another process starts the job and completes a checkpoint.
    let shared = inner.clone();
    let meanwhile = move || {
        let successor = start(&*shared, 8).start;
        complete(&*shared, successor.attempt, 3, successor.next_sequence);
    };
    faults.arm(When::next(Operation::ListFolders), Fault::Delay(Arc::new(meanwhile)));
    assert_eq!(block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap(), DroppedCheckpoints::All);
    assert_eq!(start(&*inner, 9).restored.unwrap().0, CheckpointId(3));
    assert_eq!(folders(&*inner), ["chk-3-5"]);
}

#[test]
fn an_append_that_the_attempt_has_given_up_cannot_land_behind_the_record() {
    let storage = MemoryCheckpointStorage::new();
    let attempt = with_checkpoints(&storage);
    block_on(drop_checkpoints(&storage, &job(), OWN)).unwrap();
    let metadata = StateHandle::Inline(Bytes::new());
    let late = LogRecord::Completed { attempt, checkpoint: CheckpointId(3), metadata };
    assert!(!block_on(append(&storage, &job(), 4, &late)).unwrap());
}

#[test]
fn people_are_told_in_one_line_what_becomes_of_the_checkpoints_of_a_cancelled_job() {
    use ExternalizedCheckpointRetention::*;
    let line = |attempt: Option<u64>, policy, undecided| {
        let status =
            JobStatus { attempt: attempt.map(Attempt), restored_from: Some(CheckpointId(3)), ..JobStatus::default() };
        let log = log_of(|| say_cancelled(&JobName::new("sums").unwrap(), &status, policy, undecided));
        assert_eq!((log.lines().count(), log.contains("INFO highwater::job: cancelled")), (1, true), "{log}");
        log
    };
    let stays = line(Some(2), RetainOnCancellation, None);
    assert!(stays.contains("goes on from the newest complete one job=sums newest=3 policy=RETAIN_"), "{stays}");
    let undecided = line(Some(2), RetainOnCancellation, Some(CheckpointId(4)));
    assert!(undecided.contains("newest=3 undecided=4"), "{undecided}");
    let deleted = line(Some(2), DeleteOnCancellation, None);
    assert!(deleted.contains("its checkpoints are deleted job=sums"), "{deleted}");
    let untouched = line(None, DeleteOnCancellation, None);
    assert!(untouched.contains("before it had begun: what there is of it stays as it is"), "{untouched}");
}
