//! A subtask: an input gate, a chain and outputs, driven by `step`.
//!
//! A subtask is a value. In production a thread of its own steps it, in a simulation a scheduler does, and nothing in it
//! can tell the difference. A step is bounded by its budget and never waits; between steps a record is in an input
//! channel, in the rest of the head's batch, or in the outputs, and nowhere else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use highwater_checkpoint::{
    AlignerAction, AlignerEvent, BarrierHandler, Begin, CheckpointFailure, CheckpointFailureReason, CheckpointingMode,
    Decline, SubtaskCheckpoints,
};
use highwater_state_api::{Attempt, CheckpointId, JobName, OperatorUid, SubtaskId};
use highwater_stream_api::Timestamp;

use crate::alignment::Alignments;
use crate::chain::Chain;
use crate::channel::{Barrier, Element};
use crate::control::{Control, ControlReceiver, Report, Reports};
use crate::gate::Gate;
use crate::metrics::SubtaskMetrics;
use crate::operator::{FreezeError, Limits, OperatorContext, Ran};
use crate::output::Outputs;
use crate::snapshot::{AsyncSnapshot, SnapshotExecutor};
use crate::{OperatorCall, TaskError};

/// How many records may come out of a chain before it yields to the outputs.
const OUTPUT_RECORDS_MAX: usize = 16 * 1024;

/// How long records may wait in outputs that do not fill a batch, while the subtask has more to do.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// What a subtask is made of.
pub struct SubtaskParts {
    /// The job.
    pub job: JobName,
    /// The attempt.
    pub attempt: Attempt,
    /// The subtask.
    pub id: SubtaskId,
    /// The checkpoint that the attempt goes on from.
    pub restored: Option<CheckpointId>,
    /// Whether inputs wait for each other's barriers.
    pub mode: CheckpointingMode,
    /// Whether the end of an input counts as its barrier.
    pub checkpoints_after_tasks_finish: bool,
    /// Input; empty for a source.
    pub gate: Gate,
    /// The operators.
    pub chain: Chain,
    /// Output.
    pub outputs: Outputs,
    /// What the coordinator says.
    pub control: ControlReceiver,
    /// Takes reports to the coordinator.
    pub reports: Box<dyn Reports>,
    /// Writes snapshots.
    pub executor: Arc<dyn SnapshotExecutor>,
    /// Wakes whoever steps the subtask.
    pub waker: Waker,
    /// Counters that others may look at.
    pub metrics: Arc<SubtaskMetrics>,
}

/// One parallel instance of a task.
pub struct Subtask {
    parts: SubtaskParts,
    barriers: BarrierHandler,
    checkpoints: SubtaskCheckpoints,
    work: Work,
    stage: Stage,
    waits_for_split: bool,
    /// A source that reads nothing before it has taken part in a checkpoint.
    is_paused: bool,
    /// The newest checkpoints of which barriers have come in, or that the coordinator has told this subtask to take.
    alignments: Alignments,
    /// Checkpoints that the coordinator has told this subtask to take, which is no source. They wait like barriers until
    /// what is in work is done.
    triggered: VecDeque<Barrier>,
    /// When what was pending in the outputs was last sent because of its age.
    flushed_at: Duration,
    /// The newest checkpoint that is known to be complete, until it has been reported as settled.
    unsettled: Option<CheckpointId>,
}

/// What the chain is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Nothing: the next element may be taken.
    None,
    /// The head has not done its batch.
    Batch,
    /// Timers are firing for this watermark; the input has ended if `last` says so.
    Watermark { watermark: Timestamp, last: bool },
    /// The input has ended and everything is done; only barriers and notifications still come.
    Ended,
}

/// What the coordinator has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opened,
    Running,
    Ended,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more to do at once.
    Progress,
    /// Nothing to do until the waker is used, or until this time if one is given.
    Waits(Option<Duration>),
    /// The subtask has gone.
    Stopped,
}

impl Subtask {
    /// Puts a subtask together.
    pub fn new(parts: SubtaskParts) -> Self {
        let barriers = BarrierHandler::new(parts.mode, parts.gate.len())
            .with_checkpoints_after_tasks_finish(parts.checkpoints_after_tasks_finish);
        let checkpoints = SubtaskCheckpoints::new(parts.restored);
        Self {
            parts,
            barriers,
            checkpoints,
            work: Work::None,
            stage: Stage::Opened,
            waits_for_split: false,
            is_paused: false,
            alignments: Alignments::default(),
            triggered: VecDeque::new(),
            flushed_at: Duration::ZERO,
            unsettled: None,
        }
    }

    /// Waits no longer than this for the barriers of a checkpoint, from the first one on.
    pub fn with_alignment_timeout(mut self, timeout: Duration) -> Self {
        self.alignments.set_timeout(timeout);
        self
    }

