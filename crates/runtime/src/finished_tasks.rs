//! Which tasks of a job are restored as finished, and whether the job's graph allows that.
//!
//! A finished task is not run: whoever is behind it finds its input from there ended. So nothing that still has records to
//! send may be in front of one.

use std::collections::BTreeSet;

use highwater_checkpoint::{Assignment, HaveEnded};
use highwater_state_api::OperatorUid;

use crate::graph::{JobGraph, OperatorNode};

/// Why a job cannot go on from a checkpoint in which some of its operators have finished. Its graph has to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishedOperatorError {
    /// The operator has finished, or some of its subtasks have ended, and it is to get records of one that still runs. Its
    /// timers have fired as far as time goes.
    #[error(
        "operator {ended} has seen the end of its input and cannot get records of operator {running}, which has not: give \
         operator {ended} another uid"
    )]
    BehindRunning {
        /// The operator that has seen the end of its input.
        ended: OperatorUid,
        /// The operator in front of it that has not.
        running: OperatorUid,
    },
    /// Operators of one task are run together, or not at all.
    #[error(
        "operator {finished} has finished and is not run again, operator {running} has not, and they are in one task: give \
         operator {running} a task of its own (`rebalance`, or another parallelism), or operator {finished} another uid"
    )]
    SharesTask {
        /// The operator that has finished.
        finished: OperatorUid,
        /// The operator that has not.
        running: OperatorUid,
    },
}

/// What is known of an operator, or of the last one of a task.
#[derive(Debug, Clone)]
struct Status {
    finished: bool,
    ended: HaveEnded,
    /// Who is to be named when somebody must not be behind it.
    named: OperatorUid,
}

/// The tasks that are restored as finished, by index.
pub(crate) fn finished_tasks(
    graph: &JobGraph,
    assignment: &Assignment,
) -> Result<BTreeSet<u32>, FinishedOperatorError> {
    let mut finished = BTreeSet::new();
    // By task: the status of its last operator.
    let mut tasks: Vec<Status> = Vec::with_capacity(graph.tasks.len());
    for (index, task) in graph.tasks.iter().enumerate() {
        let edges = graph.edges.iter().filter(|edge| edge.to == index);
        let mut inputs: Vec<Status> = edges.map(|edge| tasks[edge.from].clone()).collect();
        let mut chain: Vec<(&OperatorUid, bool)> = Vec::with_capacity(task.operators.len());
        for operator in &task.operators {
            let status = status_of(operator, assignment, &inputs)?;
            chain.push((&operator.uid, status.finished));
            inputs = vec![status];
        }
        if let Some((running, _)) = chain.iter().find(|(_, finished)| !finished) {
            if let Some((finished, _)) = chain.iter().rfind(|(_, finished)| *finished) {
                let (finished, running) = ((*finished).clone(), (*running).clone());
                return Err(FinishedOperatorError::SharesTask { finished, running });
            }
        } else {
            finished.insert(index as u32);
        }
        tasks.extend(inputs);
    }
    Ok(finished)
}

/// The status of an operator behind these inputs: as the checkpoint has it, or else as far as the inputs tell.
fn status_of(
    operator: &OperatorNode,
    assignment: &Assignment,
    inputs: &[Status],
) -> Result<Status, FinishedOperatorError> {
    let uid = &operator.uid;
    let Some(restored) = assignment.operators.get(uid) else { return Ok(derived(operator, inputs)) };
    // However they are connected: some may have ended in some subtasks alone, and with another parallelism each of them is
    // behind all of those.
    let must_not_be_behind = |input: &&Status| (restored.finished && !input.finished) || restored.ended > input.ended;
    match inputs.iter().find(must_not_be_behind) {
        Some(input) => {
            let (ended, running) = (uid.clone(), input.named.clone());
            Err(FinishedOperatorError::BehindRunning { ended, running })
        }
        None => Ok(Status { finished: restored.finished, ended: restored.ended, named: uid.clone() }),
    }
}

/// An operator of which the checkpoint says nothing. If its uid only counts the steps it has no state, and has nothing to do
/// when nobody is left to send to it. Otherwise it is new: it is run, and finds its input ended as far as it is.
fn derived(operator: &OperatorNode, inputs: &[Status]) -> Status {
    let nobody_runs = !inputs.is_empty() && inputs.iter().all(|input| input.finished);
    let first_to_run = inputs.iter().filter(|input| !input.finished).min_by_key(|input| input.ended);
    let ended = inputs.iter().map(|input| input.ended).min().unwrap_or(HaveEnded::None);
    let named = first_to_run.map_or(&operator.uid, |input| &input.named).clone();
    Status { finished: nobody_runs && !operator.is_stable, ended, named }
}

#[cfg(test)]
#[path = "finished_tasks_test.rs"]
mod finished_tasks_test;
