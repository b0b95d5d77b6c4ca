//! Words and traits of state: what backends, storages, functions and the runtime agree on.
//!
//! * Identities: [`JobName`], [`OperatorUid`], [`SubtaskId`], [`Attempt`], [`CheckpointId`].
//! * Where a key lives: [`KeyHasher`], [`KeyGroup`], [`MaxParallelism`].
//! * The door: descriptors such as [`ValueStateDescriptor`], [`KeyedStateStore`], handles such as [`ValueState`].
//! * The row tier: [`KeyedState`] keeps typed rows before a [`KeyedStateBackend`].
//! * Backends: [`StateBackend`] makes them, [`ByteTables`] and [`FrozenState`] are what most have to write.
//! * Storage: [`CheckpointStorage`] keeps immutable objects, a [`StateHandle`] names one.
//! * By name: a [`StateBackendRegistry`] makes what a [`Configuration`] asks for; [`options`] are the keys.
//! * Operator state: [`OperatorState`] with lists and broadcast states, [`OperatorStateStore`].
//! * Hooks: [`CheckpointedFunction`], [`CheckpointListener`], [`ListCheckpointed`], and their contexts.
//! * Streams: raw state that functions write themselves, and [`CheckpointStreamFactory`] into the storage.
//!
//! This crate knows no runtime, no clock and no thread.

mod backend;
pub mod canonical;
mod checkpoint_stream;
mod configuration;
mod descriptors;
mod error;
mod function;
mod handle;
mod handles;
mod ids;
mod key_group;
mod key_hash;
mod keyed_state;
pub mod operator_state;
pub mod options;
mod panic;
mod raw_state;
mod registry;
mod rows;
mod schema;
mod serializer;
mod shared_list;
mod storage;
mod store;

pub use backend::{
    At, BackendPairing, ByteTables, Entry, EntryVisitor, FrozenState, KeyedBackendParameters, KeyedStateBackend,
    Prefix, Residence, SnapshotRequest, StateBackend, TableId,
};
pub use checkpoint_stream::{
    CheckpointStateOutputStream, CheckpointStreamFactory, INLINE_BYTES_MAX_LIMIT, InlineThresholdError,
};
pub use configuration::{
    ConfigError, ConfigNotice, ConfigNotices, ConfigOption, ConfigValue, Configuration, MemorySize, OptionDescription,
    Setting,
};
pub use descriptors::{
    AggregateFunction, AggregatingStateDescriptor, AnyDescriptor, FoldingStateDescriptor, Key, ListStateDescriptor,
    MapStateDescriptor, ReducingStateDescriptor, State, StateKind, TableMeta, ValueStateDescriptor,
};
pub use error::StateError;
pub use function::{
    BoxedError, CheckpointListener, CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext,
    HooksAreCalled, LIST_CHECKPOINTED_STATE, ListCheckpointed, ListCheckpointedFunction,
};
pub use handle::{Checksum, KeyGroupPart, KeyedStateHandle, ObjectPath, RunningChecksum, StateHandle};
pub use handles::{AggregatingState, FoldingState, KeyCx, ListState, MapState, ReducingState, ValueState};
pub use ids::{Attempt, CheckpointId, InvalidName, JobName, OperatorUid, SubtaskId, TaskInfo};
pub use key_group::{KeyGroup, KeyGroupRange, MAX_PARALLELISM_LIMIT, MaxParallelism, ParallelismError, murmur};
pub use key_hash::{KEY_HASH_ID, KeyHash, KeyHashError, KeyHasher, encode_canonical};
pub use keyed_state::{FrozenKeyedState, KeyListenerId, KeyedState, NamespacedStore, RowSettings};
pub use operator_state::{
    AnyOperatorStateDescriptor, BroadcastState, FrozenOperatorState, OperatorCx, OperatorListState, OperatorState,
    OperatorStateHandle, OperatorStateMeta, OperatorStatePart, OperatorStateStore, READER_SPLITS, RawKeyedStateHandle,
    ReadOnlyBroadcastState, Redistribution, RestoredElements, SINK_TRANSACTIONS,
};
pub use panic::panic_message;
pub use raw_state::{
    FrozenRawKeyedState, KeyGroupStatePartitionStreamProvider, KeyedStateCheckpointOutputStream,
    OperatorStateCheckpointOutputStream, RAW_OPERATOR_STATE, RawStreamError, StateInputStream,
    StatePartitionStreamProvider, raw_operator_state_meta,
};
pub use registry::{CheckpointStorageFactory, RegistryError, StateBackendFactory, StateBackendRegistry};
pub use rows::{RoundTrip, TypedRows};
pub use schema::{Container, Schema, SchemaError, Shape};
pub use serializer::{BincodeSerializer, Serializer, SerializerError, VALUE_BYTES_MAX};
pub use storage::{CheckpointStorage, INLINE_BYTES_MAX, StateUpload, StorageError, check, folders_in, read_state};
pub use store::{KeyedStateStore, Slot, UnkeyedStateStore};
