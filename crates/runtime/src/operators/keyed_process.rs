//! Functions with state and timers on a keyed stream.

use std::sync::Arc;
use std::time::Duration;

use highwater_state_api::{
    BincodeSerializer, CheckpointId, KeyHash, KeyHasher, KeyedBackendParameters, KeyedState, StateError,
};
use highwater_stream_api::{
    Collector, Data, KeySelector, KeyedContext, KeyedProcessFunction, KeyedProcessHooks, Timestamp,
};

use super::flat_map::take_batch;
use super::function_state::FunctionState;
use super::input::Input;
use super::progress::Progress;
use super::timers::EventTimeTimers;
use super::{Takes, opened, refuse_other_state};
use crate::TaskError;
use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};

/// Calls a keyed function for each record and for each timer that is due.
pub struct KeyedProcessOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    selector: S,
    function: F,
    hasher: KeyHasher,
    opened: Option<Opened<S::Key>>,
    input: Input<In>,
    output: Collector<F::Out>,
    progress: Progress,
}

/// What exists only once the operator is open.
struct Opened<K> {
    function: FunctionState,
    state: KeyedState,
    timers: EventTimeTimers<K>,
}

impl<In, S, F> KeyedProcessOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    /// Keys records by `selector` and calls `function`.
    pub fn new(selector: S, function: F) -> Self {
        Self {
            selector,
            function,
            hasher: KeyHasher::default(),
            opened: None,
            input: Input::default(),
            output: Collector::default(),
            progress: Progress::default(),
        }
    }

    fn open_state(cx: &OperatorContext) -> Result<KeyedState, StateError> {
        let parameters = KeyedBackendParameters {
            job: cx.job.clone(),
            operator: cx.uid.clone(),
            subtask: cx.subtask,
            max_parallelism: cx.max_parallelism,
            range: cx.key_groups(),
        };
        let backend = cx.state_backend.create_keyed_backend(&parameters)?;
        let serializer = Arc::new(BincodeSerializer::traced());
        let mut state = KeyedState::open::<S::Key>(backend, &parameters, serializer, cx.row_settings)?;
        for keyed in cx.restored.iter().flat_map(|restored| &restored.keyed) {
            state.restore_tables(&keyed.tables)?;
            for (group, stream) in &keyed.groups {
                state.restore_key_group(&keyed.tables, *group, stream.clone())?;
            }
        }
        Ok(state)
    }

    /// Calls `visit` for each of these records with its index, hash and key. No key is current meanwhile and afterwards.
    pub(super) fn for_each_key(
        &mut self,
        records: &[In],
        mut hashes: Vec<KeyHash>,
        mut visit: impl FnMut(usize, KeyHash, &S::Key) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let Opened { function: FunctionState { cx, .. }, state, .. } = opened(&mut self.opened);
        if hashes.is_empty() {
            hashes = hashes_of(&self.selector, records, &mut self.hasher).map_err(TaskError::state(&cx.uid))?;
        }
        self.selector.resolve(records, &hashes, state).map_err(TaskError::state(&cx.uid))?;
        for (index, hash) in hashes.into_iter().enumerate() {
            visit(index, hash, state.resolved_key(index).map_err(TaskError::state(&cx.uid))?)?;
        }
        state.end_batch().map_err(TaskError::state(&cx.uid))
    }

    /// Drops the state of every key, and event time begins anew. Every timer must have fired.
    pub(super) fn end_key(&mut self) -> Result<(), TaskError> {
        let Opened { function: FunctionState { cx, .. }, state, .. } = opened(&mut self.opened);
        self.progress.watermark = Timestamp::MIN;
        state.clear().map_err(TaskError::state(&cx.uid))
    }

    /// How many records of output wait.
    pub(super) fn output_length(&self) -> usize {
        self.output.len()
    }
}

fn hashes_of<In, S: KeySelector<In>>(
    selector: &S,
    records: &[In],
    hasher: &mut KeyHasher,
) -> Result<Vec<KeyHash>, StateError> {
    let hashes: Result<_, _> = records.iter().map(|record| selector.hash(record, hasher)).collect();
    hashes.map_err(StateError::KeyHash)
}