    /// A source reads nothing before it has taken part in a checkpoint.
    pub fn with_paused_source(mut self, is_paused: bool) -> Self {
        self.is_paused = is_paused && self.parts.gate.is_empty();
        self
    }

    /// The subtask's identity.
    pub fn id(&self) -> SubtaskId {
        self.parts.id
    }

    /// Which operator is at work. After a panic: the one that panicked.
    pub fn operator_call(&self) -> Option<OperatorCall> {
        self.parts.chain.operator_call()
    }

    /// Opens the chain with restored state. Called once, before the first step.
    pub fn open(&mut self, context: impl FnMut(&OperatorUid) -> OperatorContext) -> Result<(), TaskError> {
        self.parts.chain.open(context)?;
        self.report_stage();
        Ok(())
    }

    /// Reports that the subtask is running, once what was restored is settled, and then that it has ended, once it has.
    /// Checkpoints are triggered only when every subtask has reported, so that the first complete one of an attempt says
    /// that every transaction of earlier attempts is committed.
    fn report_stage(&mut self) {
        if self.stage == Stage::Opened && self.parts.chain.is_settled() {
            self.stage = Stage::Running;
            self.parts.reports.report(Report::Running(self.parts.id));
        }
        if self.stage == Stage::Running && self.work == Work::Ended {
            self.stage = Stage::Ended;
            self.parts.reports.report(Report::Ended(self.parts.id));
        }
    }

