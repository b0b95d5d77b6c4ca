//! The plan: the steps of a job as they were described, and how they become a job graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use highwater_checkpoint::RestartStrategy;
use highwater_state_api::{
    BoxedError, CheckpointStorage, Configuration, JobName, MaxParallelism, OperatorUid, StateBackend,
    StateBackendRegistry,
};
use highwater_stream_api::{Boundedness, Data, KeySelector, KeyedProcessFunction, Sink, Source};

use crate::batch::decode;
use crate::channel::BatchDecoder;
use crate::checkpoint_config::CheckpointSettings;
use crate::graph::{
    AnySink, AnySource, EdgeNode, EdgePattern, ErasedSource, JobGraph, OperatorFactory, OperatorNode, OutputFactory,
    TaskNode,
};
use crate::high_availability::HighAvailabilitySettings;
use crate::master::caught;
use crate::master_hooks::MasterHooks;
use crate::operator::Operator;
use crate::operators::{KeyedProcessOperator, SinkOperator, SortedKeysOperator, SourceOperator};
use crate::output::{HashOutput, RoundRobinOutput};
use crate::runtime_mode::{self, Execution, RuntimeExecutionMode};
use crate::sort::SortSettings;
use crate::{FailoverStrategy, JobError};

/// How many rows are cached before byte tables when nothing else is set.
const DEFAULT_CACHED_ROWS_MAX: usize = 1 << 16;

/// Index of a node in its plan.
pub(crate) type NodeId = usize;

/// What a job is started with.
#[derive(Clone)]
pub(crate) struct JobConfig {
    pub(crate) name: String,
    pub(crate) state_backend: Option<Arc<dyn StateBackend>>,
    pub(crate) checkpoint_storage: Option<Arc<dyn CheckpointStorage>>,
    /// Finds by name what is not set.
    pub(crate) registry: Option<StateBackendRegistry>,
    pub(crate) configuration: Configuration,
    pub(crate) cluster_configuration: Configuration,
    pub(crate) checkpoints: CheckpointSettings,
    pub(crate) high_availability: HighAvailabilitySettings,
    pub(crate) hooks: MasterHooks,
    pub(crate) restart: Option<RestartStrategy>,
    /// What was set by code; of a job that was built, what it comes down to.
    pub(crate) runtime_mode: Option<RuntimeExecutionMode>,
    pub(crate) failover: Option<FailoverStrategy>,
    pub(crate) parallelism: u32,
    pub(crate) max_parallelism: Option<u32>,
    pub(crate) cached_rows_max: usize,
}

impl JobConfig {
    /// Whether the job is run in batch mode. Of a job that was built.
    pub(crate) fn is_batch(&self) -> bool {
        self.runtime_mode == Some(RuntimeExecutionMode::Batch)
    }

    /// The configuration of the job, and behind it that of the cluster.
    pub(crate) fn layered_configuration(&self) -> Configuration {
        self.configuration.clone().with_fallback(self.cluster_configuration.clone())
    }
}

/// A job as it is described.
pub(crate) struct Plan {
    pub(crate) config: JobConfig,
    nodes: Vec<Node>,
}

/// One step.
pub(crate) struct Node {
    kind: NodeKind,
    input: Option<Input>,
    pub(crate) uid: Option<String>,
    pub(crate) parallelism: Option<u32>,
}

/// What a step does.
pub(crate) struct NodeKind {
    /// Default uid, and name in messages.
    name: &'static str,
    /// State is found by the uid, so that it has to be given where the default is not unique.
    uid: UidRule,
    factory: OperatorFactory,
    /// Makes it for batch mode, if it is another one there.
    sorted: Option<SortedOperatorFactory>,
    source: Option<Arc<dyn AnySource>>,
    sink: Option<Arc<dyn AnySink>>,
}

/// Makes the factory of an operator that sorts its input.
type SortedOperatorFactory = Box<dyn Fn(&SortSettings) -> OperatorFactory>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum UidRule {
    /// Without state: a number makes the default unique.
    Numbered,
    /// With state, but usually alone of its kind in a job: the default will do if it is.
    Alone,
    /// With state: must be given.
    Required,
}

/// Where the records of a step come from.
pub(crate) struct Input {
    from: NodeId,
    pattern: InputPattern,
    output: Arc<dyn Fn(OperatorUid) -> OutputFactory + Send + Sync>,
    decode: BatchDecoder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputPattern {
    Forward,
    Rebalance,
    Hash,
}

impl NodeKind {
    pub(crate) fn source<S: Source>(source: Arc<S>) -> Self {
        let erased: Arc<dyn AnySource> = Arc::new(ErasedSource(source.clone()));
        let factory: OperatorFactory = Arc::new(move |subtask| {
            let reader = source.create_reader(subtask)?;
            Ok(Box::new(SourceOperator::new(reader)) as Box<dyn Operator>)
        });
        Self { name: "source", uid: UidRule::Alone, factory, sorted: None, source: Some(erased), sink: None }
    }

