//! Sources: the head of a chain that reads instead of being given records.

use std::time::Duration;

use highwater_state_api::{BincodeSerializer, CheckpointId, OperatorUid, READER_SPLITS, Serializer, State, StateError};
use highwater_stream_api::{Collector, Data, PollContext, Polled, SourceReader, Timestamp};

use super::flat_map::take_batch;
use super::progress::Progress;
use super::{Takes, frozen_list, opened, refuse_other_state};
use crate::TaskError;
use crate::batch::{AnyBatch, estimate_record_bytes};
use crate::channel::Barrier;
use crate::operator::{
    FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran, SourceControl,
};

/// How many bytes of records are read in one poll, about: fewer records when they are large.
const POLL_BYTES_MAX: usize = 256 * 1024;
/// How many records are read while nothing is known of their size.
const FIRST_POLL_RECORDS_MAX: usize = 16;

/// Polls a source reader.
pub struct SourceOperator<R: SourceReader> {
    uid: Option<OperatorUid>,
    reader: R,
    output: Collector<R::Out>,
    no_more_splits: bool,
    has_splits: bool,
    progress: Progress,
    /// How many records to read in one poll, for records as large as the last ones.
    poll_records_max: usize,
}

impl<R> SourceOperator<R>
where
    R: SourceReader + 'static,
    R::Out: Data,
    R::Split: State,
{
    /// Polls `reader`, which has no splits yet.
    pub fn new(reader: R) -> Self {
        Self {
            uid: None,
            reader,
            output: Collector::default(),
            no_more_splits: false,
            has_splits: false,
            progress: Progress::default(),
            poll_records_max: FIRST_POLL_RECORDS_MAX,
        }
    }
}

impl<R> Operator for SourceOperator<R>
where
    R: SourceReader + 'static,
    R::Out: Data,
    R::Split: State,
{
    /// Restored splits are not taken here: they went back to the enumerator, which hands them out anew.
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        refuse_other_state(cx.restored.as_ref(), Takes::Nothing).map_err(TaskError::state(&cx.uid))?;
        self.progress.restore(cx.restored.as_ref());
        self.uid = Some(cx.uid);
        Ok(())
    }

    fn accept(&mut self, _: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        unreachable!("a source is the head of a chain without inputs")
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        if !self.has_splits {
            return Ok(if self.no_more_splits { Ran::Ended } else { Ran::NeedsSplit });
        }
        self.output.set_timestamp(Timestamp::NONE);
        let before = self.output.len();
        let cx = PollContext {
            records_max: limits.records_max.min(limits.output_max).min(self.poll_records_max),
            now: limits.now,
            waker: limits.waker,
        };
        let polled =
            self.reader.poll(&cx, &mut self.output).map_err(TaskError::user(opened(&mut self.uid), "read records"))?;
        self.progress.counts.records_in += (self.output.len() - before) as u64;
        if !self.output.is_empty() {
            let record_bytes = estimate_record_bytes(self.output.records()).max(1);
            self.poll_records_max = (POLL_BYTES_MAX / record_bytes).max(1);
        }
        Ok(match polled {
            Polled::More => Ran::More,
            Polled::Idle(until) => Ran::Idle(until),
            Polled::NeedSplit => {
                self.has_splits = false;
                if self.no_more_splits { Ran::Ended } else { Ran::NeedsSplit }
            }
        })
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
        let splits = self
            .reader
            .snapshot(barrier.checkpoint)
            .map_err(TaskError::user(opened(&mut self.uid), "snapshot its position"))?;
        let operator =
            frozen_list(READER_SPLITS, splits.into_iter()).map_err(TaskError::state(opened(&mut self.uid)))?;
        Ok(FrozenOperator { operator: Some(operator), snapshot: self.progress.snapshot(), ..FrozenOperator::default() })
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, _: Duration) -> Result<(), TaskError> {
        self.reader
            .notify_checkpoint_complete(checkpoint)
            .map_err(TaskError::user(opened(&mut self.uid), "hear of a complete checkpoint"))
    }

    fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.reader
            .notify_checkpoint_aborted(checkpoint)
            .map_err(TaskError::user(opened(&mut self.uid), "hear of an aborted checkpoint"))
    }

    fn as_source(&mut self) -> Option<&mut dyn SourceControl> {
        Some(self)
    }

    fn counts(&self) -> OperatorCounts {
        self.progress.counts
    }
}

impl<R> SourceControl for SourceOperator<R>
where
    R: SourceReader + 'static,
    R::Out: Data,
    R::Split: State,
{
    fn add_split(&mut self, split: &[u8]) -> Result<(), TaskError> {
        let split = BincodeSerializer::default().deserialize(split).map_err(|source| {
            TaskError::state(opened(&mut self.uid))(StateError::Serializer { state: READER_SPLITS.to_owned(), source })
        })?;
        self.has_splits = true;
        self.reader.add_split(split).map_err(TaskError::user(opened(&mut self.uid), "take a split"))
    }

    fn no_more_splits(&mut self) {
        self.no_more_splits = true;
    }
}
