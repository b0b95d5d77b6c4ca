//! What lies between the claim of a job and its first step: sinks are started, enumerators and state are restored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{Assignment, AttemptStart, HaveEnded};
use highwater_state_api::{
    CheckpointId, CheckpointStorage, JobName, OperatorUid, RowSettings, StateBackend, SubtaskId,
};
use highwater_stream_api::SinkStart;
use tokio::task::yield_now;

use crate::JobError;
use crate::fall_back::{fall_back, restore_failed, say_dropped};
use crate::fence::Fence;
use crate::finished_tasks::finished_tasks;
use crate::graph::{JobGraph, OperatorNode, TaskNode};
use crate::master::{Enumerators, caught};
use crate::operator::{OperatorContext, RestoredOperator};
use crate::read_share::{RestoredSplits, ShareReader};
use crate::restore::{Accepts, ClaimedJob, Restored};
use crate::takeover::Adoption;

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
    /// Asked before anything outside the job is touched.
    pub fence: &'a Fence,
    /// What goes on, and is not started; `None`: everything is.
    pub adoption: Option<&'a Adoption>,
    /// Asked of a checkpoint that the attempt falls back to.
    pub accepts: &'a Accepts<'a>,
    /// Told what the attempt goes on from when a checkpoint is damaged: it may be something else than it was when it was claimed.
    pub note: &'a (dyn Fn(&ClaimedJob) + Sync),
    /// Time since a fixed instant, on a clock that never goes backwards.
    pub now: Duration,
}

/// A job whose subtasks can be built and opened.
pub struct Prepared {
    /// The tasks that have finished, by index: nothing of them is started, and nothing else in here is about them.
    pub finished: BTreeSet<u32>,
    /// The split enumerators.
    pub enumerators: Enumerators,
    /// What the subtasks are opened with.
    pub contexts: Contexts,
}

/// Prepares the attempt that has claimed the job. An error means that nothing runs yet of what it starts.
///
/// All state is read before anything outside the job is touched. When it turns out to be damaged, and the job may fall back,
/// `claimed` goes on from an older checkpoint.
pub async fn prepare(preparation: &Preparation<'_>, claimed: &mut ClaimedJob) -> Result<Prepared, JobError> {
    let Preparation { job, storage, fence, adoption, accepts, note, .. } = *preparation;
    adoption.map_or(Ok(()), |adoption| adoption.check_newest(claimed))?;
    let nobody = BTreeSet::new();
    let survivors = adoption.map_or(&nobody, |adoption| &adoption.survivors);
    let StateRead { finished, left_out, contexts, splits } = loop {
        match read_state(preparation, claimed, survivors).await {
            Ok(read) => break read,
            Err(error) => fall_back(storage, job, claimed, error, accepts).await?,
        }
    };
    // Whoever has cancelled the start while the storage or user code was waited for is heard before anything more is said or done,
    // here and below.
    yield_now().await;
    say_dropped(storage, job, fence, claimed).await?;
    if !claimed.damaged.is_empty() {
        note(claimed);
    }
    start_sinks(preparation, &left_out, &claimed.start, claimed.restored.as_ref()).await?;
    let enumerators = create_enumerators(preparation, &left_out, splits).await?;
    fence.check().await?;
    Ok(Prepared { finished, enumerators, contexts })
}

/// Everything that the job gets back.
struct StateRead {
    /// The tasks that are not run again.
    finished: BTreeSet<u32>,
    /// These, and those that go on: nothing was read for them.
    left_out: BTreeSet<u32>,
    contexts: Contexts,
    splits: BTreeMap<OperatorUid, RestoredSplits>,
}

/// Reads and checks everything that the job gets back.
async fn read_state(
    preparation: &Preparation<'_>,
    claimed: &ClaimedJob,
    survivors: &BTreeSet<u32>,
) -> Result<StateRead, JobError> {
    let restored = claimed.restored.as_ref();
    let finished: BTreeSet<u32> = match restored {
        Some(restored) => finished_in(preparation.graph, restored)?,
        None => BTreeSet::new(),
    };
    let left_out = &finished | survivors;
    let splits = read_splits(preparation, &left_out, restored).await?;
    let contexts = read_contexts(preparation, &left_out, claimed).await?;
    Ok(StateRead { finished: &finished - survivors, left_out, contexts, splits })
}

