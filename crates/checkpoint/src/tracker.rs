//! Counting of barriers at the inputs of one subtask, at least once. Exactly once is [`crate::Aligner`].
//!
//! No channel is held back: what comes behind the first barrier of a checkpoint is processed before its snapshot, and again
//! after a restore. In exchange nothing ever waits for a slow channel.

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::CheckpointId;

use crate::aborted::AbortedCheckpoints;
use crate::{AbandonReason, AlignerAction, AlignerEvent};

/// How many checkpoints are counted at a time. Flink's number.
pub const TRACKED_MAX: usize = 50;

/// The tracker of one subtask with a fixed number of input channels. It never asks for a channel to be blocked.
///
/// ```
/// use highwater_checkpoint::{AlignerAction, AlignerEvent, BarrierTracker};
/// use highwater_state_api::CheckpointId;
///
/// let checkpoint = CheckpointId(1);
/// let mut tracker = BarrierTracker::new(2);
/// assert!(tracker.on_event(AlignerEvent::Barrier { channel: 1, checkpoint }).is_empty());
/// let actions = tracker.on_event(AlignerEvent::Barrier { channel: 0, checkpoint });
/// assert_eq!(actions, [AlignerAction::Aligned { checkpoint }]);
/// ```
#[derive(Debug, Clone)]
pub struct BarrierTracker {
    /// By channel.
    ended: Vec<bool>,
    /// Barriers of these have come, but not all.
    counted: BTreeMap<CheckpointId, Counted>,
    /// This one and all older ones are taken or given up.
    done: Option<CheckpointId>,
    aborted: AbortedCheckpoints,
    checkpoints_after_tasks_finish: bool,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    /// Channels whose barrier has come.
    arrived: BTreeSet<usize>,
    /// The coordinator has aborted it: its barriers are only waited out.
    is_aborted: bool,
}

impl BarrierTracker {
    /// No barrier has come yet in any of `channels` channels.
    pub fn new(channels: usize) -> Self {
        Self {
            ended: vec![false; channels],
            counted: BTreeMap::new(),
            done: None,
            aborted: AbortedCheckpoints::default(),
            checkpoints_after_tasks_finish: true,
        }
    }

    /// Whether some barriers of a checkpoint have come, and it is taken once all have.
    pub fn is_counting(&self, checkpoint: CheckpointId) -> bool {
        self.counted.get(&checkpoint).is_some_and(|counted| !counted.is_aborted)
    }

    /// Whether the end of a channel counts as its barrier. If not, it gives up all checkpoints whose barriers are being
    /// waited for. Default: it does.
    pub fn with_checkpoints_after_tasks_finish(mut self, enabled: bool) -> Self {
        self.checkpoints_after_tasks_finish = enabled;
        self
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
                    if let Some(newest) = self.counted.keys().next_back().copied() {
                        self.give_up(newest, AbandonReason::InputEnded, &mut actions);
                    }
                    return actions;
                }
                // The newest that waited for this channel alone makes up for all before it.
                let complete = self.counted.iter().rev().find(|(_, counted)| self.has_all(counted));
                if let Some(checkpoint) = complete.map(|(checkpoint, _)| *checkpoint) {
                    self.take(checkpoint, &mut actions);
                }
            }
            AlignerEvent::Triggered { checkpoint } => {
                if self.begin(checkpoint, &mut actions).is_some() {
                    self.take(checkpoint, &mut actions);
                }
            }
            AlignerEvent::Aborted { checkpoint } => self.abort(checkpoint, &mut actions),
            AlignerEvent::TimedOut { checkpoint } => {
                if let Some(counted) = self.counted.get_mut(&checkpoint).filter(|counted| !counted.is_aborted) {
                    // Its barriers are waited out.
                    counted.is_aborted = true;
                    actions.push(AlignerAction::Abandon { checkpoint, reason: AbandonReason::TimedOut });
                }
            }
        }
        actions
    }

    fn abort(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        let is_done = self.is_done(checkpoint);
        match self.counted.get_mut(&checkpoint) {
            Some(counted) if counted.is_aborted => {}
            Some(counted) => {
                counted.is_aborted = true;
                actions.push(AlignerAction::Abandon { checkpoint, reason: AbandonReason::Aborted });
            }
            None if is_done => {}
            None => self.aborted.insert(checkpoint),
        }
    }

    fn barrier(&mut self, channel: usize, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        assert!(channel < self.ended.len(), "channel {channel} of {}", self.ended.len());
        let Some(counted) = self.begin(checkpoint, actions) else { return };
        counted.arrived.insert(channel);
        if self.counted.get(&checkpoint).is_some_and(|counted| self.has_all(counted)) {
            self.take(checkpoint, actions);
        } else if self.counted.len() > TRACKED_MAX
            && let Some(oldest) = self.counted.keys().next().copied()
        {
            self.give_up(oldest, AbandonReason::Forgotten, actions);
        }
    }

    /// The count of a checkpoint that is not done, perhaps only from now on.
    fn begin(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) -> Option<&mut Counted> {
        if self.is_done(checkpoint) {
            return None;
        }
        if !self.counted.contains_key(&checkpoint) {
            let is_aborted = self.aborted.remove(checkpoint);
            if is_aborted {
                actions.push(AlignerAction::Abandon { checkpoint, reason: AbandonReason::Aborted });
            }
            self.counted.insert(checkpoint, Counted { is_aborted, ..Counted::default() });
        }
        self.counted.get_mut(&checkpoint)
    }

    fn has_all(&self, counted: &Counted) -> bool {
        (0..self.ended.len()).all(|channel| self.ended[channel] || counted.arrived.contains(&channel))
    }

    /// All barriers of a checkpoint have come: it is taken, and older ones are given up for it.
    fn take(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        let is_aborted = self.counted.remove(&checkpoint).is_some_and(|counted| counted.is_aborted);
        self.give_up(checkpoint, AbandonReason::Subsumed, actions);
        if !is_aborted {
            actions.push(AlignerAction::Aligned { checkpoint });
        }
    }

    /// A marker gives up its checkpoint and all older ones.
    fn cancelled(&mut self, checkpoint: CheckpointId, actions: &mut Vec<AlignerAction>) {
        if self.is_done(checkpoint) {
            return;
        }
        let is_counted = self.counted.contains_key(&checkpoint);
        let was_aborted = self.aborted.remove(checkpoint);
        self.give_up(checkpoint, AbandonReason::Cancelled, actions);
        if !is_counted {
            let reason = if was_aborted { AbandonReason::Aborted } else { AbandonReason::Cancelled };
            actions.push(AlignerAction::Abandon { checkpoint, reason });
        }
    }

    /// Gives up what is counted up to a checkpoint: no barrier of these counts any more.
    fn give_up(&mut self, up_to: CheckpointId, reason: AbandonReason, actions: &mut Vec<AlignerAction>) {
        let newer = self.counted.split_off(&up_to.next());
        let older = std::mem::replace(&mut self.counted, newer);
        let open = older.into_iter().filter(|(_, counted)| !counted.is_aborted);
        actions.extend(open.map(|(checkpoint, _)| AlignerAction::Abandon { checkpoint, reason }));
        self.done = self.done.max(Some(up_to));
    }

    fn is_done(&self, checkpoint: CheckpointId) -> bool {
        Some(checkpoint) <= self.done
    }
}
