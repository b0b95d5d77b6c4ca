//! The coordinator of a running job's checkpoints as the job's owner sees it, with the method names of Flink.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use highwater_checkpoint::{CheckpointFailure, CheckpointFailureReason, CheckpointRequest};
use highwater_state_api::CheckpointId;
use tokio::sync::{mpsc, oneshot};

/// How much may be asked of a job that is not listening, because it is between two attempts.
const ASKED_MAX: usize = 1_000;

/// Why no checkpoint is taken.
const IN_BATCH_MODE: &str = "in batch mode no checkpoints are taken but the last one, when all input has ended";

/// What the owner of a job asks of its coordinator.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A checkpoint, and where the answer goes.
    Checkpoint(CheckpointRequest, Answer),
    StartScheduler,
    StopScheduler,
}

/// Where the answer to a request goes. Nobody may be there any more.
pub(crate) type Answer = oneshot::Sender<Result<CheckpointId, CheckpointFailure>>;

/// Asks a job for checkpoints, and has periodic ones stopped and started. Cheap to clone; outlives the job.
#[derive(Debug, Clone)]
pub struct CheckpointCoordinator {
    asks: mpsc::Sender<Ask>,
    has_interval: bool,
    is_batch: bool,
}

/// Periodic checkpoints cannot be started or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// The job was started without a checkpoint interval.
    #[error("the job has no checkpoint interval: periodic checkpoints cannot be started")]
    NoInterval,
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// The job has not listened for long, and too much was asked of it.
    #[error("{ASKED_MAX} requests wait for the job")]
    Busy,
}

impl CheckpointCoordinator {
    /// The handle, and where the job hears what is asked of it.
    pub(crate) fn new(has_interval: bool, is_batch: bool) -> (Self, mpsc::Receiver<Ask>) {
        let (asks, receiver) = mpsc::channel(ASKED_MAX);
        (Self { asks, has_interval, is_batch }, receiver)
    }

    /// Asks for a checkpoint now: when every subtask runs and no more checkpoints are pending than may be. Each call is
    /// a checkpoint of its own, but for those that wait when the input ends: all of them get the last one. In batch mode it
    /// is refused ([`CheckpointFailureReason::BlockingOutputExist`]).
    pub fn trigger_checkpoint(&self) -> PendingCheckpoint {
        self.trigger(CheckpointRequest::default())
    }

    /// Asks for a checkpoint of this kind.
    pub fn trigger(&self, request: CheckpointRequest) -> PendingCheckpoint {
        let (answer, receiver) = oneshot::channel();
        if self.is_batch {
            // The receiver is right here.
            let _ =
                answer.send(Err(CheckpointFailure::new(CheckpointFailureReason::BlockingOutputExist, IN_BATCH_MODE)));
            return PendingCheckpoint { receiver };
        }
        match self.asks.try_send(Ask::Checkpoint(request, answer)) {
            // Of a job that has ended the receiver has lost its sender, and says so.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(Ask::Checkpoint(_, answer))) => {
                let reason = CheckpointFailureReason::TooManyCheckpointRequests;
                let failure = CheckpointFailure::new(reason, format!("{ASKED_MAX} requests wait for the job"));
                // The receiver is right here.
                let _ = answer.send(Err(failure));
            }
            Err(mpsc::error::TrySendError::Full(_)) => {}
        }
        PendingCheckpoint { receiver }
    }

    /// Takes periodic checkpoints again, the first one after the minimum pause. They are taken when a job or an attempt
    /// begins; a new attempt does not remember that they were stopped.
    pub fn start_checkpoint_scheduler(&self) -> Result<(), SchedulerError> {
        if !self.has_interval {
            return Err(SchedulerError::NoInterval);
        }
        self.ask(Ask::StartScheduler)
    }

    /// Takes no periodic checkpoints any more, and gives up those that are pending or were asked for. When the input
    /// ends, the last checkpoint is taken all the same.
    pub fn stop_checkpoint_scheduler(&self) -> Result<(), SchedulerError> {
        self.ask(Ask::StopScheduler)
    }

    fn ask(&self, ask: Ask) -> Result<(), SchedulerError> {
        self.asks.try_send(ask).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SchedulerError::Busy,
            mpsc::error::TrySendError::Closed(_) => SchedulerError::Ended,
        })
    }
}

/// A checkpoint that was asked for. Waited for with [`PendingCheckpoint::wait`], or awaited: the id of the complete
/// checkpoint, or why there is none. Dropping it changes nothing.
#[derive(Debug)]
pub struct PendingCheckpoint {
    receiver: oneshot::Receiver<Result<CheckpointId, CheckpointFailure>>,
}

impl PendingCheckpoint {
    /// Waits for the checkpoint. Must not be called from asynchronous code, which can await this instead.
    pub fn wait(self) -> Result<CheckpointId, CheckpointFailure> {
        self.receiver.blocking_recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Future for PendingCheckpoint {
    type Output = Result<CheckpointId, CheckpointFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(ended())))
    }
}

fn ended() -> CheckpointFailure {
    CheckpointFailure::new(CheckpointFailureReason::CoordinatorShutdown, "the job has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_that_does_not_listen_is_asked_for_has_a_bound() {
        let (coordinator, _asks) = CheckpointCoordinator::new(true, false);
        let waiting: Vec<_> = (0..ASKED_MAX).map(|_| coordinator.trigger_checkpoint()).collect();
        let failure = coordinator.trigger_checkpoint().wait().unwrap_err();
        assert_eq!(failure.reason, CheckpointFailureReason::TooManyCheckpointRequests);
        assert_eq!(coordinator.stop_checkpoint_scheduler(), Err(SchedulerError::Busy));
        drop(waiting);
    }

    /// Contract: J213, J214.
    #[test]
    fn everything_asked_of_a_job_that_has_ended_fails() {
        let (coordinator, asks) = CheckpointCoordinator::new(true, false);
        let before = coordinator.trigger_checkpoint();
        drop(asks);
        for pending in [before, coordinator.trigger_checkpoint()] {
            assert_eq!(pending.wait().unwrap_err().reason, CheckpointFailureReason::CoordinatorShutdown);
        }
        assert_eq!(coordinator.start_checkpoint_scheduler(), Err(SchedulerError::Ended));
        assert_eq!(coordinator.stop_checkpoint_scheduler(), Err(SchedulerError::Ended));
    }

    /// Contract: J214.
    #[test]
    fn without_an_interval_there_is_nothing_to_start() {
        let (coordinator, _asks) = CheckpointCoordinator::new(false, false);
        assert_eq!(coordinator.start_checkpoint_scheduler(), Err(SchedulerError::NoInterval));
        assert_eq!(coordinator.stop_checkpoint_scheduler(), Ok(()));
    }
}
