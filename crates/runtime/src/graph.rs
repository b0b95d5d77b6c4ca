//! The job graph: tasks, each a chain of operators with a parallelism, and the edges between them.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::{OperatorPlan, OperatorTarget, TaskPlan};
use highwater_state_api::{
    BincodeSerializer, BoxedError, MaxParallelism, OperatorStateMeta, OperatorUid, READER_SPLITS, Serializer, State,
};
use highwater_stream_api::{Boundedness, Sink, SinkStart, Source, SplitAssignment, SplitEnumerator};

use crate::channel::{BatchDecoder, ChannelSender};
use crate::operator::Operator;
use crate::operators::connector_list;
use crate::output::Output;
use crate::read_share::RestoredSplits;
use crate::threads::message_of;

/// Makes an operator for one subtask; called once for each subtask in every attempt.
pub type OperatorFactory = Arc<dyn Fn(u32) -> Result<Box<dyn Operator>, BoxedError> + Send + Sync>;

/// Makes the output of one subtask over the channels of an edge.
pub type OutputFactory = Arc<dyn Fn(Vec<ChannelSender>, MaxParallelism) -> Box<dyn Output> + Send + Sync>;

/// What a job runs.
#[derive(Clone, Default)]
pub struct JobGraph {
    /// The tasks; sources come before what they feed.
    pub tasks: Vec<TaskNode>,
    /// The edges.
    pub edges: Vec<EdgeNode>,
}

/// A chain of operators that runs in a number of subtasks.
#[derive(Clone)]
pub struct TaskNode {
    /// Number of subtasks.
    pub parallelism: u32,
    /// The operators, in order.
    pub operators: Vec<OperatorNode>,
}

/// One operator of a task.
#[derive(Clone)]
pub struct OperatorNode {
    /// Its identity.
    pub uid: OperatorUid,
    /// Whether the uid stays the same when the job is changed. Where it only counts the steps, nothing is restored under
    /// it: it may be another operator's by then.
    pub is_stable: bool,
    /// Makes it.
    pub factory: OperatorFactory,
    /// The source behind it, if it is one.
    pub source: Option<Arc<dyn AnySource>>,
    /// The sink behind it, if it is one.
    pub sink: Option<Arc<dyn AnySink>>,
}

/// An edge between two tasks.
#[derive(Clone)]
pub struct EdgeNode {
    /// Index of the task that sends.
    pub from: usize,
    /// Index of the task that receives.
    pub to: usize,
    /// Which subtasks are connected.
    pub pattern: EdgePattern,
    /// Whether the two tasks would be one if they had the same parallelism.
    pub may_chain: bool,
    /// Makes the sending side.
    pub output: OutputFactory,
    /// Reads records in flight back.
    pub decode: BatchDecoder,
}

/// Which subtasks an edge connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgePattern {
    /// Each subtask to the one with its index; both tasks have the same parallelism.
    Forward,
    /// Each subtask to every one.
    AllToAll,
}

impl JobGraph {
    /// Number of subtasks of the whole job.
    pub fn subtasks(&self) -> usize {
        self.tasks.iter().map(|task| task.parallelism as usize).sum()
    }

    /// The tasks whose head is a source, with the uid and the source.
    pub fn sources(&self) -> impl Iterator<Item = (usize, &OperatorUid, &Arc<dyn AnySource>)> {
        self.tasks.iter().enumerate().filter_map(|(index, task)| {
            let head = &task.operators[0];
            head.source.as_ref().map(|source| (index, &head.uid, source))
        })
    }

    /// What the operators want of a checkpoint. `max_parallelism` is the number of key groups that was set, if it was.
    pub fn targets(&self, max_parallelism: Option<MaxParallelism>) -> Vec<OperatorTarget> {
        let mut targets = Vec::new();
        for TaskNode { parallelism, operators } in &self.tasks {
            targets.extend(operators.iter().map(|operator| OperatorTarget {
                uid: operator.uid.clone(),
                is_stable: operator.is_stable,
                is_source: operator.source.is_some(),
                parallelism: *parallelism,
                max_parallelism,
            }));
        }
        targets
    }

    /// The tasks as a coordinator has to know them. `max_parallelism` has an entry for every operator; the tasks in
    /// `finished` are not started.
    pub fn task_plans(
        &self,
        max_parallelism: &BTreeMap<OperatorUid, MaxParallelism>,
        finished: &BTreeSet<u32>,
    ) -> Vec<TaskPlan> {
        let operator = |operator: &OperatorNode| OperatorPlan {
            uid: operator.uid.clone(),
            max_parallelism: max_parallelism[&operator.uid],
        };
        let mut groups: Vec<u32> = (0..self.tasks.len() as u32).collect();
        for edge in self.edges.iter().filter(|edge| edge.may_chain) {
            groups[edge.to] = groups[edge.from];
        }
        let upstream_of =
            |task: usize| self.edges.iter().filter(move |edge| edge.to == task).map(|edge| edge.from as u32);
        let task = |(index, task): (usize, &TaskNode)| TaskPlan {
            parallelism: task.parallelism,
            is_source: task.operators[0].source.is_some(),
            upstream: upstream_of(index).collect(),
            group: groups[index],
            finished: finished.contains(&(index as u32)),
            operators: task.operators.iter().map(operator).collect(),
        };
        self.tasks.iter().enumerate().map(task).collect()
    }

