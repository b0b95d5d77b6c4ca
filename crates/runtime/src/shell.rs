//! The shell around the master of an attempt: tells it what happens and obeys its orders. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{
    Action, AttemptStart, Coordinator, CoordinatorConfig, Decline, Discard, Event, RequestId, StorageLane, TaskPlan,
};
use highwater_state_api::{Attempt, CheckpointId, CheckpointStorage, KEY_HASH_ID, SubtaskId};
use tokio::sync::mpsc;

use crate::FailoverStrategy;
use crate::attempt::AttemptEnd;
use crate::checkpoint_coordinator::{Answer, Ask};
use crate::control::{Control, Report};
use crate::control_lanes::ControlLanes;
use crate::driver::{Input, Job};
use crate::fence::Fence;
use crate::io_pool::IoPool;
use crate::job::{Owner, locked};
use crate::master::{Enumerators, Master, MasterEnd, Order};
use crate::regions::Regions;
use crate::retrying_storage::RetryingStorage;
use crate::storage_work::{answer_of_failure, carry_out};

/// Where storage work is carried out, and who is asked before.
pub(crate) struct StorageWork {
    pub(crate) pool: IoPool,
    pub(crate) fence: Fence,
}

/// The shell of one attempt.
pub(crate) struct Shell {
    job: Arc<Job>,
    master: Master,
    attempt: Attempt,
    lanes: ControlLanes,
    storage_work: StorageWork,
    inputs: mpsc::Receiver<Input>,
    end: Option<AttemptEnd>,
    /// The tasks that are to be restarted when the attempt is over, if the others go on.
    failed_region: Option<BTreeSet<u32>>,
    /// How many subtasks are to report that they run.
    expected: usize,
    running: usize,
    /// The subtasks that have stopped or failed.
    gone: BTreeSet<SubtaskId>,
    /// How many checkpoints were asked for.
    requested: u64,
    /// Where the answers go that are still open.
    answers: BTreeMap<RequestId, Answer>,
}

impl Shell {
    pub(crate) fn new(
        job: &Arc<Job>,
        attempt: Attempt,
        coordinator: Coordinator,
        lanes: ControlLanes,
        enumerators: Enumerators,
        storage_work: StorageWork,
        inputs: mpsc::Receiver<Input>,
    ) -> Self {
        let master = Master::new(coordinator, lanes.subtasks(), enumerators);
        Self {
            job: job.clone(),
            master: equipped(job, master),
            attempt,
            expected: lanes.len(),
            lanes,
            storage_work,
            inputs,
            end: None,
            failed_region: None,
            running: 0,
            gone: BTreeSet::new(),
            requested: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Becomes the shell of the next attempt after a region has failed: it takes over whatever goes on. `lanes` are all lanes of
    /// that attempt, `region` the tasks that were restarted, `enumerators` theirs.
    pub(crate) fn adopt(
        &mut self,
        attempt: Attempt,
        coordinator: Coordinator,
        lanes: ControlLanes,
        region: &BTreeSet<u32>,
        enumerators: Enumerators,
    ) {
        self.attempt = attempt;
        let survivors = Regions::of(&self.job.graph).tasks_without(region);
        let restarted = lanes.subtasks().filter(|subtask| region.contains(&subtask.task));
        let orders = self.master.take_over(self.attempt, coordinator, &survivors, restarted, enumerators);
        (self.expected, self.running, self.failed_region) = (self.master.subtasks(), 0, None);
        self.lanes = lanes;
        self.gone.retain(|subtask| !region.contains(&subtask.task));
        self.obey(orders);
    }

    /// Drives the master until the attempt is over.
    pub(crate) async fn run(&mut self, owner: &mut Owner) -> AttemptEnd {
        loop {
            if let Some(end) = self.end.take() {
                if !matches!(end, AttemptEnd::Finished) && self.failed_region.is_none() {
                    self.on_event(Event::Shutdown);
                }
                return end;
            }
            let wait_ms = self.wait_ms();
            // Chance decides who is heard first, or whoever asks without end would keep the subtasks from being heard.
            tokio::select! {
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
                input = self.inputs.recv() => self.on_input(input),
                () = sleep(wait_ms) => self.on_event(Event::Tick),
            }
        }
    }

    /// The tasks that are to be restarted while the others go on, if that is how the attempt has ended.
    pub(crate) fn failed_region(&self) -> Option<&BTreeSet<u32>> {
        self.failed_region.as_ref()
    }

    /// After a region has failed: serves the subtasks that go on until `until` is ready. The end of the attempt for these, too,
    /// comes before.
    pub(crate) async fn serve<T>(
        &mut self,
        owner: &mut Owner,
        until: impl Future<Output = T>,
    ) -> Result<T, AttemptEnd> {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                biased;
                done = &mut until => return Ok(done),
                served = self.serve_one(owner) => served?,
            }
        }
    }

