//! The shell around the master of an attempt: tells it what happens and obeys its orders. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{Action, AttemptStart, Coordinator, CoordinatorConfig, Decline, Event, RequestId, TaskPlan};
use highwater_state_api::{Attempt, CheckpointStorage, KEY_HASH_ID, SubtaskId};
use tokio::sync::mpsc;

use crate::attempt::AttemptEnd;
use crate::checkpoint_coordinator::{Answer, Ask};
use crate::control::{Control, Report};
use crate::control_lanes::ControlLanes;
use crate::driver::{Input, Job};
use crate::fence::Fence;
use crate::io_pool::IoPool;
use crate::job::{Owner, locked};
use crate::master::{Enumerators, Master, MasterEnd, Order};
use crate::retrying_storage::RetryingStorage;
use crate::storage_work::{answer_of_failure, carry_out};

/// Where storage work is carried out, and who is asked before.
pub(crate) struct StorageWork {
    pub(crate) pool: IoPool,
    pub(crate) fence: Fence,
}

/// The shell of one attempt.
pub(crate) struct Shell<'a> {
    job: &'a Job,
    master: Master,
    attempt: Attempt,
    lanes: ControlLanes,
    storage_work: StorageWork,
    inputs: mpsc::Receiver<Input>,
    end: Option<AttemptEnd>,
    running: usize,
    stopped: usize,
    /// How many checkpoints were asked for.
    requested: u64,
    /// Where the answers go that are still open.
    answers: BTreeMap<RequestId, Answer>,
}

