//! A pending checkpoint: what has arrived of it so far, and how that becomes metadata.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_state_api::{Attempt, CheckpointId, ObjectPath, OperatorUid, SubtaskId};

use crate::config::{CoordinatorConfig, TaskPlan};
use crate::task_progress::CheckpointPlan;
use crate::{
    CheckpointMetadata, EnumeratorState, HookState, OperatorSnapshot, OperatorState, RequestId, SubtaskSnapshot, paths,
};

/// What a pending checkpoint waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The storage, to make its place ready.
    Location,
    /// The snapshots of the split enumerators.
    Enumerators,
    /// The hooks of the application.
    Hooks,
    /// The acknowledgements of the subtasks.
    Acknowledgements,
    /// The metadata to be durable.
    Metadata,
    /// Its record in the job log.
    Publication,
}

impl Phase {
    /// Whether no subtask has been told of the checkpoint.
    pub(crate) fn is_beginning(self) -> bool {
        matches!(self, Self::Location | Self::Enumerators | Self::Hooks)
    }
}

/// A checkpoint that was triggered and has not come to an end.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) phase: Phase,
    /// What it asks of whom.
    pub(crate) plan: CheckpointPlan,
    /// Every subtask had ended when it was triggered.
    pub(crate) is_final: bool,
    /// Who asked for it and waits.
    pub(crate) requests: Vec<RequestId>,
    /// On the wall clock.
    pub(crate) triggered_at_ms: u64,
    /// On the monotonic clock.
    pub(crate) expires_at_ms: u64,
    enumerators: BTreeMap<OperatorUid, Bytes>,
    /// In ascending order of identifiers.
    pub(crate) hooks: Vec<HookState>,
    snapshots: BTreeMap<SubtaskId, SubtaskSnapshot>,
}

impl Pending {
    pub(crate) fn new(
        plan: CheckpointPlan,
        is_final: bool,
        requests: Vec<RequestId>,
        triggered_at_ms: u64,
        expires_at_ms: u64,
    ) -> Self {
        Self {
            phase: Phase::Location,
            plan,
            is_final,
            requests,
            triggered_at_ms,
            expires_at_ms,
            enumerators: BTreeMap::new(),
            hooks: Vec::new(),
            snapshots: BTreeMap::new(),
        }
    }

    pub(crate) fn enumerators_snapshotted(&mut self, states: Vec<EnumeratorState>) {
        self.enumerators = states.into_iter().map(|state| (state.operator, state.state)).collect();
    }

    /// The first acknowledgement of a subtask counts; a repeated one is the same and changes nothing.
    pub(crate) fn acknowledged(&mut self, subtask: SubtaskId, snapshot: SubtaskSnapshot) {
        self.snapshots.entry(subtask).or_insert(snapshot);
    }

    /// Whether it waits for the subtask, or has its snapshot.
    pub(crate) fn includes(&self, subtask: SubtaskId) -> bool {
        self.plan.to_wait_for.contains(&subtask)
    }

    pub(crate) fn has_acknowledged(&self, subtask: SubtaskId) -> bool {
        self.snapshots.contains_key(&subtask)
    }

    /// What the checkpoint waits for, for people: who is late.
    pub(crate) fn late(&self, config: &CoordinatorConfig) -> String {
        match self.phase {
            Phase::Location => "the storage had not made its place ready".to_owned(),
            Phase::Enumerators => "the split enumerators were not snapshotted".to_owned(),
            Phase::Hooks => "a hook of the application had not answered".to_owned(),
            Phase::Metadata => "its metadata was not written".to_owned(),
            Phase::Publication => "it waited for the job log".to_owned(),
            Phase::Acknowledgements => {
                let subtasks = &self.plan.to_wait_for;
                let late = || subtasks.iter().filter(|subtask| !self.has_acknowledged(**subtask));
                let names = config.names_of(late());
                format!("{} of {} subtasks were late: {names}", late().count(), subtasks.len())
            }
        }
    }

