//! The collector: where a function puts its output.

use crate::Timestamp;

/// Takes the output of a function. It never refuses: the runtime looks at its length between records.
#[derive(Debug)]
pub struct Collector<T> {
    records: Vec<T>,
    timestamps: Vec<Timestamp>,
    timestamp: Timestamp,
}

impl<T> Default for Collector<T> {
    fn default() -> Self {
        Self { records: Vec::new(), timestamps: Vec::new(), timestamp: Timestamp::NONE }
    }
}

impl<T> Collector<T> {
    /// Emits a record with the time of the record or timer that is being processed.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.records.push(record);
        self.timestamps.push(self.timestamp);
    }

    /// Emits a record with a time of its own.
    #[inline]
    pub fn collect_with_timestamp(&mut self, record: T, timestamp: Timestamp) {
        self.records.push(record);
        self.timestamps.push(timestamp);
    }

    /// The time that [`Collector::collect`] gives to records. Set by the runtime before each record and timer.
    #[inline]
    pub fn set_timestamp(&mut self, timestamp: Timestamp) {
        self.timestamp = timestamp;
    }

    /// How many records are waiting.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records that are waiting.
    pub fn records(&self) -> &[T] {
        &self.records
    }

    /// Whether no record is waiting.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes the waiting records with their times, in the order in which they were emitted.
    pub fn take(&mut self) -> (Vec<T>, Vec<Timestamp>) {
        // The next batch will be about as long: growing to that step by step costs more than the records.
        let (records, timestamps) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        (std::mem::replace(&mut self.records, records), std::mem::replace(&mut self.timestamps, timestamps))
    }
}
