//! One attempt: claims the job, starts its subtasks, drives the coordinator, and takes everything down again.

use std::collections::BTreeSet;
use std::sync::Arc;

use highwater_checkpoint::{AttemptFailure, Discard};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::adoption::Survivors;
use crate::driver::{Input, Job};
use crate::fence::Fence;
use crate::io_pool::IoPool;
use crate::job::Owner;
use crate::patience::StartPatience;
use crate::prepare::Prepared;
use crate::regions::Regions;
use crate::restore::{Begun, Claimant, ClaimedJob, JobClaim, Over, begin_attempt, remove_left_overs};
use crate::retrying_storage::RetryingStorage;
use crate::running_subtasks::{RunningSubtasks, STOP_DEADLINE, start_subtasks};
use crate::shell::{Shell, StorageWork, coordinator};
use crate::start::{self, Claims, Started, StartedAttempt, Starter};
use crate::takeover::{Adoption, TaskLayout};
use crate::threads;
use crate::{JobError, TaskError, failpoint};

/// Reports and answers that may wait for the coordinator. Whoever has more waits.
const INPUTS_MAX: usize = 1024;

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
        Ok(Started::Finished { by_own, left_overs }) => {
            let end = if by_own { "finished" } else { "the job has finished before" };
            tracing::info!(target: "highwater::job", job = %job.name, "{end}");
            tidy_up(job, claims.nonce(), owner, Some(left_overs)).await;
            return Ok(if by_own { AttemptEnd::Finished } else { AttemptEnd::AlreadyFinished });
        }
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

