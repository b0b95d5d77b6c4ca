//! Hooks of functions that keep state: initialisation, snapshots and notifications.

use crate::{
    CheckpointId, KeyGroupStatePartitionStreamProvider, KeyedStateCheckpointOutputStream, KeyedStateStore,
    ListStateDescriptor, OperatorCx, OperatorListState, OperatorStateCheckpointOutputStream, OperatorStateStore, State,
    StateError, StatePartitionStreamProvider,
};

/// The error of user code.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Says that somebody calls the hooks of a type. Who writes a job has no use for it.
///
/// The hooks of a function are methods of the trait that makes it one, `ProcessFunction` or `KeyedProcessFunction`; there
/// the runtime calls them. An implementation of [`CheckpointedFunction`] or [`CheckpointListener`] beside it would be called
/// by nobody, and its state be lost. So both want this trait, and there is none of it for functions:
///
/// ```compile_fail,E0277
/// use highwater_state_api::{BoxedError, CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext};
///
/// struct Count(u64);
///
/// impl CheckpointedFunction for Count {
///     fn initialize_state(&mut self, _cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
///         Ok(())
///     }
///
///     fn snapshot_state(&mut self, _cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
///         Ok(())
///     }
/// }
/// ```
///
/// ```compile_fail,E0277
/// struct Count(u64);
///
/// impl highwater_state_api::CheckpointListener for Count {}
/// ```
///
/// Who runs functions of another kind implements it for what they call the hooks of.
#[diagnostic::on_unimplemented(
    message = "nobody would call these hooks of `{Self}`",
    label = "the hooks belong in the `impl` of the function itself",
    note = "move `initialize_state`, `snapshot_state` and the notifications into its `impl ProcessFunction` or \
            `impl KeyedProcessFunction`: they are methods of these traits"
)]
pub trait HooksAreCalled {}

/// A function that keeps state, as those see it who run functions.
///
/// Who writes one implements `ProcessFunction` or `KeyedProcessFunction`, which have these methods as their own; this trait
/// cannot be implemented beside them ([`HooksAreCalled`]).
pub trait CheckpointedFunction: HooksAreCalled {
    /// Called once in every attempt, before the first record, whether there is restored state or not: gets the state
    /// handles, and may already read and change operator state. An error ends the attempt.
    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError>;

    /// Called in the synchronous part of every snapshot, on the task's thread, before the state is frozen: what is
    /// written to state here belongs to the snapshot. Every record before the barrier has been processed. An error
    /// declines the checkpoint, and the job goes on; what was written to state before the error stays written.
    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError>;
}

/// Hears what became of checkpoints. An error of a notification ends the attempt.
///
/// As with [`CheckpointedFunction`], functions have these methods as their own.
///
/// All notifications are best effort: one may be lost, and a later one stands for it. The subtask that is notified need
/// not have taken part in the checkpoint.
pub trait CheckpointListener: HooksAreCalled {
    /// A checkpoint is complete: the job will not go back behind it. Ids increase; none is reported that is not newer than
    /// the one that the attempt was restored from.
    fn notify_checkpoint_complete(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }

    /// A checkpoint that this subtask has begun will never complete. Where a function has declined it, those before it in
    /// the chain have taken a snapshot, and those behind it have not.
    fn notify_checkpoint_aborted(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }

