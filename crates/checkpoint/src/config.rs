//! What the coordinator is told about its job: numbers and the shape of the job graph.

use std::collections::BTreeSet;

use highwater_state_api::{JobName, MaxParallelism, OperatorUid, SubtaskId};

/// How many subtasks are named at most where there may be thousands.
const NAMED_MAX: usize = 8;

/// The settings of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// The job.
    pub job: JobName,
    /// Time between two periodic checkpoints; `None` when only requested and final ones are taken.
    pub interval_ms: Option<u64>,
    /// Time within which a checkpoint must have been taken and written, from its trigger on; and within which the job log
    /// must tell what became of an append whose outcome is unknown.
    pub timeout_ms: u64,
    /// Least time between the completion of a checkpoint and the trigger of the next periodic one.
    pub min_pause_ms: u64,
    /// How many checkpoints may be taken at the same time; 0 counts as 1.
    pub max_concurrent: u32,
    /// How many checkpoints may fail in a row before the attempt fails. `u32::MAX` means any number.
    pub tolerable_failures: u32,
    /// Whether checkpoints are taken once some subtasks have ended and others have not.
    pub checkpoints_after_tasks_finish: bool,
    /// How many complete checkpoints are retained; 0 counts as 1.
    pub retain: usize,
    /// Name of the key hash, for the metadata.
    pub key_hash: String,
    /// The tasks of the job, by their index in the job graph: one that sends comes before those it sends to.
    pub tasks: Vec<TaskPlan>,
}

/// One task: a chain of operators in a number of subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    /// Number of subtasks.
    pub parallelism: u32,
    /// Whether the task begins with a source: then its first operator has a split enumerator.
    pub is_source: bool,
    /// The tasks that send to it, by index. While one of them has not finished, checkpoints come with its barriers;
    /// otherwise, and so always at a source, the subtasks are told to take them.
    pub upstream: Vec<u32>,
    /// The tasks that would be one with this one if they had the same parallelism are a group, and this is the index of its
    /// first; the task's own if it is alone. They finish together: at another parallelism they may be one task, of which
    /// nothing must have finished before the rest.
    pub group: u32,
    /// The task had finished in the checkpoint that the attempt goes on from: none of its subtasks is there.
    pub finished: bool,
    /// The operators in chain order.
    pub operators: Vec<OperatorPlan>,
}

/// One operator of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPlan {
    /// The operator.
    pub uid: OperatorUid,
    /// Number of its key groups.
    pub max_parallelism: MaxParallelism,
}

impl CoordinatorConfig {
    /// Every subtask that the attempt begins with.
    pub fn subtasks(&self) -> BTreeSet<SubtaskId> {
        let tasks = (0..).zip(&self.tasks).filter(|(_, task)| !task.finished);
        tasks.flat_map(|(task, plan)| (0..plan.parallelism).map(move |subtask| SubtaskId { task, subtask })).collect()
    }

    /// A subtask as people know it: the uid of its first operator and its index.
    pub(crate) fn name_of(&self, subtask: SubtaskId) -> String {
        let task = self.tasks.get(subtask.task as usize);
        match task.and_then(|task| Some((task, task.operators.first()?))) {
            Some((task, head)) => format!("{} ({} of {})", head.uid, subtask.subtask, task.parallelism),
            None => format!("subtask {subtask}"),
        }
    }

    /// Some subtasks as people know them, and how many more there are.
    pub(crate) fn names_of<'a>(&self, mut subtasks: impl Iterator<Item = &'a SubtaskId>) -> String {
        let named: Vec<String> = subtasks.by_ref().take(NAMED_MAX).map(|subtask| self.name_of(*subtask)).collect();
        match subtasks.count() {
            0 => named.join(", "),
            others => format!("{} and {others} more", named.join(", ")),
        }
    }
}
