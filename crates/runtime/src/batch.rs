//! Batches: records on their way between operators, with their times and key hashes.
//!
//! A batch shares its content, so that it can be sent to several consumers, or kept by a snapshot of records in
//! flight, without being copied; whoever holds it alone takes the records out.

use std::any::Any;
use std::sync::Arc;

use bincode::Options;
use highwater_state_api::KeyHash;
use highwater_stream_api::{Data, Timestamp};

use crate::TaskError;

/// Records of one type, each with its time. Either all have a key hash or none.
#[derive(Debug)]
pub struct Batch<T> {
    content: Arc<BatchContent<T>>,
    estimated_bytes: usize,
}

/// What a batch holds; the vectors have the same length, but for `hashes`, which may be empty.
#[derive(Debug, Clone, Default)]
pub struct BatchContent<T> {
    /// The records.
    pub records: Vec<T>,
    /// Their times.
    pub timestamps: Vec<Timestamp>,
    /// The stable hashes of their keys, or nothing where the stream has no key.
    pub hashes: Vec<KeyHash>,
}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        Self { content: self.content.clone(), estimated_bytes: self.estimated_bytes }
    }
}

impl<T: Data> Batch<T> {
    /// A batch of records without key hashes.
    pub fn new(records: Vec<T>, timestamps: Vec<Timestamp>) -> Self {
        Self::keyed(records, timestamps, Vec::new())
    }

    /// A batch of records with the hashes of their keys.
    pub fn keyed(records: Vec<T>, timestamps: Vec<Timestamp>, hashes: Vec<KeyHash>) -> Self {
        debug_assert_eq!(records.len(), timestamps.len());
        debug_assert!(hashes.is_empty() || hashes.len() == records.len());
        let estimated_bytes = records.len().saturating_mul(estimate_record_bytes(&records) + OVERHEAD_BYTES);
        Self { content: Arc::new(BatchContent { records, timestamps, hashes }), estimated_bytes }
    }

    /// What the batch holds.
    pub fn content(&self) -> &BatchContent<T> {
        &self.content
    }

    /// Takes the content out; copies it only when somebody else holds the batch too.
    pub fn into_content(self) -> BatchContent<T> {
        Arc::unwrap_or_clone(self.content)
    }
}

/// Memory of a record beside itself: its time and its key hash.
const OVERHEAD_BYTES: usize = size_of::<Timestamp>() + size_of::<KeyHash>();
/// How many records are looked at to estimate the size of all.
const SAMPLES: usize = 4;

/// About how much memory a record takes, judged by a few of them: where it is, or as much as its serialised form if that
/// is more, which it is when most of the record is on the heap.
pub(crate) fn estimate_record_bytes<T: Data>(records: &[T]) -> usize {
    let step = (records.len() / SAMPLES).max(1);
    let sizes = records.iter().step_by(step).take(SAMPLES).map(|record| {
        let serialized = bincode::serialized_size(record).unwrap_or(0);
        usize::try_from(serialized).unwrap_or(usize::MAX).max(size_of::<T>())
    });
    let (sum, number) = sizes.fold((0usize, 0usize), |(sum, number), size| (sum.saturating_add(size), number + 1));
    sum.checked_div(number).unwrap_or(size_of::<T>())
}

/// A batch of records of any type.
pub trait AnyBatch: Any + Send {
    /// How many records there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how much memory the records take, for bounding queues.
    fn estimated_bytes(&self) -> usize;

    /// The same batch again, sharing the records.
    fn share(&self) -> Box<dyn AnyBatch>;

    /// Appends the batch as bytes to `out`. [`decode`] reads them back. Layout: `docs/format/in-flight.md`.
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TaskError>;

    /// The batch as a value of its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<T: Data> AnyBatch for Batch<T> {
    fn len(&self) -> usize {
        self.content.records.len()
    }

    fn estimated_bytes(&self) -> usize {
        self.estimated_bytes
    }

    fn share(&self) -> Box<dyn AnyBatch> {
        Box::new(self.clone())
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), TaskError> {
        let content = &self.content;
        let timestamps: Vec<i64> = content.timestamps.iter().map(|timestamp| timestamp.to_raw()).collect();
        let hashes: Vec<u32> = content.hashes.iter().map(|hash| hash.0).collect();
        options().serialize_into(out, &(&content.records, timestamps, hashes)).map_err(TaskError::in_flight)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Reads a batch of `T` that [`AnyBatch::encode`] wrote.
pub fn decode<T: Data>(bytes: &[u8]) -> Result<Box<dyn AnyBatch>, TaskError> {
    let (records, timestamps, hashes): (Vec<T>, Vec<i64>, Vec<u32>) =
        options().deserialize(bytes).map_err(TaskError::in_flight)?;
    if timestamps.len() != records.len() || !(hashes.is_empty() || hashes.len() == records.len()) {
        return Err(TaskError::InFlight("a batch has other numbers of records, times and hashes".to_owned()));
    }
    let timestamps = timestamps.into_iter().map(Timestamp::from_raw).collect();
    let hashes = hashes.into_iter().map(KeyHash).collect();
    Ok(Box::new(Batch::keyed(records, timestamps, hashes)))
}

fn options() -> impl Options {
    bincode::options().with_fixint_encoding().reject_trailing_bytes()
}

/// The batch as a batch of `T`. Fails when the graph was wired wrongly, which the typed API cannot do.
pub(crate) fn downcast<T: Data>(batch: Box<dyn AnyBatch>) -> Result<Batch<T>, TaskError> {
    batch
        .into_any()
        .downcast::<Batch<T>>()
        .map(|batch| *batch)
        .map_err(|_| TaskError::OtherRecordType { expected: std::any::type_name::<T>() })
}
