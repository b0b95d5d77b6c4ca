//! The driver of a job: starts attempts, restarts them, and reports how the job ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{OperatorTarget, RestartDecision, RestartStrategy, Restarter};
use highwater_state_api::{BackendPairing, CheckpointStorage, JobName, MaxParallelism, StateBackend};
use tokio::sync::{oneshot, watch};

use crate::attempt::{AttemptEnd, run_attempt};
use crate::checkpoint_coordinator::CheckpointCoordinator;
use crate::clock::{Clock, SystemClock};
use crate::control::Report;
use crate::graph::JobGraph;
use crate::job::{JobHandle, JobOutcome, JobResult, Owner, StatusBoard};
use crate::plan::JobConfig;
use crate::{JobError, backend_choice, failpoint, threads};

/// How many restarts there are when checkpointing is enabled and no strategy was set.
const DEFAULT_RESTARTS: u32 = 10;
/// How long to wait before each of them.
const DEFAULT_RESTART_DELAY_MS: u64 = 1_000;
/// Threads that wait for storage at most.
const IO_THREADS_MAX: usize = 8;

/// What reaches the coordinator of an attempt.
pub(crate) enum Input {
    /// A subtask, or the asynchronous half of its snapshot, says something.
    Report(Report),
    /// An action was carried out.
    Event(highwater_checkpoint::Event),
}

/// A job that was checked and can be run.
pub(crate) struct Job {
    pub(crate) name: JobName,
    pub(crate) graph: JobGraph,
    pub(crate) config: JobConfig,
    pub(crate) state_backend: Arc<dyn StateBackend>,
    pub(crate) storage: Arc<dyn CheckpointStorage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) board: Arc<StatusBoard>,
}

impl Job {
    /// What the operators of the job want of a checkpoint.
    pub(crate) fn targets(&self) -> Result<Vec<OperatorTarget>, JobError> {
        let invalid = |error: highwater_state_api::ParallelismError| JobError::Invalid(error.to_string());
        let max_parallelism = self.config.max_parallelism.map(MaxParallelism::new).transpose().map_err(invalid)?;
        Ok(self.graph.targets(max_parallelism))
    }
}

/// Starts a job on threads of its own.
pub(crate) fn start(graph: JobGraph, config: JobConfig) -> Result<JobHandle, JobError> {
    if cfg!(panic = "abort") {
        let reason = "it was built with `panic = \"abort\"`: a panic in one task would end the process; use `unwind`";
        return Err(JobError::Invalid(reason.to_owned()));
    }
    failpoint::set_up()?;
    let BackendPairing { state_backend, checkpoint_storage } = backend_choice::choose(&config)?;
    let board = Arc::new(StatusBoard::default());
    let job = Job {
        name: JobName::new(&config.name).map_err(|error| JobError::Invalid(error.to_string()))?,
        state_backend,
        storage: checkpoint_storage,
        graph,
        config,
        clock: Arc::new(SystemClock::new()),
        board: board.clone(),
    };
    let io_threads = (job.graph.subtasks() + 1).min(IO_THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(io_threads)
        .thread_name(format!("{}-io", job.name))
        .build()
        .map_err(|error| JobError::Threads(error.to_string()))?;
    let (send_result, result) = oneshot::channel();
    let (cancelled, receive_cancelled) = watch::channel(false);
    let (coordinator, asks) = CheckpointCoordinator::new(job.config.checkpoint_interval.is_some());
    let mut owner = Owner { cancelled: receive_cancelled, asks };
    // The runtime lives on a thread of its own, so that a job can be started from asynchronous code too.
    threads::spawn(format!("{}-coordinator", job.name), move || {
        // Whatever panics here, the owner of the job hears of it and no subtask is left running.
        let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(&job, &mut owner))));
        let result = result.unwrap_or_else(|panic| {
            Err(JobError::Threads(format!("the coordinator panicked: {}", threads::message_of(&*panic))))
        });
        // The owner of the job may have dropped its handle.
        let _ = send_result.send(result);
    })
    .map_err(|error| JobError::Threads(error.to_string()))?;
    Ok(JobHandle { result, cancelled, coordinator, board })
}

/// Runs attempts until one finishes the job or there is to be no other.
async fn run(job: &Job, owner: &mut Owner) -> Result<JobResult, JobError> {
    let strategy = job.config.restart.unwrap_or(match job.config.checkpoint_interval {
        Some(_) => RestartStrategy::FixedDelay { attempts: DEFAULT_RESTARTS, delay_ms: DEFAULT_RESTART_DELAY_MS },
        None => RestartStrategy::None,
    });
    let mut restarter = Restarter::new(strategy);
    let finished = |outcome| Ok(JobResult { outcome, status: job.board.status() });
    loop {
        let (error, may_restart) = match run_attempt(job, owner).await {
            Ok(AttemptEnd::Finished) => return finished(JobOutcome::Finished),
            Ok(AttemptEnd::AlreadyFinished) => return finished(JobOutcome::AlreadyFinished),
            Ok(AttemptEnd::Cancelled) => return Err(JobError::Cancelled),
            Ok(AttemptEnd::TaskFailed(task, source)) => {
                let may_restart = !source.is_permanent();
                (JobError::Task { task, restarts: restarter.failures(), source }, may_restart)
            }
            Ok(AttemptEnd::CoordinatorFailed(failure)) => {
                let is_fenced = matches!(failure, highwater_checkpoint::AttemptFailure::Fenced { .. });
                (JobError::Coordinator(failure), !is_fenced)
            }
            Err(JobError::Storage(error)) => (JobError::Storage(error), true),
            // What worked once in this process may work again; what never has is a mistake.
            Err(error @ JobError::Start { .. }) => (error, restarter.failures() > 0),
            Err(error) => (error, false),
        };
        if !may_restart {
            return Err(error);
        }
        let now = job.clock.now();
        let RestartDecision::Restart { at_ms } = restarter.on_failure(now) else { return Err(error) };
        let delay = Duration::from_millis(at_ms.saturating_sub(now.monotonic_ms));
        tracing::warn!(
            target: "highwater::job",
            job = %job.name,
            error = crate::error::chain_of(&error),
            delay_ms = delay.as_millis() as u64,
            "the attempt failed and will be followed by another"
        );
        job.board.lock().restarting();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = owner.cancel() => return Err(JobError::Cancelled),
        }
    }
}
