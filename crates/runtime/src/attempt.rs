//! One attempt: claims the job, starts its subtasks, drives the coordinator, and takes everything down again.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_checkpoint::AttemptFailure;
use highwater_state_api::{Attempt, OperatorUid, SubtaskId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::adoption::Survivors;
use crate::build::{AttemptEnvironment, BuiltSubtask, build_subtasks};
use crate::control::{Control, Report, Reports};
use crate::control_lanes::ControlLanes;
use crate::driver::{Input, Job};
use crate::fence::Fence;
use crate::io_pool::{IoPool, PoolExecutor};
use crate::job::{Owner, RunningSubtask};
use crate::operator::OperatorContext;
use crate::patience::StartPatience;
use crate::prepare::{Contexts, Prepared};
use crate::regions::Regions;
use crate::restore::{Claimant, ClaimedJob, Over, begin_attempt};
use crate::shell::{Shell, StorageWork};
use crate::start::{self, Claims, Started, StartedAttempt, Starter};
use crate::subtask::{Step, Subtask};
use crate::takeover::{Adoption, TaskLayout};
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
    /// The task's name, what went wrong, and the tasks of other regions, which go on.
    RegionFailed(String, TaskError, Box<Survivors>),
}

/// Starts every task of the job that has not finished and runs the attempt to its end. An error means that no task was started.
pub(crate) async fn run_attempt(
    job: &Arc<Job>,
    owner: &mut Owner,
    claims: &Arc<Claims>,
) -> Result<AttemptEnd, JobError> {
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    let starter = Starter { job: job.clone(), claims: claims.clone(), inputs: sender.clone(), adoption: None };
    let started = match start::start(starter, owner).await {
        Ok(Started::Finished) => return Ok(AttemptEnd::AlreadyFinished),
        Ok(Started::Cancelled) => return Ok(AttemptEnd::Cancelled),
        Ok(Started::Prepared(started)) => *started,
        Err(JobError::Coordinator(failure)) => return Ok(AttemptEnd::CoordinatorFailed(failure)),
        Err(error) => return Err(error),
    };
    let fence = started.fence.clone();
    match RunningAttempt::start(job, claims, started, sender, inputs) {
        Ok(attempt) => attempt.drive(owner).await,
        Err(error) => unless_fenced(fence, Err(error), owner).await,
    }
}

/// Whatever went wrong, if another process has the job, then that was the cause, or does not matter any more.
async fn unless_fenced(
    fence: Fence,
    failed: Result<AttemptEnd, JobError>,
    owner: &mut Owner,
) -> Result<AttemptEnd, JobError> {
    match foreign_claim(fence, owner).await {
        Some(sequence) => Ok(AttemptEnd::CoordinatorFailed(AttemptFailure::Fenced { sequence })),
        None => failed,
    }
}

/// Who is known to have claimed the job. A storage that hangs keeps neither the next attempt nor the owner waiting for long: a
/// start finds it too.
async fn foreign_claim(fence: Fence, owner: &mut Owner) -> Option<u64> {
    let runtime = Handle::current();
    let look = Handle::current().spawn_blocking(move || runtime.block_on(fence.foreign_claim()));
    tokio::select! {
        looked = tokio::time::timeout(STOP_DEADLINE, look) => looked.ok()?.ok()?,
        () = owner.cancel() => None,
    }
}

/// An attempt whose subtasks run.
pub(crate) struct RunningAttempt {
    pub(crate) job: Arc<Job>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) shell: Shell,
    subtasks: RunningSubtasks,
    pool: IoPool,
    fence: Fence,
    layout: TaskLayout,
}

impl RunningAttempt {
    /// Runs an attempt that has claimed the job and is prepared.
    fn start(
        job: &Arc<Job>,
        claims: &Arc<Claims>,
        started: StartedAttempt,
        sender: mpsc::Sender<Input>,
        inputs: mpsc::Receiver<Input>,
    ) -> Result<Self, JobError> {
        let StartedAttempt { claimed, prepared, fence } = started;
        let Prepared { finished, enumerators, contexts } = prepared;
        failpoint::hit(failpoint::DURING_RECOVERY);
        let pool = IoPool::new(Handle::current(), sender);
        let (subtasks, board) = start_subtasks(job, &claimed, &finished, contexts, &pool)?;
        job.board.lock().running = board;
        let tasks = job.graph.task_plans(&claimed.max_parallelism, &finished);
        let storage_work = StorageWork { pool: pool.clone(), fence: fence.clone() };
        let ClaimedJob { start, max_parallelism, .. } = *claimed;
        let shell = Shell::new(job, start, tasks, subtasks.lanes.clone(), enumerators, storage_work, inputs);
        let (job, claims) = (job.clone(), claims.clone());
        let layout = TaskLayout { finished, max_parallelism };
        Ok(Self { job, claims, shell, subtasks, pool, fence, layout })
    }

    /// Runs the attempt to its end. When only a region has failed, the other tasks go on.
    pub(crate) async fn drive(mut self, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
        match self.shell.run(owner).await {
            AttemptEnd::TaskFailed(task, error) => match self.shell.failed_region().cloned() {
                Some(region) => Survivors::leave(self, region, task, error, owner).await,
                None => self.end(AttemptEnd::TaskFailed(task, error), owner).await,
            },
            end => self.end(end, owner).await,
        }
    }

