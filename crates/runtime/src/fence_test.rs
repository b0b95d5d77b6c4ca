//! The fence on a real log, with time in the test's hands.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use highwater_checkpoint::encode_log_record;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use highwater_state_api::{CheckpointId, StateHandle};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

const LEASE_MS: u64 = 300;
const FENCED: Result<(), FenceError> = Err(FenceError::Fenced { sequence: 3 });

struct Held {
    fence: Fence,
    storage: Arc<FaultyStorage>,
    faults: Faults,
    now_ms: Arc<AtomicU64>,
}

/// A job that attempt 2 has claimed at 0 ms.
fn held() -> Held {
    let (faults, now_ms) = (Faults::default(), Arc::new(AtomicU64::new(0)));
    let storage = Arc::new(FaultyStorage::new(Arc::new(MemoryCheckpointStorage::new()), faults.clone()));
    let clock = now_ms.clone();
    let setup = FenceSetup {
        storage: storage.clone(),
        job: job(),
        now: Box::new(move || at(clock.load(Ordering::SeqCst))),
        lease_ms: LEASE_MS,
        runtime: None,
    };
    let start =
        AttemptStart { attempt: Attempt(2), first_checkpoint: CheckpointId(7), next_sequence: 3, retained: Vec::new() };
    Held { fence: Fence::new(setup, &start, at(0)), storage, faults, now_ms }
}

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn inline() -> StateHandle {
    StateHandle::Inline(Bytes::new())
}

fn at(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_clock_ms: ms }
}

impl Held {
    fn at(&self, ms: u64) -> &Self {
        self.now_ms.store(ms, Ordering::SeqCst);
        self
    }

    fn check(&self) -> Result<(), FenceError> {
        self.fence.check_blocking()
    }

    fn append(&self, sequence: u64, record: &LogRecord) {
        let content = Bytes::from(encode_log_record(record).unwrap());
        block_on(self.storage.create_if_absent(&paths::log_record(&job(), sequence), content)).unwrap();
    }

    fn claim(&self, sequence: u64) {
        self.append(sequence, &LogRecord::Claim { nonce: 5, first_checkpoint: CheckpointId(20) });
    }

    fn complete(&self, sequence: u64) {
        let (attempt, checkpoint) = (Attempt(2), CheckpointId(sequence));
        self.append(sequence, &LogRecord::Completed { attempt, checkpoint, metadata: inline() });
    }
}

#[test]
fn the_log_is_read_only_when_the_lease_has_run_out() {
    let held = held();
    held.faults.arm(When::every(Operation::Read), Fault::FailBefore);
    assert_eq!(held.at(LEASE_MS - 1).check(), Ok(()));
    assert!(matches!(held.at(LEASE_MS).check(), Err(FenceError::Unknown { lease_ms: LEASE_MS, .. })));
    held.faults.clear();
    assert_eq!(held.check(), Ok(()), "nobody has claimed the job");
}

#[test]
fn a_foreign_claim_closes_the_fence_for_ever() {
    let held = held();
    held.claim(3);
    assert_eq!(held.at(LEASE_MS).check(), FENCED);
    // Whatever comes afterwards.
    held.fence.appended(3, at(LEASE_MS));
    held.faults.arm(When::every(Operation::Read), Fault::FailBefore);
    assert_eq!(held.check(), FENCED);
    let shared = held.fence.clone();
    assert_eq!(block_on(shared.check()), FENCED);
}

#[test]
fn records_of_its_own_are_no_foreign_claim() {
    let held = held();
    held.complete(3);
    held.complete(4);
    assert_eq!(held.at(LEASE_MS).check(), Ok(()));
    held.claim(5);
    assert_eq!(held.check(), Err(FenceError::Fenced { sequence: 5 }));
}

#[test]
fn an_append_renews_the_lease_and_a_late_renewal_does_not() {
    let held = held();
    held.at(200).fence.renewed(at(190));
    assert!(held.at(489).fence.is_valid() && !held.at(490).fence.is_valid());
    held.at(500).fence.renewed(at(495));
    assert!(!held.fence.is_valid());
    held.complete(3);
    held.fence.appended(3, at(500));
    held.faults.arm(When::every(Operation::Read), Fault::FailBefore);
    assert_eq!(held.at(799).check(), Ok(()));
}

#[test]
fn whoever_fails_asks_the_log_though_the_lease_is_valid() {
    let held = held();
    held.claim(3);
    assert_eq!(held.check(), Ok(()), "a start that fences at once is found at the end of the lease");
    held.fence.end_lease();
    assert_eq!(block_on(held.fence.foreign_claim()), Some(3));
}

/// Whatever is stuck in it must be fenced by the next attempt, and what it began may still be answered.
#[test]
fn an_attempt_that_is_over_gets_no_lease_any_more() {
    let held = held();
    assert!(held.fence.is_valid() && !held.fence.is_over());
    held.fence.end_lease();
    assert_eq!(block_on(held.fence.foreign_claim()), None);
    held.fence.renewed(at(10));
    held.complete(3);
    held.fence.appended(3, at(20));
    assert!(!held.fence.is_valid() && held.fence.is_over());
    held.claim(4);
    assert_eq!(held.check(), Err(FenceError::Fenced { sequence: 4 }));
}

/// Contract: O275.
#[test]
fn a_claim_for_an_attempt_that_takes_over_closes_nothing() {
    let held = held();
    held.fence.expect_successor(5);
    held.claim(3);
    assert_eq!(held.at(LEASE_MS).check(), Ok(()), "also before the claim is known to be there");
    let start = AttemptStart {
        attempt: Attempt(3),
        first_checkpoint: CheckpointId(20),
        next_sequence: 4,
        retained: Vec::new(),
    };
    held.fence.succeed(&start, at(LEASE_MS));
    held.faults.arm(When::every(Operation::Read), Fault::FailBefore);
    assert_eq!(held.at(2 * LEASE_MS - 1).check(), Ok(()), "the claim renews the lease");
    held.faults.clear();
    held.append(4, &LogRecord::Completed { attempt: Attempt(3), checkpoint: CheckpointId(20), metadata: inline() });
    assert_eq!(held.at(3 * LEASE_MS).check(), Ok(()), "a record of the new attempt is its own");
    // The next claim of the same process takes nothing over.
    held.claim(5);
    assert_eq!(held.check(), Err(FenceError::Fenced { sequence: 5 }));
}

#[test]
fn a_claim_that_is_foreign_closes_the_fence_also_while_another_one_is_expected() {
    let held = held();
    held.fence.expect_successor(6);
    held.claim(3);
    assert_eq!(held.at(LEASE_MS).check(), FENCED);
}

#[test]
fn an_attempt_that_was_to_be_taken_over_and_was_not_is_fenced_by_the_next_claim() {
    let held = held();
    held.fence.expect_successor(5);
    held.fence.expect_nobody();
    held.claim(3);
    assert_eq!(held.at(LEASE_MS).check(), FENCED);
}

#[test]
fn what_the_coordinator_finds_closes_the_fence_though_the_lease_is_valid() {
    let held = held();
    let claim = LogRecord::Claim { nonce: 5, first_checkpoint: CheckpointId(20) };
    held.fence.appended(3, at(0));
    held.fence.found(3, &claim);
    assert_eq!(held.check(), Ok(()), "a claim in the hole of a deleted record is void");
    held.fence.found(4, &LogRecord::Finished { attempt: Attempt(2) });
    assert_eq!(held.check(), Ok(()), "the own record");
    held.fence.found(5, &claim);
    assert_eq!(held.check(), Err(FenceError::Fenced { sequence: 5 }));
}
