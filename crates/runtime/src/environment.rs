//! The environment: where a job is described, configured and started.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use highwater_checkpoint::{CheckpointingMode, RestartStrategy};
use highwater_state_api::{BackendPairing, CheckpointStorage, Configuration, StateBackend, StateBackendRegistry};
use highwater_stream_api::{MasterTriggerRestoreHook, Source};

use crate::data_stream::DataStream;
use crate::graph::JobGraph;
use crate::job::{JobHandle, JobResult};
use crate::master_hooks::MasterHookError;
use crate::plan::{Node, NodeKind, Plan};
use crate::{ExternalizedCheckpointRetention, FailoverStrategy, JobError, RuntimeExecutionMode, driver};

/// Describes a job and starts it. The name is the one under which the job resumes.
///
/// Nothing here is global: two environments, and the jobs started from them, never meet.
pub struct StreamExecutionEnvironment {
    plan: Rc<RefCell<Plan>>,
}

impl StreamExecutionEnvironment {
    /// An environment for the job `name`. A name that cannot be one is reported when the job is started.
    pub fn new(name: impl Into<String>) -> Self {
        Self { plan: Rc::new(RefCell::new(Plan::new(name.into()))) }
    }

    /// Sets how state is held and where snapshots go, as a pair.
    pub fn set_state_backend(&self, pairing: impl Into<BackendPairing>) -> &Self {
        let BackendPairing { state_backend, checkpoint_storage } = pairing.into();
        let mut plan = self.plan.borrow_mut();
        plan.config.state_backend = Some(state_backend);
        plan.config.checkpoint_storage = Some(checkpoint_storage);
        drop(plan);
        self
    }

    /// Sets how state is held, alone.
    pub fn set_keyed_state_backend(&self, backend: impl StateBackend + 'static) -> &Self {
        self.plan.borrow_mut().config.state_backend = Some(Arc::new(backend));
        self
    }

    /// Sets where snapshots go, alone.
    pub fn set_checkpoint_storage(&self, storage: Arc<dyn CheckpointStorage>) -> &Self {
        self.plan.borrow_mut().config.checkpoint_storage = Some(storage);
        self
    }

    /// Sets what finds a state backend and a checkpoint storage that were not set here: by the names in the
    /// configuration, or else heap state with checkpoints in memory. In the crate `highwater`, `default_registry` is one.
    pub fn set_state_backend_registry(&self, registry: StateBackendRegistry) -> &Self {
        self.plan.borrow_mut().config.registry = Some(registry);
        self
    }

    /// Sets the configuration of the job, which counts before that of the cluster. What was set here by code counts
    /// before both. A mistake in it is reported when the job is started.
    pub fn configure(&self, configuration: Configuration) -> &Self {
        self.plan.borrow_mut().config.configuration = configuration;
        self
    }

    /// Sets the configuration that all jobs of an installation share. What a state backend or a checkpoint storage that
    /// was set by code has left open is taken from here, and from nowhere else.
    pub fn set_cluster_configuration(&self, configuration: Configuration) -> &Self {
        self.plan.borrow_mut().config.cluster_configuration = configuration;
        self
    }

    /// Takes a checkpoint at this interval, at least 10 ms. Without it there is one checkpoint only: the last, when the input has ended.
    pub fn enable_checkpointing(&self, interval: Duration) -> &Self {
        self.plan.borrow_mut().config.checkpoints.interval = Some(interval);
        self
    }

    /// Takes checkpoints at this interval while a source works through a backlog; zero: none but those that are asked for.
    /// Default: the usual interval, below which it must not be.
    pub fn set_checkpoint_interval_during_backlog(&self, interval: Duration) -> &Self {
        self.plan.borrow_mut().config.checkpoints.interval_during_backlog = Some(interval);
        self
    }

    /// Whether sources read nothing before they have taken part in a checkpoint. Default: they do not wait.
    pub fn set_pause_sources_until_first_checkpoint(&self, pauses: bool) -> &Self {
        self.plan.borrow_mut().config.checkpoints.pause_sources = Some(pauses);
        self
    }

    /// Whether records count exactly once or at least once in the state that the job is restored with. Default: exactly
    /// once. At least once, no input waits for the barriers of another one.
    pub fn set_checkpointing_mode(&self, mode: CheckpointingMode) -> &Self {
        self.plan.borrow_mut().config.checkpoints.mode = Some(mode);
        self
    }

