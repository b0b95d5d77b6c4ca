//! A chain: the operators of one task with their state, as a value without channel, thread or clock.
//!
//! It is all that a foreign host needs to run the same operators: batches go in, batches come out, snapshots can be
//! written by anyone. Between the calls of [`Chain::run`] records wait only in the batch of the head.

use std::time::Duration;

use highwater_state_api::{CheckpointId, OperatorUid};
use highwater_stream_api::Timestamp;

use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};
use crate::output::ChainOutput;
use crate::{OperatorCall, TaskError};

/// Operators in a row, each working on what the one before put out.
pub struct Chain {
    links: Vec<Link>,
    /// The watermark that the head is being advanced to; `None` when it has arrived.
    advancing: Option<Timestamp>,
    /// Which operator is called, to do what: all that is known after a panic.
    calling: Option<(usize, &'static str)>,
}

struct Link {
    uid: OperatorUid,
    operator: Box<dyn Operator>,
    /// The watermark that this operator was advanced to.
    watermark: Timestamp,
}

/// What operators are asked to do, in the words of messages.
mod activity {
    pub(super) const OPEN: &str = "be opened and initialise its state";
    pub(super) const RUN: &str = "work on its input";
    pub(super) const ADVANCE: &str = "hear of event time and fire timers";
    pub(super) const TAKE_SPLIT: &str = "take a split";
    pub(super) const FINISH: &str = "finish";
    pub(super) const PREPARE_SNAPSHOT: &str = "prepare a snapshot";
    pub(super) const SNAPSHOT: &str = "snapshot its state";
    pub(super) const ALL_RUNNING: &str = "hear that every subtask runs";
    pub(super) const COMPLETE: &str = "hear of a complete checkpoint";
    pub(super) const ABORTED: &str = "hear of an aborted checkpoint";
    pub(super) const SUBSUMED: &str = "hear of a subsumed checkpoint";
    pub(super) const TIMER: &str = "do what was due at this time";
}

/// A snapshot of every operator of a chain, in order, that waits to be written.
pub struct FrozenChain {
    /// The operators' snapshots.
    pub operators: Vec<(OperatorUid, FrozenOperator)>,
}

impl Chain {
    /// A chain of these operators; there must be one at least.
    pub fn new(operators: Vec<(OperatorUid, Box<dyn Operator>)>) -> Self {
        assert!(!operators.is_empty(), "a chain has at least one operator");
        let links = operators.into_iter();
        let links = links.map(|(uid, operator)| Link { uid, operator, watermark: Timestamp::MIN }).collect();
        Self { links, advancing: None, calling: None }
    }

    /// The uids of the operators, in order.
    pub fn uids(&self) -> impl Iterator<Item = &OperatorUid> {
        self.links.iter().map(|link| &link.uid)
    }

    /// Opens the operators, the last first: an operator can emit only into one that is open.
    pub fn open(&mut self, mut context: impl FnMut(&OperatorUid) -> OperatorContext) -> Result<(), TaskError> {
        for index in (0..self.links.len()).rev() {
            let context = context(&self.links[index].uid);
            self.call(index, activity::OPEN, |operator| operator.open(context))?;
            self.links[index].watermark = self.links[index].operator.watermark();
        }
        Ok(())
    }

    /// Gives the head a batch; it must be done with the one before.
    pub fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.call(0, activity::RUN, |operator| operator.accept(batch))
    }

    /// Lets the head work, and everything behind it on what comes out.
    pub fn run(&mut self, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<Ran, TaskError> {
        let ran = self.call(0, activity::RUN, |operator| operator.run(limits))?;
        self.drain(0, limits, output)?;
        Ok(ran)
    }

    /// Event time has come to `watermark` at the head. To be called again, with the same watermark, while it returns
    /// [`Ran::More`].
    pub fn advance(
        &mut self,
        watermark: Timestamp,
        limits: &Limits<'_>,
        output: &mut dyn ChainOutput,
    ) -> Result<Ran, TaskError> {
        let ran = self.call(0, activity::ADVANCE, |operator| operator.advance(watermark, limits))?;
        self.advancing = (ran == Ran::More).then_some(watermark);
        self.drain(0, limits, output)?;
        Ok(ran)
    }

    /// There will be no more input: finishes the operators in order, each before the next.
    pub fn finish(&mut self, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<(), TaskError> {
        for index in 0..self.links.len() {
            self.call(index, activity::FINISH, |operator| operator.finish())?;
            self.drain(index, limits, output)?;
        }
        Ok(())
    }

    /// A snapshot is about to be taken: operators emit what must not be part of it.
    pub fn prepare_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        limits: &Limits<'_>,
        output: &mut dyn ChainOutput,
    ) -> Result<(), TaskError> {
        for index in 0..self.links.len() {
            self.call(index, activity::PREPARE_SNAPSHOT, |operator| operator.prepare_snapshot(checkpoint))?;
            self.drain(index, limits, output)?;
        }
        Ok(())
    }

    /// Takes a snapshot of every operator: the synchronous part.
    pub fn freeze(&mut self, barrier: Barrier) -> Result<FrozenChain, FreezeError> {
        let mut operators = Vec::with_capacity(self.links.len());
        for index in 0..self.links.len() {
            let frozen = self.call(index, activity::SNAPSHOT, |operator| operator.freeze(barrier))?;
            operators.push((self.links[index].uid.clone(), frozen));
        }
        Ok(FrozenChain { operators })
    }

    /// Every subtask of the job runs.
    pub fn notify_all_running(&mut self) -> Result<(), TaskError> {
        self.call_all(activity::ALL_RUNNING, |operator| operator.notify_all_running())
    }

    /// A checkpoint is complete.
    pub fn notify_complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        self.call_all(activity::COMPLETE, |operator| operator.notify_complete(checkpoint, now))
    }

