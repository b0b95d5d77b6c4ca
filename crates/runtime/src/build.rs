//! Puts the subtasks of one attempt together: operators, channels, control lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use highwater_checkpoint::CheckpointingMode;
use highwater_state_api::{Attempt, CheckpointId, JobName, MaxParallelism, OperatorUid, SubtaskId};

use crate::JobError;
use crate::chain::Chain;
use crate::channel::{ChannelReceiver, ChannelSender, Element, channel};
use crate::control::{ControlSender, Reports, control_lane};
use crate::gate::Gate;
use crate::graph::{EdgePattern, JobGraph};
use crate::master::caught;
use crate::metrics::SubtaskMetrics;
use crate::output::{Output, Outputs};
use crate::snapshot::SnapshotExecutor;
use crate::subtask::{Subtask, SubtaskParts};

/// What the subtasks of an attempt have in common.
pub struct AttemptEnvironment<'a> {
    /// The job.
    pub job: JobName,
    /// The attempt.
    pub attempt: Attempt,
    /// The checkpoint that the attempt goes on from.
    pub restored: Option<CheckpointId>,
    /// Whether inputs wait for each other's barriers.
    pub mode: CheckpointingMode,
    /// Whether the end of an input counts as its barrier.
    pub checkpoints_after_tasks_finish: bool,
    /// The tasks that have finished, by index: they have no subtasks, and those behind them find their input ended.
    pub finished: &'a BTreeSet<u32>,
    /// Number of key groups of each operator.
    pub max_parallelism: &'a BTreeMap<OperatorUid, MaxParallelism>,
    /// Bound of each channel in estimated bytes.
    pub channel_bytes_max: usize,
    /// Writes snapshots.
    pub executor: Arc<dyn SnapshotExecutor>,
    /// Wakes whoever steps a subtask.
    pub waker: &'a dyn Fn(SubtaskId) -> Waker,
    /// Takes the reports of a subtask to the coordinator.
    pub reports: &'a dyn Fn(SubtaskId) -> Box<dyn Reports>,
}

/// A subtask that is not open yet, with the ends that the coordinator keeps.
pub struct BuiltSubtask {
    /// The subtask.
    pub subtask: Subtask,
    /// The coordinator's end of its control lane.
    pub control: ControlSender,
    /// Its counters.
    pub metrics: Arc<SubtaskMetrics>,
}

/// Makes every subtask of `graph` whose task has not finished, in order of task and index.
pub fn build_subtasks(graph: &JobGraph, environment: &AttemptEnvironment<'_>) -> Result<Vec<BuiltSubtask>, JobError> {
    let mut wiring = Wiring::connect(graph, environment);
    let mut built = Vec::with_capacity(graph.subtasks());
    for (task, node) in (0..).zip(&graph.tasks).filter(|(task, _)| !environment.finished.contains(task)) {
        for subtask in 0..node.parallelism {
            let id = SubtaskId { task, subtask };
            let mut operators = Vec::with_capacity(node.operators.len());
            for operator in &node.operators {
                let made = caught(|| (operator.factory)(subtask));
                let made = made.map_err(|source| JobError::Start { operator: operator.uid.to_string(), source })?;
                operators.push((operator.uid.clone(), made));
            }
            let waker = (environment.waker)(id);
            let (control, receiver) = control_lane(waker.clone());
            let metrics = Arc::new(SubtaskMetrics::default());
            let parts = SubtaskParts {
                job: environment.job.clone(),
                attempt: environment.attempt,
                id,
                restored: environment.restored,
                mode: environment.mode,
                checkpoints_after_tasks_finish: environment.checkpoints_after_tasks_finish,
                gate: Gate::new(wiring.inputs.remove(&id).unwrap_or_default()),
                chain: Chain::new(operators),
                outputs: Outputs::new(wiring.outputs.remove(&id).unwrap_or_default()),
                control: receiver,
                reports: (environment.reports)(id),
                executor: environment.executor.clone(),
                waker,
                metrics: metrics.clone(),
            };
            built.push(BuiltSubtask { subtask: Subtask::new(parts), control, metrics });
        }
    }
    Ok(built)
}

/// The ends of all channels, by subtask.
#[derive(Default)]
struct Wiring {
    inputs: BTreeMap<SubtaskId, Vec<ChannelReceiver>>,
    outputs: BTreeMap<SubtaskId, Vec<Box<dyn Output>>>,
}

impl Wiring {
    fn connect(graph: &JobGraph, environment: &AttemptEnvironment<'_>) -> Self {
        let mut wiring = Self::default();
        let has_finished = |task: usize| environment.finished.contains(&(task as u32));
        // Whoever has finished gets nothing any more.
        for edge in graph.edges.iter().filter(|edge| !has_finished(edge.to)) {
            let to = &graph.tasks[edge.to];
            let max_parallelism = environment.max_parallelism[&to.operators[0].uid];
            for from in 0..graph.tasks[edge.from].parallelism {
                let sender = SubtaskId { task: edge.from as u32, subtask: from };
                let targets = match edge.pattern {
                    EdgePattern::Forward => from..from + 1,
                    EdgePattern::AllToAll => 0..to.parallelism,
                };
                let channels: Vec<ChannelSender> = targets
                    .map(|subtask| {
                        let receiver = SubtaskId { task: edge.to as u32, subtask };
                        let wake_receiver = (environment.waker)(receiver);
                        let is_gone = has_finished(edge.from);
                        let wake_sender = if is_gone { Waker::noop().clone() } else { (environment.waker)(sender) };
                        let (send, receive) = channel(environment.channel_bytes_max, wake_receiver, wake_sender);
                        wiring.inputs.entry(receiver).or_default().push(receive);
                        if is_gone {
                            send.send(Element::End);
                        }
                        send
                    })
                    .collect();
                if has_finished(edge.from) {
                    continue;
                }
                wiring.outputs.entry(sender).or_default().push((edge.output)(channels, max_parallelism));
            }
        }
        wiring
    }
}