    pub(crate) fn sink<S: Sink>(sink: Arc<S>) -> Self {
        let erased: Arc<dyn AnySink> = sink.clone();
        let factory: OperatorFactory =
            Arc::new(move |_| Ok(Box::new(SinkOperator::new(sink.clone())) as Box<dyn Operator>));
        Self { name: "sink", uid: UidRule::Alone, factory, sorted: None, source: None, sink: Some(erased) }
    }

    pub(crate) fn operator(name: &'static str, make: impl Fn() -> Box<dyn Operator> + Send + Sync + 'static) -> Self {
        Self::with(name, UidRule::Numbered, make)
    }

    pub(crate) fn with_state(name: &'static str, make: impl Fn() -> Box<dyn Operator> + Send + Sync + 'static) -> Self {
        Self::with(name, UidRule::Required, make)
    }

    fn with(name: &'static str, uid: UidRule, make: impl Fn() -> Box<dyn Operator> + Send + Sync + 'static) -> Self {
        let factory: OperatorFactory = Arc::new(move |_| Ok::<_, BoxedError>(make()));
        Self { name, uid, factory, sorted: None, source: None, sink: None }
    }

    /// A function on a keyed stream.
    pub(crate) fn keyed<In, S, F>(
        name: &'static str,
        make: impl Fn() -> KeyedProcessOperator<In, S, F> + Clone + Send + Sync + 'static,
    ) -> Self
    where
        In: Data,
        S: KeySelector<In>,
        F: KeyedProcessFunction<S::Key, In>,
    {
        let make_keyed = make.clone();
        let sorted = move |settings: &SortSettings| -> OperatorFactory {
            let (make, settings) = (make.clone(), settings.clone());
            Arc::new(move |_| {
                Ok::<_, BoxedError>(Box::new(SortedKeysOperator::new(make(), settings.clone())) as Box<dyn Operator>)
            })
        };
        Self { sorted: Some(Box::new(sorted)), ..Self::with_state(name, move || Box::new(make_keyed())) }
    }

    fn factory(&self, execution: &Execution) -> OperatorFactory {
        match (execution, &self.sorted) {
            (Execution::Batch(settings), Some(sorted)) => sorted(settings),
            _ => self.factory.clone(),
        }
    }
}

impl Input {
    pub(crate) fn forward<T: Data>(from: NodeId) -> Self {
        Self::round_robin::<T>(from, InputPattern::Forward)
    }

    pub(crate) fn rebalance<T: Data>(from: NodeId) -> Self {
        Self::round_robin::<T>(from, InputPattern::Rebalance)
    }

    fn round_robin<T: Data>(from: NodeId, pattern: InputPattern) -> Self {
        let factory: OutputFactory = Arc::new(|channels, _| Box::new(RoundRobinOutput::new(channels)));
        Self { from, pattern, output: Arc::new(move |_| factory.clone()), decode: decode::<T> }
    }

    pub(crate) fn hash<T: Data, S: KeySelector<T>>(from: NodeId, selector: S) -> Self {
        let output = move |uid: OperatorUid| -> OutputFactory {
            let selector = selector.clone();
            Arc::new(move |channels, max_parallelism| {
                Box::new(HashOutput::<T, S>::new(uid.clone(), selector.clone(), max_parallelism, channels))
            })
        };
        Self { from, pattern: InputPattern::Hash, output: Arc::new(output), decode: decode::<T> }
    }
}

impl Node {
    pub(crate) fn new(kind: NodeKind, input: Option<Input>) -> Self {
        Self { kind, input, uid: None, parallelism: None }
    }
}

impl Plan {
    pub(crate) fn new(name: String) -> Self {
        let config = JobConfig {
            name,
            state_backend: None,
            checkpoint_storage: None,
            registry: None,
            configuration: Configuration::new(),
            cluster_configuration: Configuration::new(),
            checkpoints: CheckpointSettings::default(),
            high_availability: HighAvailabilitySettings::default(),
            hooks: MasterHooks::default(),
            restart: None,
            runtime_mode: None,
            failover: None,
            parallelism: 1,
            max_parallelism: None,
            cached_rows_max: DEFAULT_CACHED_ROWS_MAX,
        };
        Self { config, nodes: Vec::new() }
    }

