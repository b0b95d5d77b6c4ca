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

pub mod prelude {
    //! What nearly every job needs: `use highwater::prelude::*;`.

    pub use highwater_connectors::{CollectSink, FileSink, FileSource, SequenceSource, Throttled};
    pub use highwater_runtime::{
        DataStream, JobError, JobHandle, JobMonitor, JobOutcome, JobResult, JobStatus, KeyedStream, RestartStrategy,
        StreamExecutionEnvironment,
    };
    pub use highwater_state_api::{
        BroadcastState, CheckpointId, CheckpointListener, CheckpointedFunction, FunctionInitializationContext,
        FunctionSnapshotContext, Key, KeyedStateStore, ListCheckpointed, ListCheckpointedFunction, ListStateDescriptor,
        MapState, MapStateDescriptor, OperatorCx, OperatorListState, OperatorStateStore, ReadOnlyBroadcastState,
        ValueState, ValueStateDescriptor,
    };
    #[cfg(feature = "fs")]
    pub use highwater_state_backend_fs::FsStateBackend;
    #[cfg(feature = "memory")]
    pub use highwater_state_backend_memory::MemoryStateBackend;
    pub use highwater_stream_api::{
        Collector, Data, KeyedContext, KeyedProcessFunction, ProcessContext, ProcessFunction, Result, Sink, Source,
        Timestamp, WatermarkStrategy,
    };
}

/// The example of the README, which has to compile.
#[cfg(all(doctest, feature = "fs"))]
#[doc = include_str!("../README.md")]
struct Readme;
