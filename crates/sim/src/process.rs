//! A process that runs an attempt of the job: its subtasks, its master, and everything on its way between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use highwater_checkpoint::{
    CheckpointFailureReason, CheckpointStatsStatus, CheckpointStatsTracker, CheckpointingMode, Coordinator,
    CoordinatorConfig, Event, Now,
};
use highwater_runtime::control::{Control, ControlSender, Report, Reports};
use highwater_runtime::graph::JobGraph;
use highwater_runtime::operator::OperatorContext;
use highwater_runtime::restore::ClaimedJob;
use highwater_runtime::{
    AsyncSnapshot, AttemptEnvironment, BuiltSubtask, Contexts, Fence, JobError, Master, MasterEnd, Order, Prepared,
    Regions, Renewals, SharedStats, SnapshotExecutor, Step, Subtask, TaskError, TaskLayout, build_subtasks,
};
use highwater_state_api::{Attempt, CheckpointId, JobName, KEY_HASH_ID, OperatorUid, SubtaskId};

use crate::invariants::failures::Failures;
use crate::planted::Planted;
use crate::probe::Witness;
use crate::scenario::{Protocol, Scenario};
use crate::takeover::Failover;

/// How many checkpoints may fail between two steps.
const FAILURES_MAX: usize = 64;

/// A process in the middle of an attempt.
pub(crate) struct Process {
    /// The attempt.
    pub attempt: Attempt,
    /// The production's master with its coordinator.
    pub master: Master,
    /// The subtasks.
    pub slots: BTreeMap<SubtaskId, Slot>,
    /// Answers of the storage on their way to the master.
    pub answers: Vec<Event>,
    /// What is reported of snapshots, on its way to the master.
    pub reports: Vec<Report>,
    /// Snapshots that nobody writes yet.
    pub snapshots: Arc<Snapshots>,
    /// What the probes of each pipeline have seen since it was started.
    pub witnesses: Vec<Witness>,
    /// What it runs.
    pub graph: Arc<JobGraph>,
    /// What of that has finished, and the number of key groups.
    pub layout: TaskLayout,
    /// In its claims.
    pub nonce: u64,
    /// The attempts that its subtasks are of, or were of before they were taken over.
    pub attempts: BTreeSet<Attempt>,
    /// A region has failed, and is being restarted.
    pub failover: Option<Failover>,
    /// Asked before effects.
    pub fence: Fence,
    /// Renews the lease where others stand by; elsewhere while it is being renewed.
    pub renewals: Option<Renewals>,
    /// When it is renewed next.
    pub renewal_at_ms: u64,
    /// How many checkpoints were asked for.
    pub requested: u64,
    /// How its checkpoints went.
    pub stats: SharedStats,
    /// Which of them failed.
    pub failures: Failures,
    /// How the attempt has ended.
    pub end: Option<MasterEnd>,
}

/// A subtask with everything on its way to and from it.
pub(crate) struct Slot {
    /// Its name in the trace.
    pub name: String,
    subtask: Subtask,
    contexts: Option<BTreeMap<OperatorUid, OperatorContext>>,
    control: ControlSender,
    bell: Arc<Bell>,
    rest: Rest,
    /// Triggers and splits on their way, in order.
    pub orders: VecDeque<Control>,
    /// Notifications on their way, in any order.
    pub notices: Vec<Control>,
    /// Reports on their way to the master, in order.
    pub reports: Arc<Mailbox>,
}

/// What a subtask does when nobody steps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Ready,
    Waits(Option<Duration>),
    Gone,
}

/// How a step of a subtask went, for the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// It has restored its state.
    Opened,
    /// It was stepped.
    Step(Step),
    /// It failed.
    Failed(String),
}

/// A job that is claimed, and ready to run.
pub(crate) struct Claim {
    /// What was claimed.
    pub claimed: Box<ClaimedJob>,
    /// What its subtasks begin with.
    pub prepared: Prepared,
    /// Asked before effects.
    pub fence: Fence,
    /// In the claims of the process.
    pub nonce: u64,
}

