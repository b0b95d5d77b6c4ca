//! The source of the simulated job: splits of unequal lengths, exact positions, pauses.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use highwater_state_api::{BincodeSerializer, BoxedError, CheckpointId, Serializer};
use highwater_stream_api::{
    Collector, PollContext, Polled, Source, SourceReader, SplitAssignment, SplitEnumerator, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::record::{Input, Record};

/// A part of the input that is not read yet: never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Split {
    /// Its number.
    pub number: u32,
    /// The index of the next record.
    pub next: u32,
}

/// Readers that wait to be woken: for records that come from outside at any time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sleepers(Arc<Mutex<Vec<Waker>>>);

impl Sleepers {
    fn add(&self, waker: Waker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Wakes everyone. Whether there was anyone.
    pub(crate) fn wake(&self) -> bool {
        let sleepers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let any = !sleepers.is_empty();
        sleepers.into_iter().for_each(Waker::wake);
        any
    }

    /// Whether somebody waits.
    pub(crate) fn any(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Reads the input of a scenario.
pub(super) struct SimSource {
    /// The input.
    pub input: Arc<Input>,
    /// The splits of it that are this source's.
    pub splits: Range<u32>,
    /// How many records a reader emits before it pauses; 0: it never does.
    pub burst: u32,
    /// Readers that pause until they are woken.
    pub sleepers: Sleepers,
    /// How many records a position in a snapshot is before the true one. Only planted bugs set it.
    pub off_by: u32,
}

impl Source for SimSource {
    type Out = Record;
    type Split = Split;
    type Enumerator = SimEnumerator;
    type Reader = SimReader;

    fn create_enumerator(&self) -> Result<SimEnumerator, BoxedError> {
        Ok(SimEnumerator(self.splits.clone().map(|number| Split { number, next: 0 }).collect()))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<SimEnumerator, BoxedError> {
        Ok(SimEnumerator(read_enumerator(state)?.into()))
    }

    fn create_reader(&self, _: u32) -> Result<SimReader, BoxedError> {
        let Self { input, burst, sleepers, off_by, .. } = self;
        let (input, sleepers) = (input.clone(), sleepers.clone());
        Ok(SimReader {
            input,
            burst: *burst,
            sleepers,
            off_by: *off_by,
            splits: VecDeque::new(),
            emitted: 0,
            paused: false,
        })
    }
}

/// The splits in the snapshot of an enumerator.
pub(crate) fn read_enumerator(state: &[u8]) -> Result<Vec<Split>, BoxedError> {
    Ok(BincodeSerializer::default().deserialize(state)?)
}

/// Hands out splits in order; those that came back come first.
pub(super) struct SimEnumerator(VecDeque<Split>);

impl SplitEnumerator for SimEnumerator {
    type Split = Split;

    fn next_split(&mut self, _: u32) -> Result<SplitAssignment<Split>, BoxedError> {
        Ok(self.0.pop_front().map_or(SplitAssignment::NoMoreSplits, SplitAssignment::Split))
    }

    fn add_splits_back(&mut self, splits: Vec<Split>) {
        splits.into_iter().rev().for_each(|split| self.0.push_front(split));
    }

    fn snapshot(&self) -> Result<Vec<u8>, BoxedError> {
        let splits: Vec<Split> = self.0.iter().copied().collect();
        let mut state = Vec::new();
        BincodeSerializer::default().serialize(&splits, &mut state)?;
        Ok(state)
    }
}

/// Reads splits, one after the other.
pub(super) struct SimReader {
    input: Arc<Input>,
    burst: u32,
    sleepers: Sleepers,
    off_by: u32,
    splits: VecDeque<Split>,
    emitted: u32,
    paused: bool,
}

impl SimReader {
    /// A pause after each burst: in turn until a time, and until somebody wakes the reader.
    fn pause(&mut self, cx: &PollContext<'_>) -> Option<Polled> {
        let is_due = self.burst > 0 && self.emitted > 0 && self.emitted.is_multiple_of(self.burst);
        if !is_due || std::mem::replace(&mut self.paused, true) {
            return None;
        }
        if (self.emitted / self.burst).is_multiple_of(2) {
            return Some(Polled::Idle(Some(cx.now + Duration::from_millis(3))));
        }
        self.sleepers.add(cx.waker.clone());
        Some(Polled::Idle(None))
    }
}

impl SourceReader for SimReader {
    type Out = Record;
    type Split = Split;

    fn add_split(&mut self, split: Split) -> Result<(), BoxedError> {
        self.splits.push_back(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<Record>) -> Result<Polled, BoxedError> {
        for _ in 0..cx.records_max {
            if self.splits.is_empty() {
                return Ok(Polled::NeedSplit);
            }
            if let Some(pause) = self.pause(cx) {
                return Ok(pause);
            }
            let Some(split) = self.splits.front_mut() else { continue };
            out.collect_with_timestamp(self.input.record(split.number, split.next), Timestamp::NONE);
            split.next += 1;
            self.emitted += 1;
            self.paused = false;
            if split.next == self.input.length(split.number) {
                self.splits.pop_front();
            }
        }
        Ok(if self.splits.is_empty() { Polled::NeedSplit } else { Polled::More })
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<Split>, BoxedError> {
        let position = |split: &Split| Split { next: split.next.saturating_sub(self.off_by), ..*split };
        Ok(self.splits.iter().map(position).collect())
    }
}
