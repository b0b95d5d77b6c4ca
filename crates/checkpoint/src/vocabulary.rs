//! Words that events, actions and metadata share.

use bytes::Bytes;
use highwater_state_api::{
    Attempt, CheckpointId, JobName, KeyedStateHandle, MaxParallelism, OperatorStateHandle, OperatorUid,
    RawKeyedStateHandle, StateHandle,
};
use serde::{Deserialize, Serialize};

/// What one subtask contributes to a checkpoint: a snapshot for each operator of its chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubtaskSnapshot {
    /// One entry for each operator of the chain, in chain order, also for those without state.
    pub operators: Vec<(OperatorUid, OperatorSnapshot)>,
}

impl SubtaskSnapshot {
    /// Bytes of the state behind its handles.
    pub fn state_bytes(&self) -> u64 {
        self.operators.iter().map(|(_, snapshot)| snapshot.state_bytes()).sum()
    }
}

/// What one operator of one subtask contributes to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OperatorSnapshot {
    /// Keyed state, if the operator is keyed.
    pub keyed: Option<KeyedStateHandle>,
    /// Raw keyed state, if the operator wrote some.
    pub raw_keyed: Option<RawKeyedStateHandle>,
    /// Operator state, if there is some.
    pub operator: Option<OperatorStateHandle>,
    /// The event-time watermark of the operator, in milliseconds; `None` when it has not seen one.
    pub watermark: Option<i64>,
    /// The operator has seen the end of its input.
    pub ended: bool,
}

impl OperatorSnapshot {
    /// The handles that this snapshot needs.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let keyed = self.keyed.iter().map(|keyed| &keyed.state);
        let raw_keyed = self.raw_keyed.iter().map(|raw| &raw.state);
        keyed.chain(raw_keyed).chain(self.operator.iter().map(|operator| &operator.state))
    }

    /// Bytes of the state behind its handles.
    pub fn state_bytes(&self) -> u64 {
        self.handles().map(StateHandle::length).sum()
    }

    /// Whether there is state, be it empty.
    pub fn has_state(&self) -> bool {
        self.keyed.is_some() || self.raw_keyed.is_some() || self.operator.is_some()
    }
}

/// State of the split enumerator of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnumeratorState {
    /// The source.
    pub operator: OperatorUid,
    /// What its enumerator wrote.
    pub state: Bytes,
}

/// What a hook of the application has in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookState {
    /// The hook.
    pub identifier: String,
    /// What it returned.
    pub state: Bytes,
}

/// The metadata of a complete checkpoint: all that a restore has to know. Layout: `docs/format/checkpoint.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// The job.
    pub job: JobName,
    /// The attempt that took the checkpoint.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// When it was triggered, on the wall clock, in milliseconds since the epoch.
    pub triggered_at_ms: u64,
    /// Name of the key hash that placed the keys.
    pub key_hash: String,
    /// One entry for each operator of the job.
    pub operators: Vec<OperatorState>,
}

/// The state of one operator over all its subtasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// The operator.
    pub uid: OperatorUid,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// The operator's task has finished: nothing of it is run again. Then there are neither subtasks nor an enumerator.
    pub finished: bool,
    /// One entry a subtask, by index: the parallelism is its length.
    pub subtasks: Vec<OperatorSnapshot>,
    /// State of the split enumerator, if the operator is a source.
    pub enumerator: Option<Bytes>,
}

/// A record of the job log. Layout: `docs/format/job-log.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRecord {
    /// An attempt begins; every earlier one is fenced. The attempt's number is the record's.
    Claim {
        /// Drawn at random by the claimer: how it recognises its own record.
        nonce: u64,
        /// Checkpoints of this attempt have this id or a larger one.
        first_checkpoint: CheckpointId,
    },
    /// A checkpoint is complete.
    Completed {
        /// The attempt that completed it.
        attempt: Attempt,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Its metadata.
        metadata: StateHandle,
    },
    /// The job has processed all its input; its last checkpoint is complete, and every effect of it outside the job has
    /// happened. No record follows.
    Finished {
        /// The attempt that finished it.
        attempt: Attempt,
    },
    /// Complete checkpoints before this record are not restored any more, and may be deleted: all of them when the job ended
    /// and was to keep none, or those that are newer than the one that the attempt fell back to. Never deleted itself.
    Dropped {
        /// The attempt that says so.
        attempt: Attempt,
        /// The newest checkpoint that is kept; `None` when none is, and the next start begins from nothing.
        newest: Option<CheckpointId>,
    },
}

/// What time it is. Machines are told; they never ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Milliseconds on a clock that never goes backwards. Its zero has no meaning.
    pub monotonic_ms: u64,
    /// Milliseconds since the epoch on the wall clock: recorded, never decided upon. Only a [`crate::Lease`] looks at it, and
    /// only to end sooner.
    pub wall_clock_ms: u64,
}
