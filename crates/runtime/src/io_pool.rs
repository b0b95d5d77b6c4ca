//! Where storage is waited for: threads beside the coordinator's, in lanes that do not wait for each other.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::StorageLane;
use highwater_state_api::{CheckpointStorage, JobName};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::clock::Clock;
use crate::control::Report;
use crate::driver::Input;
use crate::patience::OverCheckpoints;
use crate::reminder::{self, watched};
use crate::retrying_storage::RetryingStorage;
use crate::snapshot::{AsyncSnapshot, SnapshotExecutor};
use crate::threads::message_of;

/// How much work of checkpoints may wait for the storage before snapshots are declined instead of joining it: a storage that
/// hangs must not make the job hold one frozen state after the other.
const OUTSTANDING_MAX: usize = 1024;

/// Threads of an attempt that write its checkpoints at most.
const CHECKPOINT_THREADS_MAX: usize = 8;
/// Those of them that there are beside one for each subtask: for the places and the metadata of checkpoints, and for a hook, which
/// may wait. Without them these would keep a small job from its checkpoints.
const CHECKPOINT_THREADS_OF_OTHERS: usize = 2;
/// Threads of a job that delete, whatever attempt has asked for it: deletions that hang stay as few, however often it restarts.
const CLEAN_UP_THREADS: usize = 2;

/// Threads of a job that wait for the storage, all in all. Its lanes need a few dozen; the rest is room for starts after others of
/// which the calls hang for ever.
pub(crate) const IO_THREADS_MAX: usize = 512;

/// How much of the storage work of a job is done at the same time.
pub(crate) struct StorageThreads {
    /// By each attempt: what hangs in one does not count in the next.
    checkpoints: usize,
    /// By all attempts together.
    clean_up: Arc<Semaphore>,
    /// How many deletions are not done yet.
    deletions: watch::Sender<usize>,
    /// How often what waits to be deleted was left to others.
    left: watch::Sender<u64>,
}

impl StorageThreads {
    /// Of a job with so many subtasks.
    pub(crate) fn new(subtasks: usize) -> Self {
        let checkpoints = (subtasks + CHECKPOINT_THREADS_OF_OTHERS).min(CHECKPOINT_THREADS_MAX);
        Self {
            checkpoints,
            clean_up: Arc::new(Semaphore::new(CLEAN_UP_THREADS)),
            deletions: watch::Sender::new(0),
            left: watch::Sender::new(0),
        }
    }

    /// What has not begun to be deleted is left to whoever looks for it from now on: it would wait before that, and be the same.
    pub(crate) fn leave_clean_up(&self) {
        self.left.send_modify(|left| *left += 1);
    }

    /// Waits until nothing is to be deleted any more.
    pub(crate) async fn clean_up_idle(&self) {
        until_none(&self.deletions).await;
    }
}

/// Runs work that waits for storage. Cheap to clone.
#[derive(Clone)]
pub(crate) struct IoPool {
    job: JobName,
    runtime: Handle,
    inputs: mpsc::Sender<Input>,
    checkpoints: Arc<Semaphore>,
    clean_up: Arc<Semaphore>,
    /// How many deletions of the job are not done yet.
    deletions: watch::Sender<usize>,
    /// How much other work is not done yet.
    others: watch::Sender<usize>,
    /// How often what waits to be deleted was left to others.
    left: watch::Sender<u64>,
    /// For which checkpoints nothing is to be tried again.
    pub(crate) over: OverCheckpoints,
}

impl IoPool {
    /// The pool of an attempt, on the blocking threads of a tokio runtime. What work results in goes to `inputs`.
    pub(crate) fn new(job: JobName, runtime: Handle, threads: &StorageThreads, inputs: mpsc::Sender<Input>) -> Self {
        Self {
            job,
            runtime,
            inputs,
            checkpoints: Arc::new(Semaphore::new(threads.checkpoints)),
            clean_up: threads.clean_up.clone(),
            deletions: threads.deletions.clone(),
            others: watch::Sender::new(0),
            left: threads.left.clone(),
            over: OverCheckpoints::default(),
        }
    }

    /// Where what work results in goes.
    pub(crate) fn inputs(&self) -> mpsc::Sender<Input> {
        self.inputs.clone()
    }

