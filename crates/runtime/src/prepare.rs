//! What lies between the claim of a job and its first step: sinks are started, enumerators and state are restored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{Assignment, AttemptStart};
use highwater_state_api::{
    BoxedError, CheckpointId, CheckpointStorage, JobName, OperatorUid, RowSettings, StateBackend, StorageError,
    SubtaskId,
};
use highwater_stream_api::SinkStart;

use crate::JobError;
use crate::fence::Fence;
use crate::graph::{JobGraph, OperatorNode, TaskNode};
use crate::master::Enumerators;
use crate::operator::{OperatorContext, RestoredOperator};
use crate::read_share::ShareReader;
use crate::restore::ClaimedJob;

/// What the subtasks are opened with.
pub type Contexts = BTreeMap<SubtaskId, BTreeMap<OperatorUid, OperatorContext>>;

/// The job that an attempt is prepared for.
pub struct Preparation<'a> {
    /// Its name.
    pub job: &'a JobName,
    /// What it runs.
    pub graph: &'a JobGraph,
    /// Makes keyed backends.
    pub state_backend: &'a Arc<dyn StateBackend>,
    /// Where its checkpoints are.
    pub storage: &'a dyn CheckpointStorage,
    /// How the row tier behaves.
    pub row_settings: RowSettings,
    /// Asked before everything that is done outside the job.
    pub fence: &'a Fence,
    /// Time since a fixed instant, on a clock that never goes backwards.
    pub now: Duration,
}

/// A job whose subtasks can be built and opened.
pub struct Prepared {
    /// The split enumerators.
    pub enumerators: Enumerators,
    /// What the subtasks are opened with.
    pub contexts: Contexts,
}

/// Prepares the attempt that has claimed the job. An error means that nothing runs yet.
pub async fn prepare(preparation: &Preparation<'_>, claimed: &ClaimedJob) -> Result<Prepared, JobError> {
    let restored = claimed.restored.as_ref();
    if let Some((checkpoint, assignment)) = restored {
        check_finished(preparation.graph, assignment)
            .map_err(|source| JobError::Restore { checkpoint: *checkpoint, source })?;
    }
    preparation.fence.check().await?;
    start_sinks(preparation, &claimed.start, restored)?;
    let enumerators = create_enumerators(preparation, restored).await?;
    let contexts = read_contexts(preparation, claimed).await?;
    Ok(Prepared { enumerators, contexts })
}

/// Refuses to give records to an operator that has seen the end of its input: it was finished, and its timers have fired
/// as far as time goes.
fn check_finished(graph: &JobGraph, assignment: &Assignment) -> Result<(), BoxedError> {
    let is_finished = |uid: &OperatorUid| assignment.operators.get(uid).is_some_and(|operator| operator.finished);
    for operator in graph.tasks.iter().flat_map(|task| &task.operators) {
        if is_finished(&operator.uid)
            && let Some(source) = graph.sources_of(&operator.uid).into_iter().find(|source| !is_finished(source))
        {
            let uid = &operator.uid;
            return Err(format!(
                "operator {uid} has seen the end of its input and cannot get records of source {source}, which has not \
                 ended: give the operator another uid"
            )
            .into());
        }
    }
    Ok(())
}

fn start_sinks(
    preparation: &Preparation<'_>,
    start: &AttemptStart,
    restored: Option<&(CheckpointId, Assignment)>,
) -> Result<(), JobError> {
    for operator in preparation.graph.tasks.iter().flat_map(|task| &task.operators) {
        let Some(sink) = &operator.sink else { continue };
        // A sink that is new in the job starts from nothing.
        let has_state =
            |(_, assignment): &&(CheckpointId, Assignment)| assignment.operators.contains_key(&operator.uid);
        let restored = restored.filter(has_state).map(|(checkpoint, _)| *checkpoint);
        sink.start(&SinkStart { job: preparation.job, operator: &operator.uid, attempt: start.attempt, restored })
            .map_err(|source| JobError::Start { operator: operator.uid.to_string(), source })?;
    }
    Ok(())
}

async fn create_enumerators(
    preparation: &Preparation<'_>,
    restored: Option<&(CheckpointId, Assignment)>,
) -> Result<Enumerators, JobError> {
    let mut enumerators = Enumerators::new();
    for (task, uid, source) in preparation.graph.sources() {
        let state = restored.and_then(|(checkpoint, assignment)| {
            let state = assignment.operators.get(uid)?.source.as_ref()?;
            Some((*checkpoint, state))
        });
        let enumerator = match state {
            Some((checkpoint, state)) => {
                let splits = ShareReader::new(preparation.storage).read_source(state).await;
                source.restore_enumerator(&splits.map_err(|error| restore_failed(checkpoint, error))?)
            }
            None => source.create_enumerator(),
        };
        let enumerator = enumerator.map_err(|source| JobError::Start { operator: uid.to_string(), source })?;
        enumerators.insert(task as u32, (uid.clone(), enumerator));
    }
    Ok(enumerators)
}

/// Reads and checks the state of every subtask.
async fn read_contexts(preparation: &Preparation<'_>, claimed: &ClaimedJob) -> Result<Contexts, JobError> {
    let mut contexts = Contexts::new();
    for (task, node) in preparation.graph.tasks.iter().enumerate() {
        let restored_checkpoint = restored_checkpoint(node, claimed);
        for operator in &node.operators {
            let uid = &operator.uid;
            let mut reader = ShareReader::new(preparation.storage);
            for subtask in 0..node.parallelism {
                let context = OperatorContext {
                    job: preparation.job.clone(),
                    attempt: claimed.start.attempt,
                    uid: uid.clone(),
                    subtask,
                    parallelism: node.parallelism,
                    max_parallelism: claimed.max_parallelism[uid],
                    state_backend: preparation.state_backend.clone(),
                    row_settings: preparation.row_settings,
                    now: preparation.now,
                    fence: preparation.fence.clone(),
                    restored_checkpoint,
                    restored: read_share(&mut reader, claimed, uid, subtask).await?,
                };
                contexts.entry(SubtaskId { task: task as u32, subtask }).or_default().insert(uid.clone(), context);
            }
        }
    }
    Ok(contexts)
}

/// The checkpoint that a task counts as restored from: it has to have had state in it.
fn restored_checkpoint(task: &TaskNode, claimed: &ClaimedJob) -> Option<CheckpointId> {
    let (checkpoint, assignment) = claimed.restored.as_ref()?;
    let had_state = |operator: &OperatorNode| assignment.operators.get(&operator.uid).is_some_and(|it| it.has_state);
    task.operators.iter().any(had_state).then_some(*checkpoint)
}

async fn read_share(
    reader: &mut ShareReader<'_>,
    claimed: &ClaimedJob,
    uid: &OperatorUid,
    subtask: u32,
) -> Result<Option<RestoredOperator>, JobError> {
    let Some((checkpoint, assignment)) = &claimed.restored else { return Ok(None) };
    let Some(state) = assignment.operators.get(uid) else { return Ok(None) };
    let read = reader.read_subtask(*checkpoint, &state.subtasks[subtask as usize], state.finished).await;
    Ok(Some(read.map_err(|error| restore_failed(*checkpoint, error))?))
}

fn restore_failed(checkpoint: CheckpointId, error: StorageError) -> JobError {
    if error.is_transient() { JobError::Storage(error) } else { JobError::Restore { checkpoint, source: error.into() } }
}
