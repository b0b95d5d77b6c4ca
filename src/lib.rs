//! Highwater: stateful stream processing that survives anything.
//!
//! Flink's state and checkpointing model as a Rust library: operators keep typed state, barriers flow with the data, a
//! coordinator turns them into consistent checkpoints, and a job killed at any moment goes on as if nothing had
//! happened. It is embedded in your own binary; there is no server.
//!
//! This crate is the one to depend on. It only re-exports:
//!
//! * [`prelude`]: what nearly every job needs.
//! * [`state`]: state, backends and storage, for those who write their own.
//! * [`stream`]: functions, sources and sinks, for those who write connectors.
//! * [`runtime`]: how jobs are described and run.
//! * [`checkpoint`]: the checkpoint protocol as pure machines.
//! * [`connectors`]: the sources and sinks that come along.
//!
//! # Features
//!
//! * `memory` (default): [`MemoryStateBackend`], heap state with checkpoints in memory.
//! * `fs` (default): [`FsStateBackend`], heap state with checkpoints in files.
//! * `failpoints`: named places where a test can stop the process. For tests only.
//!
//! # What happens
//!
//! What a job does is reported through `tracing`. Install a subscriber, such as `tracing_subscriber::fmt::init()`, or
//! restarts and failed checkpoints go unseen. [`runtime::JobHandle::status`] counts them.
//!
//! # Example
//!
//! ```
//! use highwater::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Payment {
//!     account: String,
//!     cents: i64,
//! }
//!
//! #[derive(Default)]
//! struct LargeSpender {
//!     total: ValueState<i64>,
//! }
//!
//! impl KeyedProcessFunction<String, Payment> for LargeSpender {
//!     type Out = String;
//!
//!     fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
//!         self.total = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("total"))?;
//!         Ok(())
//!     }
//!
//!     fn process(
//!         &mut self,
//!         payment: Payment,
//!         cx: &mut KeyedContext<'_, String>,
//!         out: &mut Collector<String>,
//!     ) -> Result<()> {
//!         let total = self.total.value(cx)?.unwrap_or(0) + payment.cents;
//!         self.total.update(cx, total)?;
//!         if total > 1_000_000 {
//!             out.collect(format!("{} has spent {total}", cx.current_key()));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let env = StreamExecutionEnvironment::new("large-spenders"); // the name under which it resumes
//! env.set_state_backend(MemoryStateBackend::new());
//! let spent = CollectSink::default();
//! let records = spent.records();
//! env.from_source(SequenceSource::new(1..=300))
//!     .map(|number| Payment { account: format!("account {}", number % 2), cents: 10_000 })
//!     .key_by(|payment| &payment.account)
//!     .process(LargeSpender::default)
//!     .uid("large-spender")
//!     .sink_to(spent);
//! env.execute()?;
//! assert_eq!(records.len(), 100);
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use highwater_checkpoint as checkpoint;
#[doc(inline)]
pub use highwater_connectors as connectors;
#[doc(inline)]
pub use highwater_runtime as runtime;
#[doc(inline)]
pub use highwater_state_api as state;
#[doc(inline)]
pub use highwater_stream_api as stream;

#[cfg(feature = "fs")]
pub use highwater_state_backend_fs::{FileSystemCheckpointStorage, FsStateBackend};
#[cfg(feature = "memory")]
pub use highwater_state_backend_memory::{MemoryCheckpointStorage, MemoryStateBackend};
pub use highwater_state_kit::HeapStateBackend;

/// The state backends and checkpoint storages of this build, for
/// [`set_state_backend_registry`](prelude::StreamExecutionEnvironment::set_state_backend_registry).
///
/// The state backend `hashmap`; the checkpoint storages `jobmanager` (feature `memory`) and `filesystem` (feature `fs`).
/// Backends of your own are registered beside them:
/// [`register_state_backend`](state::StateBackendRegistry::register_state_backend).
///
/// ```
/// use highwater::prelude::*;
///
/// # fn main() -> Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let directory = folder.path().display().to_string();
/// let env = StreamExecutionEnvironment::new("configured");
/// env.set_state_backend_registry(default_registry());
/// env.configure(Configuration::from([
///     ("state.backend.type", "hashmap"),
///     ("execution.checkpointing.storage", "filesystem"),
///     ("execution.checkpointing.dir", &directory),
/// ]));
/// env.from_source(SequenceSource::new(1..=3)).sink_to(CollectSink::<u64>::default());
/// env.execute()?;
/// # assert!(folder.path().join("configured/log").is_dir());
/// # Ok(())
/// # }
/// ```
pub fn default_registry() -> state::StateBackendRegistry {
    let mut registry = state::StateBackendRegistry::new();
    let registered = register_all(&mut registry);
    registered.expect("the backends of this project have names of their own");
    registry
}

fn register_all(registry: &mut state::StateBackendRegistry) -> std::result::Result<(), state::RegistryError> {
    registry.register_state_backend(highwater_state_kit::HeapStateBackendFactory)?;
    #[cfg(feature = "memory")]
    registry.register_checkpoint_storage(highwater_state_backend_memory::MemoryCheckpointStorageFactory)?;
    #[cfg(feature = "fs")]
    registry.register_checkpoint_storage(highwater_state_backend_fs::FileSystemCheckpointStorageFactory)?;
    Ok(())
}

pub mod prelude {
    //! What nearly every job needs: `use highwater::prelude::*;`.

    pub use crate::default_registry;
    pub use highwater_connectors::{CollectSink, FileSink, FileSource, SequenceSource, Throttled};
    pub use highwater_runtime::{
        DataStream, ExponentialDelay, FailoverStrategy, JobError, JobHandle, JobMonitor, JobOutcome, JobResult,
        JobStatus, KeyedStream, RestartStrategy, RuntimeExecutionMode, StreamExecutionEnvironment,
    };
    pub use highwater_state_api::{
        AggregateFunction, AggregatingState, AggregatingStateDescriptor, BroadcastState, CheckpointId,
        CheckpointListener, CheckpointedFunction, Configuration, FoldingState, FoldingStateDescriptor,
        FunctionInitializationContext, FunctionSnapshotContext, Key, KeyedStateStore, ListCheckpointed,
        ListCheckpointedFunction, ListState, ListStateDescriptor, MapState, MapStateDescriptor, OperatorCx,
        OperatorListState, OperatorStateStore, ReadOnlyBroadcastState, ReducingState, ReducingStateDescriptor,
        ValueState, ValueStateDescriptor,
    };
    #[cfg(feature = "fs")]
    pub use highwater_state_backend_fs::FsStateBackend;
    #[cfg(feature = "memory")]
    pub use highwater_state_backend_memory::MemoryStateBackend;
    pub use highwater_stream_api::{
        Collector, Data, KeyedContext, KeyedProcessFunction, MasterTriggerRestoreHook, ProcessContext, ProcessFunction,
        Result, Sink, Source, Timestamp, WatermarkStrategy,
    };
}

#[cfg(test)]
mod readme_test;

/// The example of the README, which has to compile.
#[cfg(all(doctest, feature = "fs"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guides, which have to run.
#[cfg(all(doctest, feature = "fs", feature = "memory"))]
#[doc = include_str!("../docs/running-a-job.md")]
struct RunningAJob;

/// The same for authors of sinks.
#[cfg(all(doctest, feature = "fs"))]
#[doc = include_str!("../docs/your-own-sink.md")]
struct YourOwnSink;
