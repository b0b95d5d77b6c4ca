//! Sinks: the end of a chain, with two-phase commit.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{CommitFailure, CommitLedger, Now, TransactionId};
use highwater_state_api::{BincodeSerializer, CheckpointId, SINK_TRANSACTIONS, Serializer, StateError};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkWriter, Timestamp};

use super::input::Input;
use super::progress::Progress;
use super::{Takes, connector_list, frozen_list, opened, refuse_other_state};
use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};
use crate::{FenceError, TaskError, failpoint};

/// How much of a transaction is told when it cannot be committed.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// Writes records through a sink's writer and commits its transactions when their checkpoints are complete.
pub struct SinkOperator<S: Sink> {
    sink: Arc<S>,
    opened: Option<Opened<S>>,
    input: Input<S::In>,
    progress: Progress,
}

struct Opened<S: Sink> {
    cx: OperatorContext,
    writer: S::Writer,
    ledger: CommitLedger<S::Transaction>,
    /// What earlier attempts left behind has been removed, or is another subtask's to remove.
    cleaned: bool,
}

impl<S: Sink> SinkOperator<S> {
    /// Writes to `sink`.
    pub fn new(sink: Arc<S>) -> Self {
        Self { sink, opened: None, input: Input::default(), progress: Progress::default() }
    }

    /// Commits everything that may be committed now, in order, until one fails.
    fn commit(&mut self, now: Duration) -> Result<(), TaskError> {
        let Opened { cx, ledger, .. } = opened(&mut self.opened);
        let now = now_of(now);
        while let Some((id, transaction)) = ledger.next_commit(now) {
            let error = match commit_one(&*self.sink, cx, id, transaction) {
                Ok(()) => {
                    ledger.committed(id);
                    continue;
                }
                Err(NotCommitted::Fenced { sequence }) => return Err(TaskError::Fenced { sequence }),
                Err(NotCommitted::Failed(error)) => error,
            };
            // Before the ledger is told: it keeps the transaction, and it alone has it.
            let transaction = description_of(transaction);
            let is_retryable = !matches!(error, CommitError::Lost(_));
            if let CommitFailure::Fatal { tries } = ledger.failed(now, id, is_retryable) {
                let (operator, subtask, checkpoint) = (cx.uid.to_string(), cx.subtask, id.checkpoint);
                let (transaction, cause) = (transaction.into(), error.into());
                return Err(TaskError::Commit { operator, subtask, transaction, checkpoint, tries, cause });
            }
            tracing::warn!(
                target: "highwater::commit",
                job = %cx.job,
                operator = %cx.uid,
                subtask = cx.subtask,
                checkpoint = %id.checkpoint,
                error = crate::error::chain_of(&error),
                transaction,
                "a commit failed and will be tried again"
            );
        }
        Ok(())
    }
}

impl<S: Sink> SinkOperator<S> {
    /// Removes what earlier attempts left behind. Every subtask has committed what it restored, so that it is in no
    /// checkpoint, and whoever wrote it is fenced. Nothing depends on it but readers of the target, who may have to wait for
    /// transactions that are open: what fails is tried again when a checkpoint is complete.
    fn abort_earlier_attempts(&mut self) -> Result<(), TaskError> {
        let Opened { cx, cleaned, .. } = opened(&mut self.opened);
        if *cleaned {
            return Ok(());
        }
        tracing::debug!(target: "highwater::effect", job = %cx.job, operator = %cx.uid, "about to clear");
        match cx.fence.check_blocking() {
            Ok(()) => {}
            Err(FenceError::Fenced { sequence }) => return Err(TaskError::Fenced { sequence }),
            Err(FenceError::Unknown { .. }) => return Ok(()),
        }
        match self.sink.abort_earlier_attempts(cx.attempt) {
            Ok(()) => *cleaned = true,
            Err(error) => {
                let error = crate::error::chain_of(&*error);
                tracing::warn!(target: "highwater::commit", job = %cx.job, operator = %cx.uid, error, "what earlier attempts left could not be removed");
            }
        }
        tracing::debug!(target: "highwater::effect", job = %cx.job, operator = %cx.uid, "cleared");
        Ok(())
    }
}