    /// The name of a task for people: the uids of its operators.
    pub fn task_name(&self, task: usize) -> String {
        let uids: Vec<&str> = self.tasks[task].operators.iter().map(|operator| operator.uid.as_str()).collect();
        uids.join(" -> ")
    }
}

/// A source of any type.
pub trait AnySource: Send + Sync {
    /// See [`Source::boundedness`].
    fn boundedness(&self) -> Boundedness;

    /// The enumerator of a job that starts from nothing.
    fn create_enumerator(&self) -> Result<Box<dyn AnyEnumerator>, BoxedError>;

    /// The enumerator of a restored job. Refuses splits that were written with another schema.
    fn restore_enumerator(&self, restored: &RestoredSplits) -> Result<Box<dyn AnyEnumerator>, BoxedError>;
}

/// A split enumerator of any type; splits are serialised.
pub trait AnyEnumerator: Send {
    /// The next split for a subtask; `None` when there are no more.
    fn next_split(&mut self, subtask: u32) -> Result<Option<Bytes>, BoxedError>;

    /// The enumerator's state.
    fn snapshot(&self) -> Result<Vec<u8>, BoxedError>;

    /// Whether the source works through a backlog.
    fn is_processing_backlog(&self) -> bool {
        false
    }
}

/// A source as [`AnySource`].
pub struct ErasedSource<S>(pub Arc<S>);

/// An enumerator until it is dropped.
struct ErasedEnumerator<E>(Option<E>);

impl<E> ErasedEnumerator<E> {
    fn get(&self) -> &E {
        self.0.as_ref().expect("it is taken when this is dropped, and not before")
    }

    fn get_mut(&mut self) -> &mut E {
        self.0.as_mut().expect("it is taken when this is dropped, and not before")
    }
}

impl<E> Drop for ErasedEnumerator<E> {
    /// Nobody needs it any more: the task has finished, or the attempt is over for a reason of its own, which a panic here must
    /// not take the place of.
    fn drop(&mut self) {
        let enumerator = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(enumerator))) {
            let (enumerator, panic) = (type_name::<E>(), message_of(panic));
            tracing::warn!(target: "highwater::job", enumerator, panic, "a split enumerator panicked when it was dropped");
        }
    }
}

impl<S: Source> AnySource for ErasedSource<S> {
    fn boundedness(&self) -> Boundedness {
        self.0.boundedness()
    }

    fn create_enumerator(&self) -> Result<Box<dyn AnyEnumerator>, BoxedError> {
        Ok(Box::new(ErasedEnumerator(Some(self.0.create_enumerator()?))))
    }

    fn restore_enumerator(&self, restored: &RestoredSplits) -> Result<Box<dyn AnyEnumerator>, BoxedError> {
        let list = connector_list::<S::Split>(READER_SPLITS);
        if let Some(schema) = &restored.schema {
            OperatorStateMeta { element: schema.clone(), ..list.clone() }.check_usable_as(&list)?;
        }
        let mut enumerator = self.0.restore_enumerator(&restored.enumerator)?;
        let serializer = BincodeSerializer::default();
        let splits: Result<Vec<S::Split>, _> =
            restored.splits.iter().map(|split| serializer.deserialize(split)).collect();
        enumerator.add_splits_back(splits?);
        Ok(Box::new(ErasedEnumerator(Some(enumerator))))
    }
}

impl<E> AnyEnumerator for ErasedEnumerator<E>
where
    E: SplitEnumerator + 'static,
    E::Split: State,
{
    fn next_split(&mut self, subtask: u32) -> Result<Option<Bytes>, BoxedError> {
        match self.get_mut().next_split(subtask)? {
            SplitAssignment::NoMoreSplits => Ok(None),
            SplitAssignment::Split(split) => {
                let mut bytes = Vec::new();
                BincodeSerializer::default().serialize(&split, &mut bytes)?;
                Ok(Some(Bytes::from(bytes)))
            }
        }
    }

    fn snapshot(&self) -> Result<Vec<u8>, BoxedError> {
        self.get().snapshot()
    }

    fn is_processing_backlog(&self) -> bool {
        self.get().is_processing_backlog()
    }
}

/// A sink of any type.
pub trait AnySink: Send + Sync {
    /// See [`Sink::start`].
    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError>;

    /// See [`Sink::transaction_timeout`].
    fn transaction_timeout(&self) -> Option<Duration>;
}

impl<S: Sink> AnySink for S {
    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError> {
        Sink::start(self, start)
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        Sink::transaction_timeout(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_test::log_of;

    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("not without my splits");
        }
    }

    #[test]
    fn an_enumerator_that_panics_when_it_is_dropped_is_told_of_and_no_more() {
        let log = log_of(|| drop(ErasedEnumerator(Some(Panics))));
        assert!(log.contains("WARN") && log.contains("Panics") && log.contains("not without my splits"), "{log}");
    }
}