    /// Stops the subtasks of these tasks and waits for their threads. Says which have not stopped, if any; an error is the end of
    /// the attempt for the others, too.
    pub(crate) async fn stop_tasks(
        &mut self,
        tasks: &BTreeSet<u32>,
        owner: &mut Owner,
    ) -> Result<Option<String>, AttemptEnd> {
        let Self { job, shell, subtasks, .. } = self;
        let subtasks_of_tasks = subtasks.cancel_tasks(tasks);
        let stopped = shell.serve_until(owner, |shell| shell.have_gone(&subtasks_of_tasks));
        match tokio::time::timeout(STOP_DEADLINE, stopped).await {
            Ok(result) => result.map(|()| {
                subtasks.join(tasks);
                None
            }),
            Err(_) => Ok(Some(subtasks.stuck(job, tasks))),
        }
    }

    /// What an attempt that restarts a region has to take over.
    pub(crate) fn adoption(&self, region: &BTreeSet<u32>) -> Adoption {
        Adoption {
            survivors: Regions::of(&self.job.graph).tasks_without(region),
            fence: self.fence.clone(),
            triggered: self.shell.highest_triggered(),
            newest: self.shell.newest_checkpoint(),
        }
    }

    /// Where the subtasks report.
    pub(crate) fn inputs(&self) -> mpsc::Sender<Input> {
        self.pool.inputs()
    }

    /// Becomes the attempt that has claimed the job and is prepared to restart a region, of which nothing runs any more.
    /// An error changes nothing.
    pub(crate) fn adopt(&mut self, started: StartedAttempt, region: &BTreeSet<u32>) -> Result<(), JobError> {
        let StartedAttempt { claimed, prepared, .. } = started;
        let Prepared { finished, enumerators, contexts } = prepared;
        failpoint::hit(failpoint::DURING_RECOVERY);
        let left_out = &finished | &Regions::of(&self.job.graph).tasks_without(region);
        let (restarted, board) = start_subtasks(&self.job, &claimed, &left_out, contexts, &self.pool)?;
        let ClaimedJob { start, max_parallelism, .. } = *claimed;
        self.layout.restart(&self.job.graph, region, &TaskLayout { finished, max_parallelism });
        self.subtasks.take_in(start.attempt, region, restarted);
        {
            let mut status = self.job.board.lock();
            status.restarting_region(region);
            status.running.extend(board);
            status.running.sort_by_key(|running| (running.task, running.subtask));
        }
        let tasks = self.job.graph.task_plans(&self.layout.max_parallelism, &self.layout.finished);
        self.shell.adopt(start, tasks, self.subtasks.lanes.clone(), region, enumerators);
        Ok(())
    }

    /// Takes down what has gone on after a region has failed.
    pub(crate) async fn end_survivors(mut self, end: AttemptEnd, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
        self.shell.shut_down();
        self.end(end, owner).await
    }

    /// The same, for another attempt or for none. An error is the end of the job for this process.
    pub(crate) async fn stop(mut self, owner: &mut Owner) -> Result<(), AttemptEnd> {
        self.shell.shut_down();
        let fence = self.fence.clone();
        // What could not be stopped has been said.
        let _ = self.take_down(true, false).await;
        let foreign = foreign_claim(fence.clone(), owner).await;
        fence.expect_nobody();
        foreign.map_or(Ok(()), |sequence| Err(AttemptEnd::CoordinatorFailed(AttemptFailure::Fenced { sequence })))
    }

    /// Takes everything down that still runs.
    pub(crate) async fn end(self, end: AttemptEnd, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
        let fence = self.fence.clone();
        let is_failure = matches!(end, AttemptEnd::TaskFailed(..) | AttemptEnd::CoordinatorFailed(_));
        let is_finished = matches!(end, AttemptEnd::Finished);
        let ended = self.take_down(is_failure, is_finished).await.map(|()| end);
        let ended = if is_failure || ended.is_err() { unless_fenced(fence.clone(), ended, owner).await } else { ended };
        // Whatever could not be stopped is of no attempt that is still to come.
        fence.expect_nobody();
        ended
    }

    async fn take_down(mut self, is_failure: bool, is_finished: bool) -> Result<(), JobError> {
        let job = self.job.clone();
        // What was not written yet is needed by nobody any more.
        self.pool.over.end();
        if let Some(stuck) = self.subtasks.stop(&job, &mut self.shell).await {
            if !is_failure {
                return Err(JobError::Threads(stuck));
            }
            // What made the attempt fail is what its owner has to know, and the next attempt fences whatever is stuck.
            tracing::error!(target: "highwater::job", job = %job.name, %stuck, "left behind");
        }
        // Nobody waits for answers any more, so that whatever still has one to give can be done.
        drop(self.shell);
        // What is still being written or deleted belongs to this attempt and is to be over when the next one begins. If the
        // storage hangs, the claim of the next one makes it harmless.
        if tokio::time::timeout(STOP_DEADLINE, self.pool.idle()).await.is_err() {
            tracing::warn!(target: "highwater::job", job = %job.name, "the storage has not answered before the attempt ended");
        } else if is_finished {
            // Another start would delete the checkpoints, which nobody needs any more, and what answers that were on their way
            // when the job finished have left of others; and there will be none.
            tidy_up(&job, self.claims.nonce()).await;
        }
        Ok(())
    }
}

