//! The accepted batch of an operator, of which records are taken one by one.

use std::vec;

use highwater_state_api::KeyHash;
use highwater_stream_api::{Data, Timestamp};

use crate::TaskError;
use crate::batch::{AnyBatch, BatchContent, downcast};

/// The rest of a batch.
pub(crate) struct Input<T> {
    records: vec::IntoIter<T>,
    timestamps: Vec<Timestamp>,
    hashes: Vec<KeyHash>,
    taken: usize,
}

impl<T> Default for Input<T> {
    fn default() -> Self {
        Self { records: Vec::new().into_iter(), timestamps: Vec::new(), hashes: Vec::new(), taken: 0 }
    }
}

impl<T: Data> Input<T> {
    /// Takes a batch in place of the one before, which must be done.
    pub(crate) fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        debug_assert!(self.is_done(), "a batch was given to an operator that is not done with the one before");
        let BatchContent { records, timestamps, hashes } = downcast::<T>(batch)?.into_content();
        *self = Self { records: records.into_iter(), timestamps, hashes, taken: 0 };
        Ok(())
    }

    /// Whether every record has been taken.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.records.as_slice().is_empty()
    }

    /// The next record with its time.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(T, Timestamp)> {
        let record = self.records.next()?;
        let timestamp = self.timestamps[self.taken];
        self.taken += 1;
        Some((record, timestamp))
    }

    /// How many records have been taken: the index of the next one in the accepted batch.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// The records that have not been taken.
    pub(crate) fn rest(&self) -> &[T] {
        self.records.as_slice()
    }

    /// The key hashes of the whole batch; empty when its sender had no keys.
    pub(crate) fn hashes_mut(&mut self) -> &mut Vec<KeyHash> {
        &mut self.hashes
    }
}
