//! Every interleaving of small inputs through the tracker, against what counting barriers promises.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

use crate::aligner_test::Item::{self, Barrier, Cancel, End, Record};
use crate::aligner_test::{BARRIERS_BEHIND_THE_END, ENDS_BETWEEN, LACKS_THE_FIRST, WHOLE};
use crate::{AbandonReason, AlignerAction, AlignerEvent, BarrierTracker, TRACKED_MAX};

#[derive(Debug, Clone)]
struct Run<'a> {
    channels: &'a [&'a [Item]],
    taken: Vec<usize>,
    tracker: BarrierTracker,
    aligned: Vec<u64>,
    abandoned: Vec<(u64, AbandonReason)>,
    aborted: BTreeSet<u64>,
}

impl<'a> Run<'a> {
    fn event(&mut self, event: AlignerEvent) {
        for action in self.tracker.on_event(event) {
            match action {
                AlignerAction::Aligned { checkpoint } => self.check_aligned(checkpoint.0),
                AlignerAction::Abandon { checkpoint, reason } => {
                    assert_eq!(reason == AbandonReason::Aborted, self.aborted.contains(&checkpoint.0), "{self:?}");
                    assert!(!self.aligned.contains(&checkpoint.0), "given up after it was taken: {self:?}");
                    assert!(self.abandoned.iter().all(|(id, _)| *id != checkpoint.0), "given up twice: {self:?}");
                    self.abandoned.push((checkpoint.0, reason));
                }
                AlignerAction::Block { .. } | AlignerAction::Unblock { .. } => panic!("a channel is blocked: {self:?}"),
            }
        }
    }

    fn take(&mut self, channel: usize) {
        let item = self.channels[channel][self.taken[channel]];
        self.taken[channel] += 1;
        let checkpoint = |id| CheckpointId(id);
        match item {
            Record => {}
            Barrier(id) => self.event(AlignerEvent::Barrier { channel, checkpoint: checkpoint(id) }),
            Cancel(id) => self.event(AlignerEvent::Cancelled { channel, checkpoint: checkpoint(id) }),
            End => self.event(AlignerEvent::ChannelEnded { channel }),
        }
    }

    /// No record before a barrier is missing.
    fn check_aligned(&mut self, id: u64) {
        for (items, taken) in self.channels.iter().zip(&self.taken) {
            let before = items.iter().position(|item| matches!(item, Barrier(other) if *other == id) || *item == End);
            assert!(before.is_none_or(|before| *taken > before), "checkpoint {id} came too early: {self:?}");
        }
        assert!(self.aligned.last().is_none_or(|last| *last < id), "ids increase: {self:?}");
        assert!(!self.aborted.contains(&id), "a snapshot in vain: {self:?}");
        assert!(self.abandoned.iter().all(|(abandoned, _)| *abandoned != id), "{self:?}");
        self.aligned.push(id);
    }

    fn explore(self, aborts: &[u64], seen: &mut BTreeSet<String>, ends: &mut Vec<Run<'a>>) {
        if !seen.insert(format!("{self:?}")) {
            return;
        }
        for id in aborts.iter().filter(|id| !self.aborted.contains(id)) {
            let mut run = self.clone();
            run.aborted.insert(*id);
            run.event(AlignerEvent::Aborted { checkpoint: CheckpointId(*id) });
            run.explore(aborts, seen, ends);
        }
        let open = |channel: &usize| self.taken[*channel] < self.channels[*channel].len();
        let open: Vec<usize> = (0..self.channels.len()).filter(open).collect();
        for channel in &open {
            let mut run = self.clone();
            run.take(*channel);
            run.explore(aborts, seen, ends);
        }
        if open.is_empty() {
            ends.push(self);
        }
    }
}