/// Deletes what a finished job has left. A storage that hangs does not keep the owner from hearing that the job has finished.
async fn tidy_up(job: &Arc<Job>, nonce: u64) {
    let (shared, runtime) = (job.clone(), Handle::current());
    let work = Handle::current().spawn_blocking(move || {
        let storage = shared.patient_storage(StartPatience::default());
        let claimant = Claimant { nonce, over: Over::Own };
        runtime.block_on(begin_attempt(&storage, &shared.name, &[], shared.restore_options(), claimant)).map(|_| ())
    });
    let tidied = match tokio::time::timeout(STOP_DEADLINE, work).await {
        Ok(tidied) => threads::joined(tidied),
        Err(_) => Err(JobError::Threads("the storage has not answered".to_owned())),
    };
    if let Err(error) = tidied {
        tracing::warn!(target: "highwater::job", job = %job.name, ?error, "the storage could not be tidied up");
    }
}

/// The subtasks of an attempt, each on its thread.
struct RunningSubtasks {
    lanes: ControlLanes,
    threads: Vec<(SubtaskId, JoinHandle<()>)>,
}

fn start_subtasks(
    job: &Job,
    claimed: &ClaimedJob,
    left_out: &BTreeSet<u32>,
    mut contexts: Contexts,
    pool: &IoPool,
) -> Result<(RunningSubtasks, Vec<RunningSubtask>), JobError> {
    let inputs = pool.inputs();
    let parkers: BTreeMap<SubtaskId, Arc<Parker>> = contexts.keys().map(|id| (*id, Arc::default())).collect();
    let environment = AttemptEnvironment {
        job: job.name.clone(),
        attempt: claimed.start.attempt,
        restored: claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint),
        mode: job.checkpoints.mode,
        checkpoints_after_tasks_finish: job.checkpoints.after_tasks_finish,
        finished: left_out,
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
        board.push(RunningSubtask { task: id.task, operator, subtask: id.subtask, is_source, metrics, covered: 0 });
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
    Ok((running, board))
}

impl RunningSubtasks {
    fn cancel(&self) {
        self.lanes.tell_all(&Control::Cancel);
    }

    /// Tells the subtasks of these tasks to stop. Which these are.
    fn cancel_tasks(&self, tasks: &BTreeSet<u32>) -> Vec<SubtaskId> {
        let subtasks = self.threads.iter().map(|(subtask, _)| *subtask).filter(|subtask| tasks.contains(&subtask.task));
        let subtasks: Vec<SubtaskId> = subtasks.collect();
        subtasks.iter().for_each(|subtask| self.lanes.tell_if_there(*subtask, Control::Cancel));
        subtasks
    }

    /// Waits for the threads of these tasks, which have said that they are done.
    fn join(&mut self, tasks: &BTreeSet<u32>) {
        for (_, thread) in self.threads.extract_if(.., |(subtask, _)| tasks.contains(&subtask.task)) {
            // A panic in it was reported as the failure of its task.
            let _ = thread.join();
        }
    }

    /// Which of these tasks have not stopped, for people.
    fn stuck(&self, job: &Job, tasks: &BTreeSet<u32>) -> String {
        let threads = self.threads.iter().filter(|(subtask, _)| tasks.contains(&subtask.task));
        let stuck = threads.filter(|(_, thread)| !thread.is_finished());
        let names: Vec<String> =
            stuck.map(|(id, _)| format!("{} ({})", job.graph.task_name(id.task as usize), id.subtask)).collect();
        let seconds = STOP_DEADLINE.as_secs();
        format!("these tasks did not stop within {seconds} s, their code blocks: {}", names.join(", "))
    }

    /// Goes on as the subtasks of the next attempt, with those of these tasks that were started for it.
    fn take_in(&mut self, attempt: Attempt, tasks: &BTreeSet<u32>, mut started: Self) {
        let theirs = std::mem::replace(&mut started.lanes, ControlLanes::new(attempt));
        self.lanes.take_in(tasks, theirs);
        self.threads.append(&mut started.threads);
    }

    /// Tells every subtask to stop and waits for the threads. Says which have not stopped, if any.
    async fn stop(&mut self, job: &Job, shell: &mut Shell) -> Option<String> {
        self.cancel();
        let expected: Vec<SubtaskId> = self.threads.iter().map(|(subtask, _)| *subtask).collect();
        let all = expected.iter().map(|subtask| subtask.task).collect();
        if tokio::time::timeout(STOP_DEADLINE, shell.all_gone(&expected)).await.is_err() {
            return Some(self.stuck(job, &all));
        }
        self.join(&all);
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
                let (during, message) = (self.subtask.operator_call().map(Box::new), threads::message_of(panic));
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
