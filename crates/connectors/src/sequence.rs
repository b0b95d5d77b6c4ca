//! The sequence source: the numbers of a range, in splits, each of which can be continued at any number.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use highwater_stream_api::{BoxedError, Collector, PollContext, Polled, Source, SourceReader, Timestamp};
use serde::{Deserialize, Serialize};

use crate::SplitQueue;

/// Emits the numbers of a range.
///
/// ```
/// use highwater_connectors::SequenceSource;
///
/// let source = SequenceSource::new(1..=1_000_000).with_splits(4).with_timestamps();
/// ```
///
/// Within a split the numbers come in ascending order; the splits are read side by side.
#[derive(Debug, Clone)]
pub struct SequenceSource {
    /// First and last number; `None` when there is none.
    range: Option<(u64, u64)>,
    splits: u32,
    timestamps: bool,
}

impl SequenceSource {
    /// The numbers of `range`, such as `0..10` or `1..=100`, in one split and without times.
    pub fn new(range: impl RangeBounds<u64>) -> Self {
        let first = match range.start_bound() {
            Bound::Included(&first) => Some(first),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match range.end_bound() {
            Bound::Included(&last) => Some(last),
            Bound::Excluded(&after) => after.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let range = first.zip(last).filter(|(first, last)| first <= last);
        Self { range, splits: 1, timestamps: false }
    }

    /// Divides the range into this many splits of nearly the same size; fewer when there are fewer numbers.
    ///
    /// # Panics
    /// When `splits` is 0.
    #[must_use]
    pub fn with_splits(mut self, splits: u32) -> Self {
        assert!(splits > 0, "a sequence needs at least one split");
        self.splits = splits;
        self
    }

    /// Gives each record its own value, in milliseconds, as its time.
    #[must_use]
    pub fn with_timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    fn split(&self) -> Vec<SequenceSplit> {
        let Some((first, last)) = self.range else { return Vec::new() };
        let count = u128::from(last - first) + 1; // up to 2^64, one more than a u64 holds
        let splits = u128::from(self.splits).min(count);
        let start = |split: u128| first + (split * count / splits) as u64;
        let end = |split: u128| if split + 1 == splits { last } else { start(split + 1) - 1 };
        (0..splits).map(|split| SequenceSplit { next: start(split), last: end(split) }).collect()
    }
}

/// A part of the sequence that has not been emitted yet. Never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceSplit {
    /// The number that is emitted next.
    next: u64,
    /// The last number.
    last: u64,
}

#[deny(clippy::missing_trait_methods)]
impl Source for SequenceSource {
    type Out = u64;
    type Split = SequenceSplit;
    type Enumerator = SplitQueue<SequenceSplit>;
    type Reader = SequenceReader;

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::new(self.split()))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::restore(state)?)
    }

    fn create_reader(&self, _subtask: u32) -> Result<SequenceReader, BoxedError> {
        Ok(SequenceReader { splits: VecDeque::new(), timestamps: self.timestamps })
    }
}

/// Reads splits of a sequence, one after the other.
#[derive(Debug)]
pub struct SequenceReader {
    splits: VecDeque<SequenceSplit>,
    timestamps: bool,
}

impl SequenceReader {
    fn emit(&self, number: u64, out: &mut Collector<u64>) {
        if self.timestamps {
            out.collect_with_timestamp(number, Timestamp::from_millis(i64::try_from(number).unwrap_or(i64::MAX)));
        } else {
            out.collect_with_timestamp(number, Timestamp::NONE);
        }
    }
}

impl SourceReader for SequenceReader {
    type Out = u64;
    type Split = SequenceSplit;

    fn add_split(&mut self, split: SequenceSplit) -> Result<(), BoxedError> {
        self.splits.push_back(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<u64>) -> Result<Polled, BoxedError> {
        let mut left = cx.records_max as u64;
        while let Some(&SequenceSplit { next, last }) = self.splits.front() {
            if left == 0 {
                return Ok(Polled::More);
            }
            let end = last.min(next.saturating_add(left - 1));
            for number in next..=end {
                self.emit(number, out);
            }
            left -= end - next + 1;
            match self.splits.front_mut() {
                Some(split) if end < last => split.next = end + 1,
                _ => drop(self.splits.pop_front()),
            }
        }
        Ok(Polled::NeedSplit)
    }

    fn snapshot(&self) -> Result<Vec<SequenceSplit>, BoxedError> {
        Ok(self.splits.iter().copied().collect())
    }
}
