//! The start of an attempt beside the coordinator's thread: a storage that hangs does not keep the owner from cancelling.
//!
//! A start that is cancelled ends at its next call of the storage, or before it touches anything outside the job. If the storage
//! does not return from the call before, nobody waits for it any longer: all that it can still do is to claim the job, which
//! harms nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use highwater_checkpoint::{AttemptFailure, Discard, HookState, Now};
use highwater_state_api::{CheckpointId, RowSettings};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, yield_now};

use crate::driver::{Input, Job};
use crate::fence::{Fence, FenceSetup};
use crate::job::Owner;
use crate::lease_keeper::{LeaseKeeper, LeaseKeeping, Renewals};
use crate::patience::StartPatience;
use crate::prepare::{Preparation, Prepared, finished_in, prepare};
use crate::reminder::watched;
use crate::restore::{Begun, Claimant, ClaimedJob, JobClaim, Over, Restored, begin_attempt};
use crate::retrying_storage::RetryingStorage;
use crate::standby::{self, SharedWatch, StandbyWatch, Waited};
use crate::takeover::Adoption;
use crate::{JobError, batch_restore, random, reminder, threads};

/// The claims of this process.
pub(crate) struct Claims {
    nonce: u64,
    /// Whether it has had the job. From then on it goes on only with a job that is still its own.
    has_claimed: AtomicBool,
    /// Renews the lease of a job with standbys, also before a restart: whoever waits for that is alive.
    keeper: Mutex<Option<LeaseKeeper>>,
    /// The checkpoint whose record the last attempt was appending when it ended, and has not heard what became of it: the next claim
    /// tells.
    undecided: Mutex<Option<CheckpointId>>,
    /// The largest id of a checkpoint that it has triggered, be it a failed one of which nothing is left.
    triggered: Mutex<Option<CheckpointId>>,
    /// What it has seen of whoever has the job, as a standby.
    standby_watch: SharedWatch,
}

impl Claims {
    /// None yet, of a job with a lease that is so long.
    pub(crate) fn new(lease: Duration) -> Self {
        let nonce = random::nonce();
        let watch = StandbyWatch::new(lease.as_millis() as u64, nonce);
        Self {
            nonce,
            has_claimed: AtomicBool::new(false),
            keeper: Mutex::new(None),
            undecided: Mutex::new(None),
            triggered: Mutex::new(None),
            standby_watch: Arc::new(tokio::sync::Mutex::new(watch)),
        }
    }

    /// The process wants the job no longer.
    pub(crate) fn give_up_lease(&self) {
        self.set_keeper(None);
    }

    fn set_keeper(&self, keeper: Option<LeaseKeeper>) {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = keeper;
    }

    /// An attempt has ended with or without an append of which it does not know what became.
    pub(crate) fn set_undecided(&self, checkpoint: Option<CheckpointId>) {
        *self.undecided.lock().unwrap_or_else(PoisonError::into_inner) = checkpoint;
    }

    /// An attempt has ended that has triggered no later checkpoint than this one.
    pub(crate) fn set_triggered(&self, checkpoint: Option<CheckpointId>) {
        *self.triggered.lock().unwrap_or_else(PoisonError::into_inner) = checkpoint;
    }

    /// Why the job has ended, if its owner has cancelled it.
    pub(crate) fn cancelled(&self) -> JobError {
        match *self.undecided.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(checkpoint) => JobError::CancelledUndecided { checkpoint },
            None => JobError::Cancelled,
        }
    }

    fn triggered(&self) -> Option<CheckpointId> {
        *self.triggered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By this the process knows its own claims again.
    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }
}

/// How the start of an attempt came out.
pub(crate) enum Started {
    /// The job has finished before.
    Finished {
        /// In an attempt of this process, which has not heard of it.
        by_own: bool,
        /// What was not deleted then.
        left_overs: Vec<Discard>,
    },
    /// Its owner has cancelled it.
    Cancelled,
    /// The subtasks can be built and opened.
    Prepared(Box<StartedAttempt>),
}

/// An attempt that has claimed the job and knows what it goes on from.
pub(crate) struct StartedAttempt {
    pub(crate) claimed: Box<ClaimedJob>,
    pub(crate) prepared: Prepared,
    pub(crate) fence: Fence,
}