    /// The same, until something is so.
    pub(crate) async fn serve_until(
        &mut self,
        owner: &mut Owner,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), AttemptEnd> {
        while !is_so(self) {
            self.serve_one(owner).await?;
        }
        Ok(())
    }

    /// Takes what has come in until now.
    pub(crate) fn catch_up(&mut self) -> Result<(), AttemptEnd> {
        for _ in 0..self.inputs.len() {
            if let Ok(input) = self.inputs.try_recv() {
                self.on_input(Some(input));
            }
        }
        self.end.take().map_or(Ok(()), Err)
    }

    /// What is asked meanwhile waits, as it does between two attempts.
    async fn serve_one(&mut self, owner: &mut Owner) -> Result<(), AttemptEnd> {
        let wait_ms = self.wait_ms();
        tokio::select! {
            biased;
            () = owner.cancel() => return Err(AttemptEnd::Cancelled),
            input = self.inputs.recv() => self.on_input(input),
            () = sleep(wait_ms) => self.on_event(Event::Tick),
        }
        self.end.take().map_or(Ok(()), Err)
    }

    /// Whether these subtasks have stopped or failed.
    pub(crate) fn have_gone(&self, subtasks: &[SubtaskId]) -> bool {
        subtasks.iter().all(|subtask| self.gone.contains(subtask))
    }

    /// Whether nothing is being appended to the job log, once a region has failed.
    pub(crate) fn is_decided(&self) -> bool {
        self.undecided().is_none()
    }

    /// The checkpoint whose record is being appended to the job log, which has not told.
    pub(crate) fn undecided(&self) -> Option<CheckpointId> {
        self.master.coordinator().undecided()
    }

    /// Once the attempt is over: whether the job log has said meanwhile that the job has finished.
    pub(crate) fn has_finished(&self) -> bool {
        matches!(self.end, Some(AttemptEnd::Finished))
    }

