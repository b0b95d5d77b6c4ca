//! What deals with the barriers at the inputs of one subtask, in either mode.

use highwater_state_api::CheckpointId;

use crate::{Aligner, AlignerAction, AlignerEvent, BarrierTracker};

/// How often a record may be in the state that a job is restored with. Flink's `CheckpointingMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointingMode {
    /// Once: a channel waits behind its barrier until the barriers of all channels have come.
    #[default]
    ExactlyOnce,
    /// Once or more often: no channel waits.
    AtLeastOnce,
}

/// An [`Aligner`] or a [`BarrierTracker`].
#[derive(Debug, Clone)]
pub enum BarrierHandler {
    /// Exactly once.
    Aligner(Aligner),
    /// At least once.
    Tracker(BarrierTracker),
}

impl BarrierHandler {
    /// No barrier has come yet in any of `channels` channels.
    pub fn new(mode: CheckpointingMode, channels: usize) -> Self {
        match mode {
            CheckpointingMode::ExactlyOnce => Self::Aligner(Aligner::new(channels)),
            CheckpointingMode::AtLeastOnce => Self::Tracker(BarrierTracker::new(channels)),
        }
    }

    /// Whether some barriers of a checkpoint have come, and more are waited for so that it can be taken.
    pub fn is_waiting_for(&self, checkpoint: CheckpointId) -> bool {
        match self {
            Self::Aligner(aligner) => aligner.aligning() == Some(checkpoint),
            Self::Tracker(tracker) => tracker.is_counting(checkpoint),
        }
    }

    /// Whether the end of a channel counts as its barrier, or gives up what is being waited for. Default: it counts.
    pub fn with_checkpoints_after_tasks_finish(self, enabled: bool) -> Self {
        match self {
            Self::Aligner(aligner) => Self::Aligner(aligner.with_checkpoints_after_tasks_finish(enabled)),
            Self::Tracker(tracker) => Self::Tracker(tracker.with_checkpoints_after_tasks_finish(enabled)),
        }
    }

    /// Takes what happened and says what is to be done.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn on_event(&mut self, event: AlignerEvent) -> Vec<AlignerAction> {
        match self {
            Self::Aligner(aligner) => aligner.on_event(event),
            Self::Tracker(tracker) => tracker.on_event(event),
        }
    }
}