    /// A checkpoint will never complete.
    pub fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.call_all(activity::ABORTED, |operator| operator.notify_aborted(checkpoint))
    }

    /// A complete checkpoint is no longer kept.
    pub fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.call_all(activity::SUBSUMED, |operator| operator.notify_subsumed(checkpoint))
    }

    /// When [`Chain::on_timer`] is to be called, on the clock that never goes backwards.
    pub fn next_timer(&self) -> Option<Duration> {
        self.links.iter().filter_map(|link| link.operator.next_timer()).min()
    }

    /// The time that [`Chain::next_timer`] gave has come.
    pub fn on_timer(&mut self, now: Duration) -> Result<(), TaskError> {
        self.call_all(activity::TIMER, |operator| {
            let is_due = operator.next_timer().is_some_and(|timer| timer <= now);
            if is_due { operator.on_timer(now) } else { Ok(()) }
        })
    }

    /// Whether every effect outside the job that complete checkpoints allow has been carried out.
    pub fn is_settled(&self) -> bool {
        self.links.iter().all(|link| link.operator.is_settled())
    }

    /// A split for the head, which has to be a source: another operator does nothing with it.
    pub fn add_split(&mut self, split: &[u8]) -> Result<(), TaskError> {
        self.call(0, activity::TAKE_SPLIT, |operator| {
            operator.as_source().map_or(Ok(()), |source| source.add_split(split))
        })
    }

    /// There will be no split for the head any more.
    pub fn no_more_splits(&mut self) {
        if let Some(source) = self.links[0].operator.as_source() {
            source.no_more_splits();
        }
    }

    /// What each operator has counted.
    pub fn counts(&self) -> impl Iterator<Item = (&OperatorUid, OperatorCounts)> {
        self.links.iter().map(|link| (&link.uid, link.operator.counts()))
    }

    /// Which operator is at work. After a panic: the one that panicked.
    pub fn operator_call(&self) -> Option<OperatorCall> {
        let (index, activity) = self.calling?;
        Some(OperatorCall { operator: self.links[index].uid.to_string(), activity })
    }

    fn call<T>(&mut self, index: usize, activity: &'static str, call: impl FnOnce(&mut dyn Operator) -> T) -> T {
        self.calling = Some((index, activity));
        let answer = call(&mut *self.links[index].operator);
        self.calling = None;
        answer
    }

    fn call_all(
        &mut self,
        activity: &'static str,
        mut call: impl FnMut(&mut dyn Operator) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        (0..self.links.len()).try_for_each(|index| self.call(index, activity, &mut call))
    }

    /// Takes what the operator at `start` has put out through the rest of the chain, records first, then watermarks.
    fn drain(&mut self, start: usize, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<(), TaskError> {
        // Only the head yields; the operators behind it work until they are done.
        let unlimited = Limits { waker: limits.waker, ..Limits::unlimited(limits.now) };
        for index in start..self.links.len() {
            if let Some(batch) = self.links[index].operator.take_output() {
                if index + 1 < self.links.len() {
                    self.call(index + 1, activity::RUN, |operator| {
                        operator.accept(batch)?;
                        operator.run(&unlimited)
                    })?;
                } else {
                    output.records(batch)?;
                }
            }
            if index == 0 && self.advancing.is_some() {
                // The head still fires timers for its watermark; behind it, event time must wait for them.
                continue;
            }
            let watermark = self.links[index].operator.watermark();
            match self.links.get_mut(index + 1) {
                Some(next) if next.watermark < watermark => {
                    next.watermark = watermark;
                    self.call(index + 1, activity::ADVANCE, |operator| operator.advance(watermark, &unlimited))?;
                }
                Some(_) => {}
                None if watermark > Timestamp::MIN => output.watermark(watermark)?,
                None => {}
            }
        }
        Ok(())
    }
}
