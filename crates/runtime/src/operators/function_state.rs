//! What every operator with a function has: operator state, raw state, and the hooks of the function.

use bytes::Bytes;
use highwater_checkpoint::OperatorSnapshot;
use highwater_state_api::{
    CheckpointId, CheckpointListener, CheckpointedFunction, FrozenOperatorState, FrozenRawKeyedState,
    FunctionInitializationContext, FunctionSnapshotContext, KeyGroup, KeyGroupRange,
    KeyGroupStatePartitionStreamProvider, KeyedState, KeyedStateCheckpointOutputStream, KeyedStateStore, OperatorCx,
    OperatorState, OperatorStateCheckpointOutputStream, OperatorUid, RAW_OPERATOR_STATE, RawStreamError,
    RestoredElements, SnapshotRequest, StateError, StatePartitionStreamProvider, TaskInfo, UnkeyedStateStore,
    operator_state, raw_operator_state_meta,
};

use super::is_of_connector;
use crate::TaskError;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, OperatorContext, RestoredOperatorState};

/// What the two kinds of raw state are called in messages.
const RAW_OPERATOR: &str = "raw operator state";
pub(super) const RAW_KEYED: &str = "raw keyed state";

/// The state of one operator subtask with a function, apart from keyed state.
pub(crate) struct FunctionState {
    /// What the operator was opened with, without the restored state.
    pub(crate) cx: OperatorContext,
    /// Lists and broadcast states.
    pub(crate) operator: OperatorState,
    raw: RestoredRaw,
}

/// Restored raw state that the function has not asked for: it goes on unchanged.
#[derive(Default)]
struct RestoredRaw {
    partitions: Vec<Bytes>,
    key_groups: Vec<(KeyGroup, Bytes)>,
}

impl FunctionState {
    /// Restores the state and lets the function initialise its own. `keyed` is there on a keyed stream, and is restored
    /// already.
    pub(crate) fn open(
        mut cx: OperatorContext,
        function: &mut dyn CheckpointedFunction,
        mut keyed: Option<&mut KeyedState>,
    ) -> Result<Self, TaskError> {
        let mut operator = OperatorState::new(cx.row_settings.hash_seed);
        let mut raw = RestoredRaw::default();
        // What is restored is in the state from now on; holding it on would hold its memory.
        if let Some(restored) = cx.restored.take() {
            raw.key_groups = restored.raw_keyed;
            // A connector's list is nobody's any more. It has no elements, or it would have been refused.
            let of_functions = restored.operator.into_iter().filter(|state| !is_of_connector(&state.meta));
            for RestoredOperatorState { meta, elements } in of_functions {
                let taken = if meta.name == RAW_OPERATOR_STATE && !meta.is_broadcast() {
                    let usable = meta.check_usable_as(&raw_operator_state_meta());
                    usable.and_then(|()| partitions(&elements)).map(|partitions| raw.partitions = partitions)
                } else {
                    operator.restore(meta, elements)
                };
                taken.map_err(TaskError::state(&cx.uid))?;
            }
        }
        let mut initialization = Initialization {
            checkpoint: cx.restored_checkpoint,
            task: cx.task_info(),
            uid: &cx.uid,
            operator: &mut operator,
            keyed: keyed.as_deref_mut(),
            unkeyed: None,
            raw: &mut raw,
        };
        function.initialize_state(&mut initialization).map_err(TaskError::user(&cx.uid, "initialise its state"))?;
        let opened = Self { cx, operator, raw };
        let (cx, keyed) = (&opened.cx, keyed.as_deref());
        for name in opened.unread_states(keyed) {
            tracing::warn!(
                target: "highwater::job",
                job = %cx.job,
                operator = %cx.uid,
                subtask = cx.subtask,
                state = name,
                "the checkpoint has a state that the operator does not register: it is kept unread"
            );
        }
        Ok(opened)
    }

