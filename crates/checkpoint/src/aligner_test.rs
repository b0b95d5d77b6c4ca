//! Every interleaving of small inputs through the aligner, against what alignment promises.

use std::collections::BTreeSet;

use highwater_state_api::CheckpointId;

use crate::{AbandonReason, Aligner, AlignerAction, AlignerEvent};

/// What stands in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Record,
    Barrier(u64),
    Cancel(u64),
    End,
}
use Item::{Barrier, Cancel, End, Record};

/// A run of the aligner over channels of which a part has been taken.
#[derive(Debug, Clone)]
struct Run<'a> {
    channels: &'a [&'a [Item]],
    taken: Vec<usize>,
    aligner: Aligner,
    blocked: BTreeSet<usize>,
    aligned: Vec<u64>,
    abandoned: Vec<(u64, AbandonReason)>,
    /// The coordinator has said so.
    aborted: BTreeSet<u64>,
}

impl<'a> Run<'a> {
    fn new(channels: &'a [&'a [Item]]) -> Self {
        Self {
            channels,
            taken: vec![0; channels.len()],
            aligner: Aligner::new(channels.len()),
            blocked: BTreeSet::new(),
            aligned: Vec::new(),
            abandoned: Vec::new(),
            aborted: BTreeSet::new(),
        }
    }

    fn can_take(&self, channel: usize) -> bool {
        !self.blocked.contains(&channel) && self.taken[channel] < self.channels[channel].len()
    }

    fn take(&mut self, channel: usize) {
        let item = self.channels[channel][self.taken[channel]];
        self.taken[channel] += 1;
        match item {
            Record => {}
            Barrier(id) => self.event(AlignerEvent::Barrier { channel, checkpoint: CheckpointId(id) }),
            Cancel(id) => self.event(AlignerEvent::Cancelled { channel, checkpoint: CheckpointId(id) }),
            End => self.event(AlignerEvent::ChannelEnded { channel }),
        }
    }

    fn abort(&mut self, id: u64) {
        self.aborted.insert(id);
        self.event(AlignerEvent::Aborted { checkpoint: CheckpointId(id) });
    }

    fn event(&mut self, event: AlignerEvent) {
        for action in self.aligner.on_event(event) {
            match action {
                AlignerAction::Block { channel } => {
                    assert!(self.blocked.insert(channel), "blocked twice: {self:?}");
                    assert!(self.channels.len() > 1, "a single channel never blocks: {self:?}");
                }
                AlignerAction::Unblock { channels } => {
                    for channel in channels {
                        assert!(self.blocked.remove(&channel), "was not blocked: {self:?}");
                    }
                }
                AlignerAction::Aligned { checkpoint } => self.check_aligned(checkpoint.0),
                AlignerAction::Abandon { checkpoint, reason } => {
                    assert_eq!(reason == AbandonReason::Aborted, self.aborted.contains(&checkpoint.0), "{self:?}");
                    assert!(!self.aligned.contains(&checkpoint.0), "given up after it was taken: {self:?}");
                    let is_first = self.abandoned.iter().all(|(abandoned, _)| *abandoned != checkpoint.0);
                    assert!(is_first, "given up twice: {self:?}");
                    self.abandoned.push((checkpoint.0, reason));
                }
            }
        }
        for channel in 0..self.channels.len() {
            assert_eq!(self.aligner.is_blocked(channel), self.blocked.contains(&channel), "{self:?}");
        }
        assert_eq!(self.aligner.aligning().is_none(), self.blocked.is_empty(), "{self:?}");
    }

    /// I1 and I2: the records taken so far are exactly those before the barrier, in every channel.
    fn check_aligned(&mut self, id: u64) {
        for (channel, items) in self.channels.iter().enumerate() {
            let records = |items: &[Item]| items.iter().filter(|item| **item == Record).count();
            let barrier = items.iter().position(|item| *item == Barrier(id)).unwrap_or(items.len());
            let (before, taken) = (records(&items[..barrier]), records(&items[..self.taken[channel]]));
            assert_eq!(taken, before, "checkpoint {id}, channel {channel}: {self:?}");
        }
        assert!(self.aligned.last().is_none_or(|last| *last < id), "ids increase: {self:?}");
        assert!(!self.aborted.contains(&id), "a snapshot in vain: {self:?}");
        assert!(self.abandoned.iter().all(|(abandoned, _)| *abandoned != id), "{self:?}");
        self.aligned.push(id);
    }

    /// Explores everything that can come after this. `ends` collects the runs that took every item.
    fn explore(self, aborts: &[u64], seen: &mut BTreeSet<String>, ends: &mut Vec<Run<'a>>) {
        if !seen.insert(format!("{self:?}")) {
            return;
        }
        for id in aborts.iter().filter(|id| !self.aborted.contains(id)) {
            let mut run = self.clone();
            run.abort(*id);
            run.explore(aborts, seen, ends);
        }
        let mut is_stuck = true;
        for channel in (0..self.channels.len()).filter(|channel| self.can_take(*channel)) {
            is_stuck = false;
            let mut run = self.clone();
            run.take(channel);
            run.explore(aborts, seen, ends);
        }
        if is_stuck {
            let all = self.channels.iter().zip(&self.taken).all(|(items, taken)| items.len() == *taken);
            assert!(all && self.blocked.is_empty(), "stuck for ever: {self:?}");
            ends.push(self);
        }
    }
}

