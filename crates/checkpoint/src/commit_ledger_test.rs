//! The transactions of a two-phase-commit sink: what is committed when, and that nothing is ever forgotten.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;
use proptest::prelude::*;

use crate::script_test::now;
use crate::{COMMIT_TRIES_MAX, CommitFailure, CommitLedger, TransactionId, TransactionState};

fn snapshot(ledger: &CommitLedger<&'static str>) -> Vec<(u64, &'static str)> {
    ledger.snapshot().map(|(checkpoint, transaction)| (checkpoint.0, *transaction)).collect()
}

/// Commits whatever may be committed; says what was.
fn commit_all(ledger: &mut CommitLedger<&'static str>) -> Vec<&'static str> {
    let mut committed = Vec::new();
    while let Some((id, _)) = ledger.next_commit(now(1 << 40)) {
        committed.extend(ledger.committed(id));
    }
    committed
}

fn two_checkpoints() -> CommitLedger<&'static str> {
    let mut ledger = CommitLedger::new();
    ledger.prepared(CheckpointId(1), ["a", "b"]);
    ledger.prepared(CheckpointId(2), ["c"]);
    ledger.prepared(CheckpointId(3), []);
    ledger.prepared(CheckpointId(4), ["d"]);
    ledger
}

/// Contract: R311.
#[test]
fn nothing_is_committed_before_its_checkpoint_is_complete() {
    let mut ledger = two_checkpoints();
    assert!(commit_all(&mut ledger).is_empty());
    assert!(ledger.is_settled());
    assert_eq!(ledger.next_deadline(), None);
    assert_eq!(snapshot(&ledger), [(1, "a"), (1, "b"), (2, "c"), (4, "d")]);
}

/// Contract: R312, R313.
#[test]
fn completing_a_checkpoint_commits_it_and_earlier_ones_in_order() {
    let mut ledger = two_checkpoints();
    ledger.complete(CheckpointId(3));
    assert!(!ledger.is_settled());
    assert_eq!(commit_all(&mut ledger), ["a", "b", "c"]);
    assert!(ledger.is_settled() && !ledger.is_empty());
    assert_eq!(snapshot(&ledger), [(4, "d")]);
    ledger.complete(CheckpointId(2));
    ledger.complete(CheckpointId(3));
    assert!(commit_all(&mut ledger).is_empty(), "late and repeated notifications change nothing");
    ledger.complete(CheckpointId(4));
    assert_eq!(commit_all(&mut ledger), ["d"]);
    assert!(ledger.is_empty());
}

#[test]
fn one_commit_at_a_time_and_its_transaction_stays_until_it_is_known() {
    let mut ledger = two_checkpoints();
    ledger.complete(CheckpointId(1));
    let (first, _) = ledger.next_commit(now(0)).unwrap();
    assert_eq!(ledger.next_commit(now(0)), None);
    assert_eq!(ledger.states().next(), Some((first, TransactionState::Committing, &"a")));
    assert_eq!(snapshot(&ledger)[0], (1, "a"), "a snapshot between question and answer");
    assert_eq!(ledger.committed(first), Some("a"));
    assert_eq!(ledger.committed(first), None, "reported before");
    assert_eq!(ledger.next_commit(now(0)).map(|(_, transaction)| *transaction), Some("b"));
}

