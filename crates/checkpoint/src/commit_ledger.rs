//! The transactions of one subtask of a sink that commits in two phases: what is prepared, what may be committed, and
//! what has been.
//!
//! A transaction is prepared when a checkpoint is taken and committed when that checkpoint is complete. Until its commit
//! is known to have happened it stays in every snapshot; after a restore it is committed first. Commits therefore have
//! to be idempotent, and whatever fails, nothing is forgotten.

use std::collections::BTreeMap;

use highwater_state_api::CheckpointId;

use crate::Now;
use crate::backoff::wait_ms;

/// How often one commit is tried before the attempt has to fail. The restored attempt begins to count anew.
pub const COMMIT_TRIES_MAX: u32 = 10;

/// Names one transaction within its ledger, in the order in which transactions are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The checkpoint that the transaction belongs to.
    pub checkpoint: CheckpointId,
    number: u64,
}

/// Where a transaction stands. One that is known to be committed is no longer in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// All of it is written. It must not be committed before its checkpoint is complete.
    Prepared,
    /// Its checkpoint is complete and its commit has been asked for; no answer yet.
    Committing,
    /// Its commit has failed, or the attempt that asked for it is gone: it may or may not have happened.
    Unknown,
}

/// What to do about a commit that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFailure {
    /// Wait: the ledger will ask again.
    Retry,
    /// Fail the attempt. The transaction stays in the snapshots and is committed after the restore.
    Fatal {
        /// How often the commit was tried.
        tries: u32,
    },
}

#[derive(Debug, Clone)]
struct Entry<T> {
    transaction: T,
    state: TransactionState,
    tries: u32,
    retry_at_ms: u64,
}

/// The transactions of one subtask.
///
/// ```
/// use highwater_checkpoint::{CommitLedger, Now};
/// use highwater_state_api::CheckpointId;
///
/// let mut ledger = CommitLedger::new();
/// ledger.prepared(CheckpointId(1), [".part-1"]);
/// assert!(ledger.next_commit(Now::default()).is_none(), "not before the checkpoint is complete");
/// ledger.complete(CheckpointId(1));
/// while let Some((id, transaction)) = ledger.next_commit(Now::default()) {
///     // Rename the file `transaction` here.
///     assert_eq!(*transaction, ".part-1");
///     ledger.committed(id);
/// }
/// assert!(ledger.is_empty());
/// ```
///
/// `T` is what the sink needs to commit one, in this process or in another.
#[derive(Debug, Clone)]
pub struct CommitLedger<T> {
    entries: BTreeMap<TransactionId, Entry<T>>,
    next_number: u64,
    /// Transactions of this checkpoint and of earlier ones are to be committed.
    complete: Option<CheckpointId>,
}

impl<T> Default for CommitLedger<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next_number: 0, complete: None }
    }
}

impl<T> CommitLedger<T> {
    /// A ledger without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ledger of a subtask that is restored from `checkpoint`, with its share of the transactions in the snapshots.
    ///
    /// All of them are to be committed: `checkpoint` is complete and none of them is newer. Whether an earlier attempt
    /// has committed some of them already is unknown.
    pub fn restored(checkpoint: CheckpointId, transactions: impl IntoIterator<Item = (CheckpointId, T)>) -> Self {
        let mut ledger = Self { complete: Some(checkpoint), ..Self::default() };
        for (prepared_for, transaction) in transactions {
            // One that claims to be newer than its own snapshot would otherwise wait for a checkpoint that never comes.
            ledger.insert(prepared_for.min(checkpoint), transaction, TransactionState::Unknown);
        }
        ledger
    }

    fn insert(&mut self, checkpoint: CheckpointId, transaction: T, state: TransactionState) {
        let id = TransactionId { checkpoint, number: self.next_number };
        self.next_number += 1;
        self.entries.insert(id, Entry { transaction, state, tries: 0, retry_at_ms: 0 });
    }

    /// Transactions were prepared when the snapshot for `checkpoint` was taken; they are part of that snapshot.
    pub fn prepared(&mut self, checkpoint: CheckpointId, transactions: impl IntoIterator<Item = T>) {
        for transaction in transactions {
            self.insert(checkpoint, transaction, TransactionState::Prepared);
        }
    }

    /// What belongs into a snapshot: every transaction that is not known to be committed, in order.
    pub fn snapshot(&self) -> impl Iterator<Item = (CheckpointId, &T)> {
        self.entries.iter().map(|(id, entry)| (id.checkpoint, &entry.transaction))
    }

    /// Where every transaction stands, in order.
    pub fn states(&self) -> impl Iterator<Item = (TransactionId, TransactionState, &T)> {
        self.entries.iter().map(|(id, entry)| (*id, entry.state, &entry.transaction))
    }

    /// The checkpoint is complete: its transactions, and those of earlier checkpoints, are to be committed. Late and
    /// repeated notifications change nothing.
    pub fn complete(&mut self, checkpoint: CheckpointId) {
        self.complete = self.complete.max(Some(checkpoint));
    }

    /// The transaction to commit next, to be answered by [`CommitLedger::committed`] or [`CommitLedger::failed`].
    ///
    /// `None` while an answer is outstanding, while a failed commit waits to be tried again, and when there is nothing
    /// to commit. Strictly in order: an effect never becomes visible before one that precedes it.
    pub fn next_commit(&mut self, now: Now) -> Option<(TransactionId, &T)> {
        let (id, entry) = self.entries.iter_mut().next()?;
        let is_due = Some(id.checkpoint) <= self.complete && entry.retry_at_ms <= now.monotonic_ms;
        if !is_due || entry.state == TransactionState::Committing {
            return None;
        }
        entry.state = TransactionState::Committing;
        entry.tries += 1;
        Some((*id, &entry.transaction))
    }

    /// A commit is known to have happened. Returns the transaction; `None` when it was reported before.
    pub fn committed(&mut self, id: TransactionId) -> Option<T> {
        self.entries.remove(&id).map(|entry| entry.transaction)
    }

    /// A commit has failed, or nobody knows whether it happened. The transaction stays.
    ///
    /// `is_retryable` is false when trying again cannot help.
    pub fn failed(&mut self, now: Now, id: TransactionId, is_retryable: bool) -> CommitFailure {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == TransactionState::Committing) else {
            return CommitFailure::Retry; // an answer to nothing that is outstanding
        };
        entry.state = TransactionState::Unknown;
        entry.retry_at_ms = now.monotonic_ms.saturating_add(wait_ms(entry.tries));
        if is_retryable && entry.tries < COMMIT_TRIES_MAX {
            CommitFailure::Retry
        } else {
            CommitFailure::Fatal { tries: entry.tries }
        }
    }

    /// When to ask for [`CommitLedger::next_commit`] again: when a failed commit may be tried once more.
    pub fn next_deadline(&self) -> Option<u64> {
        let (id, entry) = self.entries.iter().next()?;
        let waits = Some(id.checkpoint) <= self.complete && entry.state != TransactionState::Committing;
        waits.then_some(entry.retry_at_ms)
    }

    /// Whether everything that may be committed is known to be committed. After a restore nothing new should be written
    /// to the outside before this holds.
    pub fn is_settled(&self) -> bool {
        self.entries.keys().next().is_none_or(|id| Some(id.checkpoint) > self.complete)
    }

    /// Whether there is no transaction at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
