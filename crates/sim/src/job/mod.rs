//! The simulated job: two sources that end at different times → counter → sink, and in some worlds another source → counter →
//! sink beside them, as a production job graph with probes around its operators.

mod counter;
mod pipeline;
mod sink;
mod source;

pub(crate) use counter::{COUNT_STATE, KEYS_STATE};
pub(crate) use pipeline::{PIPELINES, Pipeline, Uids};
pub(crate) use sink::{Outside, SinkEvent, Transaction};
pub(crate) use source::{Sleepers, Split, read_enumerator};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use highwater_runtime::graph::{EdgeNode, EdgePattern, JobGraph, OperatorFactory, TaskNode};
use highwater_runtime::{JobError, StreamExecutionEnvironment};

use crate::planted::Planted;
use crate::probe::{Probe, Role, Witness};
use crate::record::Record;
use crate::scenario::{Scenario, Topology};
use counter::Counter;
use sink::SimSink;
use source::SimSource;

/// Name of the job.
pub(crate) const JOB: &str = "sim";

/// What outlives an attempt and is given to the job of each.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// Readers that wait to be woken.
    pub sleepers: Sleepers,
    /// Makes the next record fail.
    pub fails: Arc<AtomicBool>,
    /// Makes the next snapshot fail.
    pub declines: Arc<AtomicBool>,
}

impl Surroundings {
    /// The pipelines, by their places, that have an operator in these tasks.
    pub(crate) fn pipelines_of(&self, graph: &JobGraph, tasks: &BTreeSet<u32>) -> BTreeSet<usize> {
        let heads = tasks.iter().map(|task| graph.tasks[*task as usize].operators[0].uid.as_str());
        let place_of = |uid| self.pipelines.iter().position(|pipeline| pipeline.uids.contains(uid));
        heads.filter_map(place_of).collect()
    }
}

/// The job of one attempt, with a witness for each pipeline.
pub(crate) fn job_graph(
    scenario: &Scenario,
    topology: Topology,
    surroundings: &Surroundings,
    witnesses: &[Witness],
    planted: Option<Planted>,
) -> Result<JobGraph, JobError> {
    let environment = StreamExecutionEnvironment::new(JOB);
    environment.set_max_parallelism(scenario.max_parallelism);
    for pipeline in &surroundings.pipelines {
        describe(&environment, scenario, topology, surroundings, pipeline, planted);
    }
    let mut graph = environment.job_graph()?;
    join_second_source(&mut graph);
    if let Some(planted) = planted {
        planted.plant_in(&mut graph);
    }
    for (pipeline, witness) in surroundings.pipelines.iter().zip(witnesses) {
        watch(&mut graph, pipeline, topology, witness);
    }
    Ok(graph)
}

fn describe(
    environment: &StreamExecutionEnvironment,
    scenario: &Scenario,
    topology: Topology,
    surroundings: &Surroundings,
    pipeline: &Pipeline,
    planted: Option<Planted>,
) {
    let Pipeline { uids, input, outside } = pipeline.clone();
    let topology = pipeline.topology(topology);
    let off_by = planted.map_or(0, Planted::off_by);
    let source = |uid: &str, splits| {
        let (input, sleepers) = (input.clone(), surroundings.sleepers.clone());
        let source = SimSource { input, splits, burst: scenario.source_burst, sleepers, off_by };
        let records = environment.from_source(source).uid(uid).set_parallelism(topology.sources);
        if !scenario.with_timestamps {
            return records;
        }
        let timestamps = records.assign_timestamps(|record: &Record| i64::from(record.index));
        timestamps.uid(format!("timestamps-of-{uid}")).set_parallelism(topology.sources)
    };
    let mut sources: Vec<_> = uids.sources.iter().zip(pipeline.splits()).rev().collect();
    let (uid, splits) = sources.pop().expect("every pipeline has a source");
    // The first one comes last.
    sources.into_iter().for_each(|(uid, splits)| drop(source(uid, splits)));
    let records = source(uid, splits);
    let Surroundings { fails, declines, .. } = surroundings.clone();
    let ballast_bytes = scenario.ballast_bytes;
    records
        .key_by_value(|record: &Record| record.key)
        .process(move || Counter::new(ballast_bytes, fails.clone(), declines.clone()))
        .uid(uids.counter)
        .set_parallelism(topology.counters)
        .sink_to(SimSink { outside, forgets: planted == Some(Planted::LedgerForgetsOnError) })
        .uid(uids.sink)
        .set_parallelism(topology.sinks);
}

/// Puts probes around the operators of a pipeline.
fn watch(graph: &mut JobGraph, pipeline: &Pipeline, topology: Topology, witness: &Witness) {
    let (uids, sources) = (pipeline.uids, pipeline.topology(topology).sources);
    for node in graph.tasks.iter_mut().flat_map(|task| &mut task.operators) {
        let uid = node.uid.as_str();
        let source = (0..).zip(uids.sources).find(|(_, source)| **source == uid);
        let (role, first) = match source {
            Some((place, _)) => (Role::Source, place * sources),
            None if uid == uids.counter => (Role::Counter, 0),
            None if uid == uids.sink => (Role::Sink, 0),
            None => continue,
        };
        let (inner, witness) = (node.factory.clone(), witness.clone());
        let factory: OperatorFactory =
            Arc::new(move |subtask| Ok(Box::new(Probe::new(inner(subtask)?, role, first + subtask, witness.clone()))));
        node.factory = factory;
    }
}

/// Lets the second source send to the counter as the first one does.
fn join_second_source(graph: &mut JobGraph) {
    let head = |task: &TaskNode| task.operators[0].uid.as_str() == PIPELINES[0].sources[1];
    let from = graph.tasks.iter().position(head).expect("the second source heads a task");
    let edge = graph.edges[0].clone();
    graph.edges.push(EdgeNode { from, pattern: EdgePattern::AllToAll, ..edge });
}
