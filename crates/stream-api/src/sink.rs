//! Sinks with two-phase commit: what a job writes becomes visible when, and only when, a checkpoint covers it.

use std::fmt;
use std::time::Duration;

use highwater_state_api::{Attempt, BoxedError, CheckpointId, JobName, OperatorUid, State};

use crate::{Data, Timestamp};

/// A sink. The value itself is shared by all subtasks; each subtask writes through a writer of its own.
///
/// The order of calls in an attempt: [`Sink::start`] once for the job; then in each subtask [`Sink::create_writer`],
/// [`Sink::commit`] for every restored transaction, writes, [`SinkWriter::prepare_commit`] at each barrier, and
/// [`Sink::commit`] for the transactions of a checkpoint when it is complete. [`Sink::abort_earlier_attempts`] comes once in
/// an attempt, when every subtask has committed what it restored and no checkpoint has been triggered; perhaps between writes.
/// An attempt that restarts only a part of the job, to which the sink does not belong, does not call the sink: its writers
/// go on as they are.
///
/// # Transactions
///
/// A transaction is *open* while records are written into it. Prepared, it is in every snapshot until it is known to be
/// committed; whatever fails, it is never forgotten. In the eyes of the job it is then in one of three states:
///
/// * *committed*: [`Sink::commit`] has returned `Ok`. From then on the snapshots are without it. One that was taken
///   before still has it, so that a restored job commits it again.
/// * *not committed*: its checkpoint is not complete, or the commit failed with [`CommitError::Retryable`]. It is tried
///   again, each time later, ten times in an attempt. Then the attempt fails, and the next one tries again.
/// * *unknown*: the commit failed with [`CommitError::Unknown`], or a process died before it could tell. It is tried again
///   in the same way. If nobody knows after the last try, the job stops: to ask once more would not help, and either guess
///   would be wrong at some time.
///
/// [`CommitError::Lost`] stops the job at once. Whenever the job stops, its error says which transaction it was and what
/// can be done; the transaction stays in the snapshots, and a job that is started again commits it first. A subtask asks
/// for commits strictly in order and one by one: while one transaction waits, later ones of the same subtask wait too.
///
/// The suite `transactional_sink_conformance!` of `highwater-conformance` is this text as tests.
pub trait Sink: Send + Sync + 'static {
    /// What is written.
    type In: Data;
    /// A transaction that is prepared: durable, invisible, and committed by [`Sink::commit`] at any time, by anyone.
    type Transaction: State + fmt::Debug;
    /// Writes.
    type Writer: SinkWriter<In = Self::In, Transaction = Self::Transaction>;

    /// Called once in every attempt, before any subtask runs: checks that the target can be written to. An error ends
    /// the job, unless this process has restarted it before. A panic counts as an error.
    fn start(&self, _start: &SinkStart<'_>) -> Result<(), BoxedError> {
        Ok(())
    }

    /// A writer with an open transaction for one subtask.
    fn create_writer(&self, cx: &SinkContext) -> Result<Self::Writer, BoxedError>;

    /// Makes a prepared transaction visible, this one and no other, whichever attempt or subtask has prepared it.
    /// Idempotent: a transaction that is committed is committed again after every restart that cannot know, perhaps by two
    /// processes at once. A committed transaction never changes.
    ///
    /// On error the transaction is left as it is, so that it can still be committed if that is possible at all.
    fn commit(&self, transaction: &Self::Transaction) -> Result<(), CommitError>;

    /// For how long the target keeps a transaction that is not committed, from its opening on; `None` when for ever.
    ///
    /// A job refuses to start when this is shorter than a transaction may have to live, one restart included: its records
    /// would be lost, and the job could not go on. That is the time from its opening at one barrier to the next (the
    /// checkpoint interval, or the least pause between checkpoints if that is longer), the checkpoint timeout, the longest
    /// delay of the restart strategy, or what a standby waits for before it takes over if that is longer, and a minute for
    /// the restart and the commit. Where another region of the job may be restarted alone, the checkpoint fails and another one
    /// has to be waited for. A panic refuses the start, too.
    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    /// Removes what earlier attempts left behind uncommitted, of whatever subtasks they had; nothing of this attempt, and
    /// nothing of another sink: where two sinks write to one target, writers of an earlier attempt may still write for the other.
    /// Called on one subtask as soon as every transaction of a restored checkpoint is known to be committed, so that readers
    /// do not wait for transactions that will never end. An error is logged, and the next complete checkpoint tries again.
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
    /// The uid of the sink in the job: names that a writer makes up contain it where two sinks write to one target.
    pub operator: OperatorUid,
    /// The attempt: names that a writer makes up contain it, so that no two attempts ever write to the same place.
    pub attempt: Attempt,
    /// Index of the subtask.
    pub subtask: u32,
    /// Number of subtasks.
    pub parallelism: u32,
    /// The checkpoint that the sink goes on from; `None` when it starts from nothing. Flink's `getRestoredCheckpointId`.
    pub restored: Option<CheckpointId>,
}

/// A transaction could not be committed. What the variants mean for the job is said at [`Sink`].
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// It may work later: the target could not be reached, or refused for now. Whether the transaction is committed does
    /// not matter, since the next try is going to tell.
    #[error("the commit failed and may be tried again")]
    Retryable(#[source] BoxedError),
    /// The target has answered, and the answer does not tell whether the transaction is committed: it has forgotten a
    /// transaction that took too long, for instance. It may know when it is asked again.
    #[error("it is not known whether the transaction is committed")]
    Unknown(#[source] BoxedError),
    /// It is not committed and never will be: the transaction is lost, and the job must stop.
    #[error("the transaction cannot be committed")]
    Lost(#[source] BoxedError),
}
