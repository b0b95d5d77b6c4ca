//! The control lane of a subtask: what the coordinator tells it, apart from the records.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use highwater_checkpoint::{Acknowledgement, Decline};
use highwater_state_api::{Attempt, CheckpointId, SubtaskId};

use crate::TaskError;

/// What a subtask is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Take this checkpoint and send its barrier: to a source, or to a subtask whose upstream tasks have all finished.
    Trigger {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// When it was triggered, on the wall clock, in milliseconds since the epoch.
        triggered_at_ms: u64,
    },
    /// Every subtask of the job runs, so that all that was restored is settled. Before any checkpoint is triggered.
    AllRunning,
    /// A checkpoint is complete.
    Complete(CheckpointId),
    /// A checkpoint will never complete.
    Aborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The newest complete checkpoint: whoever missed its notification hears of it by this.
        latest_complete: Option<CheckpointId>,
    },
    /// A complete checkpoint is no longer kept.
    Subsumed(CheckpointId),
    /// To a source: a split to read, serialised.
    AddSplit(Bytes),
    /// To a source: there will be no more splits.
    NoMoreSplits,
    /// The next attempt takes the subtask over, which goes on: what it does from now on for checkpoints is of that attempt.
    /// Answered by [`Report::Adopted`].
    Adopt(Attempt),
    /// The task has finished: the subtask is to go.
    Finish,
    /// The attempt is over, finished or not: the subtask is to stop where it is.
    Cancel,
}

/// What a subtask says to the coordinator.
#[derive(Debug)]
pub enum Report {
    /// The subtask has restored its state and processes records.
    Running(SubtaskId),
    /// The subtask has processed all input there will ever be.
    Ended(SubtaskId),
    /// The subtask has ended, and everything that complete checkpoints up to this one allow is done.
    Settled(SubtaskId, CheckpointId),
    /// A source wants another split.
    SplitRequested(SubtaskId),
    /// The snapshot for a checkpoint is durable.
    Acknowledged(Acknowledgement),
    /// A checkpoint cannot be taken.
    Declined(Decline),
    /// The subtask is of the attempt that has taken it over. How far it has come is reported after that once more.
    Adopted(SubtaskId),
    /// The subtask failed.
    Failed(SubtaskId, TaskError),
    /// The subtask has gone as it was told to.
    Stopped(SubtaskId),
}

/// Takes reports to the coordinator.
pub trait Reports: Send {
    /// Sends a report. May wait for room; a report to a coordinator that is gone is dropped.
    fn report(&self, report: Report);
}

struct Lane {
    messages: Mutex<VecDeque<Control>>,
    /// Whether there are messages: looked at between records, without the lock.
    waits: AtomicBool,
    subtask: Waker,
}

/// The coordinator's end of a control lane.
#[derive(Clone)]
pub struct ControlSender(Arc<Lane>);

/// The subtask's end of a control lane.
pub struct ControlReceiver(Arc<Lane>);

/// Makes a control lane; `subtask` is woken for each message.
pub fn control_lane(subtask: Waker) -> (ControlSender, ControlReceiver) {
    let messages = Mutex::new(VecDeque::new());
    let lane = Arc::new(Lane { messages, waits: AtomicBool::new(false), subtask });
    (ControlSender(lane.clone()), ControlReceiver(lane))
}

impl ControlSender {
    /// Sends a message. Never waits: the coordinator sends a bounded number for each checkpoint and split.
    pub fn send(&self, message: Control) {
        let mut messages = self.0.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push_back(message);
        self.0.waits.store(true, Ordering::Relaxed);
        drop(messages);
        self.0.subtask.wake_by_ref();
    }
}

impl ControlReceiver {
    /// The next message, if there is one.
    pub fn receive(&self) -> Option<Control> {
        if !self.0.waits.load(Ordering::Relaxed) {
            return None;
        }
        let mut messages = self.0.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let message = messages.pop_front();
        self.0.waits.store(!messages.is_empty(), Ordering::Relaxed);
        message
    }

    /// Set while messages wait.
    pub fn waits(&self) -> &AtomicBool {
        &self.0.waits
    }
}