    /// What is restored and was not asked for when the state was initialised.
    fn unread_states<'a>(&'a self, keyed: Option<&'a KeyedState>) -> impl Iterator<Item = &'a str> {
        let keyed = keyed.into_iter().flat_map(KeyedState::unregistered_states);
        let raw_operator = (!self.raw.partitions.is_empty()).then_some(RAW_OPERATOR);
        let raw_keyed = (!self.raw.key_groups.is_empty()).then_some(RAW_KEYED);
        keyed.chain(self.operator.unregistered_states()).chain(raw_operator).chain(raw_keyed)
    }

    /// Takes a snapshot: the function first, so that what it writes to state belongs to it. `snapshot` has what is not
    /// state.
    pub(crate) fn freeze(
        &mut self,
        barrier: Barrier,
        function: &mut dyn CheckpointedFunction,
        keyed: Option<&mut KeyedState>,
        snapshot: OperatorSnapshot,
    ) -> Result<FrozenOperator, FreezeError> {
        let uid = &self.cx.uid;
        let range = self.cx.key_groups();
        let mut context = Snapshot {
            barrier,
            uid,
            operator: &mut self.operator,
            key_groups: keyed.is_some().then_some(range),
            raw_operator: None,
            raw_keyed: None,
            restored: &self.raw,
        };
        function
            .snapshot_state(&mut context)
            .map_err(|source| FreezeError::Decline(TaskError::user(uid, "snapshot its state")(source)))?;
        let Snapshot { raw_operator, raw_keyed, .. } = context;
        let partitions = raw_operator.map_or_else(|| self.raw.partitions.clone(), |stream| stream.freeze());
        let raw_keyed = match raw_keyed {
            Some(stream) => stream.freeze(),
            None => FrozenRawKeyedState { range, groups: self.raw.key_groups.clone() },
        };
        let mut operator = self.operator.freeze();
        if !partitions.is_empty() {
            let frozen = operator.get_or_insert_with(FrozenOperatorState::default);
            frozen.push_serialized(raw_operator_state_meta(), partitions);
        }
        let request = SnapshotRequest { checkpoint: barrier.checkpoint };
        let keyed = keyed.map(|keyed| keyed.freeze(&request)).transpose().map_err(TaskError::state(uid))?;
        Ok(FrozenOperator {
            keyed: keyed.map(|keyed| (range, keyed)),
            raw_keyed: (!raw_keyed.groups.is_empty()).then_some(raw_keyed),
            operator,
            snapshot,
        })
    }

    /// A checkpoint is complete.
    pub(crate) fn notify_complete(
        &self,
        checkpoint: CheckpointId,
        function: &mut dyn CheckpointListener,
    ) -> Result<(), TaskError> {
        let heard = function.notify_checkpoint_complete(checkpoint);
        heard.map_err(TaskError::user(&self.cx.uid, "hear of a complete checkpoint"))
    }

    /// A checkpoint will never complete.
    pub(crate) fn notify_aborted(
        &self,
        checkpoint: CheckpointId,
        function: &mut dyn CheckpointListener,
    ) -> Result<(), TaskError> {
        let heard = function.notify_checkpoint_aborted(checkpoint);
        heard.map_err(TaskError::user(&self.cx.uid, "hear of an aborted checkpoint"))
    }

    /// A complete checkpoint is no longer kept.
    pub(crate) fn notify_subsumed(
        &self,
        checkpoint: CheckpointId,
        function: &mut dyn CheckpointListener,
    ) -> Result<(), TaskError> {
        let heard = function.notify_checkpoint_subsumed(checkpoint);
        heard.map_err(TaskError::user(&self.cx.uid, "hear of a subsumed checkpoint"))
    }
}

/// The partitions of the raw operator stream that are restored.
fn partitions(restored: &[RestoredElements]) -> Result<Vec<Bytes>, StateError> {
    let of_piece = |elements: &RestoredElements| {
        let content = elements.content.clone();
        let strings = operator_state::elements(&elements.content);
        strings.map(|string| string.map(|string| content.slice_ref(string))).collect::<Vec<_>>()
    };
    restored.iter().flat_map(of_piece).collect()
}

