//! One attempt: claims the job, starts its subtasks, drives the coordinator, and takes everything down again.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_checkpoint::AttemptFailure;
use highwater_state_api::{OperatorUid, SubtaskId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::build::{AttemptEnvironment, BuiltSubtask, build_subtasks};
use crate::control::{Control, Report, Reports};
use crate::control_lanes::ControlLanes;
use crate::driver::{Input, Job};
use crate::io_pool::{IoPool, PoolExecutor};
use crate::job::{Owner, RunningSubtask};
use crate::operator::OperatorContext;
use crate::patience::StartPatience;
use crate::prepare::{Contexts, Prepared};
use crate::restore::{Claimant, ClaimedJob, Over, begin_attempt};
use crate::shell::{Shell, StorageWork};
use crate::start::{self, Claims, Started, StartedAttempt, Starter};
use crate::subtask::{Step, Subtask};
use crate::threads::{self, Parker};
use crate::{JobError, TaskError, failpoint};

/// Records that a subtask works on before it looks up.
const STEP_RECORDS_MAX: usize = 1024;
/// Bound of each channel in estimated bytes.
const CHANNEL_BYTES_MAX: usize = 512 * 1024;
/// Reports and answers that may wait for the coordinator. Whoever has more waits.
const INPUTS_MAX: usize = 1024;
/// How long subtasks have to stop. User code that blocks cannot be stopped: then the job ends without its threads.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// How an attempt ended.
pub(crate) enum AttemptEnd {
    Finished,
    AlreadyFinished,
    Cancelled,
    /// The task's name and what went wrong.
    TaskFailed(String, TaskError),
    CoordinatorFailed(AttemptFailure),
}

/// Runs one attempt to its end. An error means that no task was started.
pub(crate) async fn run_attempt(
    job: &Arc<Job>,
    owner: &mut Owner,
    claims: &Arc<Claims>,
) -> Result<AttemptEnd, JobError> {
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    let starter = Starter { job: job.clone(), claims: claims.clone(), inputs: sender.clone() };
    let started = match start::start(starter, owner).await {
        Ok(Started::Finished) => return Ok(AttemptEnd::AlreadyFinished),
        Ok(Started::Cancelled) => return Ok(AttemptEnd::Cancelled),
        Ok(Started::Prepared(started)) => *started,
        Err(JobError::Coordinator(failure)) => return Ok(AttemptEnd::CoordinatorFailed(failure)),
        Err(error) => return Err(error),
    };
    let fence = started.fence.clone();
    match run_started(job, owner, claims, started, sender, inputs).await {
        result @ Ok(AttemptEnd::Finished | AttemptEnd::AlreadyFinished | AttemptEnd::Cancelled) => result,
        // Whatever went wrong, if another process has the job, then that was the cause, or does not matter any more.
        failed => match fence.foreign_claim().await {
            Some(sequence) => Ok(AttemptEnd::CoordinatorFailed(AttemptFailure::Fenced { sequence })),
            None => failed,
        },
    }
}

/// Runs an attempt that has claimed the job and is prepared.
async fn run_started(
    job: &Arc<Job>,
    owner: &mut Owner,
    claims: &Claims,
    started: StartedAttempt,
    sender: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
) -> Result<AttemptEnd, JobError> {
    let StartedAttempt { claimed, prepared, fence, keeper } = started;
    let Prepared { finished, enumerators, contexts } = prepared;
    failpoint::hit(failpoint::DURING_RECOVERY);

    let pool = IoPool::new(Handle::current(), sender.clone());
    let running = start_subtasks(job, &claimed, &finished, contexts, &pool, &sender)?;
    drop(sender);
    let lanes = running.lanes.clone();
    let tasks = job.graph.task_plans(&claimed.max_parallelism, &finished);
    let storage_work = StorageWork { pool: pool.clone(), fence };
    let mut shell = Shell::new(job, claimed.start, tasks, lanes, enumerators, storage_work, inputs);
    let end = shell.run(owner).await;
    // What was not written yet is needed by nobody any more.
    pool.over.end();
    let stuck = running.stop(job, &mut shell).await;
    if let Some(stuck) = stuck {
        match &end {
            // What made the attempt fail is what its owner has to know, and the next attempt fences whatever is stuck.
            AttemptEnd::TaskFailed(..) | AttemptEnd::CoordinatorFailed(_) => {
                tracing::error!(target: "highwater::job", job = %job.name, %stuck, "left behind");
            }
            _ => return Err(JobError::Threads(stuck)),
        }
    }
    // Nobody waits for answers any more, so that whatever still has one to give can be done.
    drop(shell);
    // What is still being written or deleted belongs to this attempt and is to be over when the next one begins. If the
    // storage hangs, the claim of the next one makes it harmless.
    if tokio::time::timeout(STOP_DEADLINE, pool.idle()).await.is_err() {
        tracing::warn!(target: "highwater::job", job = %job.name, "the storage has not answered before the attempt ended");
    } else if matches!(end, AttemptEnd::Finished) {
        // Another start would delete the checkpoints, which nobody needs any more, and what answers that were on their way
        // when the job finished have left of others; and there will be none.
        let tidied = begin_attempt(
            &job.patient_storage(StartPatience::default()),
            &job.name,
            &[],
            job.restore_options(),
            Claimant { nonce: claims.nonce(), over: Over::Own },
        )
        .await;
        if let Err(error) = tidied {
            tracing::warn!(target: "highwater::job", job = %job.name, ?error, "the storage could not be tidied up");
        }
    }
    // Until here: what the attempt still had under way was its own as long as its lease was renewed.
    drop(keeper);
    Ok(end)
}

/// The subtasks of an attempt, each on its thread.
struct RunningSubtasks {
    lanes: ControlLanes,
    threads: Vec<(SubtaskId, JoinHandle<()>)>,
}

fn start_subtasks(
    job: &Job,
    claimed: &ClaimedJob,
    finished: &BTreeSet<u32>,
    mut contexts: Contexts,
    pool: &IoPool,
    inputs: &mpsc::Sender<Input>,
) -> Result<RunningSubtasks, JobError> {
    let parkers: BTreeMap<SubtaskId, Arc<Parker>> = contexts.keys().map(|id| (*id, Arc::default())).collect();
    let environment = AttemptEnvironment {
        job: job.name.clone(),
        attempt: claimed.start.attempt,
        restored: claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint),
        mode: job.checkpoints.mode,
        checkpoints_after_tasks_finish: job.checkpoints.after_tasks_finish,
        finished,
        max_parallelism: &claimed.max_parallelism,
        channel_bytes_max: CHANNEL_BYTES_MAX,
        executor: Arc::new(PoolExecutor {
            pool: pool.clone(),
            storage: job.storage.clone(),
            clock: job.clock.clone(),
            timeout: job.checkpoints.timeout,
        }),
        waker: &|id| parkers[&id].waker(),
        reports: &|_| Box::new(ReportSender(inputs.clone())),
    };
    let built = build_subtasks(&job.graph, &environment)?;
    let mut running = RunningSubtasks { lanes: ControlLanes::new(claimed.start.attempt), threads: Vec::new() };
    let mut board = Vec::with_capacity(built.len());
    for BuiltSubtask { subtask, control, metrics } in built {
        let id = subtask.id();
        let head = &job.graph.tasks[id.task as usize].operators[0];
        let (operator, is_source) = (head.uid.clone(), head.source.is_some());
        board.push(RunningSubtask { operator, subtask: id.subtask, is_source, metrics, covered: 0 });
        running.lanes.insert(id, control);
        let task = SubtaskThread {
            subtask: subtask
                .with_alignment_timeout(job.checkpoints.timeout)
                .with_paused_source(job.checkpoints.pauses_sources()),
            contexts: contexts.remove(&id).unwrap_or_default(),
            parker: parkers[&id].clone(),
            reports: ReportSender(inputs.clone()),
            clock: job.clock.clone(),
            name: job.graph.task_name(id.task as usize),
        };
        match threads::spawn(format!("{}-{id}", job.name), move || task.run()) {
            Ok(thread) => running.threads.push((id, thread)),
            Err(error) => return Err(JobError::Threads(error.to_string())),
        }
    }
    job.board.lock().running = board;
    Ok(running)
}

