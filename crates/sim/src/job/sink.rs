//! The sink of the simulated job: an outside world that outlives processes, with prepared and committed transactions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_state_api::{Attempt, BoxedError, CheckpointId};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkWriter, Timestamp};
use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::record::Counted;

/// Names a transaction; no two of a job ever have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Transaction {
    /// The attempt that wrote it.
    pub attempt: Attempt,
    /// The checkpoint it was prepared for.
    pub checkpoint: CheckpointId,
    /// The subtask that wrote it.
    pub subtask: u32,
}

/// What happened in the outside world.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "the transactions of most events are only written into the trace")]
pub(crate) enum SinkEvent {
    /// A transaction was prepared.
    Prepared(Transaction),
    /// A transaction became visible.
    Committed(Transaction),
    /// A transaction was to be committed again.
    CommittedAgain(Transaction),
    /// A transaction was to be committed that is nowhere any more.
    Lost(Transaction),
    /// A commit failed as the seed said.
    Failed(Transaction, &'static str),
    /// A prepared transaction was removed.
    Removed(Transaction),
}

/// The outside world that the sink writes to. Clones share it.
#[derive(Clone)]
pub(crate) struct Outside(Arc<Mutex<Inner>>);

struct Inner {
    prepared: BTreeMap<Transaction, Vec<Counted>>,
    committed: BTreeMap<Transaction, Vec<Counted>>,
    /// Committed transactions of which what is in them is to come again.
    superseded: BTreeMap<Transaction, Vec<Counted>>,
    events: Vec<SinkEvent>,
    dice: Dice,
    fails_before: u32,
    fails_after: u32,
}

impl Outside {
    /// Nothing is written yet; of 1,000 commits so many fail before, and so many after, they have happened.
    pub(crate) fn new(dice: Dice, fails_before: u32, fails_after: u32) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            prepared: BTreeMap::new(),
            committed: BTreeMap::new(),
            superseded: BTreeMap::new(),
            events: Vec::new(),
            dice,
            fails_before,
            fails_after,
        })))
    }

    /// Nothing fails from now on.
    pub(crate) fn heal(&self) {
        let mut inner = self.lock();
        (inner.fails_before, inner.fails_after) = (0, 0);
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&self) -> Vec<SinkEvent> {
        std::mem::take(&mut self.lock().events)
    }

    /// The job goes back to this checkpoint, or to nothing: what was committed after it stays, and what is in it comes again.
    /// From now on only that which comes again is looked at. How many transactions stay that way.
    pub(crate) fn go_back_to(&self, newest: Option<CheckpointId>) -> usize {
        let inner = &mut *self.lock();
        let later: Vec<_> = inner.committed.extract_if(.., |it, _| Some(it.checkpoint) > newest).collect();
        let found = later.len();
        inner.superseded.extend(later);
        found
    }

    /// Whether anything is visible, but for what was there before the job went back.
    pub(crate) fn has_committed(&self) -> bool {
        !self.lock().committed.is_empty()
    }

    /// What is visible, transaction by transaction, but for what was there before the job went back.
    pub(crate) fn committed(&self) -> BTreeMap<Transaction, Vec<Counted>> {
        self.lock().committed.clone()
    }

    /// The records of a transaction, be it committed or only prepared.
    pub(crate) fn records(&self, transaction: &Transaction) -> Option<Vec<Counted>> {
        let inner = self.lock();
        inner.committed.get(transaction).or_else(|| inner.prepared.get(transaction)).cloned()
    }

    /// Makes a transaction visible, or fails as the seed says.
    fn commit(&self, transaction: &Transaction) -> Result<(), CommitError> {
        let inner = &mut *self.lock();
        let mut fails = |when, rate| match inner.dice.chance(rate) {
            true => {
                inner.events.push(SinkEvent::Failed(*transaction, when));
                Err(CommitError::Retryable("as the seed says".into()))
            }
            false => Ok(()),
        };
        fails("before", inner.fails_before)?;
        let fails_after = fails("after", inner.fails_after);
        if let Some(records) = inner.prepared.remove(transaction) {
            inner.committed.insert(*transaction, records);
            inner.events.push(SinkEvent::Committed(*transaction));
        } else if inner.committed.contains_key(transaction) {
            inner.events.push(SinkEvent::CommittedAgain(*transaction));
        } else {
            inner.events.push(SinkEvent::Lost(*transaction));
            return Err(CommitError::Lost(format!("{transaction:?} is nowhere").into()));
        }
        fails_after
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to the outside world.
pub(super) struct SimSink {
    pub(super) outside: Outside,
    /// Planted: the ledger hears nothing of errors, and forgets the transaction as if it were committed.
    pub(super) forgets: bool,
}

impl Sink for SimSink {
    type In = Counted;
    type Transaction = Transaction;
    type Writer = SimWriter;

    fn create_writer(&self, cx: &SinkContext) -> Result<SimWriter, BoxedError> {
        Ok(SimWriter { outside: self.outside.clone(), attempt: cx.attempt, subtask: cx.subtask, open: Vec::new() })
    }

    fn commit(&self, transaction: &Transaction) -> Result<(), CommitError> {
        match self.outside.commit(transaction) {
            Err(_) if self.forgets => Ok(()),
            result => result,
        }
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError> {
        let inner = &mut *self.outside.lock();
        let removed = inner.prepared.extract_if(.., |transaction, _| transaction.attempt < attempt);
        inner.events.extend(removed.map(|(transaction, _)| SinkEvent::Removed(transaction)));
        Ok(())
    }
}

/// Writes for one subtask.
pub(super) struct SimWriter {
    outside: Outside,
    attempt: Attempt,
    subtask: u32,
    open: Vec<Counted>,
}

impl SinkWriter for SimWriter {
    type In = Counted;
    type Transaction = Transaction;

    fn write(&mut self, record: Counted, _: Timestamp) -> Result<(), BoxedError> {
        self.open.push(record);
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Transaction>, BoxedError> {
        if self.open.is_empty() {
            return Ok(None);
        }
        let transaction = Transaction { attempt: self.attempt, checkpoint, subtask: self.subtask };
        let inner = &mut *self.outside.lock();
        if [&inner.prepared, &inner.committed, &inner.superseded].iter().any(|all| all.contains_key(&transaction)) {
            return Err(format!("{transaction:?} is there already").into());
        }
        inner.prepared.insert(transaction, std::mem::take(&mut self.open));
        inner.events.push(SinkEvent::Prepared(transaction));
        Ok(Some(transaction))
    }
}