    /// Runs work when there is room for it in its lane; what it returns goes to the coordinator. When it panics, what `panicked`
    /// makes of the message does: every piece of work has its answer, unless it is a deletion that is left to others before its turn.
    pub(crate) fn submit(
        &self,
        lane: StorageLane,
        work: impl Future<Output = Option<Input>> + Send + 'static,
        panicked: impl FnOnce(String) -> Option<Input> + Send + 'static,
    ) {
        let run = self.run(lane, work, panicked);
        let places = match lane {
            StorageLane::Checkpoints => self.checkpoints.clone(),
            StorageLane::CleanUp => self.clean_up.clone(),
            // The coordinator begins no more than a few.
            StorageLane::Log => {
                self.runtime.spawn_blocking(run);
                return;
            }
        };
        // Storage may block its thread, and state is serialised here: neither belongs on the coordinator's thread. What waits for
        // its turn needs none.
        let (runtime, job) = (self.runtime.clone(), self.job.clone());
        // Only what is left from now on counts.
        let mut left = self.left.subscribe();
        self.runtime.spawn(async move {
            let place = tokio::select! {
                biased;
                _ = left.changed(), if lane == StorageLane::CleanUp => return,
                place = places.acquire_owned() => place,
            };
            // Nobody closes the semaphores.
            let Ok(place) = place else { return };
            let done = runtime.spawn_blocking(move || {
                run();
                drop(place);
            });
            // Of checkpoints that take long their statistics tell, and whoever waits for them.
            if lane == StorageLane::CleanUp {
                // What has become of it its answer says.
                let _ = watched(&job, reminder::CLEAN_UP, done).await;
            }
        });
    }

    fn run(
        &self,
        lane: StorageLane,
        work: impl Future<Output = Option<Input>> + Send + 'static,
        panicked: impl FnOnce(String) -> Option<Input> + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (runtime, inputs) = (self.runtime.clone(), self.inputs.clone());
        let done = Outstanding::begin(self.outstanding(lane));
        move || {
            // Nothing of the work is looked at again after a panic.
            let answer = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)))
                .unwrap_or_else(|panic| panicked(format!("panicked: {}", message_of(panic))));
            if let Some(input) = answer {
                // The coordinator is gone when its attempt is over; then nobody waits for the answer.
                let _ = inputs.blocking_send(input);
            }
            drop(done);
        }
    }

    /// The work of a lane, or of lanes that are waited for together, that is not done yet.
    fn outstanding(&self, lane: StorageLane) -> &watch::Sender<usize> {
        match lane {
            StorageLane::CleanUp => &self.deletions,
            StorageLane::Checkpoints | StorageLane::Log => &self.others,
        }
    }

    /// Says something to the coordinator at once.
    fn answer(&self, input: Input) {
        // The coordinator is gone when its attempt is over; then nobody waits for the answer.
        let _ = self.inputs.blocking_send(input);
    }

    /// Waits until all work is done but for deletions.
    pub(crate) async fn idle(&self) {
        until_none(&self.others).await;
    }
}

async fn until_none(outstanding: &watch::Sender<usize>) {
    // The caller holds a sender, so that the channel cannot be closed.
    let _ = outstanding.subscribe().wait_for(|outstanding| *outstanding == 0).await;
}

/// Work that is not done yet; it counts until it is dropped, also by a panic.
struct Outstanding(watch::Sender<usize>);

impl Outstanding {
    fn begin(outstanding: &watch::Sender<usize>) -> Self {
        outstanding.send_modify(|outstanding| *outstanding += 1);
        Self(outstanding.clone())
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.send_modify(|outstanding| *outstanding -= 1);
    }
}

/// Writes snapshots on an [`IoPool`].
pub(crate) struct PoolExecutor {
    pub(crate) pool: IoPool,
    pub(crate) storage: Arc<dyn CheckpointStorage>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a checkpoint may take.
    pub(crate) timeout: Duration,
}