impl RunningSubtasks {
    fn cancel(&self) {
        self.lanes.tell_all(&Control::Cancel);
    }

    /// Tells every subtask to stop and waits for the threads. Says which have not stopped, if any.
    async fn stop(mut self, job: &Job, shell: &mut Shell<'_>) -> Option<String> {
        self.cancel();
        let expected = self.threads.len();
        if tokio::time::timeout(STOP_DEADLINE, shell.all_stopped(expected)).await.is_err() {
            let stuck = self.threads.iter().filter(|(_, thread)| !thread.is_finished());
            let names: Vec<String> =
                stuck.map(|(id, _)| format!("{} ({})", job.graph.task_name(id.task as usize), id.subtask)).collect();
            return Some(format!(
                "these tasks did not stop within {} s, their code blocks: {}",
                STOP_DEADLINE.as_secs(),
                names.join(", ")
            ));
        }
        for (_, thread) in self.threads.drain(..) {
            // The thread has said that it is done; a panic in it was reported as the failure of its task.
            let _ = thread.join();
        }
        None
    }
}

impl Drop for RunningSubtasks {
    /// Whatever ends the attempt, no subtask runs on without it.
    fn drop(&mut self) {
        self.cancel();
    }
}

struct ReportSender(mpsc::Sender<Input>);

impl Reports for ReportSender {
    fn report(&self, report: Report) {
        // The coordinator is gone when its attempt is over; then nobody waits for the report.
        let _ = self.0.blocking_send(Input::Report(report));
    }
}

/// What the thread of a subtask owns.
struct SubtaskThread {
    subtask: Subtask,
    contexts: BTreeMap<OperatorUid, OperatorContext>,
    parker: Arc<Parker>,
    reports: ReportSender,
    clock: Arc<dyn crate::clock::Clock>,
    name: String,
}

impl SubtaskThread {
    fn run(mut self) {
        let id = self.subtask.id();
        // After a panic, nothing of the subtask is looked at again but who was at work.
        let result = catch_unwind(AssertUnwindSafe(|| self.steps()));
        let error = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => {
                let (during, message) = (self.subtask.operator_call().map(Box::new), threads::message_of(&*panic));
                TaskError::Panic { task: self.name, during, message }
            }
        };
        self.reports.report(Report::Failed(id, error));
    }

    fn steps(&mut self) -> Result<(), TaskError> {
        let contexts = &mut self.contexts;
        let context = |uid: &OperatorUid| contexts.remove(uid).expect("every operator of the graph has a context");
        self.subtask.open(context)?;
        loop {
            match self.subtask.step(self.clock.monotonic(), STEP_RECORDS_MAX)? {
                Step::Progress => {}
                Step::Waits(until) => {
                    let timeout = until.map(|until| until.saturating_sub(self.clock.monotonic()));
                    self.parker.park(timeout);
                }
                Step::Stopped => return Ok(()),
            }
        }
    }
}