    /// How long a checkpoint may take before it is given up, and for how long the job log may fail to tell whether a record
    /// was appended before the attempt is. Default: 10 minutes.
    pub fn set_checkpoint_timeout(&self, timeout: Duration) -> &Self {
        self.plan.borrow_mut().config.checkpoints.timeout = Some(timeout);
        self
    }

    /// How much time at least lies between the completion of a checkpoint and the trigger of the next periodic one. Default:
    /// none.
    pub fn set_min_pause_between_checkpoints(&self, pause: Duration) -> &Self {
        self.plan.borrow_mut().config.checkpoints.min_pause = Some(pause);
        self
    }

    /// How many checkpoints may be pending at the same time. Default: 1.
    pub fn set_max_concurrent_checkpoints(&self, number: u32) -> &Self {
        self.plan.borrow_mut().config.checkpoints.max_concurrent = Some(number);
        self
    }

    /// How many checkpoints in a row may fail before the job does; `u32::MAX` is any number. Default: 0.
    pub fn set_tolerable_checkpoint_failures(&self, number: u32) -> &Self {
        self.plan.borrow_mut().config.checkpoints.tolerable_failures = Some(number);
        self
    }

    /// Flink's older form of that: `true` tolerates no failure, `false` any number. A number that is set counts before it.
    pub fn set_fail_on_checkpointing_errors(&self, fails: bool) -> &Self {
        self.plan.borrow_mut().config.checkpoints.fail_on_errors = Some(fails);
        self
    }

    /// Whether checkpoints are taken once some subtasks have processed all their input and others have not. Default: they are.
    /// If not, the next checkpoint is the last one, when all have.
    pub fn enable_checkpoints_after_tasks_finish(&self, enabled: bool) -> &Self {
        self.plan.borrow_mut().config.checkpoints.after_tasks_finish = Some(enabled);
        self
    }

    /// How many complete checkpoints are kept; 0 counts as 1. Default: 1.
    pub fn set_max_retained_checkpoints(&self, number: usize) -> &Self {
        self.plan.borrow_mut().config.checkpoints.retain = Some(number);
        self
    }

    /// What becomes of the complete checkpoints when the job ends. Default: a job that is cancelled or fails keeps them and goes
    /// on from them when it is started again, a finished one keeps none.
    pub fn set_externalized_checkpoint_retention(&self, retention: ExternalizedCheckpointRetention) -> &Self {
        self.plan.borrow_mut().config.checkpoints.externalized_retention = Some(retention);
        self
    }

    /// Whether the job goes on from the next older checkpoint that is kept when the newest one is damaged. Default: no, it is
    /// not started, and the error names the next older one. A storage that cannot be read is never taken for a damaged
    /// one.
    ///
    /// The job goes back further than what it has said outside: transactions that were committed with the newer
    /// checkpoint are committed again with the records that are read again, and what sources have acknowledged upstream
    /// may not come again. It is the owner's decision whether that is better than to stop.
    pub fn set_fall_back_to_older_checkpoint(&self, falls_back: bool) -> &Self {
        self.plan.borrow_mut().config.checkpoints.fall_back = Some(falls_back);
        self
    }

    /// Whether this process waits while another one runs the job, and takes over when that one shows no sign of life for as
    /// long as a lease lasts; while it runs the job, it renews its lease. To be set in all processes of the job. Default: no, so that
    /// a start fences whoever runs the job.
    ///
    /// A process that was fenced ends with an error; started again, it waits. One that was cancelled, or whose job has failed for
    /// good, does not give its lease back: a standby goes on with the job, unless the checkpoints were dropped
    /// ([`StreamExecutionEnvironment::set_externalized_checkpoint_retention`]); then it ends with [`JobError::Dropped`]. So
    /// whoever wants the job to stop cancels all its processes.
    pub fn set_standby(&self, standby: bool) -> &Self {
        self.plan.borrow_mut().config.high_availability.standby = Some(standby);
        self
    }

    /// For how long whoever runs the job may show no sign of life before a standby takes over, and may act without having
    /// looked into the job log whether one has; from 100 ms to 1 day. Default: 15 s.
    pub fn set_lease_duration(&self, lease: Duration) -> &Self {
        self.plan.borrow_mut().config.high_availability.lease = Some(lease);
        self
    }

