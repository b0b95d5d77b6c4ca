//! What a subtask measures while it takes part in a checkpoint. For people: nothing is decided by it.

use std::time::Duration;

/// What one subtask measured of one checkpoint. Flink's `CheckpointMetrics`.
///
/// All times are lengths of time, so that no two clocks are ever compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointMetrics {
    /// Estimated bytes of the records that were processed from the first barrier to the last.
    pub bytes_processed_during_alignment: u64,
    /// From the first barrier to the last.
    pub alignment_duration: Duration,
    /// From the last barrier until the state was frozen and records were processed again.
    pub sync_duration: Duration,
    /// From then until the state was durable.
    pub async_duration: Duration,
    /// Bytes that were written for this checkpoint, or put into its metadata.
    pub bytes_persisted_of_this_checkpoint: u64,
    /// Bytes of all state that the snapshot needs, those of earlier checkpoints included.
    pub total_bytes_persisted: u64,
}

impl CheckpointMetrics {
    /// From the first barrier until the state was durable.
    pub fn duration(&self) -> Duration {
        self.alignment_duration + self.sync_duration + self.async_duration
    }
}