/// Contract: R314, R318.
#[test]
fn a_commit_that_failed_is_tried_again_later_and_holds_back_what_follows() {
    let mut ledger = two_checkpoints();
    ledger.complete(CheckpointId(2));
    let mut now_ms = 1_000;
    let mut waits = Vec::new();
    for tries in 1..=COMMIT_TRIES_MAX {
        let (id, transaction) = ledger.next_commit(now(now_ms)).unwrap();
        assert_eq!(*transaction, "a");
        let failure = ledger.failed(now(now_ms), id, true);
        if tries < COMMIT_TRIES_MAX {
            assert_eq!(failure, CommitFailure::Retry);
        } else {
            assert_eq!(failure, CommitFailure::Fatal { tries });
        }
        assert_eq!(ledger.states().next(), Some((id, TransactionState::Unknown, &"a")));
        let retry_at_ms = ledger.next_deadline().unwrap();
        assert_eq!(ledger.next_commit(now(retry_at_ms - 1)), None);
        waits.push(retry_at_ms - now_ms);
        now_ms = retry_at_ms;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
    assert_eq!(snapshot(&ledger), [(1, "a"), (1, "b"), (2, "c"), (4, "d")], "nothing is forgotten");
}

#[test]
fn a_failure_that_trying_again_cannot_help_is_fatal_at_once() {
    let mut ledger = two_checkpoints();
    ledger.complete(CheckpointId(1));
    let (id, _) = ledger.next_commit(now(0)).unwrap();
    assert_eq!(ledger.failed(now(0), id, false), CommitFailure::Fatal { tries: 1 });
    assert_eq!(snapshot(&ledger)[0], (1, "a"));
}

#[test]
fn an_answer_to_nothing_changes_nothing() {
    let mut ledger = two_checkpoints();
    let (id, ..) = ledger.states().next().unwrap();
    assert_eq!(ledger.failed(now(0), id, false), CommitFailure::Retry);
    assert_eq!(ledger.states().next(), Some((id, TransactionState::Prepared, &"a")));
}

/// Contract: R315, R319.
#[test]
fn restored_transactions_are_committed_before_anything_new() {
    let restored = [(CheckpointId(7), "d"), (CheckpointId(5), "a"), (CheckpointId(5), "b"), (CheckpointId(9), "e")];
    let mut ledger = CommitLedger::restored(CheckpointId(7), restored);
    assert!(!ledger.is_settled());
    assert!(ledger.states().all(|(_, state, _)| state == TransactionState::Unknown));
    ledger.prepared(CheckpointId(8), ["new"]);
    assert_eq!(commit_all(&mut ledger), ["a", "b", "d", "e"]);
    assert!(ledger.is_settled());
    assert_eq!(snapshot(&ledger), [(8, "new")]);
    assert!(CommitLedger::<()>::restored(CheckpointId(7), []).is_settled());
}

#[derive(Debug, Clone)]
enum Step {
    Prepare(usize),
    Complete(u64),
    Commit,
    Committed,
    Failed(bool),
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..3).prop_map(Step::Prepare),
        (0u64..6).prop_map(Step::Complete),
        Just(Step::Commit),
        Just(Step::Committed),
        any::<bool>().prop_map(Step::Failed),
        Just(Step::Restore),
    ]
}

proptest! {
    /// Whatever fails: what was prepared is either known to be committed, exactly once, or in the snapshot. The order of
    /// commits is the order of preparation, and none comes before its checkpoint is complete.
    #[test]
    fn nothing_is_lost_and_nothing_is_early(steps in prop::collection::vec(step(), 0..60)) {
        let mut ledger = CommitLedger::new();
        let (mut checkpoint, mut complete, mut next) = (0u64, 0u64, 0u32);
        let mut prepared: Vec<(u64, u32)> = Vec::new();
        let mut committed: BTreeSet<u32> = BTreeSet::new();
        let mut in_flight: Option<TransactionId> = None;
        let mut now_ms = 0;
        for step in steps {
            now_ms += 60_000;
            match step {
                Step::Prepare(count) => {
                    checkpoint += 1;
                    let transactions: Vec<u32> = (next..next + count as u32).collect();
                    next += count as u32;
                    prepared.extend(transactions.iter().map(|transaction| (checkpoint, *transaction)));
                    ledger.prepared(CheckpointId(checkpoint), transactions);
                }
                Step::Complete(back) => {
                    let id = checkpoint.saturating_sub(back);
                    complete = complete.max(id);
                    ledger.complete(CheckpointId(id));
                }
                Step::Commit => {
                    if let Some((id, transaction)) = ledger.next_commit(now(now_ms)) {
                        prop_assert!(in_flight.is_none() && id.checkpoint.0 <= complete);
                        let oldest = prepared.iter().map(|(_, one)| *one).find(|one| !committed.contains(one));
                        prop_assert_eq!(Some(*transaction), oldest);
                        in_flight = Some(id);
                    }
                }
                Step::Committed => {
                    if let Some(transaction) = in_flight.take().and_then(|id| ledger.committed(id)) {
                        prop_assert!(committed.insert(transaction));
                    }
                }
                Step::Failed(is_retryable) => {
                    if let Some(id) = in_flight.take() {
                        ledger.failed(now(now_ms), id, is_retryable);
                    }
                }
                Step::Restore => {
                    // A crash right after the newest checkpoint completed.
                    let kept: Vec<_> = ledger.snapshot().map(|(id, transaction)| (id, *transaction)).collect();
                    complete = checkpoint;
                    in_flight = None;
                    ledger = CommitLedger::restored(CheckpointId(checkpoint), kept);
                }
            }
            let open: Vec<(u64, u32)> = ledger.snapshot().map(|(id, transaction)| (id.0, *transaction)).collect();
            let expected: Vec<_> = prepared.iter().filter(|(_, one)| !committed.contains(one)).copied().collect();
            prop_assert_eq!(open, expected);
        }
    }
}