fn explore<'a>(channels: &'a [&'a [Item]], aborts: &[u64]) -> Vec<Run<'a>> {
    let run = Run {
        channels,
        taken: vec![0; channels.len()],
        tracker: BarrierTracker::new(channels.len()),
        aligned: Vec::new(),
        abandoned: Vec::new(),
        aborted: BTreeSet::new(),
    };
    let mut ends = Vec::new();
    run.explore(aborts, &mut BTreeSet::new(), &mut ends);
    ends
}

const CANCELS_THE_SECOND: &[Item] = &[Barrier(1), Cancel(2), Record, Barrier(3), End];
const GOES_ON: &[Item] = &[Barrier(1), Record, Barrier(2), Barrier(3), End];

/// Contract: H152, H156.
#[test]
fn with_all_barriers_the_newest_is_taken_in_every_order_and_nothing_is_missing() {
    for channels in [
        &[WHOLE] as &[&[Item]],
        &[WHOLE, WHOLE],
        &[WHOLE, ENDS_BETWEEN],
        &[WHOLE, BARRIERS_BEHIND_THE_END],
        &[WHOLE, WHOLE, ENDS_BETWEEN],
    ] {
        let ends = explore(channels, &[]);
        for end in &ends {
            assert_eq!(end.aligned.last(), Some(&2), "{end:?}");
            let given_up: Vec<u64> = end.abandoned.iter().map(|(id, _)| *id).collect();
            assert_eq!(given_up.contains(&1), !end.aligned.contains(&1), "{end:?}");
        }
        assert!(ends.iter().any(|end| end.aligned == [1, 2]), "both in some order");
    }
}

#[test]
fn missing_barriers_markers_and_aborts_at_any_time_break_no_promise() {
    let kinds = [WHOLE, ENDS_BETWEEN, LACKS_THE_FIRST, CANCELS_THE_SECOND, GOES_ON];
    for first in kinds {
        for second in kinds {
            assert!(!explore(&[first, second], &[1, 2]).is_empty());
        }
    }
}

fn barrier(tracker: &mut BarrierTracker, channel: usize, id: u64) -> Vec<AlignerAction> {
    tracker.on_event(AlignerEvent::Barrier { channel, checkpoint: CheckpointId(id) })
}

fn cancelled(tracker: &mut BarrierTracker, channel: usize, id: u64) -> Vec<AlignerAction> {
    tracker.on_event(AlignerEvent::Cancelled { channel, checkpoint: CheckpointId(id) })
}

fn taken(id: u64) -> AlignerAction {
    AlignerAction::Aligned { checkpoint: CheckpointId(id) }
}

fn given_up(id: u64, reason: AbandonReason) -> AlignerAction {
    AlignerAction::Abandon { checkpoint: CheckpointId(id), reason }
}

/// Contract: H153.
#[test]
fn a_newer_one_that_is_whole_gives_up_the_older_ones() {
    let mut tracker = BarrierTracker::new(2);
    assert_eq!(barrier(&mut tracker, 0, 1), []);
    assert_eq!(barrier(&mut tracker, 0, 2), []);
    assert_eq!(barrier(&mut tracker, 1, 2), [given_up(1, AbandonReason::Subsumed), taken(2)]);
    assert_eq!(barrier(&mut tracker, 1, 1), [], "late");
}

/// Contract: H154.
#[test]
fn more_than_the_bound_are_not_counted() {
    let mut tracker = BarrierTracker::new(2);
    for id in 1..=TRACKED_MAX as u64 {
        assert_eq!(barrier(&mut tracker, 0, id), []);
    }
    let one_more = TRACKED_MAX as u64 + 1;
    assert_eq!(barrier(&mut tracker, 0, one_more), [given_up(1, AbandonReason::Forgotten)]);
    assert_eq!(barrier(&mut tracker, 1, 1), [], "forgotten");
    assert_eq!(barrier(&mut tracker, 1, 2), [taken(2)], "still counted");
}

/// Contract: H155.
#[test]
fn a_marker_gives_up_its_checkpoint_and_all_older_ones_once() {
    let mut tracker = BarrierTracker::new(2);
    barrier(&mut tracker, 0, 1);
    let both = [given_up(1, AbandonReason::Cancelled), given_up(2, AbandonReason::Cancelled)];
    assert_eq!(cancelled(&mut tracker, 0, 2), both);
    for (channel, id) in [(1, 2), (0, 2), (1, 1)] {
        assert_eq!(barrier(&mut tracker, channel, id), []);
        assert_eq!(cancelled(&mut tracker, channel, id), []);
    }
    barrier(&mut tracker, 0, 3);
    assert_eq!(barrier(&mut tracker, 1, 3), [taken(3)]);
}
