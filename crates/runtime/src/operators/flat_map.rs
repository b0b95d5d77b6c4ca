//! Functions without state: each record becomes any number of records.

use std::marker::PhantomData;

use highwater_state_api::OperatorUid;
use highwater_stream_api::{BoxedError, Collector, Data, Timestamp};

use super::input::Input;
use super::progress::Progress;
use super::{Takes, opened, refuse_other_state};
use crate::TaskError;
use crate::batch::{AnyBatch, Batch};
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};

/// Calls a function for each record.
pub struct FlatMapOperator<In, Out, F> {
    uid: Option<OperatorUid>,
    function: F,
    input: Input<In>,
    output: Collector<Out>,
    progress: Progress,
    of: PhantomData<fn(In) -> Out>,
}

impl<In, Out, F> FlatMapOperator<In, Out, F>
where
    In: Data,
    Out: Data,
    F: FnMut(In, &mut Collector<Out>) -> Result<(), BoxedError> + Send + 'static,
{
    /// Calls `function` for each record.
    pub fn new(function: F) -> Self {
        Self {
            uid: None,
            function,
            input: Input::default(),
            output: Collector::default(),
            progress: Progress::default(),
            of: PhantomData,
        }
    }
}

impl<In, Out, F> Operator for FlatMapOperator<In, Out, F>
where
    In: Data,
    Out: Data,
    F: FnMut(In, &mut Collector<Out>) -> Result<(), BoxedError> + Send + 'static,
{
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::Nothing).map_err(TaskError::state(&cx.uid))?;
        self.progress.restore(cx.restored.as_ref());
        self.uid = Some(cx.uid);
        Ok(())
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let mut done = 0;
        while limits.allow(done, self.output.len()) {
            let Some((record, timestamp)) = self.input.next() else { break };
            self.output.set_timestamp(timestamp);
            (self.function)(record, &mut self.output)
                .map_err(|source| TaskError::user(opened(&mut self.uid), "process a record")(source))?;
            done += 1;
        }
        self.progress.counts.records_in += done as u64;
        Ok(if self.input.is_done() { Ran::Done } else { Ran::More })
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

    fn freeze(&mut self, _: Barrier) -> Result<FrozenOperator, FreezeError> {
        Ok(FrozenOperator { snapshot: self.progress.snapshot(), ..FrozenOperator::default() })
    }

    fn counts(&self) -> OperatorCounts {
        self.progress.counts
    }
}

/// What a collector holds, as a batch; `None` when it holds nothing.
pub(super) fn take_batch<T: Data>(output: &mut Collector<T>) -> Option<Box<dyn AnyBatch>> {
    if output.is_empty() {
        return None;
    }
    let (records, timestamps) = output.take();
    Some(Box::new(Batch::new(records, timestamps)))
}
