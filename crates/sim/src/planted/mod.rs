//! Planted bugs: each one breaks the protocol in one place, to prove that the simulation would notice.
//!
//! They live in wrappers around the production parts. The production code does not know of them.

mod barrier_late;
mod barrier_overtakes;
mod snapshot_late;

pub(crate) use barrier_late::BarrierLate;
pub(crate) use barrier_overtakes::BarrierOvertakes;
pub(crate) use snapshot_late::SnapshotLate;

use std::fmt;
use std::sync::Arc;

use highwater_runtime::control::Report;
use highwater_runtime::graph::{JobGraph, OperatorFactory, OutputFactory};
use highwater_runtime::operator::Operator;
use highwater_runtime::restore::ClaimedJob;
use highwater_state_api::Attempt;

/// A bug that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Planted {
    /// A source's snapshot is taken after a record behind the barrier.
    SnapshotAfterRecord,
    /// A source's barrier is forwarded after the record that follows it: the two are swapped.
    BarrierAfterRecord,
    /// A barrier overtakes a record that was sent before it.
    BarrierOvertakesRecord,
    /// Subtasks hear of a complete checkpoint, so that sinks commit, before the log says so.
    CommitBeforeLog,
    /// The position in a source's snapshot is one record before the true one.
    PositionOffByOne,
    /// An acknowledgement of an older attempt is counted.
    LateAcknowledgementCounted,
    /// A pending checkpoint that a newer one has subsumed completes all the same.
    SubsumedPendingCompletes,
    /// Checkpoints that expire, or fail otherwise, are not counted.
    ExpiredNotCounted,
    /// When a checkpoint is no longer retained, the folder of the newest one is deleted in the place of its own.
    RetentionDeletesTheNewest,
    /// A subtask counts as ended from its first moment on, so that a checkpoint from before its end is taken for its last.
    FinalCheckpointSkipped,
    /// What has finished in a checkpoint is restored as if it had never been there.
    FinishedSubtaskRestoredAsFresh,
    /// An attempt deletes what it wants to, whether another one has claimed the job or not.
    FencedAttemptDeletes,
    /// A standby claims the job at once, whether whoever has it shows signs of life or not.
    StandbyDoesNotWait,
    /// A transaction whose commit has failed is forgotten.
    LedgerForgetsOnError,
    /// An append to the log that is not answered in time is taken for one that has happened.
    SilenceTakenForSuccess,
    /// An attempt begins with checkpoint 1, whatever came before it.
    IdCounterRestarts,
    /// Only the task that has failed is restarted, and not those that records go to from it or come from.
    TaskRestartedWithoutItsRegion,
    /// An attempt that takes subtasks over begins with ids of checkpoints that these have heard of.
    TakeoverReusesIds,
    /// Subtasks that go on while a region is restarted are not told of the attempt that takes them over.
    SurvivorsNotAdopted,
    /// A start takes no notice of it that the log says that checkpoints were dropped.
    DroppedIsRestored,
    /// Checkpoints that are to be dropped are deleted before the log says that they are.
    DeletedBeforeDropped,
    /// An attempt that has fallen back counts the newer checkpoints, which it has passed over, among those that it retains.
    FallBackKeepsTheNewer,
    /// An attempt falls back, and the log does not say so.
    FallBackIsNotLogged,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clap::ValueEnum::to_possible_value(self);
        f.write_str(name.as_ref().map_or("", |name| name.get_name()))
    }
}

impl Planted {
    /// Plants the bug in a job, if it is one of the job's.
    pub fn plant_in(self, graph: &mut JobGraph) {
        match self {
            Self::SnapshotAfterRecord => wrap_sources(graph, |inner| Box::new(SnapshotLate::new(inner))),
            Self::BarrierAfterRecord => wrap_sources(graph, |inner| Box::new(BarrierLate::new(inner))),
            Self::BarrierOvertakesRecord => {
                let inner = graph.edges[0].output.clone();
                let output: OutputFactory = Arc::new(move |channels, max_parallelism| {
                    Box::new(BarrierOvertakes::new(inner(channels, max_parallelism)))
                });
                graph.edges[0].output = output;
            }
            Self::CommitBeforeLog
            | Self::PositionOffByOne
            | Self::LateAcknowledgementCounted
            | Self::SubsumedPendingCompletes
            | Self::ExpiredNotCounted
            | Self::RetentionDeletesTheNewest
            | Self::FinalCheckpointSkipped
            | Self::FinishedSubtaskRestoredAsFresh
            | Self::FencedAttemptDeletes
            | Self::StandbyDoesNotWait
            | Self::LedgerForgetsOnError
            | Self::SilenceTakenForSuccess
            | Self::IdCounterRestarts
            | Self::TaskRestartedWithoutItsRegion
            | Self::TakeoverReusesIds
            | Self::SurvivorsNotAdopted
            | Self::DroppedIsRestored
            | Self::DeletedBeforeDropped
            | Self::FallBackKeepsTheNewer
            | Self::FallBackIsNotLogged => {}
        }
    }

