//! Planted bug: the snapshot of a source is taken after a record that is behind the barrier.

use std::time::Duration;

use highwater_runtime::TaskError;
use highwater_runtime::channel::Barrier;
use highwater_runtime::operator::{FreezeError, FrozenOperator, Limits, Operator};
use highwater_state_api::CheckpointId;

/// Reads one more record between the barrier and the snapshot: the record is in the snapshot and in no one else's.
pub(crate) struct SnapshotLate {
    inner: Box<dyn Operator>,
}

impl SnapshotLate {
    /// Around this source.
    pub(crate) fn new(inner: Box<dyn Operator>) -> Self {
        Self { inner }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Operator for SnapshotLate {
    super::forward_operator!();

    fn prepare_snapshot(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.inner.prepare_snapshot(checkpoint)
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        self.inner.run(&Limits { records_max: 1, ..Limits::unlimited(Duration::ZERO) })?;
        self.inner.freeze(barrier)
    }
}
