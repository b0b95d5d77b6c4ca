//! The runtime: chains of operators, the channels between them, and the shell that drives the checkpoint protocol.
//!
//! * Describing a job: [`StreamExecutionEnvironment`], [`DataStream`], [`KeyedStream`].
//! * Running it: [`JobHandle`], [`JobResult`].
//! * Inside: a [`Chain`] is the operators of a task as a value, a [`Subtask`] puts a gate and outputs around it and is
//!   driven by `step`; a [`Master`] joins the coordinator of `highwater-checkpoint` with the split enumerators and is
//!   driven by the shell.
//!
//! What is inside is public so that a simulation can drive it by hand. It changes with the protocol: jobs need none of it.

mod adoption;
mod alignment;
mod attempt;
mod backend_choice;
pub mod batch;
mod batch_restore;
mod build;
mod chain;
pub mod channel;
mod checkpoint_config;
mod checkpoint_coordinator;
mod clock;
pub mod control;
mod control_lanes;
mod data_stream;
mod driver;
mod environment;
mod error;
mod explain;
mod externalized_retention;
mod failover_strategy;
mod failpoint;
mod fall_back;
mod fence;
mod finished_tasks;
mod gate;
pub mod graph;
mod high_availability;
mod io_pool;
mod job;
mod job_end;
mod lease_keeper;
#[cfg(test)]
mod log_test;
mod master;
mod master_hooks;
mod metrics;
pub mod operator;
pub mod operators;
pub mod options;
pub mod output;
mod patience;
mod plan;
mod prepare;
mod random;
pub mod read_share;
mod recovery;
mod regions;
mod reminder;
mod restart_choice;
pub mod restore;
mod retrying_storage;
mod running_subtasks;
mod runtime_mode;
mod shell;
mod snapshot;
mod sort;
mod split_gate;
mod standby;
mod start;
mod storage_work;
mod subtask;
mod takeover;
mod threads;
mod transaction_timeout;
mod yaml_configuration;

pub use batch_restore::NotEndedError;
pub use build::{AttemptEnvironment, BuiltSubtask, build_subtasks};
pub use chain::{Chain, FrozenChain};
pub use checkpoint_coordinator::{CheckpointCoordinator, PendingCheckpoint, SchedulerError};
pub use data_stream::{DataStream, DataStreamSink, KeyedStream};
pub use environment::StreamExecutionEnvironment;
pub use error::{JobError, OperatorCall, TaskError};
pub use externalized_retention::ExternalizedCheckpointRetention;
pub use failover_strategy::FailoverStrategy;
pub use fall_back::DamagedCheckpoint;
pub use fence::{Fence, FenceError, FenceSetup};
pub use finished_tasks::FinishedOperatorError;
pub use gate::Gate;
pub use highwater_checkpoint::{
    CheckpointFailure, CheckpointFailureReason, CheckpointMetrics, CheckpointRequest, CheckpointStats,
    CheckpointStatsCounts, CheckpointStatsSnapshot, CheckpointStatsStatus, CheckpointingMode, ExponentialDelay,
    PoisonRecord, RestartStrategy, SubtaskStateStats, TaskStateStats,
};
pub use job::{JobHandle, JobMonitor, JobOutcome, JobResult, JobStatus, SubtaskStatus};
pub use job_end::{DroppedCheckpoints, drop_checkpoints};
pub use lease_keeper::Renewals;
pub use master::{Enumerators, Master, MasterEnd, Order, SharedStats};
pub use master_hooks::MasterHookError;
pub use metrics::SubtaskMetrics;
pub use prepare::{Contexts, Preparation, Prepared, prepare};
pub use regions::Regions;
pub use retrying_storage::{Patience, RetryingStorage};
pub use runtime_mode::RuntimeExecutionMode;
pub use snapshot::{AsyncSnapshot, SnapshotExecutor};
pub use standby::{StandbyLook, StandbyWatch};
pub use storage_work::carry_out;
pub use subtask::{Step, Subtask, SubtaskParts};
pub use takeover::{Adoption, TaskLayout};
pub use yaml_configuration::{YamlError, configuration_from_yaml, configuration_from_yaml_file};
