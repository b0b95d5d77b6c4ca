//! Hooks of functions that keep state: initialisation, snapshots and notifications.

use crate::{CheckpointId, KeyedStateStore, StateError};

/// What a function sees while it is initialised, before its first record.
pub trait FunctionInitializationContext {
    /// Whether the task was started from a checkpoint in which it took part. Also true for a subtask whose share of
    /// the restored state is empty.
    fn is_restored(&self) -> bool {
        self.restored_checkpoint().is_some()
    }

    /// The checkpoint that the task was started from.
    fn restored_checkpoint(&self) -> Option<CheckpointId>;

    /// The store of keyed state. Fails with [`StateError::NotKeyed`] where the stream has no key.
    fn keyed_state_store(&mut self) -> Result<&mut dyn KeyedStateStore, StateError>;
}

/// What a function sees while a snapshot is taken.
pub trait FunctionSnapshotContext {
    /// The checkpoint that the snapshot belongs to.
    fn checkpoint(&self) -> CheckpointId;
}

/// The error of user code.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// A function that takes part in checkpoints.
pub trait CheckpointedFunction {
    /// Called once in every attempt, before the first record: gets the state handles.
    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError>;

    /// Called in the synchronous part of every snapshot, before the state is frozen: what is written to state here is
    /// part of the snapshot. An error declines the checkpoint.
    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError>;
}

/// Hears of the fate of checkpoints. Every notification is best effort: a later one stands for a lost one.
pub trait CheckpointListener {
    /// The checkpoint is complete and durable. An error fails the task.
    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError>;

    /// The checkpoint will never complete. An error fails the task.
    fn notify_checkpoint_aborted(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }
}