/// What a start needs.
#[derive(Clone)]
pub(crate) struct Starter {
    pub(crate) job: Arc<Job>,
    pub(crate) claims: Arc<Claims>,
    /// Where it is said that the lease is lost.
    pub(crate) inputs: mpsc::Sender<Input>,
    /// What is not started, because it goes on.
    pub(crate) adoption: Option<Adoption>,
}

/// How one try to claim the job came out.
pub(crate) enum Tried {
    Ended(Started),
    /// The job is another process's.
    Held,
}

impl Tried {
    /// The owner has cancelled meanwhile: what was prepared is dropped. That the job has finished counts.
    fn cancelled(self) -> Self {
        match self {
            finished @ Self::Ended(Started::Finished { .. }) => finished,
            Self::Ended(Started::Prepared(_) | Started::Cancelled) | Self::Held => Self::Ended(Started::Cancelled),
        }
    }
}

/// Claims the job and reads what it goes on from. A standby waits before.
pub(crate) async fn start(starter: Starter, owner: &mut Owner) -> Result<Started, JobError> {
    loop {
        let (job, claims) = (&starter.job, &starter.claims);
        let over = if claims.has_claimed.load(Ordering::Relaxed) {
            Over::Own
        } else if job.high_availability.standby {
            match standby::wait(job, owner, &claims.standby_watch).await? {
                Waited::Free(next_sequence) => Over::Unchanged(next_sequence),
                Waited::Dropped => return Err(JobError::Dropped),
                Waited::Cancelled => return Ok(Started::Cancelled),
            }
        } else {
            Over::Anyone
        };
        match start_over(&starter, over, owner).await? {
            Tried::Ended(started) => return Ok(started),
            // Somebody else was faster, or the one that was waited for lives: on waiting.
            Tried::Held => {}
        }
    }
}

async fn start_over(starter: &Starter, over: Over, owner: &mut Owner) -> Result<Tried, JobError> {
    if owner.is_cancelled() {
        return Ok(Tried::Ended(Started::Cancelled));
    }
    let mut work = begin(starter.clone(), over, owner.cancelled.clone());
    let joined = tokio::select! {
        biased;
        joined = watched(&starter.job.name, reminder::START, &mut work) => joined,
        () = owner.cancel() => tokio::select! {
            biased;
            joined = work => joined.map(|tried| tried.map(Tried::cancelled)),
            () = owner.cancel_overdue() => {
                tracing::warn!(target: "highwater::job", job = %starter.job.name, "the storage has not answered before the start was cancelled");
                return Ok(Tried::Ended(Started::Cancelled));
            }
        },
    };
    threads::joined(joined)
}

/// Begins to claim the job, on a thread that may wait for the storage.
pub(crate) fn begin(
    starter: Starter,
    over: Over,
    mut cancelled: watch::Receiver<bool>,
) -> JoinHandle<Result<Tried, JobError>> {
    let runtime = Handle::current();
    let pool = runtime.clone();
    let patience = StartPatience::until(cancelled.clone());
    pool.spawn_blocking(move || {
        let handle = runtime.clone();
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = crate::job::until_cancelled(&mut cancelled) => Ok(Tried::Ended(Started::Cancelled)),
                tried = starter.claim(over, patience, handle) => tried,
            }
        })
    })
}

impl Starter {
    async fn claim(&self, over: Over, patience: StartPatience, runtime: Handle) -> Result<Tried, JobError> {
        let Self { job, claims, adoption, .. } = self;
        let (targets, storage) = (job.targets()?, job.patient_storage(patience));
        // The lease counts from before the claim.
        let begun_at = job.clock.now();
        let claimant = Claimant { nonce: claims.nonce, over };
        let claim =
            JobClaim { accepts: &accepts(job), ..JobClaim::new(&job.name, &targets, job.restore_options(), claimant) };
        let begun = match adoption {
            Some(adoption) => adoption.begin_attempt(&storage, claim, begun_at).await?,
            None => begin_attempt(&storage, JobClaim { triggered: claims.triggered(), ..claim }).await?,
        };
        let claimed = match begun {
            Begun::Finished { by_own, left_overs } => {
                return Ok(Tried::Ended(Started::Finished { by_own, left_overs }));
            }
            Begun::Held { sequence } if over == Over::Own => {
                return Err(JobError::Coordinator(AttemptFailure::Fenced { sequence }));
            }
            Begun::Held { .. } => return Ok(Tried::Held),
            Begun::Claimed(claimed) => claimed,
        };
        claims.has_claimed.store(true, Ordering::Relaxed);
        claims.set_undecided(None);
        note_claimed(job, &claimed);
        // A storage may have blocked the thread until here: whoever has cancelled meanwhile is heard.
        yield_now().await;
        let fence = match adoption {
            Some(adoption) => adoption.fence.clone(),
            None => self.fence(&claimed, begun_at, runtime.clone()),
        };
        match self.prepare(claimed, &storage, &fence, runtime).await {
            Ok(started) => Ok(Tried::Ended(Started::Prepared(Box::new(started)))),
            // Whatever went wrong, if another process has the job, then that was the cause, or does not matter any more.
            Err(error) => {
                fence.end_lease();
                match fence.foreign_claim().await {
                    Some(sequence) => Err(JobError::Coordinator(AttemptFailure::Fenced { sequence })),
                    None => Err(error),
                }
            }
        }
    }