/// Tasks that are to be restarted while the others go on.
pub(crate) struct Restart {
    /// The job of the new attempt.
    pub graph: Arc<JobGraph>,
    /// What was claimed, and is prepared for these tasks alone.
    pub claim: Claim,
    /// The tasks.
    pub tasks: BTreeSet<u32>,
    /// All others.
    pub survivors: BTreeSet<u32>,
    /// New ones for the pipelines of which something is restarted.
    pub witnesses: Vec<Witness>,
}

impl Process {
    /// The process of an attempt that is prepared.
    pub(crate) fn new(
        scenario: &Scenario,
        job: &JobName,
        graph: Arc<JobGraph>,
        claim: Claim,
        witnesses: Vec<Witness>,
        planted: Option<Planted>,
    ) -> Result<Self, JobError> {
        let Claim { claimed, prepared, fence, nonce } = claim;
        let Prepared { finished, enumerators, contexts } = prepared;
        let snapshots = Arc::new(Snapshots::default());
        let slots = build_slots(scenario, job, &graph, &claimed, &finished, contexts, &snapshots)?;
        let attempt = claimed.start.attempt;
        let layout = TaskLayout { finished, max_parallelism: claimed.max_parallelism };
        let config = coordinator_config(&scenario.protocol, job, &graph, &layout, planted);
        let stats = Arc::new(Mutex::new(CheckpointStatsTracker::new(FAILURES_MAX)));
        begin_stats(&stats, attempt, &config);
        let coordinator = Coordinator::new(config, claimed.start).with_left_overs(claimed.left_overs);
        let master = Master::new(coordinator, slots.keys().copied(), enumerators);
        let master = master.with_stats(stats.clone()).with_regions(regions_of(&graph, planted));
        let failures = Failures::new(scenario.protocol.tolerable_failures);
        Ok(Self {
            attempt,
            master,
            slots,
            answers: Vec::new(),
            reports: Vec::new(),
            snapshots,
            witnesses,
            graph,
            layout,
            nonce,
            attempts: BTreeSet::from([attempt]),
            failover: None,
            fence,
            renewals: None,
            renewal_at_ms: 0,
            requested: 0,
            stats,
            failures,
            end: None,
        })
    }

    /// Becomes the process of the attempt that has claimed the job and is prepared to restart these tasks. Returns what those
    /// are told that go on.
    pub(crate) fn adopt(
        &mut self,
        scenario: &Scenario,
        job: &JobName,
        restart: Restart,
        planted: Option<Planted>,
    ) -> Result<Vec<Order>, JobError> {
        let Restart { graph, claim, tasks, survivors, witnesses } = restart;
        let Claim { claimed, prepared, .. } = claim;
        let Prepared { finished, enumerators, contexts } = prepared;
        let left_out = &finished | &survivors;
        let mut restarted = build_slots(scenario, job, &graph, &claimed, &left_out, contexts, &self.snapshots)?;
        self.attempt = claimed.start.attempt;
        self.attempts.insert(self.attempt);
        self.layout.restart(&graph, &tasks, &TaskLayout { finished, max_parallelism: claimed.max_parallelism });
        let config = coordinator_config(&scenario.protocol, job, &graph, &self.layout, planted);
        begin_stats(&self.stats, self.attempt, &config);
        let coordinator = Coordinator::new(config, claimed.start).with_left_overs(claimed.left_overs);
        let ids: Vec<SubtaskId> = restarted.keys().copied().collect();
        let orders = self.master.take_over(self.attempt, coordinator, &survivors, ids, enumerators);
        self.slots.retain(|id, _| !tasks.contains(&id.task));
        self.slots.append(&mut restarted);
        (self.graph, self.witnesses) = (graph, witnesses);
        self.failures = Failures::new(scenario.protocol.tolerable_failures);
        Ok(orders)
    }

