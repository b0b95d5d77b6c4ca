//! Streams: how the steps of a job are put together.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use highwater_state_api::{BoxedError, Key};
use highwater_stream_api::{
    ByReference, ByValue, Collector, Data, KeySelector, KeyedProcessFunction, ProcessFunction, Sink, WatermarkStrategy,
};

use crate::operators::{FlatMapOperator, KeyedProcessOperator, ProcessOperator, TimestampsOperator};
use crate::plan::{Input, Node, NodeId, NodeKind, Plan};

/// A stream of records of type `T`. Used more than once, it goes to every use.
pub struct DataStream<T> {
    plan: Rc<RefCell<Plan>>,
    node: NodeId,
    /// The next operator gets its records in turn instead of directly.
    rebalanced: bool,
    of: PhantomData<fn() -> T>,
}

impl<T: Data> DataStream<T> {
    pub(crate) fn new(plan: Rc<RefCell<Plan>>, node: NodeId) -> Self {
        Self { plan, node, rebalanced: false, of: PhantomData }
    }

    fn then<U: Data>(&self, kind: NodeKind) -> DataStream<U> {
        let input = if self.rebalanced { Input::rebalance::<T>(self.node) } else { Input::forward::<T>(self.node) };
        let node = self.plan.borrow_mut().add(Node::new(kind, Some(input)));
        DataStream::new(self.plan.clone(), node)
    }

    /// Names the operator that puts this stream out. Its state is found again under this name after any change of the
    /// job, so it must not change; it is required where there is state.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.plan.borrow_mut().node_mut(self.node).uid = Some(uid.into());
        self
    }

    /// Number of subtasks of the operator that puts this stream out, instead of the environment's.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.plan.borrow_mut().node_mut(self.node).parallelism = Some(parallelism);
        self
    }

    /// Each record becomes another.
    pub fn map<U: Data>(&self, mut function: impl FnMut(T) -> U + Clone + Send + Sync + 'static) -> DataStream<U> {
        self.flat_map(move |record, out: &mut Collector<U>| {
            out.collect(function(record));
            Ok(())
        })
    }

    /// Keeps the records for which the function says so.
    pub fn filter(&self, mut function: impl FnMut(&T) -> bool + Clone + Send + Sync + 'static) -> DataStream<T> {
        self.flat_map(move |record, out: &mut Collector<T>| {
            if function(&record) {
                out.collect(record);
            }
            Ok(())
        })
    }

    /// Each record becomes any number of records. An error fails the task.
    pub fn flat_map<U: Data>(
        &self,
        function: impl FnMut(T, &mut Collector<U>) -> Result<(), BoxedError> + Clone + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.then(NodeKind::operator("flat-map", move || Box::new(FlatMapOperator::<T, U, _>::new(function.clone()))))
    }

    /// Calls a function with state that belongs to the subtask for each record. `function` makes one for each subtask in
    /// every attempt.
    ///
    /// The operator has state and therefore needs a [`DataStream::uid`].
    pub fn process<F>(&self, function: impl Fn() -> F + Clone + Send + Sync + 'static) -> DataStream<F::Out>
    where
        F: ProcessFunction<T>,
    {
        self.then(NodeKind::with_state("process", move || Box::new(ProcessOperator::<T, F>::new(function()))))
    }

    /// Reads the event time of each record, in milliseconds since the epoch. Records are expected in order of time.
    pub fn assign_timestamps(&self, time_ms: impl Fn(&T) -> i64 + Clone + Send + Sync + 'static) -> DataStream<T> {
        self.assign_timestamps_and_watermarks(time_ms, WatermarkStrategy::monotonous_timestamps())
    }

    /// Reads the event time of each record, in milliseconds since the epoch; `strategy` says how far out of order
    /// records may come.
    pub fn assign_timestamps_and_watermarks(
        &self,
        time_ms: impl Fn(&T) -> i64 + Clone + Send + Sync + 'static,
        strategy: WatermarkStrategy,
    ) -> DataStream<T> {
        self.then(NodeKind::operator("timestamps", move || {
            Box::new(TimestampsOperator::<T, _>::new(time_ms.clone(), strategy))
        }))
    }

    /// The same stream, dealt out evenly to the subtasks of the next operator.
    pub fn rebalance(&self) -> DataStream<T> {
        DataStream { rebalanced: true, ..DataStream::new(self.plan.clone(), self.node) }
    }

    /// Keys the stream by a part of the record. All records of a key go to the same subtask.
    ///
    /// The closure borrows the key from the record; a key that is computed, also a number or a tuple made on the spot,
    /// is for [`DataStream::key_by_value`].
    pub fn key_by<K: Key>(
        &self,
        key: impl Fn(&T) -> &K + Clone + Send + Sync + 'static,
    ) -> KeyedStream<T, impl KeySelector<T, Key = K>> {
        self.key_by_selector(ByReference::new(key))
    }

    /// Keys the stream by a value computed from the record.
    pub fn key_by_value<K: Key>(
        &self,
        key: impl Fn(&T) -> K + Clone + Send + Sync + 'static,
    ) -> KeyedStream<T, impl KeySelector<T, Key = K>> {
        self.key_by_selector(ByValue::new(key))
    }

    /// Keys the stream by a selector.
    pub fn key_by_selector<S: KeySelector<T>>(&self, selector: S) -> KeyedStream<T, S> {
        KeyedStream { plan: self.plan.clone(), node: self.node, selector, of: PhantomData }
    }

    /// Ends the stream in a sink.
    pub fn sink_to<S: Sink<In = T>>(&self, sink: S) -> DataStreamSink {
        let input = if self.rebalanced { Input::rebalance::<T>(self.node) } else { Input::forward::<T>(self.node) };
        let node = self.plan.borrow_mut().add(Node::new(NodeKind::sink(Arc::new(sink)), Some(input)));
        DataStreamSink { plan: self.plan.clone(), node }
    }
}

/// A stream in which every record has a key.
pub struct KeyedStream<T, S> {
    plan: Rc<RefCell<Plan>>,
    node: NodeId,
    selector: S,
    of: PhantomData<fn() -> T>,
}

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Calls a function with state and timers for each record. `function` makes one for each subtask in every attempt.
    ///
    /// The operator has state and therefore needs a [`DataStream::uid`].
    pub fn process<F>(&self, function: impl Fn() -> F + Clone + Send + Sync + 'static) -> DataStream<F::Out>
    where
        F: KeyedProcessFunction<S::Key, T>,
    {
        let selector = self.selector.clone();
        let kind =
            NodeKind::keyed("process", move || KeyedProcessOperator::<T, S, F>::new(selector.clone(), function()));
        let input = Input::hash::<T, S>(self.node, self.selector.clone());
        let node = self.plan.borrow_mut().add(Node::new(kind, Some(input)));
        DataStream::new(self.plan.clone(), node)
    }
}

/// The end of a stream.
pub struct DataStreamSink {
    plan: Rc<RefCell<Plan>>,
    node: NodeId,
}

impl DataStreamSink {
    /// Names the sink; see [`DataStream::uid`]. Required where a job has more than one sink.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.plan.borrow_mut().node_mut(self.node).uid = Some(uid.into());
        self
    }

    /// Number of subtasks of the sink, instead of the environment's.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.plan.borrow_mut().node_mut(self.node).parallelism = Some(parallelism);
        self
    }
}