/// Who is known to have claimed the job from an attempt that is over. A storage that hangs keeps neither the next attempt nor the
/// owner waiting for long: a start finds it too.
async fn foreign_claim(fence: Fence, owner: &mut Owner) -> Option<u64> {
    fence.end_lease();
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
        let pool = IoPool::new(job.name.clone(), Handle::current(), &job.storage_threads, sender);
        let (subtasks, board) = start_subtasks(job, &claimed, &finished, contexts, &pool)?;
        job.board.lock().running = board;
        let tasks = job.graph.task_plans(&claimed.max_parallelism, &finished);
        let storage_work = StorageWork { pool: pool.clone(), fence: fence.clone() };
        let ClaimedJob { start, max_parallelism, left_overs, .. } = *claimed;
        let (attempt, lanes) = (start.attempt, subtasks.lanes.clone());
        job.storage_threads.leave_clean_up();
        let coordinator = coordinator(job, start, tasks, left_overs);
        let shell = Shell::new(job, attempt, coordinator, lanes, enumerators, storage_work, inputs);
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
        let stopped = async {
            shell.serve_until(owner, |shell| shell.have_gone(&subtasks_of_tasks)).await?;
            shell.serve(owner, subtasks.ended(tasks)).await
        };
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
        let ClaimedJob { start, max_parallelism, left_overs, .. } = *claimed;
        self.layout.restart(&self.job.graph, region, &TaskLayout { finished, max_parallelism });
        self.subtasks.take_in(start.attempt, region, restarted);
        {
            let mut status = self.job.board.lock();
            status.restarting_region(region);
            status.running.extend(board);
            status.running.sort_by_key(|running| (running.task, running.subtask));
        }
        let tasks = self.job.graph.task_plans(&self.layout.max_parallelism, &self.layout.finished);
        let attempt = start.attempt;
        self.job.storage_threads.leave_clean_up();
        let coordinator = coordinator(&self.job, start, tasks, left_overs);
        self.shell.adopt(attempt, coordinator, self.subtasks.lanes.clone(), region, enumerators);
        Ok(())
    }

    /// The attempt is over for what has gone on after a region has failed: it is told to stop.
    pub(crate) fn shut_down(&mut self) {
        self.shell.shut_down();
        self.subtasks.cancel();
    }

    /// Takes down what has gone on after a region has failed.
    pub(crate) async fn end_survivors(mut self, end: AttemptEnd, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
        self.shut_down();
        self.end(end, owner).await
    }

    /// The same, for another attempt or for none. An error is the end of the job for this process.
    pub(crate) async fn stop(mut self, owner: &mut Owner) -> Result<(), AttemptEnd> {
        self.shut_down();
        let fence = self.fence.clone();
        // What could not be stopped has been said, and no job finishes while a region of it has failed.
        let _ = self.take_down(true, false, owner).await;
        let foreign = foreign_claim(fence.clone(), owner).await;
        fence.expect_nobody();
        foreign.map_or(Ok(()), |sequence| Err(AttemptEnd::CoordinatorFailed(AttemptFailure::Fenced { sequence })))
    }

    /// Takes everything down that still runs.
    pub(crate) async fn end(self, end: AttemptEnd, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
        let fence = self.fence.clone();
        let is_failure = matches!(end, AttemptEnd::TaskFailed(..) | AttemptEnd::CoordinatorFailed(_));
        let is_finished = matches!(end, AttemptEnd::Finished);
        let ended = self.take_down(is_failure, is_finished, owner).await;
        // The log knows better than whatever came between.
        let ended = ended.map(|has_finished| if has_finished { AttemptEnd::Finished } else { end });
        let is_finished = matches!(ended, Ok(AttemptEnd::Finished));
        let ended = if !is_finished && (is_failure || ended.is_err()) {
            unless_fenced(fence.clone(), ended, owner).await
        } else {
            ended
        };
        // Whatever could not be stopped is of no attempt that is still to come.
        fence.expect_nobody();
        ended
    }

    /// Stops what runs, and waits for the storage. Whether the job has finished after all.
    async fn take_down(mut self, is_failure: bool, mut is_finished: bool, owner: &mut Owner) -> Result<bool, JobError> {
        let job = self.job.clone();
        // What was not written yet is needed by nobody any more.
        self.pool.over.end();
        self.claims.set_triggered(self.shell.highest_triggered());
        let stuck = owner.aside(self.subtasks.stop(&job, &mut self.shell)).await;
        self.claims.set_undecided(self.shell.undecided());
        if let Some(stuck) = &stuck {
            // The next attempt fences whatever is stuck.
            tracing::error!(target: "highwater::job", job = %job.name, %stuck, "left behind");
        }
        // What is still being written belongs to this attempt and is to be over when the next one begins. If the storage hangs, the
        // claim of the next one makes it harmless.
        let is_idle = in_time(self.shell.storage_idle(), owner).await.is_some();
        self.claims.set_undecided(self.shell.undecided());
        is_finished |= self.shell.has_finished();
        // Nobody waits for answers any more, so that whatever still has one to give can be done.
        drop(self.shell);
        if !is_idle {
            tracing::warn!(target: "highwater::job", job = %job.name, "the storage has not answered before the attempt ended");
        }
        if is_finished {
            // Another start would delete the checkpoints, which nobody needs any more, and what answers that were on their way
            // when the job finished have left of others; and there will be none.
            tidy_up(&job, self.claims.nonce(), owner, None).await;
        }
        match stuck {
            // What made the attempt fail is what its owner has to know, or that the job has finished.
            Some(stuck) if !is_failure && !is_finished => Err(JobError::Threads(stuck)),
            _ => Ok(is_finished),
        }
    }
}

/// Waits for the storage at the end of an attempt or of the job, for an owner who cancels not as long as otherwise. `None` when it
/// has not answered by then: it is not waited for any more.
pub(crate) async fn in_time<T>(answer: impl Future<Output = T>, owner: &mut Owner) -> Option<T> {
    tokio::select! {
        biased;
        answered = answer => Some(answered),
        () = owner.cancel_overdue() => None,
        () = tokio::time::sleep(STOP_DEADLINE) => None,
    }
}

