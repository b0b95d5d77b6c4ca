//! The simulated job: two sources that end at different times → counter → sink, as a production job graph with probes
//! around its operators.

mod counter;
mod sink;
mod source;

pub(crate) use counter::{COUNT_STATE, KEYS_STATE};
pub(crate) use sink::{Outside, SinkEvent, Transaction};
pub(crate) use source::{Sleepers, Split, read_enumerator};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use highwater_runtime::graph::{EdgeNode, EdgePattern, JobGraph, OperatorFactory, TaskNode};
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
/// Uids of the sources.
pub(crate) const SOURCES: [&str; 2] = ["source", "second-source"];
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
    let [first_splits, second_splits] = input.sources();
    let source = |uid: &str, splits| {
        let (input, sleepers) = (input.clone(), sleepers.clone());
        let source = SimSource { input, splits, burst: scenario.source_burst, sleepers, off_by };
        let records = environment.from_source(source).uid(uid).set_parallelism(topology.sources);
        if !scenario.with_timestamps {
            return records;
        }
        let timestamps = records.assign_timestamps(|record: &Record| i64::from(record.index));
        timestamps.uid(format!("timestamps-of-{uid}")).set_parallelism(topology.sources)
    };
    source(SOURCES[1], second_splits);
    let records = source(SOURCES[0], first_splits);
    let ballast_bytes = scenario.ballast_bytes;
    records
        .key_by_value(|record: &Record| record.key)
        .process(move || Counter::new(ballast_bytes, fails.clone(), declines.clone()))
        .uid(COUNTER)
        .set_parallelism(topology.counters)
        .sink_to(SimSink { outside, forgets: planted == Some(Planted::LedgerForgetsOnError) })
        .uid(SINK)
        .set_parallelism(topology.sinks);
    let mut graph = environment.job_graph()?;
    join_second_source(&mut graph);
    if let Some(planted) = planted {
        planted.plant_in(&mut graph);
    }
    for node in graph.tasks.iter_mut().flat_map(|task| &mut task.operators) {
        let (role, first) = match node.uid.as_str() {
            uid if uid == SOURCES[0] => (Role::Source, 0),
            uid if uid == SOURCES[1] => (Role::Source, topology.sources),
            COUNTER => (Role::Counter, 0),
            SINK => (Role::Sink, 0),
            _ => continue,
        };
        let (inner, witness) = (node.factory.clone(), witness.clone());
        let factory: OperatorFactory =
            Arc::new(move |subtask| Ok(Box::new(Probe::new(inner(subtask)?, role, first + subtask, witness.clone()))));
        node.factory = factory;
    }
    Ok(graph)
}

/// Lets the second source send to the counter as the first one does.
fn join_second_source(graph: &mut JobGraph) {
    let head = |task: &TaskNode| task.operators[0].uid.as_str() == SOURCES[1];
    let from = graph.tasks.iter().position(head).expect("the second source heads a task");
    let edge = graph.edges[0].clone();
    graph.edges.push(EdgeNode { from, pattern: EdgePattern::AllToAll, ..edge });
}