    /// Whether everything has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.phase == Phase::Acknowledgements && self.snapshots.len() == self.plan.to_wait_for.len()
    }

    /// Whether state in this object belongs to the checkpoint, as far as can be told: once the metadata is made, anything
    /// may.
    pub(crate) fn names(&self, path: &ObjectPath) -> bool {
        if matches!(self.phase, Phase::Metadata | Phase::Publication) {
            return true;
        }
        let operators = self.snapshots.values().flat_map(|snapshot| &snapshot.operators);
        operators.flat_map(|(_, snapshot)| snapshot.handles()).any(|handle| handle.object() == Some(path))
    }

    /// The metadata of a complete checkpoint. An error says what does not fit the job.
    ///
    /// Nothing is made up: an operator that a subtask did not report is not taken for one without state.
    pub(crate) fn metadata(
        &mut self,
        config: &CoordinatorConfig,
        attempt: Attempt,
        checkpoint: CheckpointId,
    ) -> Result<CheckpointMetadata, String> {
        let mut operators = Vec::new();
        for (index, task) in (0..).zip(&config.tasks) {
            let (first, finished) = (operators.len(), self.plan.finished.contains(&index));
            operators.extend(task.operators.iter().map(|operator| OperatorState {
                uid: operator.uid.clone(),
                max_parallelism: operator.max_parallelism,
                finished,
                subtasks: Vec::new(),
                enumerator: None,
            }));
            if finished {
                // It is still there as long as a checkpoint is pending that waits for its readers.
                task.operators.first().and_then(|source| self.enumerators.remove(&source.uid));
                continue;
            }
            for subtask in 0..task.parallelism {
                let subtask = SubtaskId { task: index, subtask };
                for (operator, snapshot) in operators[first..].iter_mut().zip(self.take_chain(subtask, task)?) {
                    self_contained(config, attempt, checkpoint, &snapshot)?;
                    operator.subtasks.push(snapshot);
                }
            }
            if let Some(source) = operators[first..].first_mut().filter(|_| task.is_source) {
                let state = self.enumerators.remove(&source.uid);
                source.enumerator = Some(state.ok_or_else(|| format!("no enumerator state of source {}", source.uid))?);
            }
        }
        if let Some(operator) = self.enumerators.keys().next() {
            return Err(format!("enumerator state of {operator}, which is not a source of the job"));
        }
        let (job, key_hash) = (config.job.clone(), config.key_hash.clone());
        let triggered_at_ms = self.triggered_at_ms;
        Ok(CheckpointMetadata { job, attempt, checkpoint, triggered_at_ms, key_hash, operators })
    }

    /// The snapshots of one subtask's operators, in the order of the chain.
    fn take_chain(&mut self, subtask: SubtaskId, task: &TaskPlan) -> Result<Vec<OperatorSnapshot>, String> {
        let snapshot = self.snapshots.remove(&subtask).ok_or_else(|| format!("no snapshot of subtask {subtask}"))?;
        let expected = task.operators.iter().map(|operator| &operator.uid);
        if !expected.clone().eq(snapshot.operators.iter().map(|(uid, _)| uid)) {
            let list = |uids: Vec<&OperatorUid>| uids.iter().map(|uid| uid.as_str()).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "subtask {subtask} acknowledged the operators [{}], expected [{}]",
                list(snapshot.operators.iter().map(|(uid, _)| uid).collect()),
                list(expected.collect()),
            ));
        }
        Ok(snapshot.operators.into_iter().map(|(_, snapshot)| snapshot).collect())
    }
}

/// A checkpoint goes with its folder. State that lies in another checkpoint's folder would go with that one.
fn self_contained(
    config: &CoordinatorConfig,
    attempt: Attempt,
    checkpoint: CheckpointId,
    snapshot: &OperatorSnapshot,
) -> Result<(), String> {
    for path in snapshot.handles().filter_map(|handle| handle.object()) {
        if paths::checkpoint_of(&config.job, path).is_some_and(|owner| owner != (checkpoint, attempt)) {
            return Err(format!("state in {path}, which goes with another checkpoint"));
        }
    }
    Ok(())
}
