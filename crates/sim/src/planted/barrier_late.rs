//! Planted bug: the barrier of a source is forwarded after the record that follows it.

use std::time::Duration;

use highwater_runtime::TaskError;
use highwater_runtime::channel::Barrier;
use highwater_runtime::operator::{FreezeError, FrozenOperator, Limits, Operator};
use highwater_state_api::CheckpointId;

/// Takes the snapshot, then reads one more record, and only then lets the barrier go: the record is ahead of the barrier
/// and not in the snapshot.
pub(crate) struct BarrierLate {
    inner: Box<dyn Operator>,
    frozen: Option<FrozenOperator>,
}

impl BarrierLate {
    /// Around this source.
    pub(crate) fn new(inner: Box<dyn Operator>) -> Self {
        Self { inner, frozen: None }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Operator for BarrierLate {
    super::forward_operator!();

    fn prepare_snapshot(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.inner.prepare_snapshot(checkpoint)?;
        self.frozen = match self.inner.freeze(Barrier { checkpoint, triggered_at_ms: 0 }) {
            Ok(frozen) => Some(frozen),
            Err(FreezeError::Decline(error) | FreezeError::Fail(error)) => return Err(error),
        };
        self.inner.run(&Limits { records_max: 1, ..Limits::unlimited(Duration::ZERO) })?;
        Ok(())
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        match self.frozen.take() {
            Some(frozen) => Ok(frozen),
            None => self.inner.freeze(barrier),
        }
    }
}
