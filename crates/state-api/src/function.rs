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
