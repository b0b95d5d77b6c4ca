//! How far the tasks of an attempt have come, from that they run to that they have finished, and what a checkpoint that is
//! triggered now has to do with each.
//!
//! A subtask *ends* when it has processed all its input. It stays, since what it has is still part of checkpoints: the
//! first complete one that was triggered after the whole task had ended is the final checkpoint of the task. When all its
//! subtasks have settled that one, and everybody upstream has finished, the task has *finished*: no later checkpoint asks
//! anything of it, and no restore runs it again.

use std::collections::BTreeSet;

use highwater_state_api::{CheckpointId, SubtaskId};

use crate::config::{CoordinatorConfig, TaskPlan};

/// What one checkpoint asks of whom. Flink's `CheckpointPlan`. Made when the checkpoint is triggered, and kept with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CheckpointPlan {
    /// Who is told to take it: the subtasks that no barrier will reach, because nobody upstream is left to send one.
    pub(crate) to_trigger: Vec<SubtaskId>,
    /// Whose snapshots it consists of.
    pub(crate) to_wait_for: BTreeSet<SubtaskId>,
    /// Tasks that have finished: it has nothing of them.
    pub(crate) finished: BTreeSet<u32>,
    /// Tasks that had ended when it was triggered: if none of them has had a final checkpoint before, it is theirs.
    pub(crate) ended: BTreeSet<u32>,
}

/// The progress of all tasks of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct TaskProgress {
    tasks: Vec<TaskState>,
    /// Whether checkpoints are taken once some subtasks have ended and others have not.
    is_on_after_the_end: bool,
}

#[derive(Debug, Clone)]
struct TaskState {
    plan: TaskPlan,
    running: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    final_checkpoint: Option<CheckpointId>,
    /// Subtasks that have settled the final checkpoint.
    settled: BTreeSet<u32>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Part of the checkpoints that are triggered.
    Active,
    /// No part of those any more, but perhaps of some that are pending.
    Finished,
    /// Its subtasks are gone, or were never there.
    Gone,
}

impl TaskState {
    fn new(plan: &TaskPlan) -> Self {
        let stage = if plan.finished { Stage::Gone } else { Stage::Active };
        let (running, ended, settled) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { plan: plan.clone(), running, ended, final_checkpoint: None, settled, stage }
    }

    fn has_finished(&self) -> bool {
        self.stage != Stage::Active
    }

    fn is_running(&self) -> bool {
        self.has_finished() || self.running.len() == self.plan.parallelism as usize
    }

    fn has_ended(&self) -> bool {
        self.has_finished() || self.ended.len() == self.plan.parallelism as usize
    }
}

impl TaskProgress {
    pub(crate) fn new(config: &CoordinatorConfig) -> Self {
        Self {
            tasks: config.tasks.iter().map(TaskState::new).collect(),
            is_on_after_the_end: config.checkpoints_after_tasks_finish,
        }
    }

    /// Goes on with these tasks of the attempt before. What their subtasks have reported there they report again.
    pub(crate) fn take_over(&mut self, previous: &Self, tasks: &BTreeSet<u32>) {
        for task in tasks {
            let before = &previous.tasks[*task as usize];
            let state = &mut self.tasks[*task as usize];
            (state.stage, state.final_checkpoint) = (before.stage, before.final_checkpoint);
        }
    }

    /// Whether the attempt has this subtask.
    pub(crate) fn contains(&self, subtask: SubtaskId) -> bool {
        let task = self.tasks.get(subtask.task as usize);
        task.is_some_and(|task| !task.plan.finished && subtask.subtask < task.plan.parallelism)
    }

    /// Whether every subtask has run.
    pub(crate) fn is_running(&self) -> bool {
        self.tasks.iter().all(TaskState::is_running)
    }

    /// The subtasks that do not run yet.
    pub(crate) fn not_running(&self) -> Vec<SubtaskId> {
        let tasks = (0..).zip(&self.tasks).filter(|(_, state)| !state.is_running());
        let subtasks = tasks.flat_map(|(task, state)| {
            let missing = (0..state.plan.parallelism).filter(|subtask| !state.running.contains(subtask));
            missing.map(move |subtask| SubtaskId { task, subtask })
        });
        subtasks.collect()
    }