/// Deletes what a finished job has left; what that is is looked up unless it is known. A storage that hangs does not keep the owner
/// from hearing that the job has finished.
async fn tidy_up(job: &Arc<Job>, nonce: u64, owner: &mut Owner, known: Option<Vec<Discard>>) {
    let (shared, runtime) = (job.clone(), Handle::current());
    let (patience, end_of_patience) = StartPatience::of_end();
    let mut work = Handle::current().spawn_blocking(move || {
        let storage = shared.patient_storage(patience);
        runtime.block_on(async {
            let left_overs = match known {
                Some(left_overs) => left_overs,
                None => left_overs_of(&shared, nonce, &storage).await?,
            };
            remove_left_overs(&storage, &shared.name, &left_overs).await;
            Ok(())
        })
    });
    // It would delete the same beside this.
    job.storage_threads.leave_clean_up();
    // Whatever an owner who has cancelled has waited for before was not this.
    owner.wait_anew();
    let tidied = match in_time(&mut work, owner).await {
        Some(tidied) => threads::joined(tidied),
        None => {
            end_of_patience.end(work).await;
            Err(JobError::Threads("the storage has not answered in time".to_owned()))
        }
    };
    if let Err(error) = tidied {
        let job = &job.name;
        tracing::warn!(target: "highwater::job", %job, ?error, "not all was deleted that the finished job has left: another start of it does that");
    }
}

/// What a finished job has left.
async fn left_overs_of(job: &Job, nonce: u64, storage: &RetryingStorage) -> Result<Vec<Discard>, JobError> {
    let claimant = Claimant { nonce, over: Over::Own };
    match begin_attempt(storage, JobClaim::new(&job.name, &[], job.restore_options(), claimant)).await? {
        Begun::Finished { left_overs, .. } => Ok(left_overs),
        Begun::Held { .. } | Begun::Claimed(_) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn at_the_end_a_storage_that_hangs_is_waited_for_for_two_seconds_after_the_cancel_and_for_half_a_minute_at_most()
     {
        for (cancelled_after, waited) in [(Some(0), 2), (Some(10), 12), (Some(29), 30), (None, 30)] {
            let (cancel, cancelled) = watch::channel(false);
            let mut owner = Owner::new(cancelled, mpsc::channel(1).1);
            let begun = Instant::now();
            let end = in_time(pending::<()>(), &mut owner);
            let cancels = async {
                match cancelled_after {
                    Some(seconds) => {
                        tokio::time::sleep(Duration::from_secs(seconds)).await;
                        cancel.send_replace(true);
                    }
                    None => pending().await,
                }
                pending::<()>().await;
            };
            tokio::select! {
                ended = end => assert_eq!(ended, None),
                () = cancels => {}
            }
            assert_eq!(begun.elapsed().as_secs(), waited, "{cancelled_after:?}");
        }
        let (_cancel, cancelled) = watch::channel(true);
        let mut owner = Owner::new(cancelled, mpsc::channel(1).1);
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(in_time(pending::<()>(), &mut owner).await, None);
        }
        assert_eq!(begun.elapsed().as_secs(), 2, "all waits together");
        owner.wait_anew();
        assert_eq!(in_time(pending::<()>(), &mut owner).await, None);
        assert_eq!(begun.elapsed().as_secs(), 4, "and what is waited for for a reason of its own");
        owner.wait_anew();
        owner.cancel().await;
        owner.aside(tokio::time::sleep(Duration::from_secs(7))).await;
        assert_eq!(in_time(pending::<()>(), &mut owner).await, None);
        assert_eq!(begun.elapsed().as_secs(), 13, "what else was waited for does not count");
        let (_cancel, cancelled) = watch::channel(true);
        let mut owner = Owner::new(cancelled, mpsc::channel(1).1);
        assert_eq!(in_time(async { 7 }, &mut owner).await, Some(7), "an answer counts, whoever has cancelled");
    }
}
