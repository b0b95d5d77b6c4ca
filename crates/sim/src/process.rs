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
    AsyncSnapshot, AttemptEnvironment, BuiltSubtask, Fence, JobError, Master, MasterEnd, Prepared, Renewals,
    SharedStats, SnapshotExecutor, Step, Subtask, TaskError, build_subtasks,
};
use highwater_state_api::{Attempt, CheckpointId, JobName, KEY_HASH_ID, OperatorUid, SubtaskId};

use crate::invariants::failures::Failures;
use crate::planted::Planted;
use crate::probe::Witness;
use crate::scenario::{Protocol, Scenario};

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
    /// What the probes of this attempt have seen.
    pub witness: Witness,
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
}

impl Process {
    /// The process of an attempt that is prepared.
    pub(crate) fn new(
        scenario: &Scenario,
        job: &JobName,
        graph: &JobGraph,
        claim: Claim,
        witness: Witness,
        planted: Option<Planted>,
    ) -> Result<Self, JobError> {
        let Claim { claimed, mut prepared, fence } = claim;
        let ids: Vec<SubtaskId> = prepared.contexts.keys().copied().collect();
        let bells: BTreeMap<SubtaskId, Arc<Bell>> = ids.iter().map(|id| (*id, Arc::default())).collect();
        let mailboxes: BTreeMap<SubtaskId, Arc<Mailbox>> = ids.iter().map(|id| (*id, Arc::default())).collect();
        let snapshots = Arc::new(Snapshots::default());
        let environment = AttemptEnvironment {
            job: job.clone(),
            attempt: claimed.start.attempt,
            restored: claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint),
            mode: CheckpointingMode::ExactlyOnce,
            checkpoints_after_tasks_finish: true,
            finished: &prepared.finished,
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
            let (contexts, bell, reports) = (prepared.contexts.remove(&id), bells[&id].clone(), mailboxes[&id].clone());
            let (orders, notices) = (VecDeque::new(), Vec::new());
            let subtask = subtask.with_alignment_timeout(Duration::from_millis(scenario.protocol.timeout_ms));
            (id, Slot { name, subtask, contexts, control, bell, rest: Rest::Ready, orders, notices, reports })
        };
        let slots = built.into_iter().map(slot).collect();
        let attempt = claimed.start.attempt;
        let mut config = coordinator_config(&scenario.protocol, job, graph, &claimed, &prepared.finished);
        if planted == Some(Planted::ExpiredNotCounted) {
            config.tolerable_failures = u32::MAX;
        }
        let mut tracker = CheckpointStatsTracker::new(FAILURES_MAX);
        tracker.begin_attempt(Now::default(), attempt, None, &config);
        let stats = Arc::new(Mutex::new(tracker));
        let master = Master::new(Coordinator::new(config, claimed.start), ids, prepared.enumerators);
        let master = master.with_stats(stats.clone());
        let (answers, reports) = (Vec::new(), Vec::new());
        let failures = Failures::new(scenario.protocol.tolerable_failures);
        let (requested, end) = (0, None);
        let (renewals, renewal_at_ms) = (None, 0);
        Ok(Self {
            attempt,
            master,
            slots,
            answers,
            reports,
            snapshots,
            witness,
            fence,
            renewals,
            renewal_at_ms,
            requested,
            stats,
            failures,
            end,
        })
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

    /// The next time at which something happens by itself.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let waiting = self.slots.values().filter_map(|slot| match slot.rest {
            Rest::Waits(Some(until)) => Some(until.as_millis() as u64),
            _ => None,
        });
        waiting.chain(self.master.next_deadline()).min()
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

    /// A message has reached it.
    pub(crate) fn deliver(&self, message: Control) {
        self.control.send(message);
    }
}

fn coordinator_config(
    protocol: &Protocol,
    job: &JobName,
    graph: &JobGraph,
    claimed: &ClaimedJob,
    finished: &BTreeSet<u32>,
) -> CoordinatorConfig {
    CoordinatorConfig {
        job: job.clone(),
        interval_ms: Some(protocol.interval_ms),
        timeout_ms: protocol.timeout_ms,
        min_pause_ms: protocol.min_pause_ms,
        max_concurrent: protocol.max_concurrent,
        tolerable_failures: protocol.tolerable_failures,
        checkpoints_after_tasks_finish: true,
        retain: protocol.retain,
        key_hash: KEY_HASH_ID.to_owned(),
        tasks: graph.task_plans(&claimed.max_parallelism, finished),
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
