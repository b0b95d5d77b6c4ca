//! A sink that keeps committed records in memory, for tests and for programs that embed a job.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use highwater_state_api::{Attempt, CheckpointId};
use highwater_stream_api::{BoxedError, CommitError, Data, Sink, SinkContext, SinkStart, SinkWriter, Timestamp};
use serde::{Deserialize, Serialize};

/// The records that a [`CollectSink`] has committed. Every clone sees the same records.
pub struct CollectedRecords<T> {
    committed: Arc<Mutex<Committed<T>>>,
}

struct Committed<T> {
    records: Vec<T>,
    transactions: BTreeSet<Identity>,
}

/// Attempt, subtask, checkpoint: no two transactions of a job ever share them.
type Identity = (Attempt, u32, CheckpointId);

impl<T> Clone for CollectedRecords<T> {
    fn clone(&self) -> Self {
        Self { committed: Arc::clone(&self.committed) }
    }
}

impl<T> Default for CollectedRecords<T> {
    fn default() -> Self {
        let committed = Committed { records: Vec::new(), transactions: BTreeSet::new() };
        Self { committed: Arc::new(Mutex::new(committed)) }
    }
}

impl<T> fmt::Debug for CollectedRecords<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectedRecords").field("committed", &self.len()).finish_non_exhaustive()
    }
}

impl<T> CollectedRecords<T> {
    /// How many records are committed.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Whether no record is committed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The committed records, transaction by transaction in the order of their commits.
    pub fn to_vec(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.lock().records.clone()
    }

    /// A panic while the lock was held can only come from a reader's clone: what was committed is still right.
    fn lock(&self) -> MutexGuard<'_, Committed<T>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that starts from nothing was given records of another run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectSinkError {
    /// The records would be mixed with those of the new job.
    #[error(
        "the collected records already hold {records} records of another run, and this job starts from nothing: \
         give it a new CollectSink, or restore it from its checkpoint"
    )]
    NotEmpty {
        /// How many there are.
        records: usize,
    },
}

/// Keeps committed records in memory.
///
/// A transaction carries its records with it into the checkpoint: it can be committed by a later attempt, also in
/// another process. Small outputs only.
///
/// ```
/// use highwater_connectors::CollectSink;
///
/// let sink = CollectSink::<u64>::default();
/// let records = sink.records(); // stays here when the sink goes into the job
/// assert!(records.is_empty());
/// ```
#[derive(Debug)]
pub struct CollectSink<T> {
    records: CollectedRecords<T>,
}

impl<T> Default for CollectSink<T> {
    fn default() -> Self {
        Self::new(CollectedRecords::default())
    }
}

impl<T> CollectSink<T> {
    /// A sink that commits to `records`.
    pub fn new(records: CollectedRecords<T>) -> Self {
        Self { records }
    }

    /// What is committed, now and later.
    pub fn records(&self) -> CollectedRecords<T> {
        self.records.clone()
    }
}

/// Records that wait for their commit.
#[derive(Clone, Serialize, Deserialize)]
pub struct CollectTransaction<T> {
    attempt: Attempt,
    subtask: u32,
    checkpoint: CheckpointId,
    records: Vec<T>,
}

impl<T> fmt::Debug for CollectTransaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectTransaction")
            .field("attempt", &self.attempt)
            .field("subtask", &self.subtask)
            .field("checkpoint", &self.checkpoint)
            .field("records", &self.records.len())
            .finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Data> Sink for CollectSink<T> {
    type In = T;
    type Transaction = CollectTransaction<T>;
    type Writer = CollectWriter<T>;

    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError> {
        let records = self.records.len();
        if start.restored.is_none() && records > 0 {
            return Err(CollectSinkError::NotEmpty { records }.into());
        }
        Ok(())
    }

    fn create_writer(&self, cx: &SinkContext) -> Result<CollectWriter<T>, BoxedError> {
        Ok(CollectWriter { attempt: cx.attempt, subtask: cx.subtask, records: Vec::new() })
    }

    fn commit(&self, transaction: &CollectTransaction<T>) -> Result<(), CommitError> {
        let mut records = transaction.records.clone();
        let mut committed = self.records.lock();
        if committed.transactions.insert((transaction.attempt, transaction.subtask, transaction.checkpoint)) {
            committed.records.append(&mut records);
        }
        Ok(())
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None // a transaction is in the checkpoint with all that belongs to it
    }

    fn abort_earlier_attempts(&self, _attempt: Attempt) -> Result<(), BoxedError> {
        Ok(()) // what was not committed went with its writer
    }
}

/// Collects the records of one subtask until the next checkpoint.
#[derive(Debug)]
pub struct CollectWriter<T> {
    attempt: Attempt,
    subtask: u32,
    records: Vec<T>,
}

#[deny(clippy::missing_trait_methods)]
impl<T: Data> SinkWriter for CollectWriter<T> {
    type In = T;
    type Transaction = CollectTransaction<T>;

    fn write(&mut self, record: T, _timestamp: Timestamp) -> Result<(), BoxedError> {
        self.records.push(record);
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<CollectTransaction<T>>, BoxedError> {
        let records = std::mem::take(&mut self.records);
        let Self { attempt, subtask, .. } = *self;
        Ok((!records.is_empty()).then_some(CollectTransaction { attempt, subtask, checkpoint, records }))
    }
}

#[cfg(test)]
mod tests {
    use highwater_state_api::{JobName, OperatorUid};

    use super::*;

    #[test]
    fn a_job_that_starts_from_nothing_is_not_given_the_records_of_another_run() {
        let sink = CollectSink::<u64>::default();
        let (job, operator) = (JobName::new("job").unwrap(), OperatorUid::new("sink").unwrap());
        let start = SinkStart { job: &job, operator: &operator, attempt: Attempt(1), restored: None };
        sink.start(&start).unwrap();
        let transaction =
            CollectTransaction { attempt: Attempt(1), subtask: 0, checkpoint: CheckpointId(1), records: vec![7, 8] };
        sink.commit(&transaction).unwrap();
        let error = sink.start(&SinkStart { attempt: Attempt(9), ..start }).unwrap_err();
        assert!(error.to_string().contains("already hold 2 records of another run"), "{error}");
        sink.start(&SinkStart { restored: Some(CheckpointId(1)), ..start }).unwrap();
    }
}