    pub(crate) fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(crate) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node]
    }

    /// Checks the description and puts steps that can share a thread into one task.
    pub(crate) fn build(&self) -> Result<(JobGraph, JobConfig), JobError> {
        let invalid = |reason: String| JobError::Invalid(reason);
        JobName::new(&self.config.name).map_err(|error| invalid(error.to_string()))?;
        if self.nodes.is_empty() {
            return Err(invalid("it has no source".to_owned()));
        }
        let max_parallelism = match self.config.max_parallelism {
            Some(groups) => Some(MaxParallelism::new(groups).map_err(|error| invalid(error.to_string()))?),
            None => None,
        };
        let uids = self.uids()?;
        let execution = self.execution()?;
        let mut graph = JobGraph::default();
        let mut task_of = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let parallelism = node.parallelism.unwrap_or(self.config.parallelism);
            let limit = max_parallelism.unwrap_or(MaxParallelism::default_for(parallelism));
            limit
                .check(parallelism)
                .map_err(|error| invalid(format!("operator {:?}: {error}", uids[index].as_str())))?;
            let operator = OperatorNode {
                uid: uids[index].clone(),
                is_stable: node.uid.is_some() || node.kind.uid != UidRule::Numbered,
                factory: node.kind.factory(&execution),
                source: node.kind.source.clone(),
                sink: node.kind.sink.clone(),
            };
            let task = match &node.input {
                Some(input) if self.is_chained(input, parallelism) => {
                    let task: usize = task_of[input.from];
                    graph.tasks[task].operators.push(operator);
                    task
                }
                input => {
                    graph.tasks.push(TaskNode { parallelism, operators: vec![operator] });
                    let task = graph.tasks.len() - 1;
                    if let Some(input) = input {
                        let from = task_of[input.from];
                        let is_forward =
                            input.pattern == InputPattern::Forward && graph.tasks[from].parallelism == parallelism;
                        graph.edges.push(EdgeNode {
                            from,
                            to: task,
                            pattern: if is_forward { EdgePattern::Forward } else { EdgePattern::AllToAll },
                            may_chain: self.may_chain(input),
                            output: (input.output)(uids[index].clone()),
                            decode: input.decode,
                        });
                    }
                    task
                }
            };
            task_of.push(task);
        }
        let mode = match execution {
            Execution::Streaming => RuntimeExecutionMode::Streaming,
            Execution::Batch(_) => RuntimeExecutionMode::Batch,
        };
        Ok((graph, JobConfig { runtime_mode: Some(mode), ..self.config.clone() }))
    }

    /// Whether the job is run as a stream or as a batch.
    fn execution(&self) -> Result<Execution, JobError> {
        let mut unbounded = None;
        for node in &self.nodes {
            let Some(source) = &node.kind.source else { continue };
            let name = node.uid.as_deref().unwrap_or(node.kind.name);
            let boundedness = caught(|| Ok(source.boundedness()))
                .map_err(|source| JobError::Start { operator: name.to_owned(), source })?;
            if boundedness != Boundedness::Bounded {
                unbounded.get_or_insert(name);
            }
        }
        runtime_mode::choose(&self.config, unbounded)
    }

    /// Whether the job is run in batch mode, also of one that cannot be built yet.
    pub(crate) fn is_batch(&self) -> Result<bool, JobError> {
        Ok(matches!(self.execution()?, Execution::Batch(_)))
    }

    /// Whether a step can run in the task of its input: records go to the same subtask anyway, and nobody else takes
    /// them.
    fn is_chained(&self, input: &Input, parallelism: u32) -> bool {
        let from_parallelism = self.nodes[input.from].parallelism.unwrap_or(self.config.parallelism);
        self.may_chain(input) && from_parallelism == parallelism
    }

    /// Whether a step is in the task of its input when both have the same parallelism.
    fn may_chain(&self, input: &Input) -> bool {
        let uses = |node: &&Node| node.input.as_ref().is_some_and(|other| other.from == input.from);
        input.pattern == InputPattern::Forward && self.nodes.iter().filter(uses).count() == 1
    }

    fn uids(&self) -> Result<Vec<OperatorUid>, JobError> {
        let mut uids = Vec::with_capacity(self.nodes.len());
        let (mut taken, mut missing) = (BTreeSet::new(), Vec::new());
        for (index, node) in self.nodes.iter().enumerate() {
            let name = node.kind.name;
            let alike = self.nodes.iter().filter(|other| other.kind.name == name && other.uid.is_none()).count();
            let uid = match (&node.uid, node.kind.uid) {
                (Some(uid), _) => uid.clone(),
                (None, UidRule::Numbered) => format!("{name}-{index}"),
                (None, UidRule::Alone) if alike == 1 => name.to_owned(),
                (None, UidRule::Alone | UidRule::Required) => {
                    missing.push(format!("step {index} ({name})"));
                    continue;
                }
            };
            let uid = OperatorUid::new(uid).map_err(|error| JobError::Invalid(error.to_string()))?;
            if !taken.insert(uid.clone()) {
                return Err(JobError::Invalid(format!("two steps have the uid {:?}", uid.as_str())));
            }
            uids.push(uid);
        }
        if !missing.is_empty() {
            return Err(JobError::Invalid(format!(
                "there is state and no uid in {}: give each a name with `.uid(...)`, so that its state is found again",
                missing.join(", ")
            )));
        }
        Ok(uids)
    }
}