    /// Why a checkpoint has failed, a short while ago.
    pub(crate) fn failure_of(&self, checkpoint: CheckpointId) -> Option<CheckpointFailureReason> {
        let snapshot = self.stats.lock().unwrap_or_else(PoisonError::into_inner).snapshot();
        let stats = snapshot.history.iter().find(|stats| stats.checkpoint == checkpoint)?;
        match &stats.status {
            CheckpointStatsStatus::Failed(failure) => Some(failure.reason),
            _ => None,
        }
    }

    /// Whether nothing of these tasks runs any more, and nothing that it has said is on its way.
    pub(crate) fn have_gone(&self, tasks: &BTreeSet<u32>) -> bool {
        let mut slots = self.slots.iter().filter(|(id, _)| tasks.contains(&id.task));
        slots.all(|(_, slot)| slot.rest == Rest::Gone && slot.reports.is_empty())
    }

    /// The next time at which something happens by itself.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let waiting = self.slots.values().filter_map(|slot| match slot.rest {
            Rest::Waits(Some(until)) => Some(until.as_millis() as u64),
            _ => None,
        });
        let failover = self.failover.as_ref().and_then(Failover::deadline_ms);
        waiting.chain(self.master.next_deadline()).chain(failover).min()
    }

    /// The attempt is over: every subtask is told to stop, and does.
    pub(crate) fn stop(&mut self, now: Duration) {
        for slot in self.slots.values_mut().filter(|slot| slot.rest != Rest::Gone) {
            slot.control.send(Control::Cancel);
            while slot.rest != Rest::Gone {
                slot.step(now, 1);
            }
        }
    }
}

impl Slot {
    /// Whether there is a reason to step it: it has said that there may be more, it was woken, or its time has come.
    pub(crate) fn is_ready(&self, now: Duration) -> bool {
        match self.rest {
            Rest::Ready => true,
            Rest::Waits(until) => self.bell.rang() || until.is_some_and(|until| until <= now),
            Rest::Gone => false,
        }
    }

    /// Opens it, or lets it do one step.
    pub(crate) fn step(&mut self, now: Duration, records_max: usize) -> Stepped {
        self.bell.reset();
        let result = match self.contexts.take() {
            Some(mut contexts) => {
                let context = |uid: &OperatorUid| contexts.remove(uid).expect("every operator has a context");
                self.subtask.open(context).map(|()| Stepped::Opened)
            }
            None => self.subtask.step(now, records_max).map(Stepped::Step),
        };
        match result {
            Ok(stepped) => {
                self.rest = match stepped {
                    Stepped::Step(Step::Waits(until)) => Rest::Waits(until),
                    Stepped::Step(Step::Stopped) => Rest::Gone,
                    _ => Rest::Ready,
                };
                stepped
            }
            Err(error) => {
                self.rest = Rest::Gone;
                let failed = Stepped::Failed(chain_of(&error));
                self.reports.put(Report::Failed(self.subtask.id(), error));
                failed
            }
        }
    }

    /// A message is on its way to it.
    pub(crate) fn send(&mut self, message: Control) {
        match message {
            Control::Complete(_) | Control::Aborted { .. } | Control::Subsumed(_) => self.notices.push(message),
            _ => self.orders.push_back(message),
        }
    }

    /// It is told to stop, and what was on its way to it is lost.
    pub(crate) fn cancel(&mut self) {
        self.orders.clear();
        self.notices.clear();
        self.control.send(Control::Cancel);
    }

    /// A message has reached it.
    pub(crate) fn deliver(&self, message: Control) {
        self.control.send(message);
    }
}

