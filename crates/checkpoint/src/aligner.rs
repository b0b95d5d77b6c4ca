//! Alignment of barriers at the inputs of one subtask, exactly once. At least once is [`crate::BarrierTracker`].
//!
//! A barrier divides the records of a channel into those that belong to a checkpoint and those that do not. The aligner
//! holds back a channel whose barrier has come until the barriers of all channels have, so that the snapshot taken then
//! contains exactly the records before the barriers.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

use crate::aborted::AbortedCheckpoints;
use crate::{CheckpointFailure, CheckpointFailureReason};

/// What happened at the inputs of a subtask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignerEvent {
    /// A barrier is at the head of a channel: every record before it has been processed.
    Barrier {
        /// The channel.
        channel: usize,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// A cancellation marker is at the head of a channel: the subtask behind it has given the checkpoint up, and its barrier
    /// will not come.
    Cancelled {
        /// The channel.
        channel: usize,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// There will be no more records in a channel. Barriers may still come: who has ended still takes checkpoints.
    ChannelEnded {
        /// The channel.
        channel: usize,
    },
    /// The coordinator tells this subtask itself to take a checkpoint: everybody upstream has finished, and no barrier of it
    /// will come in any channel.
    Triggered {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// The coordinator says that a checkpoint will never complete.
    Aborted {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Barriers of a checkpoint have been waited for as long as a checkpoint may take.
    TimedOut {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
}

/// What is to be done. To be carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlignerAction {
    /// Take nothing more from a channel.
    Block {
        /// The channel.
        channel: usize,
    },
    /// Take from these channels again.
    Unblock {
        /// The channels, in ascending order.
        channels: Vec<usize>,
    },
    /// Every barrier has come: take the snapshot now, before anything else is taken from any channel.
    Aligned {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// This subtask will never take part in a checkpoint. Send a cancellation marker downstream, so that nobody there waits
    /// for its barrier, and decline it to the coordinator unless that has aborted it.
    Abandon {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        reason: AbandonReason,
    },
}

/// Why a subtask will never take part in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbandonReason {
    /// The barrier of a newer checkpoint came before all barriers of this one.
    Subsumed,
    /// The coordinator has aborted it.
    Aborted,
    /// A subtask upstream has given it up.
    Cancelled,
    /// Its barriers were not in line within the timeout.
    TimedOut,
    /// A channel has ended meanwhile, and checkpoints after the end of tasks are turned off.
    InputEnded,
    /// More checkpoints were being counted than the bound allows, and this was the oldest.
    Forgotten,
}

impl AbandonReason {
    /// Why the checkpoint is to be declined; `None` when the coordinator knows.
    pub fn failure(self) -> Option<CheckpointFailure> {
        match self {
            Self::Subsumed => Some(CheckpointFailureReason::DeclinedSubsumed.into()),
            Self::Aborted => None,
            Self::Cancelled => Some(CheckpointFailureReason::DeclinedOnCancellationBarrier.into()),
            Self::TimedOut => Some(CheckpointFailureReason::DeclinedTimeOut.into()),
            Self::InputEnded => Some(CheckpointFailureReason::DeclinedInputEndOfStream.into()),
            Self::Forgotten => {
                let message = "more checkpoints were under way than are counted at a time";
                Some(CheckpointFailure::new(CheckpointFailureReason::DeclinedSubsumed, message))
            }
        }
    }
}

/// The aligner of one subtask with a fixed number of input channels.
///
/// ```
/// use highwater_checkpoint::{Aligner, AlignerAction, AlignerEvent};
/// use highwater_state_api::CheckpointId;
///
/// let checkpoint = CheckpointId(1);
/// let mut aligner = Aligner::new(2);
/// let actions = aligner.on_event(AlignerEvent::Barrier { channel: 1, checkpoint });
/// assert_eq!(actions, [AlignerAction::Block { channel: 1 }]);
/// let actions = aligner.on_event(AlignerEvent::Barrier { channel: 0, checkpoint });
/// assert_eq!(actions, [AlignerAction::Aligned { checkpoint }, AlignerAction::Unblock { channels: vec![1] }]);
/// ```
#[derive(Debug, Clone)]
pub struct Aligner {
    /// By channel.
    ended: Vec<bool>,
    /// The newest checkpoint of which a barrier has come.
    current: Option<CheckpointId>,
    /// Whether barriers of `current` are being waited for.
    is_aligning: bool,
    /// Channels whose barrier of `current` has come, while barriers are being waited for: they are blocked.
    arrived: BTreeSet<usize>,
    aborted: AbortedCheckpoints,
    checkpoints_after_tasks_finish: bool,
}

impl Aligner {
    /// No barrier has come yet in any of `channels` channels.
    pub fn new(channels: usize) -> Self {
        Self {
            ended: vec![false; channels],
            current: None,
            is_aligning: false,
            arrived: BTreeSet::new(),
            aborted: AbortedCheckpoints::default(),
            checkpoints_after_tasks_finish: true,
        }
    }

    /// Whether the end of a channel counts as its barrier. If not, it gives up the checkpoint whose barriers are being
    /// waited for. Default: it does.
    pub fn with_checkpoints_after_tasks_finish(mut self, enabled: bool) -> Self {
        self.checkpoints_after_tasks_finish = enabled;
        self
    }

    /// The checkpoint whose barriers are being waited for, if there is one.
    pub fn aligning(&self) -> Option<CheckpointId> {
        self.current.filter(|_| self.is_aligning)
    }

    /// Whether nothing may be taken from a channel.
    pub fn is_blocked(&self, channel: usize) -> bool {
        self.arrived.contains(&channel)
    }

    /// Takes what happened and says what is to be done.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn on_event(&mut self, event: AlignerEvent) -> Vec<AlignerAction> {
        let mut actions = Vec::new();
        match event {
            AlignerEvent::Barrier { channel, checkpoint } => self.barrier(channel, checkpoint, &mut actions),
            AlignerEvent::Cancelled { checkpoint, .. } => self.cancelled(checkpoint, &mut actions),
            AlignerEvent::ChannelEnded { channel } => {
                self.ended[channel] = true;
                if !self.checkpoints_after_tasks_finish {
                    self.abandon(AbandonReason::InputEnded, &mut actions);
                } else if self.is_aligning && (0..self.ended.len()).all(|channel| self.has_arrived(channel)) {
                    self.align(&mut actions);
                }
            }
            AlignerEvent::Triggered { checkpoint } => self.triggered(checkpoint, &mut actions),
            AlignerEvent::Aborted { checkpoint } => match self.current {
                Some(current) if checkpoint == current && self.is_aligning => {
                    self.abandon(AbandonReason::Aborted, &mut actions);
                }
                // Its barriers have all come, or will be ignored.
                Some(current) if checkpoint <= current => {}
                _ => self.aborted.insert(checkpoint),
            },
            AlignerEvent::TimedOut { checkpoint } => {
                if self.aligning() == Some(checkpoint) {
                    self.abandon(AbandonReason::TimedOut, &mut actions);
                }
            }
        }
        actions
    }

    fn barrier(&mut self, channel: usize, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        assert!(channel < self.ended.len(), "channel {channel} of {}", self.ended.len());
        if !self.begins_or_goes_on(checkpoint, actions) {
            return;
        }
        if self.arrived.contains(&channel) {
            return; // duplicate
        }
        let is_last = |other: usize| other == channel || self.has_arrived(other);
        if (0..self.ended.len()).all(is_last) {
            self.align(actions);
        } else {
            self.arrived.insert(channel);
            actions.push(AlignerAction::Block { channel });
        }
    }

    /// Every channel counts as one whose barrier has come, and none is blocked for it.
    fn triggered(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        if self.begins_or_goes_on(checkpoint, actions) {
            self.align(actions);
        }
    }

    /// Whether barriers of this checkpoint are being waited for, perhaps only from now on.
    fn begins_or_goes_on(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) -> bool {
        if self.current.is_some_and(|current| checkpoint <= current) {
            // If not: that checkpoint is aligned, abandoned or older.
            return self.current == Some(checkpoint) && self.is_aligning;
        }
        if self.is_aligning {
            self.abandon(AbandonReason::Subsumed, actions);
        }
        self.current = Some(checkpoint);
        if self.aborted.take(checkpoint) {
            actions.push(AlignerAction::Abandon { checkpoint, reason: AbandonReason::Aborted });
            return false;
        }
        self.is_aligning = true;
        true
    }

    /// A marker gives up its checkpoint, also one of which no barrier has come: those that come are late.
    fn cancelled(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        if self.current == Some(checkpoint) && self.is_aligning {
            self.abandon(AbandonReason::Cancelled, actions);
        } else if self.current.is_none_or(|current| checkpoint > current) {
            self.abandon(AbandonReason::Subsumed, actions);
            self.current = Some(checkpoint);
            let was_aborted = self.aborted.take(checkpoint);
            let reason = if was_aborted { AbandonReason::Aborted } else { AbandonReason::Cancelled };
            actions.push(AlignerAction::Abandon { checkpoint, reason });
        }
    }

    /// A channel that has ended holds nothing back: all its records are before any barrier that is still to come.
    fn has_arrived(&self, channel: usize) -> bool {
        self.ended[channel] || self.arrived.contains(&channel)
    }

    fn align(&mut self, actions: &mut Vec<AlignerAction>) {
        if let Some(checkpoint) = self.aligning() {
            actions.push(AlignerAction::Aligned { checkpoint });
        }
        self.unblock(actions);
    }

    fn unblock(&mut self, actions: &mut Vec<AlignerAction>) {
        self.is_aligning = false;
        let channels: Vec<usize> = std::mem::take(&mut self.arrived).into_iter().collect();
        if !channels.is_empty() {
            actions.push(AlignerAction::Unblock { channels });
        }
    }

    /// Gives up the checkpoint whose barriers are being waited for, if there is one.
    fn abandon(&mut self, reason: AbandonReason, actions: &mut Vec<AlignerAction>) {
        if let Some(checkpoint) = self.aligning() {
            actions.push(AlignerAction::Abandon { checkpoint, reason });
        }
        self.unblock(actions);
    }
}
