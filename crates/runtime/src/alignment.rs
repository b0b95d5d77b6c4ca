//! What a subtask remembers of checkpoints whose barriers come in: when the first came, and what was processed since.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_checkpoint::{CheckpointMetrics, TRACKED_MAX};
use highwater_state_api::CheckpointId;

use crate::channel::Barrier;

/// How many checkpoints are remembered. What is forgotten first is older than everything that barriers are counted of.
const REMEMBERED_MAX: usize = TRACKED_MAX + 1;

/// The checkpoints of which barriers have come in.
#[derive(Debug, Default)]
pub(crate) struct Alignments {
    known: BTreeMap<CheckpointId, Alignment>,
    /// For how long barriers are waited for; `None`: for ever.
    timeout: Option<Duration>,
}

#[derive(Debug)]
struct Alignment {
    triggered_at_ms: u64,
    /// When the first barrier came.
    began: Duration,
    /// Estimated bytes of the records since then.
    bytes: u64,
    /// Whether barriers are being waited for.
    is_open: bool,
}

impl Alignments {
    /// Waits for barriers no longer than this.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// A barrier has come in, or a checkpoint begins here, because nobody upstream is left.
    pub(crate) fn barrier(&mut self, barrier: Barrier, now: Duration) {
        let Barrier { checkpoint, triggered_at_ms } = barrier;
        let new = || Alignment { triggered_at_ms, began: now, bytes: 0, is_open: true };
        self.known.entry(checkpoint).or_insert_with(new);
        if self.known.len() > REMEMBERED_MAX {
            self.known.pop_first();
        }
    }

    /// Records have come in; their size is asked for only if it matters.
    pub(crate) fn records(&mut self, bytes: impl Fn() -> usize) {
        for alignment in self.known.values_mut().filter(|alignment| alignment.is_open) {
            alignment.bytes += bytes() as u64;
        }
    }

    /// Closes those of which no barrier is waited for any more.
    pub(crate) fn close(&mut self, is_waited_for: impl Fn(CheckpointId) -> bool) {
        for (checkpoint, alignment) in &mut self.known {
            alignment.is_open &= is_waited_for(*checkpoint);
        }
    }

    /// The barrier of a checkpoint, as it came in.
    pub(crate) fn barrier_of(&self, checkpoint: CheckpointId) -> Barrier {
        let alignment = self.known.get(&checkpoint);
        let alignment = alignment.expect("a checkpoint is taken only once a barrier or a trigger of it has come");
        Barrier { checkpoint, triggered_at_ms: alignment.triggered_at_ms }
    }

    /// What aligning a checkpoint has taken until now; nothing, if no barrier of it came in.
    pub(crate) fn metrics(&self, checkpoint: CheckpointId, now: Duration) -> CheckpointMetrics {
        self.known.get(&checkpoint).map_or_else(CheckpointMetrics::default, |alignment| CheckpointMetrics {
            bytes_processed_during_alignment: alignment.bytes,
            alignment_duration: now.saturating_sub(alignment.began),
            ..CheckpointMetrics::default()
        })
    }

    /// When the time is over that barriers are waited for next.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let timeout = self.timeout?;
        let open = self.known.values().filter(|alignment| alignment.is_open);
        open.map(|alignment| alignment.began.saturating_add(timeout)).min()
    }

    /// The oldest checkpoint whose barriers have been waited for too long.
    pub(crate) fn timed_out(&self, now: Duration) -> Option<CheckpointId> {
        let timeout = self.timeout?;
        let is_late = |alignment: &Alignment| alignment.is_open && alignment.began.saturating_add(timeout) <= now;
        self.known.iter().find(|(_, alignment)| is_late(alignment)).map(|(checkpoint, _)| *checkpoint)
    }
}
