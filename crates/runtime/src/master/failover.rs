//! Regional failover as the master sees it: a region is given up, and what goes on is handed to the master of the next attempt.

use std::collections::BTreeSet;

use highwater_checkpoint::{Coordinator, Event, Now};
use highwater_state_api::{Attempt, SubtaskId};

use super::{Enumerators, Master, MasterEnd, Order};
use crate::TaskError;
use crate::control::{Control, Report};
use crate::error::chain_of;
use crate::regions::Regions;

impl Master {
    /// When a task fails, only its region is to be restarted.
    pub fn with_regions(mut self, regions: Regions) -> Self {
        self.regions = Some(regions).filter(|regions| !regions.is_one());
        self
    }

    /// After one of its regions has failed: becomes the master of the next attempt, whose coordinator this is. It takes over the
    /// tasks that go on, with their enumerators and all that these have handed out. `restarted` are the subtasks that are
    /// started anew, `enumerators` theirs.
    ///
    /// What those that go on have reported to the attempt before does not count here: until they say that they have heard of
    /// this one they are not heard. The orders tell them.
    pub fn take_over(
        &mut self,
        attempt: Attempt,
        coordinator: Coordinator,
        survivors: &BTreeSet<u32>,
        restarted: impl IntoIterator<Item = SubtaskId>,
        mut enumerators: Enumerators,
    ) -> Vec<Order> {
        let adopted = std::mem::take(&mut self.subtasks);
        enumerators.append(&mut self.enumerators);
        let coordinator = coordinator.taking_over(&self.coordinator, survivors);
        let newest = coordinator.latest_complete();
        let mut orders = Vec::new();
        for subtask in &adopted {
            orders.push(Order::Tell(*subtask, Control::Adopt(attempt)));
            // Whoever has settled it says so to the next attempt too.
            orders.extend(newest.map(|checkpoint| Order::Tell(*subtask, Control::Complete(checkpoint))));
        }
        let subtasks = restarted.into_iter().chain(adopted.iter().copied());
        *self = Self {
            stats: self.stats.take(),
            regions: self.regions.take(),
            ..Self::new(coordinator, subtasks, enumerators)
        };
        self.adopted = adopted;
        orders
    }

    /// How many subtasks have not been let go.
    pub(crate) fn subtasks(&self) -> usize {
        self.subtasks.len()
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