    /// The newest complete checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<CheckpointId> {
        self.master.coordinator().latest_complete()
    }

    /// The largest id of a checkpoint that somebody may have heard of.
    pub(crate) fn highest_triggered(&self) -> Option<CheckpointId> {
        self.master.coordinator().next_checkpoint().0.checked_sub(1).map(CheckpointId)
    }

    /// Nothing completes any more.
    pub(crate) fn shut_down(&mut self) {
        self.on_event(Event::Shutdown);
    }

    /// Once the attempt is over: waits until these subtasks have stopped or failed.
    pub(crate) async fn all_gone(&mut self, subtasks: &[SubtaskId]) {
        while !self.have_gone(subtasks) {
            match self.inputs.recv().await {
                Some(input) => self.on_late_input(input),
                None => return,
            }
        }
    }

    /// Once the attempt is over: hears whatever comes in until `until` is ready.
    pub(crate) async fn hear_until<T>(&mut self, until: impl Future<Output = T>) -> T {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                done = &mut until => return done,
                Some(input) = self.inputs.recv() => self.on_late_input(input),
            }
        }
    }

    /// Once the attempt is over: waits until its storage work is done but for deletions, and hears what became of it.
    pub(crate) async fn storage_idle(&mut self) {
        let pool = self.storage_work.pool.clone();
        self.hear_until(pool.idle()).await;
        // Work is done when its answer is on its way.
        while let Ok(input) = self.inputs.try_recv() {
            self.on_late_input(input);
        }
    }

    /// Nothing of it is acted upon any more.
    fn on_late_input(&mut self, input: Input) {
        match input {
            Input::Report(report) => self.note_gone(&report),
            event => self.on_input(Some(event)),
        }
    }

    fn wait_ms(&self) -> Option<u64> {
        let deadline = self.master.next_deadline();
        deadline.map(|deadline| deadline.saturating_sub(self.job.clock.now().monotonic_ms))
    }

    fn note_gone(&mut self, report: &Report) {
        if let Report::Stopped(subtask) | Report::Failed(subtask, _) = report {
            self.gone.insert(*subtask);
        }
    }

    fn on_input(&mut self, input: Option<Input>) {
        match input {
            // Of the attempt that is about to adopt this one's subtasks it is the keeper of the lease who says that it is lost.
            Some(Input::Event(attempt, event)) if attempt >= self.attempt => self.on_event(event),
            // An answer to what the attempt before has ordered. What it has not deleted the claim has found.
            Some(Input::Event(..)) => {}
            Some(Input::Report(report)) => self.on_report(report),
            // The pool that waits for the storage holds a sender, and is there as long as this is.
            None => unreachable!("the subtasks went away without a report"),
        }
    }

    fn on_report(&mut self, report: Report) {
        self.note_gone(&report);
        if matches!(report, Report::Running(_)) {
            self.running += 1;
            if self.running == self.expected {
                tracing::info!(target: "highwater::job", job = %self.job.name, "all subtasks are running");
            }
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
            tracing::error!(target: "highwater::checkpoint", job = %self.job.name, %subtask, reason, %failure, "nobody was told");
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
                    let failed = answer_of_failure(&job, &action);
                    let (fence, attempt) = (self.storage_work.fence.clone(), self.attempt);
                    let answer = move |event| Input::Event(attempt, event);
                    let lane = action.lane();
                    let work = async move { carry_out(&*storage, &job, &fence, action).await.map(answer) };
                    let failed = move |cause| failed(cause).map(answer);
                    self.storage_work.pool.submit(lane, work, failed);
                }
                Order::TriggerHooks(checkpoint, triggered_at_ms) => {
                    let (hooks, attempt) = (self.job.config.hooks.clone(), self.attempt);
                    let fence = self.storage_work.fence.clone();
                    let work = async move {
                        Some(Input::Event(attempt, hooks.trigger(&fence, checkpoint, triggered_at_ms).await))
                    };
                    let failed = move |cause| {
                        Some(Input::Event(attempt, Event::HookFailed { checkpoint, identifier: None, cause }))
                    };
                    self.storage_work.pool.submit(StorageLane::Checkpoints, work, failed);
                }
                Order::LogSilent { sequence, waited_ms } => {
                    let job = &self.job.name;
                    tracing::warn!(target: "highwater::checkpoint", %job, sequence, waited_ms, "the job log has not answered");
                }
                Order::Completed(checkpoint) => {
                    self.storage_work.pool.over.add(checkpoint);
                    self.job.board.lock().completed(checkpoint);
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
                        MasterEnd::RegionFailed(task, error, region) => {
                            if self.end.is_none() {
                                self.failed_region = Some(region);
                            }
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

/// The coordinator of an attempt that begins now. `left_overs` are what dead attempts have left.
pub(crate) fn coordinator(
    job: &Job,
    start: AttemptStart,
    tasks: Vec<TaskPlan>,
    left_overs: Vec<Discard>,
) -> Coordinator {
    let config = coordinator_config(job, tasks);
    let restored = job.board.lock().status.restored_from;
    let counts = {
        let stats = job.board.checkpoint_stats();
        let mut stats = locked(&stats);
        stats.begin_attempt(job.clock.now(), start.attempt, restored, &config);
        stats.snapshot().counts
    };
    job.board.lock().count_checkpoints(counts);
    let mut coordinator = Coordinator::new(config, start).with_left_overs(left_overs);
    if let Some(interval) = job.checkpoints.interval_during_backlog {
        coordinator = coordinator.with_backlog_interval(millis(interval));
    }
    if !job.config.hooks.is_empty() {
        coordinator = coordinator.with_hooks();
    }
    if job.checkpoints.pauses_sources() {
        coordinator = coordinator.with_early_first_checkpoint();
    }
    coordinator
}

fn equipped(job: &Job, master: Master) -> Master {
    let master = master.with_stats(job.board.checkpoint_stats());
    match job.failover {
        FailoverStrategy::Region => master.with_regions(Regions::of(&job.graph)),
        FailoverStrategy::Full => master,
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
