//! Regional failover as the master sees it: a region is given up, and what goes on is handed to the master of the next attempt.

use std::collections::BTreeSet;

use highwater_checkpoint::{Coordinator, Event, Now};
use highwater_state_api::SubtaskId;

use super::{Enumerators, Master, MasterEnd, Order};
use crate::TaskError;
use crate::control::Report;
use crate::error::chain_of;
use crate::regions::Regions;

/// What goes on when the master of an attempt is over.
pub(crate) struct Remaining {
    /// The coordinator, whose next attempt takes the tasks over.
    pub(crate) coordinator: Coordinator,
    /// The subtasks that have not been let go.
    pub(crate) subtasks: BTreeSet<SubtaskId>,
    /// The enumerators of their sources, with all that they have handed out.
    pub(crate) enumerators: Enumerators,
}

impl Master {
    /// When a task fails, only its region is to be restarted.
    pub(crate) fn with_regions(mut self, regions: Regions) -> Self {
        self.regions = Some(regions).filter(|regions| !regions.is_one());
        self
    }

    /// These subtasks, which are among those of the attempt, are of the one before, and are going to be told so. What they
    /// have reported there does not count here.
    pub(crate) fn with_adopted(mut self, subtasks: BTreeSet<SubtaskId>) -> Self {
        self.adopted = subtasks;
        self
    }

    /// Ends the master after one of its regions has failed.
    pub(crate) fn take_remaining(&mut self) -> Remaining {
        Remaining {
            coordinator: self.coordinator.clone(),
            subtasks: std::mem::take(&mut self.subtasks),
            enumerators: std::mem::take(&mut self.enumerators),
        }
    }

    /// Whether a report says nothing about this attempt any more, or nothing yet. What carries an attempt with it is the
    /// coordinator's to judge.
    pub(super) fn is_out_of_date(&self, report: &Report) -> bool {
        match report {
            Report::Acknowledged(_) | Report::Declined(_) => false,
            Report::Running(subtask) | Report::Ended(subtask) if self.adopted.contains(subtask) => true,
            Report::Running(subtask)
            | Report::Ended(subtask)
            | Report::Settled(subtask, _)
            | Report::SplitRequested(subtask)
            | Report::Adopted(subtask)
            | Report::Failed(subtask, _)
            | Report::Stopped(subtask) => self.failed.contains(&subtask.task),
        }
    }

    pub(super) fn task_failed(&mut self, now: Now, subtask: SubtaskId, error: TaskError, orders: &mut Vec<Order>) {
        let (task, cause) = (subtask.task as usize, chain_of(&error));
        let Some(tasks) = self.region_to_restart(subtask, &error) else {
            self.event(now, Event::TaskFailed { subtask, cause }, orders);
            orders.push(Order::End(MasterEnd::TaskFailed(task, error)));
            return;
        };
        // From now on the region is nobody's: whoever is told something, it is the others.
        self.subtasks.retain(|subtask| !tasks.contains(&subtask.task));
        self.enumerators.retain(|task, _| !tasks.contains(task));
        self.failed.clone_from(&tasks);
        self.event(now, Event::RegionFailed { subtask, cause }, orders);
        orders.push(Order::End(MasterEnd::RegionFailed(task, error, tasks)));
    }

    /// The tasks that are to be restarted because of a failure; `None` when all are, or none will be.
    fn region_to_restart(&self, subtask: SubtaskId, error: &TaskError) -> Option<BTreeSet<u32>> {
        let regions = self.regions.as_ref()?;
        (self.coordinator.may_fail_over() && !error.is_permanent()).then(|| regions.tasks_with(subtask.task))
    }
}

#[cfg(test)]
#[path = "failover_test.rs"]
mod failover_test;
