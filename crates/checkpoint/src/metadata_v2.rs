//! Metadata of version 2, which is read for ever. Defined in `docs/format/checkpoint-version-2.md`.

use bytes::Bytes;
use highwater_state_api::{Attempt, CheckpointId, JobName, MaxParallelism, OperatorUid};
use serde::Deserialize;

use crate::{CheckpointMetadata, OperatorSnapshot, OperatorState};

#[derive(Deserialize)]
pub(crate) struct MetadataV2 {
    job: JobName,
    attempt: Attempt,
    checkpoint: CheckpointId,
    triggered_at_ms: u64,
    key_hash: String,
    operators: Vec<OperatorV2>,
}

#[derive(Deserialize)]
struct OperatorV2 {
    uid: OperatorUid,
    max_parallelism: MaxParallelism,
    /// Snapshots have not changed since.
    subtasks: Vec<OperatorSnapshot>,
    enumerator: Option<Bytes>,
}

impl From<MetadataV2> for CheckpointMetadata {
    fn from(metadata: MetadataV2) -> Self {
        let MetadataV2 { job, attempt, checkpoint, triggered_at_ms, key_hash, operators } = metadata;
        let operators = operators.into_iter().map(OperatorState::from).collect();
        Self { job, attempt, checkpoint, triggered_at_ms, key_hash, operators }
    }
}

impl From<OperatorV2> for OperatorState {
    fn from(operator: OperatorV2) -> Self {
        let OperatorV2 { uid, max_parallelism, subtasks, enumerator } = operator;
        Self { uid, max_parallelism, finished: false, subtasks, enumerator }
    }
}
