//! The driver of a job: starts attempts, restarts them, and reports how the job ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::OperatorTarget;
use highwater_state_api::{Attempt, BackendPairing, CheckpointStorage, JobName, MaxParallelism, StateBackend};
use tokio::sync::{oneshot, watch};

use crate::attempt::{AttemptEnd, in_time, run_attempt};
use crate::checkpoint_config::CheckpointConfig;
use crate::checkpoint_coordinator::CheckpointCoordinator;
use crate::clock::{Clock, SystemClock};
use crate::control::Report;
use crate::graph::JobGraph;
use crate::high_availability::HighAvailability;
use crate::io_pool::{IO_THREADS_MAX, StorageThreads};
use crate::job::{JobHandle, JobOutcome, JobResult, Owner, StatusBoard};
use crate::job_end::{DroppedCheckpoints, JobEnd, drop_checkpoints, say_cancelled};
use crate::patience::StartPatience;
use crate::plan::JobConfig;
use crate::recovery::{Failure, Recovery};
use crate::restart_choice::{self, RestartSettings};
use crate::restore::RestoreOptions;
use crate::retrying_storage::RetryingStorage;
use crate::start::Claims;
use crate::{
    FailoverStrategy, JobError, backend_choice, checkpoint_config, failover_strategy, failpoint, high_availability,
    options, threads, transaction_timeout,
};

/// How long the end of a job waits for what its attempts were deleting.
const CLEAN_UP_DEADLINE: Duration = Duration::from_secs(10);
/// How long the end of a job waits for its checkpoints to be deleted.
const DROP_DEADLINE: Duration = Duration::from_secs(30);

/// What reaches the coordinator of an attempt.
pub(crate) enum Input {
    /// A subtask, or the asynchronous half of its snapshot, says something.
    Report(Report),
    /// An action of that attempt was carried out.
    Event(Attempt, highwater_checkpoint::Event),
}

/// A job that was checked and can be run.
pub(crate) struct Job {
    pub(crate) name: JobName,
    pub(crate) graph: JobGraph,
    pub(crate) config: JobConfig,
    pub(crate) checkpoints: CheckpointConfig,
    pub(crate) restart: RestartSettings,
    pub(crate) failover: FailoverStrategy,
    pub(crate) high_availability: HighAvailability,
    pub(crate) state_backend: Arc<dyn StateBackend>,
    pub(crate) storage: Arc<dyn CheckpointStorage>,
    pub(crate) storage_threads: StorageThreads,
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

    /// The storage for the start or the end of the job.
    pub(crate) fn patient_storage(&self, patience: StartPatience) -> RetryingStorage {
        RetryingStorage::new(self.storage.clone(), Arc::new(patience))
    }

    pub(crate) fn restore_options(&self) -> RestoreOptions {
        RestoreOptions {
            retain: self.checkpoints.retain,
            falls_back: self.checkpoints.fall_back,
            ignores_unclaimed: self.checkpoints.ignores_unclaimed,
        }
    }
}

/// Starts a job on threads of its own.
pub(crate) fn start(graph: JobGraph, config: JobConfig) -> Result<JobHandle, JobError> {
    if cfg!(panic = "abort") {
        let reason = "it was built with `panic = \"abort\"`: a panic in one task would end the process; use `unwind`";
        return Err(JobError::Invalid(reason.to_owned()));
    }
    failpoint::set_up()?;
    options::log_keys_without_effect(&config);
    options::later::check(&config.layered_configuration())?;
    let BackendPairing { state_backend, checkpoint_storage } = backend_choice::choose(&config)?;
    let checkpoints = checkpoint_config::choose(&config)?;
    let restart = restart_choice::choose(&config, checkpoints.interval.is_some())?;
    let failover = failover_strategy::choose(&config)?;
    let high_availability = high_availability::choose(&config)?;
    transaction_timeout::check(&graph, &checkpoints, restart.strategy, failover, high_availability)?;
    let board = Arc::new(StatusBoard::new(checkpoints.history));
    let job = Arc::new(Job {
        name: JobName::new(&config.name).map_err(|error| JobError::Invalid(error.to_string()))?,
        checkpoints,
        state_backend,
        storage: checkpoint_storage,
        storage_threads: StorageThreads::new(graph.subtasks()),
        graph,
        config,
        restart,
        failover,
        high_availability,
        clock: Arc::new(SystemClock::new()),
        board: board.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(IO_THREADS_MAX)
        .thread_name(format!("{}-io", job.name))
        .build()
        .map_err(|error| JobError::Threads(error.to_string()))?;
    let (send_result, result) = oneshot::channel();
    let (cancelled, receive_cancelled) = watch::channel(false);
    let (coordinator, asks) = CheckpointCoordinator::new(job.checkpoints.interval.is_some(), job.config.is_batch());
    let mut owner = Owner::new(receive_cancelled, asks);
    // The runtime lives on a thread of its own, so that a job can be started from asynchronous code too.
    threads::spawn(format!("{}-coordinator", job.name), move || {
        // Whatever panics here, the owner of the job hears of it and no subtask is left running.
        let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(&job, &mut owner))));
        job.config.hooks.close(&job.name);
        let result = result.unwrap_or_else(|panic| {
            Err(JobError::Threads(format!("the coordinator panicked: {}", threads::message_of(panic))))
        });
        // The owner of the job may have dropped its handle.
        let _ = send_result.send(result);
    })
    .map_err(|error| JobError::Threads(error.to_string()))?;
    Ok(JobHandle { result, cancelled, coordinator, board })
}