impl SnapshotExecutor for PoolExecutor {
    fn submit(&self, mut snapshot: AsyncSnapshot) {
        let submitted = self.clock.monotonic();
        snapshot.metrics.sync_duration = submitted.saturating_sub(snapshot.began);
        let mut declined = snapshot.decline("");
        if *self.pool.others.borrow() >= OUTSTANDING_MAX {
            declined.failure.message =
                format!("the storage does not keep up: {OUTSTANDING_MAX} pieces of work wait for it");
            self.pool.answer(Input::Report(Report::Declined(declined)));
            return;
        }
        let patience = self.pool.over.patience(snapshot.checkpoint, self.clock.clone(), self.timeout);
        let (storage, clock) = (RetryingStorage::new(self.storage.clone(), patience), self.clock.clone());
        let work = async move {
            let mut report: Report = snapshot.write(&storage).await;
            if let Report::Acknowledged(acknowledgement) = &mut report {
                acknowledgement.metrics.async_duration = clock.monotonic().saturating_sub(submitted);
            }
            Some(Input::Report(report))
        };
        let panicked = move |message| {
            declined.failure.message = message;
            Some(Input::Report(Report::Declined(declined)))
        };
        self.pool.submit(StorageLane::Checkpoints, work, panicked);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use highwater_checkpoint::{DiscardId, Event};
    use highwater_state_api::Attempt;

    use super::*;

    /// Work of one attempt that ends when it is told to.
    struct Lanes {
        pool: IoPool,
        answers: mpsc::Receiver<Input>,
        /// The lanes of work that has begun.
        begun: Arc<Mutex<Vec<StorageLane>>>,
    }

    impl Lanes {
        fn new(runtime: &Handle, threads: &StorageThreads) -> Self {
            let (inputs, answers) = mpsc::channel(100);
            let job = JobName::new("job").unwrap();
            Self { pool: IoPool::new(job, runtime.clone(), threads, inputs), answers, begun: Arc::default() }
        }

        /// Begins work that blocks its thread until what is returned is dropped.
        fn block(&self, lane: StorageLane, number: u64) -> SyncSender<()> {
            let (release, released) = sync_channel::<()>(0);
            self.submit(lane, number, Some(released));
            release
        }

        fn submit(&self, lane: StorageLane, number: u64, released: Option<Receiver<()>>) {
            // What is shared by reference is not asked for anything while it is `Sync`.
            let released = Mutex::new(released);
            let answer = Input::Event(Attempt(1), Event::Discarded { id: DiscardId(number) });
            let begun = self.begun.clone();
            let work = async move {
                begun.lock().unwrap().push(lane);
                if let Some(released) = &*released.lock().unwrap() {
                    let _ = released.recv();
                }
                Some(answer)
            };
            self.pool.submit(lane, work, |_| None);
        }

        /// How much work of a lane has begun.
        fn begun(&self, lane: StorageLane) -> usize {
            self.begun.lock().unwrap().iter().filter(|begun| **begun == lane).count()
        }

        /// Waits until so much work of a lane has begun.
        async fn until_begun(&self, lane: StorageLane, work: usize) {
            while self.begun(lane) < work {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        /// The number of the next work that is done.
        async fn done(&mut self) -> u64 {
            match tokio::time::timeout(Duration::from_secs(60), self.answers.recv()).await {
                Ok(Some(Input::Event(_, Event::Discarded { id }))) => id.0,
                Ok(_) => unreachable!("nothing else was submitted"),
                Err(_) => panic!("it waits for what hangs"),
            }
        }
    }

    #[tokio::test]
    async fn work_that_hangs_keeps_only_its_like_waiting_and_of_that_only_what_shares_its_threads() {
        let (runtime, threads) = (Handle::current(), StorageThreads::new(1));
        let mut first = Lanes::new(&runtime, &threads);
        let writes: Vec<_> = (1..=5).map(|number| first.block(StorageLane::Checkpoints, number)).collect();
        let calls: Vec<_> = (11..=13).map(|number| first.block(StorageLane::Log, number)).collect();
        let deletions: Vec<_> = (21..=25).map(|number| first.block(StorageLane::CleanUp, number)).collect();
        first.submit(StorageLane::Log, 14, None);
        assert_eq!(first.done().await, 14, "it waits neither for checkpoints nor for calls of the log");
        for (lane, begun) in [(StorageLane::Checkpoints, 3), (StorageLane::Log, 4), (StorageLane::CleanUp, 2)] {
            first.until_begun(lane, begun).await;
            assert_eq!(first.begun(lane), begun, "{lane:?}");
        }

        threads.leave_clean_up();
        let mut next = Lanes::new(&runtime, &threads);
        next.submit(StorageLane::CleanUp, 31, None);
        next.submit(StorageLane::Checkpoints, 32, None);
        assert_eq!(next.done().await, 32, "an attempt has threads of its own for checkpoints, and none for deletions");
        next.pool.idle().await;
        assert_eq!(next.begun(StorageLane::CleanUp), 0);

        drop((writes, calls, deletions));
        assert_eq!(next.done().await, 31);
        threads.clean_up_idle().await;
        first.pool.idle().await;
        let mut all = Vec::new();
        while let Ok(Input::Event(_, Event::Discarded { id })) = first.answers.try_recv() {
            all.push(id.0);
        }
        all.sort_unstable();
        assert_eq!(
            all,
            [1, 2, 3, 4, 5, 11, 12, 13, 21, 22],
            "deletions that had not begun are left to the next attempt"
        );
    }
}
