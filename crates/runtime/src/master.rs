//! The master of one attempt, as a value: what subtasks report and what storage answers goes in, orders come out.
//!
//! It joins the coordinator with the split enumerators and the gate between these and the readers. It has no channel, no
//! clock and no storage: in production the shell gives it what comes in and obeys, in a simulation a scheduler does.

mod failover;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use highwater_checkpoint::{
    Action, AttemptFailure, CheckpointFailure, CheckpointStatsTracker, Coordinator, EnumeratorState, Event, Now,
    RequestId,
};
use highwater_state_api::{BoxedError, CheckpointId, JobName, OperatorUid, SubtaskId};

use crate::TaskError;
use crate::control::{Control, Report};
use crate::error::chain_of;
use crate::graph::AnyEnumerator;
use crate::regions::Regions;
use crate::split_gate::SplitGate;
use crate::threads::message_of;

/// The split enumerators, by the index of their task.
pub type Enumerators = BTreeMap<u32, (OperatorUid, Box<dyn AnyEnumerator>)>;

/// What is to be done. To be obeyed in order.
#[derive(Debug)]
pub enum Order {
    /// Put a message into the control lane of a subtask.
    Tell(SubtaskId, Control),
    /// Carry out storage work, see [`crate::carry_out`]; its answer, if there is one, goes to [`Master::on_event`].
    Store(Action),
    /// Have the hooks of the application take part in a checkpoint that was triggered then; their answer goes to
    /// [`Master::on_event`].
    TriggerHooks(CheckpointId, u64),
    /// Answer whoever asked for a checkpoint.
    Answer(RequestId, Result<CheckpointId, CheckpointFailure>),
    /// For people: the answer to a call of the job log has not come.
    LogSilent {
        /// The number that was asked about.
        sequence: u64,
        /// How long the answer was waited for.
        waited_ms: u64,
    },
    /// For people: a checkpoint is complete.
    Completed(CheckpointId),
    /// For people: a checkpoint has failed.
    Failed(CheckpointId),
    /// The attempt is over. The first one counts.
    End(MasterEnd),
}

/// How an attempt ended, as far as its master knows.
#[derive(Debug)]
pub enum MasterEnd {
    /// The job is done.
    Finished,
    /// A task failed; the task is given by its index.
    TaskFailed(usize, TaskError),
    /// A task failed, and only these tasks are to be restarted: the others go on.
    RegionFailed(usize, TaskError, BTreeSet<u32>),
    /// The coordinator ended the attempt.
    CoordinatorFailed(AttemptFailure),
}

/// The master of one attempt.
pub struct Master {
    coordinator: Coordinator,
    /// Those that have not been let go.
    subtasks: BTreeSet<SubtaskId>,
    enumerators: Enumerators,
    gate: SplitGate,
    is_processing_backlog: bool,
    stats: Option<SharedStats>,
    /// Subtasks have been told that all of them run.
    all_running: bool,
    /// The newest checkpoint that people have been told to be complete.
    latest_complete: Option<CheckpointId>,
    /// What is restarted together; `None`: everything.
    regions: Option<Regions>,
    /// The tasks that are to be restarted.
    failed: BTreeSet<u32>,
    /// Subtasks of the attempt before that were taken over and have not said yet that they are of this one.
    adopted: BTreeSet<SubtaskId>,
}

/// Statistics of checkpoints that others look at while a master writes them.
pub type SharedStats = Arc<Mutex<CheckpointStatsTracker>>;

impl Master {
    /// The master of an attempt of these subtasks.
    pub fn new(
        coordinator: Coordinator,
        subtasks: impl IntoIterator<Item = SubtaskId>,
        enumerators: Enumerators,
    ) -> Self {
        Self {
            coordinator,
            subtasks: subtasks.into_iter().collect(),
            enumerators,
            gate: SplitGate::default(),
            is_processing_backlog: false,
            stats: None,
            all_running: false,
            latest_complete: None,
            regions: None,
            failed: BTreeSet::new(),
            adopted: BTreeSet::new(),
        }
    }

    /// Writes down how its checkpoints go.
    pub fn with_stats(mut self, stats: SharedStats) -> Self {
        self.stats = Some(stats);
        self
    }

