//! The subtasks of an attempt, each on a thread of its own that steps it: how they are started, told to stop and joined.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_state_api::{Attempt, OperatorUid, SubtaskId};
use tokio::sync::mpsc;

use crate::build::{AttemptEnvironment, BuiltSubtask, build_subtasks};
use crate::clock::Clock;
use crate::control::{Control, Report, Reports};
use crate::control_lanes::ControlLanes;
use crate::driver::{Input, Job};
use crate::io_pool::{IoPool, PoolExecutor};
use crate::job::RunningSubtask;
use crate::operator::OperatorContext;
use crate::prepare::Contexts;
use crate::restore::ClaimedJob;
use crate::shell::Shell;
use crate::subtask::{Step, Subtask};
use crate::threads::{self, Parker};
use crate::{JobError, TaskError};

/// Records that a subtask works on before it looks up.
const STEP_RECORDS_MAX: usize = 1024;
/// Bound of each channel in estimated bytes.
const CHANNEL_BYTES_MAX: usize = 512 * 1024;
/// How long subtasks have to stop. User code that blocks cannot be stopped: then the job ends without its threads.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// The subtasks of an attempt, each on its thread.
pub(crate) struct RunningSubtasks {
    pub(crate) lanes: ControlLanes,
    threads: Vec<(SubtaskId, JoinHandle<()>)>,
}

pub(crate) fn start_subtasks(
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
    /// Tells every subtask to stop.
    pub(crate) fn cancel(&self) {
        self.lanes.tell_all(&Control::Cancel);
    }

    /// Tells the subtasks of these tasks to stop. Which these are.
    pub(crate) fn cancel_tasks(&self, tasks: &BTreeSet<u32>) -> Vec<SubtaskId> {
        let subtasks = self.threads.iter().map(|(subtask, _)| *subtask).filter(|subtask| tasks.contains(&subtask.task));
        let subtasks: Vec<SubtaskId> = subtasks.collect();
        subtasks.iter().for_each(|subtask| self.lanes.tell_if_there(*subtask, Control::Cancel));
        subtasks
    }

    /// Waits for the threads of these tasks, which have said that they are done: what belongs to the user is dropped there.
    pub(crate) async fn ended(&self, tasks: &BTreeSet<u32>) {
        let is_running =
            |(subtask, thread): &(SubtaskId, _)| tasks.contains(&subtask.task) && !JoinHandle::is_finished(thread);
        while self.threads.iter().any(is_running) {
            // Threads wake nobody when they end.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Forgets the threads of these tasks, which have ended.
    pub(crate) fn join(&mut self, tasks: &BTreeSet<u32>) {
        for (_, thread) in self.threads.extract_if(.., |(subtask, _)| tasks.contains(&subtask.task)) {
            // A panic in it was reported as the failure of its task.
            let _ = thread.join();
        }
    }

    /// Which of these tasks have not stopped, for people.
    pub(crate) fn stuck(&self, job: &Job, tasks: &BTreeSet<u32>) -> String {
        let threads = self.threads.iter().filter(|(subtask, _)| tasks.contains(&subtask.task));
        let stuck = threads.filter(|(_, thread)| !thread.is_finished());
        let names: Vec<String> =
            stuck.map(|(id, _)| format!("{} ({})", job.graph.task_name(id.task as usize), id.subtask)).collect();
        let seconds = STOP_DEADLINE.as_secs();
        format!("these tasks did not stop within {seconds} s, their code blocks: {}", names.join(", "))
    }

    /// Goes on as the subtasks of the next attempt, with those of these tasks that were started for it.
    pub(crate) fn take_in(&mut self, attempt: Attempt, tasks: &BTreeSet<u32>, mut started: Self) {
        let theirs = std::mem::replace(&mut started.lanes, ControlLanes::new(attempt));
        self.lanes.take_in(tasks, theirs);
        self.threads.append(&mut started.threads);
    }

    /// Tells every subtask to stop and waits for the threads. Says which have not stopped, if any.
    pub(crate) async fn stop(&mut self, job: &Job, shell: &mut Shell) -> Option<String> {
        self.cancel();
        let expected: Vec<SubtaskId> = self.threads.iter().map(|(subtask, _)| *subtask).collect();
        let all = expected.iter().map(|subtask| subtask.task).collect();
        let stopped = async {
            shell.all_gone(&expected).await;
            shell.hear_until(self.ended(&all)).await;
        };
        if tokio::time::timeout(STOP_DEADLINE, stopped).await.is_err() {
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
    clock: Arc<dyn Clock>,
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