impl<S: Sink> Operator for SinkOperator<S> {
    fn open(&mut self, mut cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::List(SINK_TRANSACTIONS)).map_err(TaskError::state(&cx.uid))?;
        let mut ledger = CommitLedger::new();
        let context = SinkContext {
            job: cx.job.clone(),
            operator: cx.uid.clone(),
            attempt: cx.attempt,
            subtask: cx.subtask,
            parallelism: cx.parallelism,
            restored: cx.restored.as_ref().map(|restored| restored.checkpoint),
        };
        if let Some(restored) = cx.restored.take() {
            self.progress.restore(Some(&restored));
            let serializer = BincodeSerializer::default();
            let list = connector_list::<(CheckpointId, S::Transaction)>(SINK_TRANSACTIONS);
            let elements = restored.serialized_elements(&list).map_err(TaskError::state(&cx.uid))?;
            let transactions: Result<Vec<(CheckpointId, S::Transaction)>, _> =
                elements.into_iter().map(|element| serializer.deserialize(element)).collect();
            let transactions = transactions.map_err(|source| {
                let state = SINK_TRANSACTIONS.to_owned();
                TaskError::state(&cx.uid)(StateError::Serializer { state, source })
            })?;
            ledger = CommitLedger::restored(restored.checkpoint, transactions);
        }
        let writer = self.sink.create_writer(&context).map_err(TaskError::user(&cx.uid, "create its writer"))?;
        let (now, cleaned) = (cx.now, cx.subtask != 0);
        self.opened = Some(Opened { cx, writer, ledger, cleaned });
        // What was restored is committed first. What fails is tried again by the timer, and until it has succeeded the
        // subtask does not count as running.
        self.commit(now)
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let Opened { cx, writer, .. } = opened(&mut self.opened);
        let mut done = 0;
        while limits.allow(done, 0) {
            let Some((record, timestamp)) = self.input.next() else { break };
            writer.write(record, timestamp).map_err(TaskError::user(&cx.uid, "write a record"))?;
            done += 1;
        }
        self.progress.counts.records_in += done as u64;
        Ok(if self.input.is_done() { Ran::Done } else { Ran::More })
    }

    fn advance(&mut self, watermark: Timestamp, _: &Limits<'_>) -> Result<Ran, TaskError> {
        self.progress.advance(watermark);
        Ok(Ran::Done)
    }

    fn watermark(&self) -> Timestamp {
        self.progress.watermark
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        self.progress.finished = true;
        Ok(())
    }

    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>> {
        None
    }

    /// The open transaction is prepared here. If that fails its records are lost to this attempt, which must end.
    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        let checkpoint = barrier.checkpoint;
        let Opened { cx, writer, ledger, .. } = opened(&mut self.opened);
        let prepared = writer.prepare_commit(checkpoint).map_err(TaskError::user(&cx.uid, "prepare a transaction"))?;
        ledger.prepared(checkpoint, prepared);
        let transactions = ledger.snapshot().map(|(prepared, transaction)| (prepared, transaction.clone()));
        let operator = frozen_list(SINK_TRANSACTIONS, transactions).map_err(TaskError::state(&cx.uid))?;
        Ok(FrozenOperator { operator: Some(operator), snapshot: self.progress.snapshot(), ..FrozenOperator::default() })
    }

    fn notify_all_running(&mut self) -> Result<(), TaskError> {
        self.abort_earlier_attempts()
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        opened(&mut self.opened).ledger.complete(checkpoint);
        self.commit(now)?;
        self.abort_earlier_attempts()?;
        Ok(())
    }

    fn next_timer(&self) -> Option<Duration> {
        let deadline = self.opened.as_ref()?.ledger.next_deadline()?;
        Some(Duration::from_millis(deadline))
    }

    fn on_timer(&mut self, now: Duration) -> Result<(), TaskError> {
        self.commit(now)
    }

    fn is_settled(&self) -> bool {
        self.opened.as_ref().is_none_or(|opened| opened.ledger.is_settled())
    }

    fn counts(&self) -> OperatorCounts {
        self.progress.counts
    }
}

fn commit_one<S: Sink>(
    sink: &S,
    cx: &OperatorContext,
    id: TransactionId,
    transaction: &S::Transaction,
) -> Result<(), NotCommitted> {
    let (job, operator, subtask, checkpoint) = (&cx.job, &cx.uid, cx.subtask, id.checkpoint);
    tracing::debug!(target: "highwater::commit", %job, %operator, subtask, %checkpoint, "committing");
    failpoint::hit(failpoint::DURING_COMMIT);
    // Whoever checks traces wants to know from when on the fence was asked.
    tracing::debug!(target: "highwater::effect", %job, %operator, subtask, %checkpoint, "about to commit");
    cx.fence.check_blocking()?;
    sink.commit(transaction).map_err(NotCommitted::Failed)?;
    tracing::debug!(target: "highwater::commit", %job, %operator, subtask, %checkpoint, "committed");
    Ok(())
}

/// Why a transaction is not known to be committed.
enum NotCommitted {
    /// Another process has the job, and commits it.
    Fenced {
        sequence: u64,
    },
    Failed(CommitError),
}

impl From<FenceError> for NotCommitted {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Fenced { sequence } => Self::Fenced { sequence },
            // As long as nobody knows whose the job is, it is not committed.
            unknown @ FenceError::Unknown { .. } => Self::Failed(CommitError::Retryable(unknown.into())),
        }
    }
}

/// A transaction for people, who find it in the target by this. One that carries its records with it may be long.
fn description_of(transaction: &impl Debug) -> String {
    let mut text = format!("{transaction:?}");
    if let Some((end, _)) = text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn now_of(now: Duration) -> Now {
    Now { monotonic_ms: now.as_millis() as u64, wall_clock_ms: 0 }
}

#[cfg(test)]
#[path = "sink_test.rs"]
mod sink_test;
