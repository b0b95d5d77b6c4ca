//! The asynchronous half of a snapshot: writes what was frozen and reports to the coordinator.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::paths::StateObject;
use highwater_checkpoint::{
    Acknowledgement, CheckpointFailure, CheckpointFailureReason, CheckpointMetrics, Decline, OperatorSnapshot,
    SubtaskSnapshot, paths,
};
use highwater_state_api::{
    Attempt, CheckpointId, CheckpointStateOutputStream, CheckpointStorage, CheckpointStreamFactory, Checksum,
    FrozenKeyedState, JobName, KeyGroupPart, KeyGroupRange, KeyedStateHandle, OperatorStateHandle, OperatorUid,
    RawKeyedStateHandle, StateError, StateHandle, StorageError, SubtaskId, canonical,
};

use crate::chain::FrozenChain;
use crate::control::Report;
use crate::error::chain_of;
use crate::operator::FrozenOperator;
use crate::threads::message_of;

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
    /// What the subtask has measured until then.
    pub metrics: CheckpointMetrics,
    /// When the subtask began to take it, on its clock.
    pub began: Duration,
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
            failure: async_failure(message),
        }
    }

    /// Writes the snapshot and says how it went. What was written for a snapshot that fails stays in the checkpoint's
    /// folder, which is discarded as a whole.
    pub async fn write(self, storage: &dyn CheckpointStorage) -> Report {
        let Self { job, attempt, checkpoint, subtask, frozen, mut metrics, .. } = self;
        let folder = paths::checkpoint_folder(&job, attempt, checkpoint);
        let streams = match CheckpointStreamFactory::new(storage, folder, storage.inline_bytes_max()) {
            Ok(streams) => streams,
            Err(error) => {
                let failure = async_failure(error.to_string());
                return Report::Declined(Decline { job, attempt, checkpoint, subtask, failure });
            }
        };
        let mut operators = Vec::with_capacity(frozen.operators.len());
        for (uid, operator) in frozen.operators {
            let object = |object: StateObject| {
                streams.create_checkpoint_state_output_stream(&object.name(&uid, subtask.subtask))
            };
            match caught(write_operator(operator, object)).await {
                Ok(snapshot) => operators.push((uid, snapshot)),
                Err(error) => {
                    let failure = async_failure(describe(&uid, &error));
                    return Report::Declined(Decline { job, attempt, checkpoint, subtask, failure });
                }
            }
        }
        let snapshot = SubtaskSnapshot { operators };
        // Every snapshot is whole: it needs nothing but what was written for it.
        metrics.total_bytes_persisted = snapshot.state_bytes();
        metrics.bytes_persisted_of_this_checkpoint = metrics.total_bytes_persisted;
        Report::Acknowledged(Acknowledgement { job, attempt, checkpoint, subtask, snapshot, metrics })
    }
}

/// Does what `work` does; when it panics, that is an error too. Backends and serializers are user code, and whoever catches
/// the panic further out does not know whose it is.
async fn caught<T>(work: impl Future<Output = Result<T, StateError>>) -> Result<T, StateError> {
    let mut work = pin!(work);
    // Nothing of the work is looked at again after a panic.
    poll_fn(move |cx| {
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|panic| {
            Poll::Ready(Err(StateError::Backend(format!("panicked: {}", message_of(panic)).into())))
        })
    })
    .await
}

fn async_failure(message: impl Into<String>) -> CheckpointFailure {
    CheckpointFailure::new(CheckpointFailureReason::AsyncException, message)
}

fn describe(uid: &OperatorUid, error: &StateError) -> String {
    format!("the state of operator {uid} could not be written: {}", chain_of(error))
}

/// Writes the state of one operator subtask, each kind of it to a stream of its own that `object` makes.
async fn write_operator<'s>(
    frozen: FrozenOperator,
    object: impl Fn(StateObject) -> CheckpointStateOutputStream<'s>,
) -> Result<OperatorSnapshot, StateError> {
    let FrozenOperator { keyed, raw_keyed, operator, mut snapshot } = frozen;
    if let Some((range, keyed)) = keyed {
        snapshot.keyed = Some(write_keyed(keyed, range, object(StateObject::Keyed)).await?);
    }
    if let Some(raw) = raw_keyed {
        let (range, mut stream) = (raw.range, object(StateObject::RawKeyed));
        let parts = raw.write(&mut stream).await?;
        snapshot.raw_keyed = Some(RawKeyedStateHandle { range, parts, state: close(stream).await? });
    }
    if let Some(operator) = operator {
        let mut stream = object(StateObject::Operator);
        let parts = operator.write(&mut stream).await?;
        snapshot.operator = Some(OperatorStateHandle { parts, state: close(stream).await? });
    }
    Ok(snapshot)
}

/// Writes keyed state, key group by key group.
async fn write_keyed(
    mut frozen: FrozenKeyedState,
    range: KeyGroupRange,
    mut stream: CheckpointStateOutputStream<'_>,
) -> Result<KeyedStateHandle, StateError> {
    let mut parts = Vec::new();
    for group in range.iter() {
        let mut bytes = Vec::new();
        canonical::write_key_group(&mut *frozen.content, group, &mut bytes)?;
        if bytes.is_empty() {
            continue;
        }
        let (offset, length, checksum) = (stream.position(), bytes.len() as u64, Checksum::of(&bytes));
        parts.push(KeyGroupPart { group, offset, length, checksum });
        stream.write(Bytes::from(bytes)).await?;
    }
    Ok(KeyedStateHandle { range, tables: frozen.tables, parts, state: close(stream).await? })
}

/// The state that a stream became, which may be nothing: there is state, and it is empty.
async fn close(stream: CheckpointStateOutputStream<'_>) -> Result<StateHandle, StorageError> {
    let handle = stream.close_and_get_handle().await?;
    Ok(handle.unwrap_or_else(|| StateHandle::Inline(Bytes::new())))
}

#[cfg(test)]
#[path = "snapshot_test.rs"]
mod snapshot_test;

#[cfg(test)]
#[path = "snapshot_failures_test.rs"]
mod snapshot_failures_test;
