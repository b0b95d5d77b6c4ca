//! The split enumerator of sources that know all their splits at the start: a queue that checkpoints can hold.

use std::collections::VecDeque;

use highwater_state_api::{BincodeSerializer, Serializer, SerializerError, State};
use highwater_stream_api::{BoxedError, SplitAssignment, SplitEnumerator};

/// The first byte of a snapshot. A later layout gets the next number; old ones stay readable.
const VERSION: u8 = 1;

/// A snapshot of a [`SplitQueue`] cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitQueueError {
    /// It was written by a later version, or by another enumerator.
    #[error("the restored split enumerator state has version {found:?}, expected {expected}")]
    Version {
        /// The version that is written now.
        expected: u8,
        /// The first byte; `None` when the state is empty.
        found: Option<u8>,
    },
    /// It is damaged, or the splits are of another type.
    #[error("the restored split enumerator state cannot be read")]
    Unreadable(#[source] SerializerError),
}

/// Hands out a fixed set of splits, one at a time and in order. Splits that are given back come first, in order too.
///
/// Its snapshot is what was not handed out: splits that a reader has are in the reader's snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitQueue<S> {
    splits: VecDeque<S>,
}

impl<S: State> SplitQueue<S> {
    /// A queue of these splits.
    pub fn new(splits: impl IntoIterator<Item = S>) -> Self {
        Self { splits: splits.into_iter().collect() }
    }

    /// The queue that wrote this snapshot.
    pub fn restore(state: &[u8]) -> Result<Self, SplitQueueError> {
        let Some((&VERSION, splits)) = state.split_first() else {
            return Err(SplitQueueError::Version { expected: VERSION, found: state.first().copied() });
        };
        let splits = BincodeSerializer::traced().deserialize(splits).map_err(SplitQueueError::Unreadable)?;
        Ok(Self { splits })
    }

    /// The splits that wait, in the order in which they are handed out.
    pub fn waiting(&self) -> impl Iterator<Item = &S> {
        self.splits.iter()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: State + Ord> SplitEnumerator for SplitQueue<S> {
    type Split = S;

    fn next_split(&mut self, _subtask: u32) -> Result<SplitAssignment<S>, BoxedError> {
        Ok(self.splits.pop_front().map_or(SplitAssignment::NoMoreSplits, SplitAssignment::Split))
    }

    fn add_splits_back(&mut self, mut splits: Vec<S>) {
        // They come from several readers, and there may be fewer readers now. In the order in which they were handed out
        // first, one reader reads them as one reader would have all along: event time does not run ahead.
        splits.sort();
        for split in splits.into_iter().rev() {
            self.splits.push_front(split);
        }
    }

    fn snapshot(&self) -> Result<Vec<u8>, BoxedError> {
        let mut state = vec![VERSION];
        BincodeSerializer::traced().serialize(&self.splits, &mut state)?;
        Ok(state)
    }

    /// Files and sequences are read as fast as they can be, and nobody can say since when they have waited.
    fn is_processing_backlog(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut SplitQueue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| match queue.next_split(0).unwrap() {
            SplitAssignment::Split(split) => Some(split),
            SplitAssignment::NoMoreSplits => None,
        })
        .collect()
    }

    #[test]
    fn splits_given_back_come_first_and_in_the_order_of_all() {
        let mut queue = SplitQueue::new([1, 2, 3, 4, 5]);
        for expected in [1, 2, 3] {
            assert_eq!(queue.next_split(0).unwrap(), SplitAssignment::Split(expected));
        }
        queue.add_splits_back(vec![3, 1]);
        assert_eq!(drain(&mut queue), [1, 3, 4, 5]);
        assert_eq!(queue.next_split(0).unwrap(), SplitAssignment::NoMoreSplits);
    }

    /// Contract: R321.
    #[test]
    fn a_snapshot_holds_what_was_not_handed_out() {
        let mut queue = SplitQueue::new([1_u64, 2, 3]);
        queue.next_split(7).unwrap();
        let mut restored = SplitQueue::restore(&queue.snapshot().unwrap()).unwrap();
        assert_eq!(restored, queue);
        assert_eq!(drain(&mut restored), [2, 3]);
        let empty = SplitQueue::<u64>::restore(&restored.snapshot().unwrap()).unwrap();
        assert_eq!(empty.waiting().count(), 0);
    }

    #[test]
    fn a_damaged_snapshot_is_told_from_an_empty_one() {
        let queue = SplitQueue::new([1_u64, 2]);
        let state = queue.snapshot().unwrap();
        let error = |state: &[u8]| SplitQueue::<u64>::restore(state).unwrap_err();
        assert!(matches!(error(&[]), SplitQueueError::Version { found: None, .. }));
        assert!(matches!(error(&[9]), SplitQueueError::Version { found: Some(9), .. }));
        assert!(matches!(error(&state[..state.len() - 1]), SplitQueueError::Unreadable(_)));
        assert!(matches!(error(&[&state[..], &[0]].concat()), SplitQueueError::Unreadable(_)));
    }
}
