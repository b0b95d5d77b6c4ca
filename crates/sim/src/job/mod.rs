//! The simulated job: source → counter → sink, as a production job graph with probes around its operators.

mod counter;
mod sink;
mod source;

pub(crate) use counter::{COUNT_STATE, KEYS_STATE};
pub(crate) use sink::{Outside, SinkEvent, Transaction};
pub(crate) use source::{Sleepers, Split, read_enumerator};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use highwater_runtime::graph::{JobGraph, OperatorFactory};
use highwater_runtime::{JobError, StreamExecutionEnvironment};

use crate::planted::Planted;
use crate::probe::{Probe, Role, Witness};
use crate::record::{Input, Record};
use crate::scenario::{Scenario, Topology};
use counter::Counter;
use sink::SimSink;
use source::SimSource;

/// Name of the job.
pub(crate) const JOB: &str = "sim";
/// Uid of the source.
pub(crate) const SOURCE: &str = "source";
/// Uid of the counter.
pub(crate) const COUNTER: &str = "counter";
/// Uid of the sink.
pub(crate) const SINK: &str = "sink";

/// What outlives an attempt and is given to the job of each.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The input.
    pub input: Arc<Input>,
    /// The outside world.
    pub outside: Outside,
    /// Readers that wait to be woken.
    pub sleepers: Sleepers,
    /// Makes the next record fail.
    pub fails: Arc<AtomicBool>,
    /// Makes the next snapshot fail.
    pub declines: Arc<AtomicBool>,
}

/// The job of one attempt.
pub(crate) fn job_graph(
    scenario: &Scenario,
    topology: Topology,
    surroundings: &Surroundings,
    witness: &Witness,
    planted: Option<Planted>,
) -> Result<JobGraph, JobError> {
    let Surroundings { input, outside, sleepers, fails, declines } = surroundings.clone();
    let environment = StreamExecutionEnvironment::new(JOB);
    environment.set_max_parallelism(scenario.max_parallelism);
    let off_by = planted.map_or(0, Planted::off_by);
    let source = SimSource { input, burst: scenario.source_burst, sleepers, off_by };
    let mut records = environment.from_source(source).uid(SOURCE).set_parallelism(topology.sources);
    if scenario.with_timestamps {
        records = records
            .assign_timestamps(|record: &Record| i64::from(record.index))
            .uid("timestamps")
            .set_parallelism(topology.sources);
    }
    let ballast_bytes = scenario.ballast_bytes;
    records
        .key_by_value(|record: &Record| record.key)
        .process(move || Counter::new(ballast_bytes, fails.clone(), declines.clone()))
        .uid(COUNTER)
        .set_parallelism(topology.counters)
        .sink_to(SimSink(outside))
        .uid(SINK)
        .set_parallelism(topology.sinks);
    let mut graph = environment.job_graph()?;
    if let Some(planted) = planted {
        planted.plant_in(&mut graph);
    }
    for node in graph.tasks.iter_mut().flat_map(|task| &mut task.operators) {
        let role = match node.uid.as_str() {
            SOURCE => Role::Source,
            COUNTER => Role::Counter,
            SINK => Role::Sink,
            _ => continue,
        };
        let (inner, witness) = (node.factory.clone(), witness.clone());
        let factory: OperatorFactory =
            Arc::new(move |subtask| Ok(Box::new(Probe::new(inner(subtask)?, role, subtask, witness.clone()))));
        node.factory = factory;
    }
    Ok(graph)
}
