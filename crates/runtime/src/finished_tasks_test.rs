//! Small graphs: what of them is restored as finished, and which are refused.

use std::sync::Arc;

use highwater_checkpoint::RestoredOperator;
use highwater_state_api::MaxParallelism;

use super::*;
use crate::batch::decode;
use crate::graph::{EdgeNode, EdgePattern, TaskNode};
use crate::output::RoundRobinOutput;
use EdgePattern::{AllToAll, Forward};

/// A graph of tasks, each the uids of its chain; a uid that begins with `map-` only counts the steps.
fn graph(tasks: &[&str], edges: &[(usize, usize, EdgePattern)]) -> JobGraph {
    let operator = |uid: &str| OperatorNode {
        uid: OperatorUid::new(uid).unwrap(),
        is_stable: !uid.starts_with("map-"),
        factory: Arc::new(|_| Err("nothing is run".into())),
        source: None,
        sink: None,
    };
    let task = |chain: &&str| TaskNode { parallelism: 2, operators: chain.split(' ').map(operator).collect() };
    let edge = |(from, to, pattern): &(usize, usize, EdgePattern)| EdgeNode {
        from: *from,
        to: *to,
        pattern: *pattern,
        may_chain: false,
        output: Arc::new(|channels, _| Box::new(RoundRobinOutput::new(channels))),
        decode: decode::<u64>,
    };
    JobGraph { tasks: tasks.iter().map(task).collect(), edges: edges.iter().map(edge).collect() }
}

/// What is restored: of each operator whether it is `finished`, or has ended in `all`, `some` or `none` of its subtasks.
fn assignment(operators: &[(&str, &str)]) -> Assignment {
    let restored = |state: &str| RestoredOperator {
        max_parallelism: MaxParallelism::new(128).unwrap(),
        ended: match state {
            "none" => HaveEnded::None,
            "some" => HaveEnded::Some,
            _ => HaveEnded::All,
        },
        finished: state == "finished",
        has_state: false,
        source: None,
        subtasks: Vec::new(),
    };
    let operators = operators.iter().map(|(uid, state)| (OperatorUid::new(*uid).unwrap(), restored(state)));
    Assignment { operators: operators.collect() }
}

/// The tasks that are restored as finished, or why nothing is restored.
fn finished(graph: &JobGraph, operators: &[(&str, &str)]) -> Result<Vec<u32>, String> {
    finished_tasks(graph, &assignment(operators)).map(Vec::from_iter).map_err(|error| error.to_string())
}

/// Two sources before one counter and its sink.
fn two_sources() -> JobGraph {
    graph(&["one", "other", "counter", "sink"], &[(0, 2, AllToAll), (1, 2, AllToAll), (2, 3, Forward)])
}

/// Contract: P290.
#[test]
fn tasks_whose_operators_have_finished_are_restored_as_finished() {
    let running = [("one", "none"), ("other", "all"), ("counter", "none"), ("sink", "none")];
    assert_eq!(finished(&two_sources(), &running), Ok(vec![]), "who has merely ended is run again");
    let one = [("one", "finished"), ("other", "none"), ("counter", "none"), ("sink", "none")];
    assert_eq!(finished(&two_sources(), &one), Ok(vec![0]));
    let three = [("one", "finished"), ("other", "finished"), ("counter", "finished"), ("sink", "some")];
    assert_eq!(finished(&two_sources(), &three), Ok(vec![0, 1, 2]));
    let chained = graph(&["one sink"], &[]);
    assert_eq!(finished(&chained, &[("one", "finished"), ("sink", "finished")]), Ok(vec![0]));
}

/// It has no state, so that the checkpoint says nothing of it.
#[test]
fn an_operator_whose_uid_only_counts_the_steps_has_finished_with_those_before_it() {
    let jobs = graph(&["one map-1", "map-2", "sink"], &[(0, 1, Forward), (1, 2, AllToAll)]);
    assert_eq!(finished(&jobs, &[("one", "finished"), ("sink", "finished")]), Ok(vec![0, 1, 2]));
    assert_eq!(finished(&jobs, &[("one", "finished"), ("sink", "none")]), Ok(vec![0, 1]));
    assert_eq!(finished(&jobs, &[("one", "all"), ("sink", "all")]), Ok(vec![]));
    assert_eq!(finished(&jobs, &[("one", "some"), ("sink", "some")]), Ok(vec![]));
    let error = finished(&jobs, &[("one", "none"), ("sink", "some")]).unwrap_err();
    assert!(error.contains("operator sink") && error.contains("operator one"), "{error}");
}

/// Contract: P292.
#[test]
fn a_finished_task_behind_one_that_still_runs_is_refused_with_both_operators() {
    let of = |operators: &[(&str, &str)]| match finished_tasks(&two_sources(), &assignment(operators)).unwrap_err() {
        FinishedOperatorError::BehindRunning { ended, running } => (ended.to_string(), running.to_string()),
        other => panic!("{other}"),
    };
    let expected = |ended: &str, running: &str| (ended.to_owned(), running.to_owned());
    let sink = [("sink", "finished")];
    let counter = [&[("one", "finished"), ("other", "none"), ("counter", "finished")], &sink[..]].concat();
    assert_eq!(of(&counter), expected("counter", "other"));
    // A source that is new in the job.
    let new = [&[("one", "finished"), ("counter", "finished")], &sink[..]].concat();
    assert_eq!(of(&new), expected("counter", "other"));
    // Ended in some subtasks alone: its timers have fired there.
    let some = [("one", "all"), ("other", "none"), ("counter", "some"), ("sink", "none")];
    assert_eq!(of(&some), expected("counter", "other"));
    let sink = [("one", "finished"), ("other", "finished"), ("counter", "all"), ("sink", "finished")];
    assert_eq!(of(&sink), expected("sink", "counter"));
    let some = |counter| [("one", "all"), ("other", "all"), ("counter", counter), ("sink", "some")];
    assert_eq!(finished(&two_sources(), &some("some")), Ok(vec![]));
    assert_eq!(of(&some("none")), expected("sink", "counter"));
    // A step that was put in between is run, and has never ended.
    let extended = graph(&["one", "new", "sink"], &[(0, 1, Forward), (1, 2, AllToAll)]);
    let error = finished(&extended, &[("one", "finished"), ("sink", "finished")]).unwrap_err();
    assert!(error.starts_with("operator sink has seen the end") && error.contains("operator new"), "{error}");
}

/// They were in one task, each behind one of the others, and are not any more.
#[test]
fn another_parallelism_may_put_what_has_ended_in_part_behind_what_has_ended_in_part() {
    let apart = graph(&["one", "sink"], &[(0, 1, AllToAll)]);
    assert_eq!(finished(&apart, &[("one", "some"), ("sink", "some")]), Ok(vec![]));
}

/// Contract: P292.
#[test]
fn a_task_is_not_restored_half_finished() {
    let extended = graph(&["one new"], &[]);
    assert_eq!(
        finished(&extended, &[("one", "finished")]).unwrap_err(),
        "operator one has finished and is not run again, operator new has not, and they are in one task: give operator new \
         a task of its own (`rebalance`, or another parallelism), or operator one another uid"
    );
    let apart = graph(&["one", "new"], &[(0, 1, AllToAll)]);
    assert_eq!(finished(&apart, &[("one", "finished")]), Ok(vec![0]), "in a task of its own it finds no input");
}