/// Something keyed was asked for where there is no key.
fn not_keyed(asked_for: &str, uid: &OperatorUid) -> StateError {
    StateError::NotKeyed { asked_for: asked_for.to_owned(), operator: uid.to_string() }
}

struct Initialization<'a> {
    checkpoint: Option<CheckpointId>,
    task: TaskInfo,
    uid: &'a OperatorUid,
    operator: &'a mut OperatorState,
    keyed: Option<&'a mut KeyedState>,
    unkeyed: Option<UnkeyedStateStore>,
    raw: &'a mut RestoredRaw,
}

impl OperatorCx for Initialization<'_> {
    fn operator_state(&mut self) -> &mut OperatorState {
        self.operator
    }
}

impl FunctionInitializationContext for Initialization<'_> {
    fn restored_checkpoint(&self) -> Option<CheckpointId> {
        self.checkpoint
    }

    fn subtask(&self) -> u32 {
        self.task.subtask
    }

    fn parallelism(&self) -> u32 {
        self.task.parallelism
    }

    fn keyed_state_store(&mut self) -> Result<&mut dyn KeyedStateStore, StateError> {
        match &mut self.keyed {
            Some(keyed) => Ok(&mut **keyed),
            None => Ok(self.unkeyed.insert(UnkeyedStateStore::new(self.uid.clone()))),
        }
    }

    fn raw_operator_state_inputs(&mut self) -> Vec<StatePartitionStreamProvider> {
        std::mem::take(&mut self.raw.partitions).into_iter().map(StatePartitionStreamProvider::new).collect()
    }

    fn raw_keyed_state_inputs(&mut self) -> Result<Vec<KeyGroupStatePartitionStreamProvider>, StateError> {
        if self.keyed.is_none() {
            return Err(not_keyed(RAW_KEYED, self.uid));
        }
        let groups = std::mem::take(&mut self.raw.key_groups).into_iter();
        Ok(groups.map(|(group, content)| KeyGroupStatePartitionStreamProvider::new(group, content)).collect())
    }
}

struct Snapshot<'a> {
    barrier: Barrier,
    uid: &'a OperatorUid,
    operator: &'a mut OperatorState,
    /// Those of the subtask, if the stream is keyed.
    key_groups: Option<KeyGroupRange>,
    raw_operator: Option<OperatorStateCheckpointOutputStream>,
    raw_keyed: Option<KeyedStateCheckpointOutputStream>,
    /// What the function has not asked for.
    restored: &'a RestoredRaw,
}

impl OperatorCx for Snapshot<'_> {
    fn operator_state(&mut self) -> &mut OperatorState {
        self.operator
    }
}

impl FunctionSnapshotContext for Snapshot<'_> {
    fn checkpoint(&self) -> CheckpointId {
        self.barrier.checkpoint
    }

    fn checkpoint_timestamp_ms(&self) -> u64 {
        self.barrier.triggered_at_ms
    }

    fn raw_operator_state_output(&mut self) -> Result<&mut OperatorStateCheckpointOutputStream, StateError> {
        if !self.restored.partitions.is_empty() {
            return Err(RawStreamError::NotRead { what: RAW_OPERATOR }.into());
        }
        Ok(self.raw_operator.get_or_insert_default())
    }

    fn raw_keyed_state_output(&mut self) -> Result<&mut KeyedStateCheckpointOutputStream, StateError> {
        let range = self.key_groups.ok_or_else(|| not_keyed(RAW_KEYED, self.uid))?;
        if !self.restored.key_groups.is_empty() {
            return Err(RawStreamError::NotRead { what: RAW_KEYED }.into());
        }
        Ok(self.raw_keyed.get_or_insert_with(|| KeyedStateCheckpointOutputStream::new(range)))
    }
}

#[cfg(test)]
#[path = "function_state_test.rs"]
mod function_state_test;
