//! Assigns event time to records and makes watermarks from it.

use std::marker::PhantomData;

use highwater_stream_api::{Collector, Data, Timestamp, WatermarkStrategy};

use super::flat_map::take_batch;
use super::input::Input;
use super::progress::Progress;
use super::{Takes, refuse_other_state};
use crate::TaskError;
use crate::batch::AnyBatch;
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};

/// Reads the time of each record; the watermark follows the latest one at the distance that the strategy says.
pub struct TimestampsOperator<T, F> {
    assign: F,
    strategy: WatermarkStrategy,
    input: Input<T>,
    output: Collector<T>,
    progress: Progress,
    of: PhantomData<fn(T)>,
}

impl<T: Data, F: Fn(&T) -> i64 + Send + 'static> TimestampsOperator<T, F> {
    /// `assign` gives the time of a record in milliseconds since the epoch.
    pub fn new(assign: F, strategy: WatermarkStrategy) -> Self {
        Self {
            assign,
            strategy,
            input: Input::default(),
            output: Collector::default(),
            progress: Progress::default(),
            of: PhantomData,
        }
    }
}

impl<T: Data, F: Fn(&T) -> i64 + Send + 'static> Operator for TimestampsOperator<T, F> {
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::Nothing).map_err(TaskError::state(&cx.uid))?;
        self.progress.restore(cx.restored.as_ref());
        Ok(())
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let mut latest = Timestamp::MIN;
        let mut done = 0;
        while limits.allow(done, self.output.len()) {
            let Some((record, _)) = self.input.next() else { break };
            let timestamp = Timestamp::from_millis((self.assign)(&record));
            latest = latest.max(timestamp);
            self.output.collect_with_timestamp(record, timestamp);
            done += 1;
        }
        self.progress.counts.records_in += done as u64;
        // One less than the earliest time that may still come: a record with the same time as the latest is not late.
        let behind = self.strategy.out_of_orderness_ms().saturating_add(1).saturating_neg();
        self.progress.advance(latest.plus_millis(behind));
        Ok(if self.input.is_done() { Ran::Done } else { Ran::More })
    }

    fn advance(&mut self, watermark: Timestamp, _: &Limits<'_>) -> Result<Ran, TaskError> {
        // What comes from upstream says nothing about the times assigned here, but that the input has ended does.
        if watermark == Timestamp::MAX {
            self.progress.advance(watermark);
        }
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
