//! The shortest right sink with two-phase commit: transactions in a sorted map that stands for an outside system.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_state_api::{Attempt, BoxedError, CheckpointId};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkWriter, Timestamp};
use serde::{Deserialize, Serialize};

/// What the instances of a [`ReferenceSink`] write to and what outlives them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReferenceTarget(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) transactions: BTreeMap<ReferenceTransaction, Entry>,
    pub(crate) is_away: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) records: Vec<String>,
    pub(crate) is_prepared: bool,
    /// How often its records are visible. Once at most, if everything is right.
    pub(crate) times_visible: usize,
}

impl ReferenceTarget {
    /// The records of the transactions that are committed.
    pub fn visible(&self) -> Vec<String> {
        let contents = self.contents();
        let entries = contents.transactions.values();
        entries.flat_map(|entry| (0..entry.times_visible).flat_map(|_| entry.records.clone())).collect()
    }

    /// How many transactions are not committed.
    pub fn uncommitted(&self) -> usize {
        self.contents().transactions.values().filter(|entry| entry.times_visible == 0).count()
    }

    /// Lets commits fail, or not any more.
    pub fn set_outage(&self, is_away: bool) {
        self.contents().is_away = is_away;
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        // A map is whole at any moment: a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes texts to a [`ReferenceTarget`].
#[derive(Debug, Clone)]
pub struct ReferenceSink {
    target: ReferenceTarget,
}

impl ReferenceSink {
    /// An instance that writes to `target`.
    pub fn on(target: &ReferenceTarget) -> Self {
        Self { target: target.clone() }
    }
}

/// Names a transaction of a [`ReferenceSink`]: no two of a job are called the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReferenceTransaction {
    pub(crate) attempt: Attempt,
    pub(crate) subtask: u32,
    pub(crate) number: u64,
}

impl Sink for ReferenceSink {
    type In = String;
    type Transaction = ReferenceTransaction;
    type Writer = ReferenceWriter;

    fn create_writer(&self, cx: &SinkContext) -> Result<ReferenceWriter, BoxedError> {
        let open = ReferenceTransaction { attempt: cx.attempt, subtask: cx.subtask, number: 0 };
        Ok(ReferenceWriter { target: self.target.clone(), open, is_empty: true })
    }

    fn commit(&self, transaction: &ReferenceTransaction) -> Result<(), CommitError> {
        let contents = &mut *self.target.contents();
        if contents.is_away {
            return Err(CommitError::Retryable("the target is away".into()));
        }
        match contents.transactions.get_mut(transaction) {
            Some(entry) if entry.is_prepared => {
                entry.times_visible = 1;
                Ok(())
            }
            _ => Err(CommitError::Lost(format!("{transaction:?} is not in the target").into())),
        }
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError> {
        let contents = &mut *self.target.contents();
        contents.transactions.retain(|transaction, entry| entry.times_visible > 0 || transaction.attempt >= attempt);
        Ok(())
    }
}

/// Writes for one subtask. A transaction is begun by its first record.
#[derive(Debug)]
pub struct ReferenceWriter {
    pub(crate) target: ReferenceTarget,
    pub(crate) open: ReferenceTransaction,
    is_empty: bool,
}

impl SinkWriter for ReferenceWriter {
    type In = String;
    type Transaction = ReferenceTransaction;

    fn write(&mut self, record: String, _: Timestamp) -> Result<(), BoxedError> {
        let contents = &mut *self.target.contents();
        if std::mem::take(&mut self.is_empty) {
            let entry = Entry { records: Vec::new(), is_prepared: false, times_visible: 0 };
            contents.transactions.insert(self.open, entry);
        }
        let entry = contents.transactions.get_mut(&self.open).ok_or("the open transaction was aborted")?;
        entry.records.push(record);
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Option<ReferenceTransaction>, BoxedError> {
        if std::mem::replace(&mut self.is_empty, true) {
            return Ok(None);
        }
        let prepared = self.open;
        self.open.number += 1;
        let contents = &mut *self.target.contents();
        let entry = contents.transactions.get_mut(&prepared).ok_or("the open transaction was aborted")?;
        entry.is_prepared = true;
        Ok(Some(prepared))
    }
}
