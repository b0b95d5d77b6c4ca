//! Where storage is waited for: a bounded pool of threads beside the coordinator's.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use highwater_state_api::CheckpointStorage;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::control::Report;
use crate::driver::Input;
use crate::patience::OverCheckpoints;
use crate::retrying_storage::RetryingStorage;
use crate::snapshot::{AsyncSnapshot, SnapshotExecutor};
use crate::threads::{self, message_of};

/// How much work may wait for the storage before snapshots are declined instead of joining it: a storage that hangs must
/// not make the job hold one frozen state after the other.
const OUTSTANDING_MAX: usize = 1024;

/// Runs work that waits for storage. Cheap to clone.
#[derive(Clone)]
pub(crate) struct IoPool {
    runtime: Handle,
    inputs: mpsc::Sender<Input>,
    /// How much work is not done yet.
    outstanding: watch::Sender<usize>,
    /// For which checkpoints nothing is to be tried again.
    pub(crate) over: OverCheckpoints,
}

impl IoPool {
    /// A pool on the blocking threads of a tokio runtime, which bounds their number. What work results in goes to
    /// `inputs`.
    pub(crate) fn new(runtime: Handle, inputs: mpsc::Sender<Input>) -> Self {
        Self { runtime, inputs, outstanding: watch::Sender::new(0), over: OverCheckpoints::default() }
    }

    /// Where what work results in goes.
    pub(crate) fn inputs(&self) -> mpsc::Sender<Input> {
        self.inputs.clone()
    }

    /// Runs work; what it returns goes to the coordinator. When it panics, what `panicked` makes of the message does: every
    /// piece of work has its answer.
    pub(crate) fn submit(
        &self,
        work: impl Future<Output = Option<Input>> + Send + 'static,
        panicked: impl FnOnce(String) -> Option<Input> + Send + 'static,
    ) {
        // Storage may block its thread, and state is serialised here: neither belongs on the coordinator's thread.
        self.runtime.spawn_blocking(self.run(work, panicked));
    }

    /// The same on a thread of its own, for work that must not wait behind other work, nor keep others waiting if it never comes to
    /// its end.
    pub(crate) fn submit_apart(
        &self,
        name: String,
        work: impl Future<Output = Option<Input>> + Send + 'static,
        panicked: impl FnOnce(String) -> Option<Input> + Send + 'static,
    ) {
        // The thread comes first and is handed the work, so that the work is still here if there is no thread.
        let (hand_over, handed_over) = oneshot::channel::<Box<dyn FnOnce() + Send>>();
        let begun = threads::spawn(name, move || handed_over.blocking_recv().into_iter().for_each(|run| run()));
        let run = Box::new(self.run(work, panicked));
        match begun {
            // Its receiver lives until it has the work.
            Ok(_) => drop(hand_over.send(run)),
            // There are too many threads: then the work waits, which is better than to be lost.
            Err(_) => drop(self.runtime.spawn_blocking(run)),
        }
    }

    fn run(
        &self,
        work: impl Future<Output = Option<Input>> + Send + 'static,
        panicked: impl FnOnce(String) -> Option<Input> + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (runtime, inputs) = (self.runtime.clone(), self.inputs.clone());
        let done = Outstanding::begin(&self.outstanding);
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

    /// How much work is not done yet.
    fn outstanding(&self) -> usize {
        *self.outstanding.borrow()
    }

    /// Says something to the coordinator at once.
    fn answer(&self, input: Input) {
        // The coordinator is gone when its attempt is over; then nobody waits for the answer.
        let _ = self.inputs.blocking_send(input);
    }

    /// Waits until all work is done.
    pub(crate) async fn idle(&self) {
        // This pool holds a sender, so that the channel cannot be closed.
        let _ = self.outstanding.subscribe().wait_for(|outstanding| *outstanding == 0).await;
    }
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
        if self.pool.outstanding() >= OUTSTANDING_MAX {
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
        self.pool.submit(work, panicked);
    }
}