    /// Has a hook take part in every checkpoint of the job. Flink's `CheckpointCoordinator.addMasterHook`.
    ///
    /// # Errors
    /// When the hook has no identifier, or that of another one.
    pub fn add_master_hook(&self, hook: impl MasterTriggerRestoreHook) -> Result<&Self, MasterHookError> {
        self.plan.borrow_mut().config.hooks.add(hook)?;
        Ok(self)
    }

    /// What happens when a task fails. Counts before the `restart-strategy.*` options of the configuration, which count
    /// before the default: exponential delay when checkpointing is enabled, no restart otherwise. Parameters that are out of
    /// their bounds are reported when the job is started.
    pub fn set_restart_strategy(&self, strategy: impl Into<RestartStrategy>) -> &Self {
        self.plan.borrow_mut().config.restart = Some(strategy.into());
        self
    }

    /// Whether the input is processed as a stream or as a batch. Counts before `execution.runtime-mode` of the configuration.
    /// Default: as a stream. Flink's `setRuntimeMode`.
    ///
    /// As a batch, every source has to be bounded ([`Source::boundedness`]). Functions on keyed streams get one key after
    /// the other, all its records and then its timers, and the state of a key is dropped when it has passed. No checkpoints
    /// are taken, and their settings do not count: what sinks write becomes visible at the end of the job, and a job that
    /// fails before begins anew, if it has a restart strategy.
    pub fn set_runtime_mode(&self, mode: RuntimeExecutionMode) -> &Self {
        self.plan.borrow_mut().config.runtime_mode = Some(mode);
        self
    }

    /// What is restarted when a task fails. Default: its region, which is the tasks that records reach it from or reach from
    /// it; the tasks of other regions go on.
    pub fn set_failover_strategy(&self, strategy: FailoverStrategy) -> &Self {
        self.plan.borrow_mut().config.failover = Some(strategy);
        self
    }

    /// Number of subtasks of each task. Default: 1. May differ from start to start.
    pub fn set_parallelism(&self, parallelism: u32) -> &Self {
        self.plan.borrow_mut().config.parallelism = parallelism;
        self
    }

    /// Number of key groups: the upper limit of the parallelism for the life of the job's state. Default: derived from
    /// the parallelism of the first start, and from then on what the restored state has.
    pub fn set_max_parallelism(&self, max_parallelism: u32) -> &Self {
        self.plan.borrow_mut().config.max_parallelism = Some(max_parallelism);
        self
    }

    /// For backends that keep bytes: how many rows of deserialised values are cached in each subtask. Default: 65,536;
    /// 0 turns the cache off.
    pub fn set_cached_rows_max(&self, rows: usize) -> &Self {
        self.plan.borrow_mut().config.cached_rows_max = rows;
        self
    }

    /// A stream of what a source reads.
    pub fn from_source<S: Source>(&self, source: S) -> DataStream<S::Out> {
        let node = Node::new(NodeKind::source(Arc::new(source)), None);
        let id = self.plan.borrow_mut().add(node);
        DataStream::new(self.plan.clone(), id)
    }

    /// The effective configuration in words: a line for each option with its value and who said so (code, job, cluster or
    /// default), and what the options mean together.
    ///
    /// # Errors
    /// When a start would refuse a setting, whatever there is outside the process, or a source in batch mode.
    pub fn explain_configuration(&self) -> Result<String, JobError> {
        let plan = self.plan.borrow();
        crate::explain::explain(&plan.config, plan.is_batch()?)
    }

    /// The job as it was described, for whoever runs its subtasks otherwise than on the threads of this process.
    pub fn job_graph(&self) -> Result<JobGraph, JobError> {
        self.plan.borrow().build().map(|(graph, _)| graph)
    }

    /// Runs the job to its end on threads of its own, and waits for it.
    pub fn execute(&self) -> Result<JobResult, JobError> {
        self.execute_async()?.wait()
    }

    /// Starts the job on threads of its own.
    pub fn execute_async(&self) -> Result<JobHandle, JobError> {
        let (graph, config) = self.plan.borrow().build()?;
        driver::start(graph, config)
    }
}
