//! A chain: the operators of one task with their state, as a value without channel, thread or clock.
//!
//! It is all that a foreign host needs to run the same operators: batches go in, batches come out, snapshots can be
//! written by anyone. Between the calls of [`Chain::run`] records wait only in the batch of the head.

use std::time::Duration;

use highwater_state_api::{CheckpointId, OperatorUid};
use highwater_stream_api::Timestamp;

use crate::TaskError;
use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{
    FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran, SourceControl,
};
use crate::output::ChainOutput;

/// Operators in a row, each working on what the one before put out.
pub struct Chain {
    links: Vec<Link>,
    /// The watermark that the head is being advanced to; `None` when it has arrived.
    advancing: Option<Timestamp>,
}

struct Link {
    uid: OperatorUid,
    operator: Box<dyn Operator>,
    /// The watermark that this operator was advanced to.
    watermark: Timestamp,
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
        Self { links, advancing: None }
    }

    /// The uids of the operators, in order.
    pub fn uids(&self) -> impl Iterator<Item = &OperatorUid> {
        self.links.iter().map(|link| &link.uid)
    }

    /// Opens the operators, the last first: an operator can emit only into one that is open.
    pub fn open(&mut self, mut context: impl FnMut(&OperatorUid) -> OperatorContext) -> Result<(), TaskError> {
        for link in self.links.iter_mut().rev() {
            link.operator.open(context(&link.uid))?;
            link.watermark = link.operator.watermark();
        }
        Ok(())
    }

    /// Gives the head a batch; it must be done with the one before.
    pub fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.links[0].operator.accept(batch)
    }

    /// Lets the head work, and everything behind it on what comes out.
    pub fn run(&mut self, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<Ran, TaskError> {
        let ran = self.links[0].operator.run(limits)?;
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
        let ran = self.links[0].operator.advance(watermark, limits)?;
        self.advancing = (ran == Ran::More).then_some(watermark);
        self.drain(0, limits, output)?;
        Ok(ran)
    }

    /// There will be no more input: finishes the operators in order, each before the next.
    pub fn finish(&mut self, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<(), TaskError> {
        for index in 0..self.links.len() {
            self.links[index].operator.finish()?;
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
            self.links[index].operator.prepare_snapshot(checkpoint)?;
            self.drain(index, limits, output)?;
        }
        Ok(())
    }

    /// Takes a snapshot of every operator: the synchronous part.
    pub fn freeze(&mut self, barrier: Barrier) -> Result<FrozenChain, FreezeError> {
        let mut operators = Vec::with_capacity(self.links.len());
        for link in &mut self.links {
            operators.push((link.uid.clone(), link.operator.freeze(barrier)?));
        }
        Ok(FrozenChain { operators })
    }

    /// A checkpoint is complete.
    pub fn notify_complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        self.links.iter_mut().try_for_each(|link| link.operator.notify_complete(checkpoint, now))
    }

    /// A checkpoint will never complete.
    pub fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.links.iter_mut().try_for_each(|link| link.operator.notify_aborted(checkpoint))
    }

    /// A complete checkpoint is no longer kept.
    pub fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.links.iter_mut().try_for_each(|link| link.operator.notify_subsumed(checkpoint))
    }

    /// When [`Chain::on_timer`] is to be called, on the clock that never goes backwards.
    pub fn next_timer(&self) -> Option<Duration> {
        self.links.iter().filter_map(|link| link.operator.next_timer()).min()
    }

    /// The time that [`Chain::next_timer`] gave has come.
    pub fn on_timer(&mut self, now: Duration) -> Result<(), TaskError> {
        let is_due = |link: &&mut Link| link.operator.next_timer().is_some_and(|timer| timer <= now);
        self.links.iter_mut().filter(is_due).try_for_each(|link| link.operator.on_timer(now))
    }

    /// Whether every effect outside the job that complete checkpoints allow has been carried out.
    pub fn is_settled(&self) -> bool {
        self.links.iter().all(|link| link.operator.is_settled())
    }

    /// The head as a source, if it is one.
    pub fn as_source(&mut self) -> Option<&mut dyn SourceControl> {
        self.links[0].operator.as_source()
    }

    /// What each operator has counted.
    pub fn counts(&self) -> impl Iterator<Item = (&OperatorUid, OperatorCounts)> {
        self.links.iter().map(|link| (&link.uid, link.operator.counts()))
    }

    /// Takes what the operator at `start` has put out through the rest of the chain, records first, then watermarks.
    fn drain(&mut self, start: usize, limits: &Limits<'_>, output: &mut dyn ChainOutput) -> Result<(), TaskError> {
        // Only the head yields; the operators behind it work until they are done.
        let unlimited = Limits { waker: limits.waker, ..Limits::unlimited(limits.now) };
        for index in start..self.links.len() {
            if let Some(batch) = self.links[index].operator.take_output() {
                match self.links.get_mut(index + 1) {
                    Some(next) => {
                        next.operator.accept(batch)?;
                        next.operator.run(&unlimited)?;
                    }
                    None => output.records(batch)?,
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
                    next.operator.advance(watermark, &unlimited)?;
                }
                Some(_) => {}
                None if watermark > Timestamp::MIN => output.watermark(watermark)?,
                None => {}
            }
        }
        Ok(())
    }
}
