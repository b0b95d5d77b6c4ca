//! The owner cancels the job, whose checkpoints are not to outlive that: the log says that they are dropped, then they are
//! deleted. A start that comes later begins from nothing, with ids that go on.

use std::future::Future;
use std::pin::Pin;

use highwater_checkpoint::{Event, paths};
use highwater_runtime::{DroppedCheckpoints, JobError, drop_checkpoints};
use highwater_state_api::Attempt;

use crate::invariants::Violation;
use crate::planted::Planted;
use crate::process::Process;
use crate::work::poll_once;
use crate::world::World;

/// Of 1,000 steps while checkpoints are being dropped, in how many whoever does it stands still, and the job is started again.
const STALLS: u32 = 30;

/// A process that drops the checkpoints of the job and does nothing else any more.
pub(crate) struct Dropping {
    attempt: Attempt,
    /// It stands still, or is slow: the job is started again meanwhile.
    is_stalled: bool,
    future: Pin<Box<dyn Future<Output = Result<DroppedCheckpoints, JobError>>>>,
}

impl World {
    /// The owner cancels the job.
    pub(crate) fn cancel(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        self.coverage.count("cancelled");
        if process.failover.is_some() {
            self.coverage.count("cancelled: a region is being restarted");
        }
        self.trace.write(
            self.now_ms,
            "world",
            format_args!("the owner cancels the job of attempt {}", process.attempt),
        );
        self.shut_down(&mut process);
        self.may_leave_behind = true;
        let (storage, job, nonce) = (self.storage.clone(), self.job.clone(), process.nonce);
        let too_early = match self.completed.newest(1) {
            [(attempt, checkpoint, _)] if self.planted == Some(Planted::DeletedBeforeDropped) => {
                Some(paths::checkpoint_folder(&self.job, *attempt, *checkpoint))
            }
            _ => None,
        };
        let future = async move {
            if let Some(folder) = too_early {
                highwater_state_api::CheckpointStorage::delete_folder(&storage, &folder).await?;
            }
            drop_checkpoints(&storage, &job, nonce).await
        };
        self.droppings.push(Dropping { attempt: process.attempt, is_stalled: false, future: Box::pin(future) });
        (self.nonce, self.topology) = (None, None);
        self.tempt_fate();
    }

    /// What is pending is given up, subtasks stop, and what they have said is on its way.
    fn shut_down(&mut self, process: &mut Process) {
        self.order_shutdown(process);
        process.fence.expect_nobody();
        process.stop(self.time());
        for report in std::mem::take(&mut process.reports) {
            self.keep_late(report);
        }
    }

    /// Whether the process that had the job is still about to drop its checkpoints.
    pub(crate) fn is_dropping(&self) -> bool {
        self.droppings.iter().any(|dropping| !dropping.is_stalled)
    }

    /// How likely each of those goes on that drop checkpoints.
    pub(crate) fn droppings(&self) -> impl Iterator<Item = (u32, usize)> {
        let weight = |dropping: &Dropping| if dropping.is_stalled { 1 } else { self.scenario.pace.storage };
        self.droppings.iter().map(weight).zip(0..)
    }

    /// Checkpoints go on being dropped, by one operation.
    pub(crate) fn go_on_dropping(&mut self, index: usize) {
        let dropping = &mut self.droppings[index];
        if !dropping.is_stalled && self.healed_at_step.is_none() && self.dice.chance(STALLS) {
            self.coverage.count("cancelled: dropping checkpoints stands still");
            dropping.is_stalled = true;
            return;
        }
        let Some(dropped) = poll_once(dropping.future.as_mut()) else { return };
        let Dropping { attempt, .. } = self.droppings.swap_remove(index);
        let what = match dropped {
            Ok(DroppedCheckpoints::All) => "cancelled: all checkpoints are dropped",
            Ok(DroppedCheckpoints::SomeAreLeft) => "cancelled: checkpoints are dropped, and some are left",
            Ok(DroppedCheckpoints::NotOurs) => "cancelled: the job is another process's",
            Err(_) => "cancelled: the storage does not tell whether checkpoints are dropped",
        };
        self.coverage.count(what);
        self.trace.write(self.now_ms, "world", format_args!("attempt {attempt} {what}"));
    }

    /// The process is gone that was dropping checkpoints.
    pub(crate) fn kill_dropping(&mut self) {
        if self.is_dropping() {
            self.coverage.count("kills: checkpoints are being dropped");
        }
        self.droppings.retain(|dropping| dropping.is_stalled);
    }

    /// Whoever still drops checkpoints comes to an end.
    pub(crate) fn finish_droppings(&mut self) -> Result<(), Violation> {
        while !self.droppings.is_empty() {
            let index = self.dice.below(self.droppings.len() as u64) as usize;
            self.go_on_dropping(index);
            self.observe()?;
        }
        Ok(())
    }

    /// The coordinator of an attempt is told that it ends.
    pub(crate) fn order_shutdown(&mut self, process: &mut Process) {
        for order in process.master.on_event(self.now(), Event::Shutdown) {
            self.store(process, order);
        }
    }
}