    /// Whether every subtask has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.tasks.iter().all(TaskState::has_ended)
    }

    /// A subtask runs.
    pub(crate) fn running(&mut self, subtask: SubtaskId) {
        if self.contains(subtask) {
            self.tasks[subtask.task as usize].running.insert(subtask.subtask);
        }
    }

    /// A subtask has ended. So it ran, even if it had nothing to do.
    pub(crate) fn ended(&mut self, subtask: SubtaskId) {
        self.running(subtask);
        if self.contains(subtask) {
            self.tasks[subtask.task as usize].ended.insert(subtask.subtask);
        }
    }

    /// Who has ended and so forbids a checkpoint now, if somebody does, which is when checkpoints after the end of tasks are
    /// turned off. The one that ends the job is not forbidden.
    pub(crate) fn missing(&self) -> Option<SubtaskId> {
        if self.is_on_after_the_end || self.has_ended() {
            return None;
        }
        (0..).zip(&self.tasks).find_map(|(task, state)| {
            let subtask = if state.has_finished() { Some(0) } else { state.ended.first().copied() };
            subtask.map(|subtask| SubtaskId { task, subtask })
        })
    }

    /// What a checkpoint that is triggered now asks of whom.
    pub(crate) fn plan(&self) -> CheckpointPlan {
        let mut plan = CheckpointPlan::default();
        for (task, state) in (0..).zip(&self.tasks) {
            if state.has_finished() {
                plan.finished.insert(task);
                continue;
            }
            let subtasks = (0..state.plan.parallelism).map(|subtask| SubtaskId { task, subtask });
            if self.upstream_has_finished(state) {
                plan.to_trigger.extend(subtasks.clone());
            }
            plan.to_wait_for.extend(subtasks);
            if state.has_ended() {
                plan.ended.insert(task);
            }
        }
        plan
    }

    /// A checkpoint with this plan is complete.
    pub(crate) fn completed(&mut self, plan: &CheckpointPlan, checkpoint: CheckpointId) {
        for task in &plan.ended {
            self.tasks[*task as usize].final_checkpoint.get_or_insert(checkpoint);
        }
    }

    /// A subtask that has ended has carried out all that complete checkpoints up to this one allow.
    pub(crate) fn settled(&mut self, subtask: SubtaskId, checkpoint: CheckpointId) {
        if !self.contains(subtask) {
            return;
        }
        let state = &mut self.tasks[subtask.task as usize];
        if state.final_checkpoint.is_some_and(|last| last <= checkpoint) {
            state.settled.insert(subtask.subtask);
        }
        // Who sends comes before whom it sends to: one sweep finds all.
        for group in 0..self.tasks.len() as u32 {
            if self.may_finish(group) {
                let active = self.tasks.iter_mut().filter(|state| state.plan.group == group);
                active.filter(|state| !state.has_finished()).for_each(|state| state.stage = Stage::Finished);
            }
        }
    }

    /// Whether the tasks of a group are all settled and have nobody upstream that is not.
    ///
    /// A task must not have finished in a checkpoint in which somebody upstream has not, nor a part of what is one task at
    /// another parallelism: that could not be restored.
    fn may_finish(&self, group: u32) -> bool {
        let mut members = self.tasks.iter().filter(|state| state.plan.group == group);
        members.all(|state| {
            let mut upstream = state.plan.upstream.iter().map(|upstream| &self.tasks[*upstream as usize]);
            let is_settled = state.settled.len() == state.plan.parallelism as usize;
            state.has_finished() || is_settled && upstream.all(|it| it.plan.group == group || it.has_finished())
        })
    }

    /// The subtasks of tasks that have finished and that no pending checkpoint waits for: each is named once, and may go.
    pub(crate) fn take_gone<'a>(
        &mut self,
        pending: impl Iterator<Item = &'a CheckpointPlan> + Clone,
    ) -> Vec<SubtaskId> {
        let mut gone = Vec::new();
        for (task, state) in (0..).zip(&mut self.tasks).filter(|(_, state)| state.stage == Stage::Finished) {
            if pending.clone().all(|plan| plan.finished.contains(&task)) {
                state.stage = Stage::Gone;
                gone.extend((0..state.plan.parallelism).map(|subtask| SubtaskId { task, subtask }));
            }
        }
        gone
    }

    fn upstream_has_finished(&self, state: &TaskState) -> bool {
        state.plan.upstream.iter().all(|upstream| self.tasks[*upstream as usize].has_finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_test::{config, subtask};

    /// The task of a source, one of a counter behind it, and another source that goes on.
    fn progress() -> TaskProgress {
        let mut config = config();
        config.tasks.push(TaskPlan { group: 2, ..config.tasks[0].clone() });
        TaskProgress::new(&config)
    }

    /// In a checkpoint in which it had, it would be behind one that is run: that could not be restored.
    #[test]
    fn a_task_does_not_finish_before_those_that_send_to_it() {
        let mut progress = progress();
        let both = |task| [subtask(task, 0), subtask(task, 1)];
        both(0).into_iter().chain(both(1)).for_each(|one| progress.ended(one));
        let plan = progress.plan();
        assert_eq!(plan.ended, BTreeSet::from([0, 1]));
        progress.completed(&plan, CheckpointId(3));
        both(1).into_iter().for_each(|one| progress.settled(one, CheckpointId(3)));
        assert!(progress.plan().finished.is_empty());
        both(0).into_iter().for_each(|one| progress.settled(one, CheckpointId(3)));
        assert_eq!(progress.plan().finished, BTreeSet::from([0, 1]), "once they have, it has");
        assert_eq!(progress.plan().to_trigger, both(2));
        assert_eq!(progress.take_gone(std::iter::empty()), [both(0), both(1)].concat());
        assert_eq!(progress.take_gone(std::iter::empty()), []);
    }

    #[test]
    fn tasks_that_would_be_one_at_another_parallelism_finish_together() {
        let mut config = config();
        config.tasks.push(TaskPlan { upstream: vec![1], group: 1, ..config.tasks[1].clone() });
        let mut progress = TaskProgress::new(&config);
        let end = |progress: &mut TaskProgress, task| {
            [subtask(task, 0), subtask(task, 1)].into_iter().for_each(|one| progress.ended(one));
        };
        let settle = |progress: &mut TaskProgress, task| {
            [subtask(task, 0), subtask(task, 1)].into_iter().for_each(|one| progress.settled(one, CheckpointId(9)));
        };
        end(&mut progress, 0);
        end(&mut progress, 1);
        let plan = progress.plan();
        end(&mut progress, 2);
        progress.completed(&plan, CheckpointId(3));
        (0..3).for_each(|task| settle(&mut progress, task));
        assert_eq!(progress.plan().finished, BTreeSet::from([0]), "the third has had no final checkpoint");
        progress.completed(&progress.plan(), CheckpointId(4));
        settle(&mut progress, 2);
        assert_eq!(progress.plan().finished, BTreeSet::from([0, 1, 2]));
    }

    /// Contract: P294.
    #[test]
    fn a_checkpoint_that_was_triggered_before_a_task_had_ended_is_not_its_final_one() {
        let mut progress = progress();
        let (one, other) = (subtask(0, 0), subtask(0, 1));
        progress.ended(one);
        let before = progress.plan();
        progress.ended(other);
        progress.completed(&before, CheckpointId(3));
        [one, other].into_iter().for_each(|one| progress.settled(one, CheckpointId(3)));
        assert!(progress.plan().finished.is_empty());
        progress.completed(&progress.plan(), CheckpointId(4));
        [one, other].into_iter().for_each(|one| progress.settled(one, CheckpointId(3)));
        assert!(progress.plan().finished.is_empty(), "an old word of the end of an older one does not count");
        [one, other].into_iter().for_each(|one| progress.settled(one, CheckpointId(5)));
        assert_eq!(progress.plan().finished, BTreeSet::from([0]));
    }
}
