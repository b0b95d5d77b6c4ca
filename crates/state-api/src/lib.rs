//! Words and traits of state: what backends, storages, functions and the runtime agree on.
//!
//! * Identities: [`JobName`], [`OperatorUid`], [`SubtaskId`], [`Attempt`], [`CheckpointId`].
//! * Where a key lives: [`KeyHasher`], [`KeyGroup`], [`MaxParallelism`].
//! * The door: descriptors such as [`ValueStateDescriptor`], [`KeyedStateStore`], handles such as [`ValueState`].
//! * The row tier: [`KeyedState`] keeps typed rows before a [`KeyedStateBackend`].
//! * Backends: [`StateBackend`] makes them, [`ByteTables`] and [`FrozenState`] are what most have to write.
//! * Storage: [`CheckpointStorage`] keeps immutable objects, a [`StateHandle`] names one.
//! * By name: a [`StateBackendRegistry`] makes what a [`Configuration`] asks for; [`options`] are the keys.
//! * Hooks: [`FunctionInitializationContext`], [`FunctionSnapshotContext`].
//!
//! This crate knows no runtime, no clock and no thread.

mod backend;
pub mod canonical;
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
mod operator_state;
pub mod options;
mod registry;
mod rows;
mod schema;
mod serializer;
mod storage;
mod store;

pub use backend::{
    At, BackendPairing, ByteTables, Entry, EntryVisitor, FrozenState, KeyedBackendParameters, KeyedStateBackend,
    Prefix, Residence, SnapshotRequest, StateBackend, TableId,
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
pub use function::{BoxedError, FunctionInitializationContext, FunctionSnapshotContext};
pub use handle::{Checksum, KeyGroupPart, KeyedStateHandle, ObjectPath, RunningChecksum, StateHandle};
pub use handles::{AggregatingState, FoldingState, KeyCx, ListState, MapState, ReducingState, ValueState};
pub use ids::{Attempt, CheckpointId, InvalidName, JobName, OperatorUid, SubtaskId};
pub use key_group::{KeyGroup, KeyGroupRange, MAX_PARALLELISM_LIMIT, MaxParallelism, ParallelismError, murmur};
pub use key_hash::{KEY_HASH_ID, KeyHash, KeyHashError, KeyHasher, encode_canonical};
pub use keyed_state::{FrozenKeyedState, KeyListenerId, KeyedState, NamespacedStore, RowSettings};
pub use operator_state::{OperatorList, Redistribution};
pub use registry::{CheckpointStorageFactory, RegistryError, StateBackendFactory, StateBackendRegistry};
pub use rows::TypedRows;
pub use schema::{Container, Schema, SchemaError, Shape};
pub use serializer::{BincodeSerializer, Serializer, SerializerError, VALUE_BYTES_MAX};
pub use storage::{CheckpointStorage, INLINE_BYTES_MAX, StateUpload, StorageError, check, folders_in, read_state};
pub use store::{KeyedStateStore, Slot, UnkeyedStateStore};