    /// The coordinator, to be looked at.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// When to send [`Event::Tick`] if nothing else happens before, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.coordinator.next_deadline()
    }

    /// Takes what a subtask, or the asynchronous half of its snapshot, says.
    pub fn on_report(&mut self, now: Now, report: Report) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.is_out_of_date(&report) {
            return orders;
        }
        match report {
            Report::Running(subtask) => self.event(now, Event::SubtaskRunning { subtask }, &mut orders),
            Report::Ended(subtask) => self.event(now, Event::SubtaskEnded { subtask }, &mut orders),
            Report::Settled(subtask, checkpoint) => {
                self.event(now, Event::SubtaskSettled { subtask, checkpoint }, &mut orders);
            }
            Report::SplitRequested(subtask) => {
                if self.gate.request(subtask) {
                    self.assign_split(subtask, &mut orders);
                }
            }
            Report::Acknowledged(acknowledgement) => {
                let (subtask, checkpoint) = (acknowledgement.subtask, acknowledgement.checkpoint);
                let has_waited = self.gate.acknowledged(subtask, checkpoint);
                self.event(now, Event::Acknowledged(acknowledgement), &mut orders);
                if has_waited {
                    self.assign_split(subtask, &mut orders);
                }
            }
            Report::Declined(decline) => self.event(now, Event::Declined(decline), &mut orders),
            Report::Adopted(subtask) => {
                self.adopted.remove(&subtask);
            }
            Report::Failed(subtask, error) => self.task_failed(now, subtask, error, &mut orders),
            Report::Stopped(_) => {}
        }
        self.look_at_backlog(now, &mut orders);
        orders
    }

    /// Takes an answer to storage work, the time, or a wish of the job's owner.
    pub fn on_event(&mut self, now: Now, event: Event) -> Vec<Order> {
        let mut orders = Vec::new();
        self.event(now, event, &mut orders);
        self.look_at_backlog(now, &mut orders);
        orders
    }

    fn event(&mut self, now: Now, event: Event, orders: &mut Vec<Order>) {
        tracing::trace!(target: "highwater::protocol", job = %self.job(), ?event);
        self.look(|stats| stats.on_event(now, &event));
        let actions = self.coordinator.on_event(now, event);
        if !self.all_running && self.coordinator.all_running() {
            self.all_running = true;
            self.tell_all(&Control::AllRunning, orders);
        }
        for action in actions {
            tracing::trace!(target: "highwater::protocol", job = %self.job(), ?action);
            self.look(|stats| stats.on_action(now, &action));
            self.action(now, action, orders);
        }
    }

    fn job(&self) -> &JobName {
        self.coordinator.job()
    }

    fn look(&self, look: impl FnOnce(&mut CheckpointStatsTracker)) {
        if let Some(stats) = &self.stats {
            // Numbers for people: those of before a panic are better than none.
            look(&mut stats.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn action(&mut self, now: Now, action: Action, orders: &mut Vec<Order>) {
        match action {
            Action::SnapshotEnumerators { checkpoint } => self.snapshot_enumerators(now, checkpoint, orders),
            Action::TriggerHooks { checkpoint, triggered_at_ms } => {
                orders.push(Order::TriggerHooks(checkpoint, triggered_at_ms));
            }
            Action::TriggerSubtasks { checkpoint, triggered_at_ms, subtasks, .. } => {
                tracing::info!(target: "highwater::checkpoint", job = %self.job(), %checkpoint, "triggered");
                let trigger = Control::Trigger { checkpoint, triggered_at_ms };
                orders.extend(subtasks.into_iter().map(|subtask| Order::Tell(subtask, trigger.clone())));
            }
            Action::FinishSubtasks { subtasks } => {
                for subtask in subtasks {
                    tracing::info!(target: "highwater::job", job = %self.job(), %subtask, "has finished");
                    self.subtasks.remove(&subtask);
                    self.enumerators.remove(&subtask.task);
                    orders.push(Order::Tell(subtask, Control::Finish));
                }
            }
            Action::NotifyComplete { checkpoint } => {
                self.note_complete(checkpoint, orders);
                self.tell_all(&Control::Complete(checkpoint), orders);
                self.open_gate(checkpoint, orders);
            }
            Action::NoteComplete { checkpoint } => self.note_complete(checkpoint, orders),
            Action::NotifyAborted { checkpoint, failure, latest_complete } => {
                let (job, reason) = (self.job(), failure.reason.name());
                if failure.reason.follows() {
                    tracing::info!(target: "highwater::checkpoint", %job, %checkpoint, reason, %failure, "failed");
                } else {
                    tracing::warn!(target: "highwater::checkpoint", %job, %checkpoint, reason, %failure, "failed");
                }
                orders.push(Order::Failed(checkpoint));
                self.tell_all(&Control::Aborted { checkpoint, latest_complete }, orders);
                self.open_gate(checkpoint, orders);
            }
            Action::RequestFailed { request, failure } => orders.push(Order::Answer(request, Err(failure))),
            Action::RequestCompleted { request, checkpoint } => orders.push(Order::Answer(request, Ok(checkpoint))),
            Action::NotifySubsumed { checkpoint } => self.tell_all(&Control::Subsumed(checkpoint), orders),
            Action::ReportLogSilence { sequence, waited_ms } => {
                orders.push(Order::LogSilent { sequence, waited_ms });
            }
            Action::Finished => orders.push(Order::End(MasterEnd::Finished)),
            Action::Fail(failure) => orders.push(Order::End(MasterEnd::CoordinatorFailed(failure))),
            work @ (Action::InitializeLocation { .. }
            | Action::WriteMetadata { .. }
            | Action::AppendLog { .. }
            | Action::ReadLog { .. }
            | Action::Discard { .. }) => orders.push(Order::Store(work)),
        }
    }

    fn note_complete(&mut self, checkpoint: CheckpointId, orders: &mut Vec<Order>) {
        // The last one is said again and again, until everybody has done what it allows.
        if self.latest_complete < Some(checkpoint) {
            tracing::info!(target: "highwater::checkpoint", job = %self.job(), %checkpoint, "complete");
            self.latest_complete = Some(checkpoint);
            orders.push(Order::Completed(checkpoint));
        }
    }

    fn tell_all(&self, message: &Control, orders: &mut Vec<Order>) {
        orders.extend(self.subtasks.iter().map(|subtask| Order::Tell(*subtask, message.clone())));
    }

    /// Asks the enumerators whether they work through a backlog, and tells the coordinator what is new.
    fn look_at_backlog(&mut self, now: Now, orders: &mut Vec<Order>) {
        let mut enumerators = self.enumerators.values();
        // After a panic the answer is that of before.
        let asked = catch_unwind(AssertUnwindSafe(|| enumerators.any(|(_, it)| it.is_processing_backlog())));
        let is_processing_backlog = asked.unwrap_or(self.is_processing_backlog);
        if std::mem::replace(&mut self.is_processing_backlog, is_processing_backlog) != is_processing_backlog {
            tracing::info!(target: "highwater::checkpoint", job = %self.job(), is_processing_backlog, "backlog");
            self.event(now, Event::BacklogChanged { is_processing_backlog }, orders);
        }
    }

    fn assign_split(&mut self, subtask: SubtaskId, orders: &mut Vec<Order>) {
        let Some((uid, enumerator)) = self.enumerators.get_mut(&subtask.task) else { return };
        let next = caught(|| enumerator.next_split(subtask.subtask));
        orders.push(match next {
            Ok(Some(split)) => Order::Tell(subtask, Control::AddSplit(split)),
            Ok(None) => Order::Tell(subtask, Control::NoMoreSplits),
            Err(source) => {
                let error = TaskError::user(uid, "find the next split")(source);
                Order::End(MasterEnd::TaskFailed(subtask.task as usize, error))
            }
        });
    }

    fn snapshot_enumerators(&mut self, now: Now, checkpoint: CheckpointId, orders: &mut Vec<Order>) {
        let mut states = Vec::with_capacity(self.enumerators.len());
        let mut failed = None;
        for (task, (uid, enumerator)) in &self.enumerators {
            // After a panic an enumerator is not looked at again: that ends the attempt.
            match catch_unwind(AssertUnwindSafe(|| enumerator.snapshot())) {
                Ok(Ok(state)) => states.push(EnumeratorState { operator: uid.clone(), state: Bytes::from(state) }),
                Ok(Err(error)) => failed = Some((uid.clone(), chain_of(&*error))),
                Err(panic) => {
                    let source = format!("panicked: {}", message_of(panic)).into();
                    let error = TaskError::user(uid, "snapshot its splits")(source);
                    orders.push(Order::End(MasterEnd::TaskFailed(*task as usize, error)));
                    return;
                }
            }
        }
        if let Some((operator, cause)) = failed {
            return self.event(now, Event::EnumeratorFailed { checkpoint, operator, cause }, orders);
        }
        let readers = self.subtasks.iter().filter(|subtask| self.enumerators.contains_key(&subtask.task));
        if let Err(error) = self.gate.close(checkpoint, readers.copied()) {
            if let Some((operator, _)) = self.enumerators.values().next() {
                let (operator, cause) = (operator.clone(), error.to_string());
                self.event(now, Event::EnumeratorFailed { checkpoint, operator, cause }, orders);
            }
            return;
        }
        self.event(now, Event::EnumeratorsSnapshotted { checkpoint, states }, orders);
    }

    fn open_gate(&mut self, checkpoint: CheckpointId, orders: &mut Vec<Order>) {
        for subtask in self.gate.ended(checkpoint) {
            self.assign_split(subtask, orders);
        }
    }
}

/// Calls user code that must not take the coordinator's thread down with it: a panic is an error.
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T, BoxedError>) -> Result<T, BoxedError> {
    // What has panicked is not looked at again: an error ends the attempt.
    let result = catch_unwind(AssertUnwindSafe(call));
    result.unwrap_or_else(|panic| Err(format!("panicked: {}", message_of(panic)).into()))
}

#[cfg(test)]
mod support_test;

#[cfg(test)]
#[path = "master_test.rs"]
mod master_test;
