//! A regional restart: the next attempt restarts the tasks of the region that has failed and adopts all others, which go on.
//!
//! It is an attempt like any other: it claims the job, so that its checkpoints, its folders and the transactions of what it starts
//! have a number of their own. What cannot be done for a region is done for the whole job.

use std::collections::BTreeSet;
use std::time::Duration;

use highwater_checkpoint::AttemptFailure;
use tokio::sync::watch;

use crate::attempt::{AttemptEnd, RunningAttempt, run_attempt};
use crate::error::chain_of;
use crate::job::Owner;
use crate::reminder::{self, watched};
use crate::restore::Over;
use crate::start::{self, Started, StartedAttempt, Starter, Tried};
use crate::{JobError, TaskError, threads};

/// How long an append to the job log that is under way is waited for, if not the timeout of its checkpoint is over before.
const DECISION_DEADLINE: Duration = Duration::from_secs(30);

/// The tasks that go on when a region has failed. What still runs stops when this is dropped.
pub(crate) struct Survivors {
    attempt: RunningAttempt,
    /// The tasks of the region that has failed. Nothing of them runs any more.
    region: BTreeSet<u32>,
}

/// Why a region is not restarted alone.
enum NotRestarted {
    /// The others cannot go on, or are not to.
    Ended(AttemptEnd),
    /// Only the whole job can be restarted.
    Impossible(JobError),
}

impl From<AttemptEnd> for NotRestarted {
    fn from(end: AttemptEnd) -> Self {
        Self::Ended(end)
    }
}

impl Survivors {
    /// Stops what is left of a region of which a task has failed with this error.
    pub(crate) async fn leave(
        mut attempt: RunningAttempt,
        region: BTreeSet<u32>,
        task: String,
        error: TaskError,
        owner: &mut Owner,
    ) -> Result<AttemptEnd, JobError> {
        match attempt.stop_tasks(&region, owner).await {
            Ok(None) => Ok(AttemptEnd::RegionFailed(task, error, Box::new(Self { attempt, region }))),
            Ok(Some(stuck)) => {
                tracing::error!(target: "highwater::job", job = %attempt.job.name, %stuck, "the whole job is restarted");
                attempt.end_survivors(AttemptEnd::TaskFailed(task, error), owner).await
            }
            Err(AttemptEnd::Cancelled) => attempt.end_survivors(AttemptEnd::Cancelled, owner).await,
            // The first failure is the cause; those that follow may be its consequences.
            Err(_) => attempt.end_survivors(AttemptEnd::TaskFailed(task, error), owner).await,
        }
    }

    /// Restarts the region after this delay and runs the attempt that adopts the others to its end.
    pub(crate) async fn restart_region(
        mut self: Box<Self>,
        owner: &mut Owner,
        delay: Duration,
    ) -> Result<AttemptEnd, JobError> {
        let started = match self.start(owner, delay).await {
            Ok(started) => started,
            Err(NotRestarted::Ended(end)) => return self.attempt.end_survivors(end, owner).await,
            Err(NotRestarted::Impossible(error)) => return restart_job(self.attempt, error, owner).await,
        };
        match self.attempt.adopt(*started, &self.region) {
            Ok(()) => self.attempt.drive(owner).await,
            Err(error) => restart_job(self.attempt, error, owner).await,
        }
    }

    /// Stops the others too, since the job ends with this error.
    pub(crate) async fn give_up(self: Box<Self>, error: JobError, owner: &mut Owner) -> JobError {
        // What the job ends with is known, unless another process has it.
        match self.attempt.stop(owner).await {
            Err(AttemptEnd::CoordinatorFailed(failure)) => JobError::Coordinator(failure),
            _ => error,
        }
    }

    /// Claims the job and reads what the region goes on from. Meanwhile the others are served.
    async fn start(&mut self, owner: &mut Owner, delay: Duration) -> Result<Box<StartedAttempt>, NotRestarted> {
        let Self { attempt, region } = self;
        attempt.shell.serve(owner, tokio::time::sleep(delay)).await?;
        // What is being appended is what the region goes on from, if it turns out to be complete. A storage that hangs does not
        // keep the job waiting: for another attempt of the whole job its claim decides.
        let deadline = DECISION_DEADLINE.min(attempt.job.checkpoints.timeout);
        let decided = attempt.shell.serve_until(owner, |shell| shell.is_decided());
        match tokio::time::timeout(deadline, decided).await {
            Ok(decided) => decided?,
            Err(_) => {
                let cause = "the storage has not answered whether the newest checkpoint is in the job log";
                return Err(NotRestarted::Impossible(JobError::Log(cause.into())));
            }
        }
        let starter = Starter {
            job: attempt.job.clone(),
            claims: attempt.claims.clone(),
            inputs: attempt.inputs(),
            adoption: Some(attempt.adoption(region)),
        };
        let (give_up, given_up) = watch::channel(false);
        let mut work = start::begin(starter, Over::Own, given_up);
        let job = attempt.job.name.clone();
        let joined = match attempt.shell.serve(owner, watched(&job, reminder::REGION, &mut work)).await {
            Ok(joined) => joined,
            Err(end) => {
                // Its claim must not come after that of the next start, which would be fenced by it.
                give_up.send_replace(true);
                attempt.shut_down();
                let given_up = attempt.shell.hear_until(watched(&job, reminder::REGION, work));
                match &end {
                    AttemptEnd::Cancelled => tokio::select! {
                        _ = given_up => {}
                        () = owner.cancel_overdue() => {}
                    },
                    _ => tokio::select! {
                        _ = given_up => {}
                        () = owner.cancel() => return Err(AttemptEnd::Cancelled.into()),
                    },
                }
                return Err(end.into());
            }
        };
        let started = match threads::joined(joined) {
            Ok(Tried::Ended(Started::Prepared(started))) => started,
            Ok(Tried::Ended(Started::Cancelled)) => return Err(AttemptEnd::Cancelled.into()),
            Err(JobError::Coordinator(failure @ AttemptFailure::Fenced { .. })) => {
                return Err(AttemptEnd::CoordinatorFailed(failure).into());
            }
            Err(error) => return Err(NotRestarted::Impossible(error)),
            Ok(Tried::Ended(Started::Finished { by_own: true, .. })) => return Err(AttemptEnd::Finished.into()),
            Ok(Tried::Ended(Started::Finished { by_own: false, .. }) | Tried::Held) => {
                let cause = "another process has finished or claimed the job";
                return Err(NotRestarted::Impossible(JobError::Log(cause.into())));
            }
        };
        // Nothing that the region has reported before is to be taken for a report of what is started now.
        attempt.shell.catch_up()?;
        Ok(started)
    }
}

/// Restarts the whole job at once: the wait for it is over.
async fn restart_job(attempt: RunningAttempt, error: JobError, owner: &mut Owner) -> Result<AttemptEnd, JobError> {
    let (job, claims) = (attempt.job.clone(), attempt.claims.clone());
    let error = chain_of(&error);
    tracing::warn!(target: "highwater::job", job = %job.name, error, "the region cannot be restarted alone: the whole job is");
    if let Err(end) = attempt.stop(owner).await {
        return Ok(end);
    }
    job.board.lock().restarting();
    run_attempt(&job, owner, &claims).await
}