/// Runs a job to its end, and does with its checkpoints what is to be done then.
async fn run(job: &Arc<Job>, owner: &mut Owner) -> Result<JobResult, JobError> {
    let claims = Arc::new(Claims::new(job.high_availability.lease));
    let outcome = run_attempts(job, owner, &claims).await;
    job.board.end_job(job.clock.now());
    let mut result = outcome.map(|outcome| JobResult { outcome, status: job.board.status() });
    let end = JobEnd::of(&result);
    if end == JobEnd::Cancelled {
        let undecided = result.as_ref().err().and_then(JobError::undecided);
        say_cancelled(&job.name, &job.board.status(), job.checkpoints.externalized_retention, undecided);
    }
    // A finished job has deleted them already: there is nothing that they could be restored for.
    if end != JobEnd::Finished && !job.checkpoints.externalized_retention.keeps(end) {
        let are_dropped = drop_checkpoints_of(job, claims.nonce(), end).await;
        if are_dropped && matches!(result, Err(JobError::CancelledUndecided { .. })) {
            // The record of that had the number, or came after the one that was on its way: nothing is left to decide.
            result = Err(JobError::Cancelled);
        }
    }
    claims.give_up_lease();
    // What is being deleted nobody needs, and what is left the next start finds.
    let _ = in_time(tokio::time::timeout(CLEAN_UP_DEADLINE, job.storage_threads.clean_up_idle()), owner).await;
    result
}

/// Deletes the checkpoints of a job that was cancelled or has failed. What cannot be done is said and changes nothing about
/// how the job has ended. Returns whether the next start finds in the job log that there are none.
async fn drop_checkpoints_of(job: &Arc<Job>, nonce: u64, end: JobEnd) -> bool {
    // Without an attempt the job has not run in this process, and what there is is not its to delete.
    if job.board.lock().status.attempt.is_none() {
        return false;
    }
    let (shared, runtime) = (job.clone(), tokio::runtime::Handle::current());
    let pool = runtime.clone();
    // A storage that hangs must not keep the owner of the job from hearing how it has ended.
    let (patience, end_of_patience) = StartPatience::of_end();
    let mut work = pool.spawn_blocking(move || {
        runtime.block_on(drop_checkpoints(&shared.patient_storage(patience), &shared.name, nonce))
    });
    let (job, policy) = (&job.name, job.checkpoints.externalized_retention);
    match tokio::time::timeout(DROP_DEADLINE, &mut work).await {
        Ok(Ok(Ok(DroppedCheckpoints::All | DroppedCheckpoints::SomeAreLeft))) => {
            tracing::info!(target: "highwater::job", %job, ?end, %policy, "the checkpoints were dropped");
            return true;
        }
        Ok(Ok(Ok(DroppedCheckpoints::NotOurs))) => {
            tracing::warn!(target: "highwater::job", %job, "the job is not this process's any more: its checkpoints stay");
        }
        Ok(Ok(Err(error))) => {
            tracing::error!(target: "highwater::job", %job, ?error, "the checkpoints could not be dropped");
        }
        Ok(Err(error)) => {
            tracing::error!(target: "highwater::job", %job, %error, "the checkpoints could not be dropped")
        }
        Err(_) => {
            end_of_patience.end(work).await;
            tracing::error!(target: "highwater::job", %job, "the storage does not answer: the checkpoints may be there still");
        }
    }
    false
}

/// Runs attempts until one finishes the job or there is to be no other.
async fn run_attempts(job: &Arc<Job>, owner: &mut Owner, claims: &Arc<Claims>) -> Result<JobOutcome, JobError> {
    let mut recovery = Recovery::new(job.restart);
    let mut end = run_attempt(job, owner, claims).await;
    loop {
        let (failure, survivors) = match end {
            Ok(AttemptEnd::Finished) => return Ok(JobOutcome::Finished),
            Ok(AttemptEnd::AlreadyFinished) => return Ok(JobOutcome::AlreadyFinished),
            Ok(AttemptEnd::Cancelled) => return Err(claims.cancelled()),
            Ok(AttemptEnd::TaskFailed(task, source)) => (Failure::Task { task, source }, None),
            Ok(AttemptEnd::RegionFailed(task, source, survivors)) => (Failure::Task { task, source }, Some(survivors)),
            Ok(AttemptEnd::CoordinatorFailed(failure)) => (Failure::Coordinator(failure), None),
            // A start that is cancelled may end as one whose storage is not asked again.
            Err(JobError::Storage(_)) if owner.is_cancelled() => return Err(claims.cancelled()),
            Err(error) => (Failure::Start(error), None),
        };
        let decided = recovery.on_failure(&job.name, job.clock.now(), &job.board, failure);
        end = match (decided, survivors) {
            (Ok(delay), Some(survivors)) => survivors.restart_region(owner, delay).await,
            (Ok(delay), None) => {
                job.board.lock().restarting();
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = owner.cancel() => return Err(claims.cancelled()),
                }
                run_attempt(job, owner, claims).await
            }
            (Err(error), Some(survivors)) => return Err(survivors.give_up(error, owner).await),
            (Err(error), None) => return Err(error),
        };
    }
}
