//! The sequence source: the numbers of a range, in splits, each of which can be continued at any number.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use highwater_state_api::CheckpointId;
use highwater_stream_api::{Boundedness, BoxedError, Collector, PollContext, Polled, Source, SourceReader, Timestamp};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }

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

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<SequenceSplit>, BoxedError> {
        Ok(self.splits.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::support_test::{continues_exactly_after_every_record, poll_at, read_all};

    #[test]
    fn every_number_of_the_range_is_emitted_once() {
        assert_eq!(read_all(&SequenceSource::new(0..5)).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(read_all(&SequenceSource::new(3..=5)).unwrap(), [3, 4, 5]);
        assert_eq!(read_all(&SequenceSource::new(..3)).unwrap(), [0, 1, 2]);
        for splits in [1, 2, 3, 7, 99, 100, 101, 1000] {
            let source = SequenceSource::new(50..150).with_splits(splits);
            assert_eq!(read_all(&source).unwrap(), (50..150).collect::<Vec<_>>(), "{splits} splits");
        }
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is what is tested")]
    fn an_empty_range_has_no_split() {
        for source in [SequenceSource::new(5..5), SequenceSource::new(5..=4), SequenceSource::new(..0)] {
            assert_eq!(source.clone().with_splits(4).split(), []);
            assert!(read_all(&source).unwrap().is_empty());
        }
    }

    #[test]
    fn splits_differ_by_one_at_most_up_to_the_whole_range_of_numbers() {
        let splits = SequenceSource::new(..).with_splits(3).split();
        assert_eq!(splits[0].next, 0);
        assert_eq!(splits[2].last, u64::MAX);
        assert!(splits.windows(2).all(|pair| pair[1].next == pair[0].last + 1));
        let lengths: Vec<u64> = splits.iter().map(|split| split.last - split.next).collect();
        assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
        assert_eq!(SequenceSource::new(u64::MAX..).split(), [SequenceSplit { next: u64::MAX, last: u64::MAX }]);
    }

    #[test]
    fn the_last_numbers_there_are_come_to_an_end() {
        let last: Vec<u64> = (u64::MAX - 4..=u64::MAX).collect();
        assert_eq!(read_all(&SequenceSource::new(u64::MAX - 4..)).unwrap(), last);
    }

    /// Contract: R325.
    #[test]
    fn it_continues_exactly_after_every_record() {
        for splits in [1, 3] {
            continues_exactly_after_every_record(&|| SequenceSource::new(10..24).with_splits(splits));
        }
    }

    #[test]
    fn a_poll_goes_on_into_the_next_split() {
        let mut reader = SequenceSource::new(..).create_reader(0).unwrap();
        reader.add_split(SequenceSplit { next: 0, last: 1 }).unwrap();
        reader.add_split(SequenceSplit { next: 7, last: 9 }).unwrap();
        let mut out = Vec::new();
        assert_eq!(poll_at(&mut reader, Duration::ZERO, 3, &mut out).unwrap(), Polled::More);
        assert_eq!(out.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 7]);
        assert_eq!(reader.snapshot(CheckpointId(1)).unwrap(), [SequenceSplit { next: 8, last: 9 }]);
        assert_eq!(poll_at(&mut reader, Duration::ZERO, 3, &mut out).unwrap(), Polled::NeedSplit);
        assert_eq!(reader.snapshot(CheckpointId(1)).unwrap(), []);
    }

    #[test]
    fn a_record_has_its_value_as_its_time_when_that_is_asked_for() {
        for (source, expected) in [
            (SequenceSource::new(..), Timestamp::NONE),
            (SequenceSource::new(..).with_timestamps(), Timestamp::from_millis(41)),
        ] {
            let mut reader = source.create_reader(0).unwrap();
            reader.add_split(SequenceSplit { next: 41, last: 41 }).unwrap();
            let mut out = Vec::new();
            poll_at(&mut reader, Duration::ZERO, 3, &mut out).unwrap();
            assert_eq!(out, [(41, expected)]);
        }
    }
}
