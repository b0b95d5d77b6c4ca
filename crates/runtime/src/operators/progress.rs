//! What every operator knows of itself, whatever it does: event time, whether its input has ended, and counters.

use highwater_checkpoint::OperatorSnapshot;
use highwater_stream_api::Timestamp;

use crate::operator::{OperatorCounts, RestoredOperator};

/// How far an operator has come.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The watermark of its output.
    pub(crate) watermark: Timestamp,
    /// It has seen the end of its input.
    pub(crate) finished: bool,
    /// What it has counted.
    pub(crate) counts: OperatorCounts,
}

impl Default for Progress {
    fn default() -> Self {
        Self { watermark: Timestamp::MIN, finished: false, counts: OperatorCounts::default() }
    }
}

impl Progress {
    /// Goes on from where the operator was when a checkpoint was taken. Counters are not part of checkpoints.
    pub(crate) fn restore(&mut self, restored: Option<&RestoredOperator>) {
        if let Some(restored) = restored {
            self.watermark = restored.watermark;
            self.finished = restored.finished;
        }
    }

    /// Event time has come to `watermark`; it never goes back.
    pub(crate) fn advance(&mut self, watermark: Timestamp) {
        self.watermark = self.watermark.max(watermark);
    }

    /// The snapshot of an operator that has nothing else.
    pub(crate) fn snapshot(&self) -> OperatorSnapshot {
        let watermark = (self.watermark > Timestamp::MIN).then(|| self.watermark.to_raw());
        OperatorSnapshot { watermark, ended: self.finished, ..OperatorSnapshot::default() }
    }
}