/// The tasks that have finished in a checkpoint, by index; an error if the job cannot go on with that.
pub(crate) fn finished_in(graph: &JobGraph, (checkpoint, assignment): &Restored) -> Result<BTreeSet<u32>, JobError> {
    finished_tasks(graph, assignment)
        .map_err(|source| JobError::Restore { checkpoint: *checkpoint, source: source.into() })
}

async fn start_sinks(
    preparation: &Preparation<'_>,
    left_out: &BTreeSet<u32>,
    start: &AttemptStart,
    restored: Option<&(CheckpointId, Assignment)>,
) -> Result<(), JobError> {
    for operator in running(preparation.graph, left_out).flat_map(|(_, task)| &task.operators) {
        let Some(sink) = &operator.sink else { continue };
        // A sink that is new in the job starts from nothing.
        let has_state =
            |(_, assignment): &&(CheckpointId, Assignment)| assignment.operators.contains_key(&operator.uid);
        let restored = restored.filter(has_state).map(|(checkpoint, _)| *checkpoint);
        preparation.fence.check().await?;
        yield_now().await;
        let start = SinkStart { job: preparation.job, operator: &operator.uid, attempt: start.attempt, restored };
        caught(|| sink.start(&start))
            .map_err(|source| JobError::Start { operator: operator.uid.to_string(), source })?;
    }
    Ok(())
}

/// What the enumerators get back, by the uid of their source.
async fn read_splits(
    preparation: &Preparation<'_>,
    left_out: &BTreeSet<u32>,
    restored: Option<&(CheckpointId, Assignment)>,
) -> Result<BTreeMap<OperatorUid, RestoredSplits>, JobError> {
    let mut splits = BTreeMap::new();
    let Some((checkpoint, assignment)) = restored else { return Ok(splits) };
    for (_, uid, _) in preparation.graph.sources().filter(|(task, ..)| !left_out.contains(&(*task as u32))) {
        if let Some(state) = assignment.operators.get(uid).and_then(|operator| operator.source.as_ref()) {
            let read = ShareReader::new(preparation.storage).read_source(state).await;
            splits.insert(uid.clone(), read.map_err(|error| restore_failed(*checkpoint, error))?);
        }
    }
    Ok(splits)
}

async fn create_enumerators(
    preparation: &Preparation<'_>,
    left_out: &BTreeSet<u32>,
    splits: BTreeMap<OperatorUid, RestoredSplits>,
) -> Result<Enumerators, JobError> {
    let mut enumerators = Enumerators::new();
    for (task, uid, source) in preparation.graph.sources().filter(|(task, ..)| !left_out.contains(&(*task as u32))) {
        yield_now().await;
        let enumerator = caught(|| match splits.get(uid) {
            Some(splits) => source.restore_enumerator(splits),
            None => source.create_enumerator(),
        });
        let enumerator = enumerator.map_err(|source| JobError::Start { operator: uid.to_string(), source })?;
        enumerators.insert(task as u32, (uid.clone(), enumerator));
    }
    Ok(enumerators)
}

/// Reads and checks the state of every subtask.
async fn read_contexts(
    preparation: &Preparation<'_>,
    left_out: &BTreeSet<u32>,
    claimed: &ClaimedJob,
) -> Result<Contexts, JobError> {
    let mut contexts = Contexts::new();
    for (task, node) in running(preparation.graph, left_out) {
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
                    fence: preparation.fence.clone(),
                    now: preparation.now,
                    restored_checkpoint,
                    restored: read_share(&mut reader, claimed, uid, subtask).await?,
                };
                contexts.entry(SubtaskId { task, subtask }).or_default().insert(uid.clone(), context);
            }
        }
    }
    Ok(contexts)
}

/// The tasks that are started, with their indexes.
fn running<'a>(graph: &'a JobGraph, left_out: &'a BTreeSet<u32>) -> impl Iterator<Item = (u32, &'a TaskNode)> {
    (0..).zip(&graph.tasks).filter(|(task, _)| !left_out.contains(task))
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
    let ended = state.ended == HaveEnded::All;
    let read = reader.read_subtask(*checkpoint, &state.subtasks[subtask as usize], ended).await;
    Ok(Some(read.map_err(|error| restore_failed(*checkpoint, error))?))
}