    /// How many records the positions in snapshots are before the true ones.
    pub fn off_by(self) -> u32 {
        u32::from(self == Self::PositionOffByOne)
    }

    /// What is reported besides a report.
    pub fn adds(self, report: &Report) -> Option<Report> {
        match (self, report) {
            (Self::FinalCheckpointSkipped, Report::Running(subtask)) => Some(Report::Ended(*subtask)),
            _ => None,
        }
    }

    /// Changes what an attempt goes on from.
    pub fn forget(self, claimed: &mut ClaimedJob) {
        if let (Self::FinishedSubtaskRestoredAsFresh, Some((_, assignment))) = (self, &mut claimed.restored) {
            assignment.operators.retain(|_, operator| !operator.finished);
        }
    }

    /// Changes a report on its way to the master of `attempt`.
    pub fn tamper(self, report: &mut Report, attempt: Attempt) {
        if let (Self::LateAcknowledgementCounted, Report::Acknowledged(acknowledgement)) = (self, report) {
            acknowledgement.attempt = attempt;
        }
    }
}

fn wrap_sources(graph: &mut JobGraph, wrap: fn(Box<dyn Operator>) -> Box<dyn Operator>) {
    for node in graph.tasks.iter_mut().flat_map(|task| &mut task.operators).filter(|node| node.source.is_some()) {
        let inner = node.factory.clone();
        let factory: OperatorFactory = Arc::new(move |subtask| Ok(wrap(inner(subtask)?)));
        node.factory = factory;
    }
}

/// Forwards every method of an operator to `self.inner`, except those that are given.
macro_rules! forward_operator {
    () => {
        fn open(&mut self, cx: highwater_runtime::operator::OperatorContext) -> Result<(), TaskError> {
            self.inner.open(cx)
        }

        fn accept(&mut self, batch: Box<dyn highwater_runtime::batch::AnyBatch>) -> Result<(), TaskError> {
            self.inner.accept(batch)
        }

        fn run(&mut self, limits: &Limits<'_>) -> Result<highwater_runtime::operator::Ran, TaskError> {
            self.inner.run(limits)
        }

        fn advance(
            &mut self,
            watermark: highwater_stream_api::Timestamp,
            limits: &Limits<'_>,
        ) -> Result<highwater_runtime::operator::Ran, TaskError> {
            self.inner.advance(watermark, limits)
        }

        fn watermark(&self) -> highwater_stream_api::Timestamp {
            self.inner.watermark()
        }

        fn finish(&mut self) -> Result<(), TaskError> {
            self.inner.finish()
        }

        fn take_output(&mut self) -> Option<Box<dyn highwater_runtime::batch::AnyBatch>> {
            self.inner.take_output()
        }

        fn notify_all_running(&mut self) -> Result<(), TaskError> {
            self.inner.notify_all_running()
        }

        fn notify_complete(&mut self, checkpoint: CheckpointId, now: std::time::Duration) -> Result<(), TaskError> {
            self.inner.notify_complete(checkpoint, now)
        }

        fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
            self.inner.notify_aborted(checkpoint)
        }

        fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
            self.inner.notify_subsumed(checkpoint)
        }

        fn next_timer(&self) -> Option<std::time::Duration> {
            self.inner.next_timer()
        }

        fn on_timer(&mut self, now: std::time::Duration) -> Result<(), TaskError> {
            self.inner.on_timer(now)
        }

        fn is_settled(&self) -> bool {
            self.inner.is_settled()
        }

        fn as_source(&mut self) -> Option<&mut dyn highwater_runtime::operator::SourceControl> {
            self.inner.as_source()
        }

        fn counts(&self) -> highwater_runtime::operator::OperatorCounts {
            self.inner.counts()
        }
    };
}
use forward_operator;