/// Makes the subtasks for which there are contexts.
fn build_slots(
    scenario: &Scenario,
    job: &JobName,
    graph: &JobGraph,
    claimed: &ClaimedJob,
    left_out: &BTreeSet<u32>,
    mut contexts: Contexts,
    snapshots: &Arc<Snapshots>,
) -> Result<BTreeMap<SubtaskId, Slot>, JobError> {
    let ids: Vec<SubtaskId> = contexts.keys().copied().collect();
    let bells: BTreeMap<SubtaskId, Arc<Bell>> = ids.iter().map(|id| (*id, Arc::default())).collect();
    let mailboxes: BTreeMap<SubtaskId, Arc<Mailbox>> = ids.iter().map(|id| (*id, Arc::default())).collect();
    let environment = AttemptEnvironment {
        job: job.clone(),
        attempt: claimed.start.attempt,
        restored: claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint),
        mode: CheckpointingMode::ExactlyOnce,
        checkpoints_after_tasks_finish: true,
        finished: left_out,
        max_parallelism: &claimed.max_parallelism,
        channel_bytes_max: scenario.channel_bytes_max,
        executor: snapshots.clone(),
        waker: &|id| Waker::from(bells[&id].clone()),
        reports: &|id| Box::new(MailboxSender(mailboxes[&id].clone())),
    };
    let built = build_subtasks(graph, &environment)?;
    let slot = |BuiltSubtask { subtask, control, .. }| {
        let id = Subtask::id(&subtask);
        let name = format!("{}/{}", graph.tasks[id.task as usize].operators[0].uid, id.subtask);
        let (contexts, bell, reports) = (contexts.remove(&id), bells[&id].clone(), mailboxes[&id].clone());
        let (orders, notices) = (VecDeque::new(), Vec::new());
        let subtask = subtask.with_alignment_timeout(Duration::from_millis(scenario.protocol.timeout_ms));
        (id, Slot { name, subtask, contexts, control, bell, rest: Rest::Ready, orders, notices, reports })
    };
    Ok(built.into_iter().map(slot).collect())
}

/// What is restarted together; planted: each task alone.
fn regions_of(graph: &JobGraph, planted: Option<Planted>) -> Regions {
    if planted == Some(Planted::TaskRestartedWithoutItsRegion) {
        return Regions::of(&JobGraph { tasks: graph.tasks.clone(), edges: Vec::new() });
    }
    Regions::of(graph)
}

fn begin_stats(stats: &SharedStats, attempt: Attempt, config: &CoordinatorConfig) {
    let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
    stats.begin_attempt(Now::default(), attempt, None, config);
}

fn coordinator_config(
    protocol: &Protocol,
    job: &JobName,
    graph: &JobGraph,
    layout: &TaskLayout,
    planted: Option<Planted>,
) -> CoordinatorConfig {
    let counts = planted != Some(Planted::ExpiredNotCounted);
    CoordinatorConfig {
        job: job.clone(),
        interval_ms: Some(protocol.interval_ms),
        timeout_ms: protocol.timeout_ms,
        min_pause_ms: protocol.min_pause_ms,
        max_concurrent: protocol.max_concurrent,
        tolerable_failures: if counts { protocol.tolerable_failures } else { u32::MAX },
        checkpoints_after_tasks_finish: true,
        retain: protocol.retain,
        key_hash: KEY_HASH_ID.to_owned(),
        tasks: graph.task_plans(&layout.max_parallelism, &layout.finished),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain_of(error: &TaskError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Rings when a subtask is woken.
#[derive(Debug, Default)]
struct Bell(AtomicBool);

impl Bell {
    fn rang(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reports of one subtask on their way.
#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<VecDeque<Report>>);

impl Mailbox {
    fn put(&self, report: Report) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(report);
    }

    /// The oldest.
    pub(crate) fn take(&self) -> Option<Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

struct MailboxSender(Arc<Mailbox>);

impl Reports for MailboxSender {
    fn report(&self, report: Report) {
        self.0.put(report);
    }
}

/// Snapshots that were taken and wait to be written.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<Vec<AsyncSnapshot>>);

impl Snapshots {
    /// All of them.
    pub(crate) fn take(&self) -> Vec<AsyncSnapshot> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SnapshotExecutor for Snapshots {
    fn submit(&self, snapshot: AsyncSnapshot) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(snapshot);
    }
}