    async fn prepare(
        &self,
        mut claimed: Box<ClaimedJob>,
        storage: &RetryingStorage,
        fence: &Fence,
        runtime: Handle,
    ) -> Result<StartedAttempt, JobError> {
        let job = &self.job;
        if job.high_availability.standby {
            self.claims.set_keeper(Some(self.keep_lease(&claimed, fence, runtime)?));
        }
        let preparation = Preparation {
            job: &job.name,
            graph: &job.graph,
            state_backend: &job.state_backend,
            storage,
            row_settings: RowSettings { cached_rows_max: job.config.cached_rows_max, hash_seed: random::nonce() },
            fence,
            adoption: self.adoption.as_ref(),
            accepts: &accepts(job),
            note: &|claimed| note_claimed(job, claimed),
            now: job.clock.monotonic(),
        };
        let prepared = prepare(&preparation, &mut claimed).await?;
        // Hooks belong to the whole job, and that goes on.
        if self.adoption.is_none() {
            restore_hooks(job, &claimed).await?;
        }
        Ok(StartedAttempt { claimed, prepared, fence: fence.clone() })
    }

    fn fence(&self, claimed: &ClaimedJob, begun_at: Now, runtime: Handle) -> Fence {
        let clock = self.job.clock.clone();
        let setup = FenceSetup {
            storage: self.job.storage.clone(),
            job: self.job.name.clone(),
            now: Box::new(move || clock.now()),
            lease_ms: self.job.high_availability.lease.as_millis() as u64,
            runtime: Some(runtime),
        };
        Fence::new(setup, &claimed.start, begun_at)
    }

    fn keep_lease(&self, claimed: &ClaimedJob, fence: &Fence, runtime: Handle) -> Result<LeaseKeeper, JobError> {
        LeaseKeeper::start(LeaseKeeping {
            renewals: Renewals::new(
                self.job.storage.clone(),
                self.job.name.clone(),
                claimed.start.attempt,
                fence.clone(),
            ),
            lease: self.job.high_availability.lease,
            runtime,
            inputs: self.inputs.clone(),
        })
    }
}

/// Whether the job can go on from a checkpoint, as far as that can be told before its state is read.
fn accepts(job: &Job) -> impl Fn(&Restored, &[HookState]) -> Result<(), JobError> + Sync + '_ {
    move |restored, states| {
        finished_in(&job.graph, restored)?;
        if job.config.is_batch() {
            batch_restore::check(restored)?;
        }
        job.config.hooks.check(&job.name, restored.0, states, job.checkpoints.ignores_unclaimed)
    }
}

/// Tells the hooks where the attempt begins, which is not decided before all state was read. They may wait, as this thread
/// may.
async fn restore_hooks(job: &Job, claimed: &ClaimedJob) -> Result<(), JobError> {
    match &claimed.restored {
        Some((checkpoint, _)) => job.config.hooks.restore(&job.name, *checkpoint, &claimed.hooks).await,
        None => job.config.hooks.reset(&job.name).await,
    }
}

/// The owner sees what the attempt goes on from.
fn note_claimed(job: &Job, claimed: &ClaimedJob) {
    let (attempt, restored_from) =
        (claimed.start.attempt, claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint));
    if !job.board.claimed(job.clock.now(), attempt, restored_from, &claimed.damaged) {
        return;
    }
    match restored_from {
        Some(checkpoint) => {
            tracing::info!(target: "highwater::job", job = %job.name, %attempt, %checkpoint, "restoring")
        }
        None => tracing::info!(target: "highwater::job", job = %job.name, %attempt, "starting from nothing"),
    }
}
