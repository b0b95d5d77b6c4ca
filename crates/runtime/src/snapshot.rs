//! The asynchronous half of a snapshot: writes what was frozen and reports to the coordinator.

use bytes::Bytes;
use highwater_checkpoint::{Acknowledgement, Decline, DeclineReason, OperatorSnapshot, SubtaskSnapshot, paths};
use highwater_state_api::{
    Attempt, BoxedError, CheckpointId, CheckpointStorage, Checksum, FrozenKeyedState, JobName, KeyGroupPart,
    KeyGroupRange, KeyedStateHandle, ObjectPath, OperatorUid, StateHandle, SubtaskId, canonical,
};

use crate::chain::FrozenChain;
use crate::control::Report;
use crate::error::chain_of;

/// A snapshot of one subtask that is to be written. Owns all it needs: it may run anywhere, or be dropped.
pub struct AsyncSnapshot {
    /// The job.
    pub job: JobName,
    /// The attempt.
    pub attempt: Attempt,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The subtask.
    pub subtask: SubtaskId,
    /// What was frozen.
    pub frozen: FrozenChain,
}

/// Runs asynchronous halves somewhere that is not the task's thread. Bounded: declines what it has no room for. Never waits
/// for the storage.
pub trait SnapshotExecutor: Send + Sync {
    /// Takes a snapshot to be written and reported.
    fn submit(&self, snapshot: AsyncSnapshot);
}

impl AsyncSnapshot {
    /// Says that this snapshot could not be written.
    pub fn decline(&self, message: impl Into<String>) -> Decline {
        Decline {
            job: self.job.clone(),
            attempt: self.attempt,
            checkpoint: self.checkpoint,
            subtask: self.subtask,
            reason: DeclineReason::AsyncFailed,
            message: message.into(),
        }
    }

    /// Writes the snapshot and says how it went. What was written for a snapshot that fails stays in the checkpoint's
    /// folder, which is discarded as a whole.
    pub async fn write(self, storage: &dyn CheckpointStorage) -> Report {
        let Self { job, attempt, checkpoint, subtask, frozen } = self;
        let mut operators = Vec::with_capacity(frozen.operators.len());
        for (uid, operator) in frozen.operators {
            let keyed = match operator.keyed {
                None => Ok(None),
                Some((range, keyed)) => {
                    let path = paths::state_object(&job, attempt, checkpoint, &uid, subtask.subtask);
                    write_keyed(keyed, range, &path, storage).await.map(Some)
                }
            };
            match keyed {
                Ok(keyed) => operators.push((uid, OperatorSnapshot { keyed, ..operator.snapshot })),
                Err(error) => {
                    let message = describe(&uid, &error);
                    let reason = DeclineReason::AsyncFailed;
                    return Report::Declined(Decline { job, attempt, checkpoint, subtask, reason, message });
                }
            }
        }
        let snapshot = SubtaskSnapshot { operators };
        Report::Acknowledged(Acknowledgement { job, attempt, checkpoint, subtask, snapshot })
    }
}

fn describe(uid: &OperatorUid, error: &BoxedError) -> String {
    format!("the state of operator {uid} could not be written: {}", chain_of(&**error))
}

/// Writes the keyed state of one operator subtask to `path`, key group by key group, or keeps it inline when it is
/// small.
async fn write_keyed(
    mut frozen: FrozenKeyedState,
    range: KeyGroupRange,
    path: &ObjectPath,
    storage: &dyn CheckpointStorage,
) -> Result<KeyedStateHandle, BoxedError> {
    let inline_bytes_max = storage.inline_bytes_max();
    let mut parts = Vec::new();
    let mut upload = None;
    let mut offset = 0u64;
    // Bytes that are not written yet: everything as long as it may become an inline handle, then at most a chunk.
    let mut buffer = Vec::new();
    for group in range.iter() {
        let start = buffer.len();
        canonical::write_key_group(&mut *frozen.content, group, &mut buffer)?;
        let length = (buffer.len() - start) as u64;
        if length == 0 {
            continue;
        }
        parts.push(KeyGroupPart { group, offset, length, checksum: Checksum::of(&buffer[start..]) });
        offset += length;
        if buffer.len() as u64 > inline_bytes_max {
            if upload.is_none() {
                upload = Some(storage.create(path).await?);
            }
            if let Some(upload) = &mut upload {
                upload.write(Bytes::from(std::mem::take(&mut buffer))).await?;
            }
        }
    }
    let state = match upload {
        None => StateHandle::Inline(Bytes::from(buffer)),
        Some(mut upload) => {
            if !buffer.is_empty() {
                upload.write(Bytes::from(buffer)).await?;
            }
            upload.finish().await?
        }
    };
    Ok(KeyedStateHandle { range, tables: frozen.tables, parts, state })
}

#[cfg(test)]
#[path = "snapshot_test.rs"]
mod snapshot_test;
