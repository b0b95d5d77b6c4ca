//! Sinks with two-phase commit: what a job writes becomes visible when, and only when, a checkpoint covers it.

use std::fmt;

use highwater_state_api::{Attempt, BoxedError, CheckpointId, JobName, OperatorUid, State};

use crate::{Data, Timestamp};

/// A sink. The value itself is shared by all subtasks; each subtask writes through a writer of its own.
///
/// The order of calls in an attempt: [`Sink::start`] once for the job; then in each subtask [`Sink::commit`] for every
/// restored transaction, [`Sink::create_writer`], writes, [`SinkWriter::prepare_commit`] at each barrier, and
/// [`Sink::commit`] for the transactions of a checkpoint when it is complete.
pub trait Sink: Send + Sync + 'static {
    /// What is written.
    type In: Data;
    /// A transaction that is prepared: durable, invisible, and committed by [`Sink::commit`] at any time, by anyone.
    type Transaction: State + fmt::Debug;
    /// Writes.
    type Writer: SinkWriter<In = Self::In, Transaction = Self::Transaction>;

    /// Called once in every attempt, before any subtask runs: checks that the target can be written to. An error ends
    /// the job, unless this process has restarted it before.
    fn start(&self, _start: &SinkStart<'_>) -> Result<(), BoxedError> {
        Ok(())
    }

    /// A writer with an open transaction for one subtask.
    fn create_writer(&self, cx: &SinkContext) -> Result<Self::Writer, BoxedError>;

    /// Makes a prepared transaction visible. Idempotent: a transaction that is committed is committed again after every
    /// restart that cannot know. A committed transaction never changes.
    fn commit(&self, transaction: &Self::Transaction) -> Result<(), CommitError>;

    /// Removes what earlier attempts left behind uncommitted. Called on one subtask, when every transaction of a restored
    /// checkpoint is known to be committed. An error is logged; nothing depends on it.
    fn abort_earlier_attempts(&self, _attempt: Attempt) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// Writes records into an open transaction. An error ends the attempt; the open transaction is never committed.
pub trait SinkWriter: Send {
    /// What is written.
    type In;
    /// What a prepared transaction is.
    type Transaction;

    /// Writes a record into the open transaction.
    fn write(&mut self, record: Self::In, timestamp: Timestamp) -> Result<(), BoxedError>;

    /// Ends the open transaction and makes it durable, so that it can be committed after any crash; opens the next.
    /// `None` when nothing was written.
    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Self::Transaction>, BoxedError>;
}

/// What a sink knows of the start of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct SinkStart<'a> {
    /// The job.
    pub job: &'a JobName,
    /// The uid of the sink in the job.
    pub operator: &'a OperatorUid,
    /// The attempt.
    pub attempt: Attempt,
    /// The checkpoint that the sink goes on from; `None` when it starts from nothing.
    pub restored: Option<CheckpointId>,
}

/// Who a writer is made for.
#[derive(Debug, Clone)]
pub struct SinkContext {
    /// The job.
    pub job: JobName,
    /// The attempt: names that a writer makes up contain it, so that no two attempts ever write to the same place.
    pub attempt: Attempt,
    /// Index of the subtask.
    pub subtask: u32,
    /// Number of subtasks.
    pub parallelism: u32,
}

/// A transaction could not be committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// It may work later.
    #[error("the commit failed and may be tried again")]
    Retryable(#[source] BoxedError),
    /// It will never work: the transaction is lost, and the job must stop.
    #[error("the transaction cannot be committed")]
    Lost(#[source] BoxedError),
}