    /// A complete checkpoint is no longer kept, because newer ones are: nothing will be restored from it.
    fn notify_checkpoint_subsumed(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// What a function sees while it is initialised, before its first record.
pub trait FunctionInitializationContext: OperatorCx {
    /// Whether the task of this operator had state in the checkpoint that the job was started from. Also true for a
    /// subtask whose share of it is empty, and for an operator that is new in the task; false for the operators of a task
    /// that is new or had no state, although the job was restored.
    fn is_restored(&self) -> bool {
        self.restored_checkpoint().is_some()
    }

    /// The checkpoint that the task was started from, if it had state in it: as [`is_restored`](Self::is_restored), a matter
    /// of the task and not of the operator.
    fn restored_checkpoint(&self) -> Option<CheckpointId>;

    /// Which subtask of the operator this is, from 0.
    fn subtask(&self) -> u32;

    /// How many subtasks the operator has.
    fn parallelism(&self) -> u32;

    /// The store of keyed state. Where the stream has no key, the store refuses every state with [`StateError::NotKeyed`].
    ///
    /// The runtime has a store for every function. A host of another kind that keeps no keyed state may fail here instead,
    /// with [`StateError::NotKeyed`] too.
    fn keyed_state_store(&mut self) -> Result<&mut dyn KeyedStateStore, StateError>;

    /// The store of operator state.
    fn operator_state_store(&mut self) -> &mut dyn OperatorStateStore {
        self.operator_state()
    }

    /// The partitions of raw operator state that this subtask is restored with, in order. As long as nobody asks for
    /// them they go into every snapshot unchanged, and the function cannot write any; from then on they are the function's
    /// to write again. A second call returns none.
    fn raw_operator_state_inputs(&mut self) -> Vec<StatePartitionStreamProvider>;

    /// The raw keyed state of the key groups of this subtask, in ascending order; groups without any are left out.
    /// As long as nobody asks for it, it goes into every snapshot unchanged, and the function cannot write any; from then on
    /// it is the function's to write again. A second call returns none. Fails with [`StateError::NotKeyed`] where the stream
    /// has no key.
    fn raw_keyed_state_inputs(&mut self) -> Result<Vec<KeyGroupStatePartitionStreamProvider>, StateError>;
}

/// What a function sees while a snapshot is taken.
pub trait FunctionSnapshotContext: OperatorCx {
    /// The checkpoint that the snapshot belongs to.
    fn checkpoint(&self) -> CheckpointId;

    /// When the checkpoint was triggered, on the wall clock of the coordinator, in milliseconds since the epoch: the same
    /// for all subtasks.
    fn checkpoint_timestamp_ms(&self) -> u64;

    /// The stream for raw operator state. Made at the first call; every call in one snapshot gives the same one. What is
    /// written is held in memory until the asynchronous half of the snapshot has stored it.
    ///
    /// Fails with [`RawStreamError::NotRead`](crate::RawStreamError::NotRead) when partitions are restored that the function
    /// has not asked for: they would be lost.
    fn raw_operator_state_output(&mut self) -> Result<&mut OperatorStateCheckpointOutputStream, StateError>;

    /// The stream for raw keyed state. Made at the first call; every call in one snapshot gives the same one. What is
    /// written is held in memory until the asynchronous half of the snapshot has stored it.
    ///
    /// Fails with [`StateError::NotKeyed`] where the stream has no key, and with
    /// [`RawStreamError::NotRead`](crate::RawStreamError::NotRead) when raw keyed state is restored that the function has not
    /// asked for.
    fn raw_keyed_state_output(&mut self) -> Result<&mut KeyedStateCheckpointOutputStream, StateError>;
}

/// Name of the split list in which a [`ListCheckpointed`] keeps its state.
pub const LIST_CHECKPOINTED_STATE: &str = "_list_checkpointed";

/// A function whose whole state is a list, of which it does not care which element comes to which subtask.
///
/// By itself nobody calls it: give the operator `ListCheckpointedFunction::new(function)`
/// ([`ListCheckpointedFunction`]) instead of the function.
pub trait ListCheckpointed<T: State> {
    /// The state, as a list. The elements are divided among the subtasks when the parallelism changes. An error declines
    /// the checkpoint.
    fn snapshot_state(&mut self, checkpoint: CheckpointId, timestamp_ms: u64) -> Result<Vec<T>, BoxedError>;

    /// Called before the first record, only when the task is restored. The list may be empty: there may be more subtasks
    /// than elements, and the function may be new in a task that is restored.
    fn restore_state(&mut self, state: Vec<T>) -> Result<(), BoxedError>;
}

/// Makes a [`CheckpointedFunction`] of a [`ListCheckpointed`]: its list is a split list of operator state.
#[derive(Debug, Clone, Default)]
pub struct ListCheckpointedFunction<F, T> {
    function: F,
    /// `None` for the list of the house.
    descriptor: Option<ListStateDescriptor<T>>,
    list: OperatorListState<T>,
}

impl<F: ListCheckpointed<T>, T: State> ListCheckpointedFunction<F, T> {
    /// Keeps the state of `function` in the list [`LIST_CHECKPOINTED_STATE`].
    pub fn new(function: F) -> Self {
        Self { function, descriptor: None, list: OperatorListState::default() }
    }

    /// Keeps the state of `function` in a list of another name, schema or serializer: where the type of the elements has
    /// no schema that can be traced, for one.
    pub fn with_descriptor(function: F, descriptor: ListStateDescriptor<T>) -> Self {
        Self { function, descriptor: Some(descriptor), list: OperatorListState::default() }
    }
}

impl<F, T> ListCheckpointedFunction<F, T> {
    /// The function itself.
    pub fn function_mut(&mut self) -> &mut F {
        &mut self.function
    }
}

impl<F: ListCheckpointed<T>, T: State> HooksAreCalled for ListCheckpointedFunction<F, T> {}

impl<F: ListCheckpointed<T>, T: State> CheckpointedFunction for ListCheckpointedFunction<F, T> {
    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
        self.list = match &self.descriptor {
            Some(descriptor) => cx.operator_state_store().get_list_state(descriptor)?,
            None => cx.operator_state().reserved_list_state(&ListStateDescriptor::new(LIST_CHECKPOINTED_STATE))?,
        };
        if cx.is_restored() {
            let state = self.list.get(cx)?;
            self.function.restore_state(state)?;
        }
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        let state = self.function.snapshot_state(cx.checkpoint(), cx.checkpoint_timestamp_ms())?;
        Ok(self.list.update(cx, state)?)
    }
}