impl<In, S, F> Operator for KeyedProcessOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::KeyedFunctionState).map_err(TaskError::state(&cx.uid))?;
        let (mut state, timers) = Self::open_state(&cx)
            .and_then(|mut state| EventTimeTimers::open(&mut state).map(|timers| (state, timers)))
            .map_err(TaskError::state(&cx.uid))?;
        self.progress.restore(cx.restored.as_ref());
        let mut hooks = KeyedProcessHooks::new(&mut self.function);
        let function = FunctionState::open(cx, &mut hooks, Some(&mut state))?;
        self.opened = Some(Opened { function, state, timers });
        Ok(())
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)?;
        let opened = opened(&mut self.opened);
        if self.input.hashes_mut().is_empty() {
            let hashes = hashes_of(&self.selector, self.input.rest(), &mut self.hasher);
            *self.input.hashes_mut() = hashes.map_err(TaskError::state(&opened.function.cx.uid))?;
        }
        let hashes = std::mem::take(self.input.hashes_mut());
        self.selector
            .resolve(self.input.rest(), &hashes, &mut opened.state)
            .map_err(TaskError::state(&opened.function.cx.uid))
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let Opened { function: FunctionState { cx, operator, .. }, state, timers } = opened(&mut self.opened);
        let (task, mut done) = (cx.task_info(), 0);
        while limits.allow(done, self.output.len()) {
            let index = self.input.taken();
            let Some((record, timestamp)) = self.input.next() else { break };
            state.select(index).map_err(TaskError::state(&cx.uid))?;
            self.output.set_timestamp(timestamp);
            let mut context = KeyedContext::new(
                state,
                operator,
                timers,
                task,
                timestamp,
                self.progress.watermark,
                &mut self.progress.counts.late_records,
            );
            self.function
                .process(record, &mut context, &mut self.output)
                .map_err(TaskError::user(&cx.uid, "process a record"))?;
            done += 1;
        }
        self.progress.counts.records_in += done as u64;
        if !self.input.is_done() {
            return Ok(Ran::More);
        }
        state.end_batch().map_err(TaskError::state(&cx.uid))?;
        operator.fold();
        Ok(Ran::Done)
    }

    fn advance(&mut self, watermark: Timestamp, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        // What functions see while timers fire is the new watermark: a timer set at or before it fires in this sweep.
        self.progress.advance(watermark);
        let Opened { function: FunctionState { cx, operator, .. }, state, timers } = opened(&mut self.opened);
        let (task, mut done) = (cx.task_info(), 0);
        let ran = loop {
            if !limits.allow(done, self.output.len()) {
                break Ran::More;
            }
            let Some(timestamp) = timers.pop(self.progress.watermark, state).map_err(TaskError::state(&cx.uid))? else {
                break Ran::Done;
            };
            self.output.set_timestamp(timestamp);
            let mut context = KeyedContext::new(
                state,
                operator,
                timers,
                task,
                timestamp,
                self.progress.watermark,
                &mut self.progress.counts.late_records,
            );
            self.function
                .on_timer(timestamp, &mut context, &mut self.output)
                .map_err(TaskError::user(&cx.uid, "fire a timer"))?;
            done += 1;
        };
        state.end_batch().map_err(TaskError::state(&cx.uid))?;
        operator.fold();
        Ok(ran)
    }

    fn watermark(&self) -> Timestamp {
        self.progress.watermark
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        self.progress.finished = true;
        Ok(())
    }

    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>> {
        take_batch(&mut self.output)
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        let Opened { function, state, .. } = opened(&mut self.opened);
        let mut hooks = KeyedProcessHooks::new(&mut self.function);
        function.freeze(barrier, &mut hooks, Some(state), self.progress.snapshot())
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, _: Duration) -> Result<(), TaskError> {
        let Opened { function, state, .. } = opened(&mut self.opened);
        state.confirmed(checkpoint);
        function.notify_complete(checkpoint, &mut KeyedProcessHooks::new(&mut self.function))
    }

    fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        let Opened { function, state, .. } = opened(&mut self.opened);
        state.aborted(checkpoint);
        function.notify_aborted(checkpoint, &mut KeyedProcessHooks::new(&mut self.function))
    }

    fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        let Opened { function, state, .. } = opened(&mut self.opened);
        state.subsumed(checkpoint);
        function.notify_subsumed(checkpoint, &mut KeyedProcessHooks::new(&mut self.function))
    }

    fn counts(&self) -> OperatorCounts {
        self.progress.counts
    }
}