    /// Does what can be done now, within a budget of about `records_max` records. An error ends the subtask.
    pub fn step(&mut self, now: Duration, records_max: usize) -> Result<Step, TaskError> {
        while let Some(message) = self.parts.control.receive() {
            if self.control(message, now)? {
                self.decline_what_waits();
                self.parts.reports.report(Report::Stopped(self.parts.id));
                return Ok(Step::Stopped);
            }
        }
        while let Some(checkpoint) = self.alignments.timed_out(now) {
            self.align(AlignerEvent::TimedOut { checkpoint }, now)?;
        }
        while matches!(self.work, Work::None | Work::Ended)
            && let Some(barrier) = self.triggered.pop_front()
        {
            self.alignments.barrier(barrier, now);
            self.align(AlignerEvent::Triggered { checkpoint: barrier.checkpoint }, now)?;
        }
        if self.parts.chain.next_timer().is_some_and(|timer| timer <= now) {
            self.parts.chain.on_timer(now)?;
            self.report_stage();
        }
        if self.work == Work::Ended
            && self.parts.chain.is_settled()
            && let Some(checkpoint) = self.unsettled.take()
        {
            self.parts.reports.report(Report::Settled(self.parts.id, checkpoint));
        }
        // Collectors never refuse; so that output stays bounded nothing new is begun while a channel is full.
        if self.work != Work::Ended && self.parts.outputs.is_full() {
            // What is pending for other channels does not have to wait with the full one.
            self.parts.outputs.flush();
            return Ok(Step::Waits(None));
        }
        if now.saturating_sub(self.flushed_at) >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.parts.outputs.flush();
        }
        let step = match self.work {
            Work::Batch => self.run(now, records_max),
            Work::Watermark { watermark, last } => self.advance(watermark, last, now, records_max),
            Work::None if self.is_paused => Ok(Step::Waits(None)),
            Work::None if self.parts.gate.is_empty() => self.run(now, records_max),
            Work::None | Work::Ended => self.take(now, records_max),
        };
        self.publish_counts();
        match step? {
            Step::Waits(until) => {
                let others = [self.parts.chain.next_timer(), self.alignments.deadline()];
                Ok(Step::Waits(others.into_iter().flatten().chain(until).min()))
            }
            step => Ok(step),
        }
    }

    /// Takes an element from the gate, if there is one.
    fn take(&mut self, now: Duration, records_max: usize) -> Result<Step, TaskError> {
        let Some((channel, element)) = self.parts.gate.receive() else {
            // Nothing else comes in now: what is pending would only wait.
            self.parts.outputs.flush();
            return Ok(Step::Waits(None));
        };
        match element {
            Element::Batch(batch) => {
                self.alignments.records(|| batch.estimated_bytes());
                self.parts.chain.accept(batch)?;
                self.run(now, records_max)
            }
            Element::Watermark(watermark) => {
                let watermark = self.parts.gate.advance(channel, watermark);
                self.advance(watermark, false, now, records_max)
            }
            Element::Barrier(barrier) => {
                self.alignments.barrier(barrier, now);
                self.align(AlignerEvent::Barrier { channel, checkpoint: barrier.checkpoint }, now)?;
                Ok(Step::Progress)
            }
            Element::CancelMarker(checkpoint) => {
                self.align(AlignerEvent::Cancelled { channel, checkpoint }, now)?;
                Ok(Step::Progress)
            }
            Element::End => {
                self.align(AlignerEvent::ChannelEnded { channel }, now)?;
                let last = self.parts.gate.end(channel);
                self.advance(self.parts.gate.watermark(), last, now, records_max)
            }
        }
    }

    fn run(&mut self, now: Duration, records_max: usize) -> Result<Step, TaskError> {
        let SubtaskParts { chain, outputs, control, waker, .. } = &mut self.parts;
        let ran = chain.run(&limits(control, waker, now, records_max), outputs)?;
        match ran {
            Ran::More => {
                // A source always has more; it holds no batch between its polls.
                self.work = if self.parts.gate.is_empty() { Work::None } else { Work::Batch };
                Ok(Step::Progress)
            }
            Ran::Done => {
                self.work = Work::None;
                Ok(Step::Progress)
            }
            Ran::Idle(until) => {
                self.parts.outputs.flush();
                Ok(Step::Waits(until))
            }
            Ran::NeedsSplit => {
                self.parts.outputs.flush();
                if !self.waits_for_split {
                    self.waits_for_split = true;
                    self.parts.reports.report(Report::SplitRequested(self.parts.id));
                }
                Ok(Step::Waits(None))
            }
            Ran::Ended => self.advance(Timestamp::MAX, true, now, records_max),
        }
    }

    fn advance(
        &mut self,
        watermark: Timestamp,
        last: bool,
        now: Duration,
        records_max: usize,
    ) -> Result<Step, TaskError> {
        let SubtaskParts { chain, outputs, control, waker, .. } = &mut self.parts;
        let limits = limits(control, waker, now, records_max);
        if watermark > Timestamp::MIN && chain.advance(watermark, &limits, outputs)? == Ran::More {
            self.work = Work::Watermark { watermark, last };
            return Ok(Step::Progress);
        }
        self.work = Work::None;
        if last {
            chain.finish(&limits, outputs)?;
            outputs.end();
            self.work = Work::Ended;
            self.report_stage();
        }
        Ok(Step::Progress)
    }

    /// Carries out a message. Returns whether the subtask is to stop.
    fn control(&mut self, message: Control, now: Duration) -> Result<bool, TaskError> {
        match message {
            Control::Trigger { checkpoint, triggered_at_ms } => {
                let barrier = Barrier { checkpoint, triggered_at_ms };
                match self.parts.gate.is_empty() {
                    true => self.begin(barrier, now)?,
                    false => self.triggered.push_back(barrier),
                }
            }
            Control::AllRunning => self.parts.chain.notify_all_running()?,
            Control::Complete(checkpoint) => self.complete(checkpoint, now)?,
            Control::Aborted { checkpoint, latest_complete } => {
                // The word that it is complete may have been lost.
                if let Some(latest) = latest_complete {
                    self.complete(latest, now)?;
                }
                for aborted in self.checkpoints.abort(checkpoint).aborted {
                    self.parts.chain.notify_aborted(aborted)?;
                }
                self.align(AlignerEvent::Aborted { checkpoint }, now)?;
            }
            Control::Subsumed(checkpoint) => self.parts.chain.notify_subsumed(checkpoint)?,
            Control::AddSplit(split) => {
                self.waits_for_split = false;
                self.parts.chain.add_split(&split)?;
            }
            Control::NoMoreSplits => {
                self.waits_for_split = false;
                self.parts.chain.no_more_splits();
            }
            Control::Adopt(attempt) => self.adopt(attempt),
            Control::Finish | Control::Cancel => return Ok(true),
        }
        Ok(false)
    }

    /// Another attempt has taken the subtask over, and is told what the one before was told.
    fn adopt(&mut self, attempt: Attempt) {
        let (id, reports) = (self.parts.id, &self.parts.reports);
        self.parts.attempt = attempt;
        reports.report(Report::Adopted(id));
        if matches!(self.stage, Stage::Running | Stage::Ended) {
            reports.report(Report::Running(id));
        }
        if self.stage == Stage::Ended {
            reports.report(Report::Ended(id));
        }
    }

    /// A checkpoint is complete. Also for a repeated word of it: the answer to the one before may have been lost.
    fn complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        let ended = self.checkpoints.complete(checkpoint);
        for aborted in ended.aborted {
            self.parts.chain.notify_aborted(aborted)?;
        }
        if let Some(completed) = ended.completed {
            self.parts.chain.notify_complete(completed, now)?;
        }
        self.unsettled = self.unsettled.max(Some(checkpoint));
        Ok(())
    }

    /// Tells the barrier handler what happened and does what it says.
    fn align(&mut self, event: AlignerEvent, now: Duration) -> Result<(), TaskError> {
        for action in self.barriers.on_event(event) {
            match action {
                AlignerAction::Block { channel } => self.parts.gate.block(channel),
                AlignerAction::Unblock { channels } => {
                    channels.into_iter().for_each(|channel| self.parts.gate.unblock(channel));
                }
                AlignerAction::Aligned { checkpoint } => self.begin(self.alignments.barrier_of(checkpoint), now)?,
                AlignerAction::Abandon { checkpoint, reason } => {
                    self.parts.outputs.cancel_marker(checkpoint);
                    if let Some(failure) = reason.failure() {
                        self.decline(checkpoint, failure);
                    }
                }
            }
        }
        self.alignments.close(|checkpoint| self.barriers.is_waiting_for(checkpoint));
        Ok(())
    }

    /// Whoever is about to go takes part in nothing any more. What it has been told to take, and not begun, is declined.
    fn decline_what_waits(&mut self) {
        let mut waiting: Vec<CheckpointId> = self.triggered.drain(..).map(|barrier| barrier.checkpoint).collect();
        while let Some(message) = self.parts.control.receive() {
            if let Control::Trigger { checkpoint, .. } = message {
                waiting.push(checkpoint);
            }
        }
        for checkpoint in waiting {
            self.decline(checkpoint, CheckpointFailureReason::DeclinedTaskClosing.into());
        }
    }

    /// Takes a checkpoint: everything before its barrier has been processed, nothing after it.
    ///
    /// The order is the protocol: operators emit what must not be part of the snapshot, the barrier goes out behind it,
    /// the state is frozen, and between the last two no record is processed.
    fn begin(&mut self, barrier: Barrier, now: Duration) -> Result<(), TaskError> {
        let checkpoint = barrier.checkpoint;
        match self.checkpoints.begin(checkpoint) {
            Begin::Late => return Ok(()),
            Begin::Aborted => {
                self.parts.outputs.cancel_marker(checkpoint);
                return Ok(());
            }
            Begin::Snapshot if self.stage == Stage::Opened => {
                self.parts.outputs.cancel_marker(checkpoint);
                self.decline(checkpoint, CheckpointFailureReason::DeclinedTaskNotReady.into());
                return Ok(());
            }
            Begin::Snapshot => {}
        }
        self.is_paused = false;
        let metrics = self.alignments.metrics(checkpoint, now);
        let SubtaskParts { chain, outputs, control, waker, .. } = &mut self.parts;
        chain.prepare_snapshot(checkpoint, &limits(control, waker, now, usize::MAX), outputs)?;
        outputs.barrier(barrier);
        match chain.freeze(barrier) {
            Ok(frozen) => {
                self.parts.metrics.frozen(checkpoint);
                let SubtaskParts { job, attempt, id, .. } = &self.parts;
                let snapshot = AsyncSnapshot {
                    job: job.clone(),
                    attempt: *attempt,
                    checkpoint,
                    subtask: *id,
                    frozen,
                    metrics,
                    began: now,
                };
                self.parts.executor.submit(snapshot);
                Ok(())
            }
            Err(FreezeError::Decline(error)) => {
                let message = crate::error::chain_of(&error);
                self.decline(checkpoint, CheckpointFailure::new(CheckpointFailureReason::Declined, message));
                Ok(())
            }
            Err(FreezeError::Fail(error)) => Err(error),
        }
    }

    fn decline(&self, checkpoint: CheckpointId, failure: CheckpointFailure) {
        let SubtaskParts { job, attempt, id, .. } = &self.parts;
        let decline = Decline { job: job.clone(), attempt: *attempt, checkpoint, subtask: *id, failure };
        self.parts.reports.report(Report::Declined(decline));
    }

    fn publish_counts(&self) {
        let mut counts = self.parts.chain.counts();
        if let Some((_, head)) = counts.next() {
            let late = head.late_records + counts.map(|(_, counts)| counts.late_records).sum::<u64>();
            self.parts.metrics.publish(head.records_in, late);
        }
    }
}

fn limits<'a>(control: &'a ControlReceiver, waker: &'a Waker, now: Duration, records_max: usize) -> Limits<'a> {
    Limits { records_max, output_max: OUTPUT_RECORDS_MAX, control_waits: control.waits(), now, waker }
}

#[cfg(test)]
#[path = "subtask_test.rs"]
mod subtask_test;

#[cfg(test)]
#[path = "subtask_declines_test.rs"]
mod subtask_declines_test;

#[cfg(test)]
#[path = "subtask_prepares_test.rs"]
mod subtask_prepares_test;

#[cfg(test)]
#[path = "subtask_adoption_test.rs"]
mod subtask_adoption_test;