fn explore<'a>(channels: &'a [&'a [Item]], aborts: &[u64]) -> Vec<Run<'a>> {
    let mut ends = Vec::new();
    Run::new(channels).explore(aborts, &mut BTreeSet::new(), &mut ends);
    ends
}

pub(crate) const WHOLE: &[Item] = &[Record, Barrier(1), Record, Barrier(2), Record, End];
const ENDS_BEFORE_BOTH: &[Item] = &[Record, End];
pub(crate) const ENDS_BETWEEN: &[Item] = &[Record, Barrier(1), Record, End];
pub(crate) const BARRIERS_BEHIND_THE_END: &[Item] = &[Record, Barrier(1), Record, End, Barrier(2)];
pub(crate) const LACKS_THE_FIRST: &[Item] = &[Record, Barrier(2), Record, End];
const LACKS_THE_SECOND: &[Item] = &[Record, Barrier(1), Record, Record, End];
const REPEATS: &[Item] = &[Barrier(1), Record, Barrier(1), Record, Barrier(2), Barrier(1), Record, End];

/// Contract: G134, G135, G139, G140, G146.
#[test]
fn with_all_barriers_every_checkpoint_is_aligned_in_every_order() {
    for channels in [
        &[WHOLE] as &[&[Item]],
        &[WHOLE, WHOLE],
        &[WHOLE, WHOLE, WHOLE],
        &[WHOLE, ENDS_BEFORE_BOTH],
        &[WHOLE, ENDS_BETWEEN],
        &[WHOLE, BARRIERS_BEHIND_THE_END],
        &[BARRIERS_BEHIND_THE_END, BARRIERS_BEHIND_THE_END],
        &[WHOLE, ENDS_BETWEEN, ENDS_BEFORE_BOTH],
        &[WHOLE, ENDS_BETWEEN, BARRIERS_BEHIND_THE_END],
    ] {
        for end in explore(channels, &[]) {
            assert_eq!(end.aligned, [1, 2], "{end:?}");
            assert!(end.abandoned.is_empty(), "{end:?}");
        }
    }
}

/// Contract: G145.
#[test]
fn a_missing_or_repeated_barrier_breaks_no_promise() {
    let kinds = [WHOLE, ENDS_BETWEEN, LACKS_THE_FIRST, LACKS_THE_SECOND, REPEATS];
    for first in kinds {
        for second in kinds {
            let channels = [first, second];
            for end in explore(&channels, &[]) {
                let ids: BTreeSet<u64> = end.aligned.iter().copied().collect();
                let abandoned: BTreeSet<u64> = end.abandoned.iter().map(|(id, _)| *id).collect();
                assert!(ids.is_disjoint(&abandoned), "{end:?}");
                assert!(end.abandoned.iter().all(|(id, reason)| *id == 1 && *reason == AbandonReason::Subsumed));
            }
        }
    }
}

/// Contract: G143.
#[test]
fn an_abort_may_come_at_any_time() {
    for channels in [
        &[WHOLE] as &[&[Item]],
        &[WHOLE, WHOLE],
        &[WHOLE, ENDS_BETWEEN],
        &[WHOLE, LACKS_THE_FIRST],
        &[WHOLE, WHOLE, ENDS_BEFORE_BOTH],
    ] {
        let ends = explore(channels, &[1, 2]);
        let alignments: BTreeSet<Vec<u64>> = ends.into_iter().map(|end| end.aligned).collect();
        assert!(alignments.len() > 1, "aborts made no difference: {alignments:?}");
    }
}

const CANCELS_THE_FIRST: &[Item] = &[Record, Cancel(1), Record, Barrier(2), Record, End];
const CANCELS_THE_SECOND: &[Item] = &[Record, Barrier(1), Record, Cancel(2), Record, End];
const CANCELS_OUT_OF_ORDER: &[Item] = &[Cancel(2), Record, Cancel(1), Cancel(2), Record, Barrier(3), End];
const GOES_ON: &[Item] = &[Barrier(1), Record, Barrier(2), Record, Barrier(3), End];

/// Contract: G141, G142, G143.
#[test]
fn cancellation_markers_in_any_order_leave_no_channel_blocked() {
    for (channels, taken) in [
        (&[CANCELS_THE_FIRST] as &[&[Item]], &[2u64] as &[u64]),
        (&[CANCELS_THE_FIRST, WHOLE], &[2]),
        (&[CANCELS_THE_SECOND, WHOLE], &[1]),
        (&[CANCELS_THE_FIRST, CANCELS_THE_SECOND], &[]),
        (&[CANCELS_THE_FIRST, CANCELS_THE_FIRST, WHOLE], &[2]),
        (&[CANCELS_OUT_OF_ORDER, GOES_ON], &[3]),
        (&[CANCELS_THE_FIRST, ENDS_BETWEEN], &[2]),
        (&[CANCELS_THE_SECOND, BARRIERS_BEHIND_THE_END], &[1]),
    ] {
        for end in explore(channels, &[]) {
            assert_eq!(end.aligned, taken, "{end:?}");
            let reasons = end.abandoned.iter().map(|(_, reason)| *reason);
            let of_markers = reasons.filter(|reason| *reason == AbandonReason::Cancelled).count();
            assert!(of_markers > 0, "{end:?}");
        }
    }
    for channels in [&[CANCELS_THE_FIRST, WHOLE] as &[&[Item]], &[CANCELS_OUT_OF_ORDER, GOES_ON]] {
        explore(channels, &[1, 2]);
    }
}

fn barrier(aligner: &mut Aligner, channel: usize, id: u64) -> Vec<AlignerAction> {
    aligner.on_event(AlignerEvent::Barrier { channel, checkpoint: CheckpointId(id) })
}

/// Contract: G137, G144.
#[test]
fn a_newer_barrier_abandons_the_one_that_is_being_aligned() {
    let mut aligner = Aligner::new(3);
    assert_eq!(barrier(&mut aligner, 0, 1), [AlignerAction::Block { channel: 0 }]);
    assert_eq!(barrier(&mut aligner, 1, 1), [AlignerAction::Block { channel: 1 }]);
    assert_eq!(
        barrier(&mut aligner, 2, 2),
        [
            AlignerAction::Abandon { checkpoint: CheckpointId(1), reason: AbandonReason::Subsumed },
            AlignerAction::Unblock { channels: vec![0, 1] },
            AlignerAction::Block { channel: 2 },
        ]
    );
    assert_eq!(barrier(&mut aligner, 2, 1), [], "late");
    assert_eq!(aligner.aligning(), Some(CheckpointId(2)));
}

/// Contract: G135.
#[test]
fn the_snapshot_is_taken_before_any_channel_goes_on() {
    let mut aligner = Aligner::new(2);
    barrier(&mut aligner, 1, 7);
    assert_eq!(
        barrier(&mut aligner, 0, 7),
        [AlignerAction::Aligned { checkpoint: CheckpointId(7) }, AlignerAction::Unblock { channels: vec![1] }]
    );
}

/// Contract: G143.
#[test]
fn a_checkpoint_that_was_aborted_before_its_barrier_blocks_nothing() {
    let mut aligner = Aligner::new(2);
    assert_eq!(aligner.on_event(AlignerEvent::Aborted { checkpoint: CheckpointId(3) }), []);
    let abandon = AlignerAction::Abandon { checkpoint: CheckpointId(3), reason: AbandonReason::Aborted };
    assert_eq!(barrier(&mut aligner, 1, 3), [abandon]);
    assert_eq!(barrier(&mut aligner, 0, 3), []);
    assert_eq!(barrier(&mut aligner, 0, 4), [AlignerAction::Block { channel: 0 }]);
}
