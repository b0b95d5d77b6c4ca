//! Functions with operator state on a stream without a key.

use std::time::Duration;

use highwater_state_api::CheckpointId;
use highwater_stream_api::{Collector, Data, ProcessContext, ProcessFunction, ProcessHooks, Timestamp};

use super::flat_map::take_batch;
use super::function_state::FunctionState;
use super::input::Input;
use super::progress::Progress;
use super::{Takes, opened, refuse_other_state};
use crate::TaskError;
use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};

/// Calls a function for each record.
pub struct ProcessOperator<In: Data, F: ProcessFunction<In>> {
    function: F,
    state: Option<FunctionState>,
    input: Input<In>,
    output: Collector<F::Out>,
    progress: Progress,
}

impl<In: Data, F: ProcessFunction<In>> ProcessOperator<In, F> {
    /// Calls `function`.
    pub fn new(function: F) -> Self {
        Self {
            function,
            state: None,
            input: Input::default(),
            output: Collector::default(),
            progress: Progress::default(),
        }
    }
}

impl<In: Data, F: ProcessFunction<In>> Operator for ProcessOperator<In, F> {
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::FunctionState).map_err(TaskError::state(&cx.uid))?;
        self.progress.restore(cx.restored.as_ref());
        self.state = Some(FunctionState::open(cx, &mut ProcessHooks::new(&mut self.function), None)?);
        Ok(())
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let FunctionState { cx, operator, .. } = opened(&mut self.state);
        let (task, mut done) = (cx.task_info(), 0);
        while limits.allow(done, self.output.len()) {
            let Some((record, timestamp)) = self.input.next() else { break };
            self.output.set_timestamp(timestamp);
            let mut context = ProcessContext::new(operator, task, timestamp, self.progress.watermark);
            self.function
                .process(record, &mut context, &mut self.output)
                .map_err(|source| TaskError::user(&cx.uid, "process a record")(source))?;
            done += 1;
        }
        self.progress.counts.records_in += done as u64;
        if !self.input.is_done() {
            return Ok(Ran::More);
        }
        operator.fold();
        Ok(Ran::Done)
    }

    fn advance(&mut self, watermark: Timestamp, _: &Limits<'_>) -> Result<Ran, TaskError> {
        self.progress.advance(watermark);
        Ok(Ran::Done)
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
        let mut hooks = ProcessHooks::new(&mut self.function);
        opened(&mut self.state).freeze(barrier, &mut hooks, None, self.progress.snapshot())
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, _: Duration) -> Result<(), TaskError> {
        opened(&mut self.state).notify_complete(checkpoint, &mut ProcessHooks::new(&mut self.function))
    }

    fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        opened(&mut self.state).notify_aborted(checkpoint, &mut ProcessHooks::new(&mut self.function))
    }

    fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        opened(&mut self.state).notify_subsumed(checkpoint, &mut ProcessHooks::new(&mut self.function))
    }

    fn counts(&self) -> OperatorCounts {
        self.progress.counts
    }
}