impl<'a> Shell<'a> {
    pub(crate) fn new(
        job: &'a Job,
        start: AttemptStart,
        tasks: Vec<TaskPlan>,
        lanes: ControlLanes,
        enumerators: Enumerators,
        storage_work: StorageWork,
        inputs: mpsc::Receiver<Input>,
    ) -> Self {
        let attempt = start.attempt;
        let config = coordinator_config(job, tasks);
        let stats = job.board.checkpoint_stats();
        let restored = job.board.lock().status.restored_from;
        locked(&stats).begin_attempt(job.clock.now(), attempt, restored, &config);
        let mut coordinator = Coordinator::new(config, start);
        if let Some(interval) = job.checkpoints.interval_during_backlog {
            coordinator = coordinator.with_backlog_interval(millis(interval));
        }
        if !job.config.hooks.is_empty() {
            coordinator = coordinator.with_hooks();
        }
        if job.checkpoints.pauses_sources() {
            coordinator = coordinator.with_early_first_checkpoint();
        }
        let master = Master::new(coordinator, lanes.subtasks(), enumerators).with_stats(stats);
        Self {
            job,
            master,
            attempt,
            lanes,
            storage_work,
            inputs,
            end: None,
            running: 0,
            stopped: 0,
            requested: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Drives the master until the attempt is over.
    pub(crate) async fn run(&mut self, owner: &mut Owner) -> AttemptEnd {
        loop {
            if let Some(end) = self.end.take() {
                if !matches!(end, AttemptEnd::Finished) {
                    self.on_event(Event::Shutdown);
                }
                return end;
            }
            let deadline = self.master.next_deadline();
            let wait_ms = deadline.map(|deadline| deadline.saturating_sub(self.job.clock.now().monotonic_ms));
            tokio::select! {
                biased;
                ask = owner.next() => match ask {
                    None => self.end = Some(AttemptEnd::Cancelled),
                    Some(Ask::Checkpoint(request, answer)) => {
                        let id = RequestId(self.requested);
                        self.requested += 1;
                        self.answers.insert(id, answer);
                        self.on_event(Event::CheckpointRequested { id, request });
                    }
                    Some(Ask::StartScheduler) => self.on_event(Event::SchedulerStarted),
                    Some(Ask::StopScheduler) => self.on_event(Event::SchedulerStopped),
                },
                input = self.inputs.recv() => match input {
                    Some(Input::Event(event)) => self.on_event(event),
                    Some(Input::Report(report)) => self.on_report(report),
                    // Every subtask holds a sender until it has reported how it ended, which ends this loop.
                    None => unreachable!("the subtasks went away without a report"),
                },
                () = sleep(wait_ms) => self.on_event(Event::Tick),
            }
        }
    }

    /// Waits until `expected` subtasks have stopped or failed; what else comes in is of no interest any more.
    pub(crate) async fn all_stopped(&mut self, expected: usize) {
        while self.stopped < expected {
            match self.inputs.recv().await {
                Some(Input::Report(Report::Stopped(_) | Report::Failed(..))) => self.stopped += 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn on_report(&mut self, report: Report) {
        match report {
            Report::Running(_) => {
                self.running += 1;
                if self.running == self.lanes.len() {
                    tracing::info!(target: "highwater::job", job = %self.job.name, "all subtasks are running");
                }
            }
            Report::Stopped(_) | Report::Failed(..) => self.stopped += 1,
            _ => {}
        }
        let orders = self.master.on_report(self.job.clock.now(), report);
        self.obey(orders);
    }

    fn on_event(&mut self, event: Event) {
        let orders = self.master.on_event(self.job.clock.now(), event);
        self.obey(orders);
    }

    /// Tells a subtask something. Whoever cannot be asked to take part in a checkpoint has declined it.
    fn tell(&mut self, subtask: SubtaskId, message: Control) {
        let asked = match &message {
            Control::Trigger { checkpoint, .. } => Some(*checkpoint),
            _ => None,
        };
        if let Err(failure) = self.lanes.tell(self.attempt, subtask, message) {
            let reason = failure.reason.name();
            tracing::error!(target: "highwater::checkpoint", %subtask, reason, %failure, "nobody was told");
            if let Some(checkpoint) = asked {
                let (job, attempt) = (self.job.name.clone(), self.attempt);
                self.on_report(Report::Declined(Decline { job, attempt, checkpoint, subtask, failure }));
            }
        }
    }

    /// The storage that an action is carried out on. What became of log records and deletions is the coordinator's to find out
    /// and to try again.
    fn storage_for(&self, action: &Action) -> Arc<dyn CheckpointStorage> {
        let storage = self.job.storage.clone();
        let (Action::InitializeLocation { checkpoint, .. } | Action::WriteMetadata { checkpoint, .. }) = action else {
            return storage;
        };
        let (clock, timeout) = (self.job.clock.clone(), self.job.checkpoints.timeout);
        Arc::new(RetryingStorage::new(storage, self.storage_work.pool.over.patience(*checkpoint, clock, timeout)))
    }

    fn obey(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Tell(subtask, message) => self.tell(subtask, message),
                Order::Store(action) => {
                    let (storage, job) = (self.storage_for(&action), self.job.name.clone());
                    let failed = answer_of_failure(&action);
                    let fence = self.storage_work.fence.clone();
                    let work = async move { carry_out(&*storage, &job, &fence, action).await.map(Input::Event) };
                    self.storage_work.pool.submit(work, |cause| failed(cause).map(Input::Event));
                }
                Order::TriggerHooks(checkpoint, triggered_at_ms) => {
                    let hooks = self.job.config.hooks.clone();
                    let work = async move { Some(Input::Event(hooks.trigger(checkpoint, triggered_at_ms))) };
                    let failed = move |cause| {
                        Some(Input::Event(Event::HookFailed { checkpoint, identifier: String::new(), cause }))
                    };
                    self.storage_work.pool.submit(work, failed);
                }
                Order::Completed(checkpoint) => {
                    self.storage_work.pool.over.add(checkpoint);
                    let mut board = self.job.board.lock();
                    if board.status.last_checkpoint != Some(checkpoint) {
                        board.completed(checkpoint);
                    }
                }
                Order::Answer(request, answer) => {
                    if let Some(receiver) = self.answers.remove(&request) {
                        // Whoever asked may have gone.
                        let _ = receiver.send(answer);
                    }
                }
                Order::Failed(checkpoint) => {
                    self.storage_work.pool.over.add(checkpoint);
                    self.job.board.lock().status.checkpoints_failed += 1;
                }
                Order::End(end) => {
                    // The first failure is the cause; those that follow may be its consequences.
                    let end = match end {
                        MasterEnd::Finished => {
                            tracing::info!(target: "highwater::job", job = %self.job.name, "finished");
                            AttemptEnd::Finished
                        }
                        MasterEnd::TaskFailed(task, error) => {
                            AttemptEnd::TaskFailed(self.job.graph.task_name(task), error)
                        }
                        MasterEnd::CoordinatorFailed(failure) => AttemptEnd::CoordinatorFailed(failure),
                    };
                    self.end.get_or_insert(end);
                }
            }
        }
    }
}

async fn sleep(wait_ms: Option<u64>) {
    match wait_ms {
        Some(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
        None => std::future::pending().await,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn coordinator_config(job: &Job, tasks: Vec<TaskPlan>) -> CoordinatorConfig {
    CoordinatorConfig {
        job: job.name.clone(),
        interval_ms: job.checkpoints.interval.map(millis),
        timeout_ms: millis(job.checkpoints.timeout),
        min_pause_ms: millis(job.checkpoints.min_pause),
        max_concurrent: job.checkpoints.max_concurrent,
        tolerable_failures: job.checkpoints.tolerable_failures,
        checkpoints_after_tasks_finish: job.checkpoints.after_tasks_finish,
        retain: job.checkpoints.retain,
        key_hash: KEY_HASH_ID.to_owned(),
        tasks,
    }
}
