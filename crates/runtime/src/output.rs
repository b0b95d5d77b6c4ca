//! Outputs: from the end of a chain into the channels of the subtasks downstream.

use highwater_state_api::{CheckpointId, KeyHash, KeyHasher, MaxParallelism, OperatorUid, StateError};
use highwater_stream_api::{Data, KeySelector, Timestamp};

use crate::TaskError;
use crate::batch::{AnyBatch, Batch, BatchContent, downcast, estimate_record_bytes};
use crate::channel::{Barrier, ChannelSender, Element};

/// How many records a pending batch holds at most before it is sent.
const BATCH_RECORDS_MAX: usize = 1024;
/// How many bytes of records it holds, about, before it is sent: fewer records when they are large.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// One outgoing edge of a subtask.
pub trait Output: Send {
    /// Takes records. Never refuses.
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError>;

    /// Sends what is pending.
    fn flush(&mut self);

    /// The channels, all of them.
    fn channels(&self) -> &[ChannelSender];
}

/// The outgoing edges of a subtask.
#[derive(Default)]
pub struct Outputs {
    edges: Vec<Box<dyn Output>>,
    watermark: Option<Timestamp>,
}

impl Outputs {
    /// Outputs over these edges.
    pub fn new(edges: Vec<Box<dyn Output>>) -> Self {
        Self { edges, watermark: None }
    }

    /// Sends what is pending on every edge.
    pub fn flush(&mut self) {
        self.edges.iter_mut().for_each(|edge| edge.flush());
    }

    /// Sends a barrier behind everything that came before it.
    pub fn barrier(&mut self, barrier: Barrier) {
        self.broadcast(|| Element::Barrier(barrier));
    }

    /// Says that the barrier of a checkpoint will not come.
    pub fn cancel_marker(&mut self, checkpoint: CheckpointId) {
        self.broadcast(|| Element::CancelMarker(checkpoint));
    }

    /// Says that there will be no more records.
    pub fn end(&mut self) {
        self.broadcast(|| Element::End);
    }

    /// Whether some channel holds as much as it should: then the next record has to wait.
    pub fn is_full(&self) -> bool {
        self.edges.iter().flat_map(|edge| edge.channels()).any(ChannelSender::is_full)
    }

    fn broadcast(&mut self, element: impl Fn() -> Element) {
        self.flush();
        for channel in self.edges.iter().flat_map(|edge| edge.channels()) {
            channel.send(element());
        }
    }
}

/// Where a chain puts what comes out of its last operator.
pub trait ChainOutput {
    /// Takes records.
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError>;

    /// Event time has come this far.
    fn watermark(&mut self, watermark: Timestamp) -> Result<(), TaskError>;
}

impl ChainOutput for Outputs {
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        let Some((last, others)) = self.edges.split_last_mut() else { return Ok(()) };
        for edge in others {
            edge.records(batch.share())?;
        }
        last.records(batch)
    }

    fn watermark(&mut self, watermark: Timestamp) -> Result<(), TaskError> {
        if self.watermark.is_none_or(|sent| sent < watermark) {
            self.watermark = Some(watermark);
            self.broadcast(|| Element::Watermark(watermark));
        }
        Ok(())
    }
}

/// Sends each batch whole to one channel, in turn. With one channel it is the forward edge.
pub struct RoundRobinOutput {
    channels: Vec<ChannelSender>,
    next: usize,
}

impl RoundRobinOutput {
    /// Over these channels, of which there must be one at least.
    pub fn new(channels: Vec<ChannelSender>) -> Self {
        Self { channels, next: 0 }
    }
}

impl Output for RoundRobinOutput {
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.channels[self.next].send(Element::Batch(batch));
        self.next = (self.next + 1) % self.channels.len();
        Ok(())
    }

    fn flush(&mut self) {}

    fn channels(&self) -> &[ChannelSender] {
        &self.channels
    }
}

/// Sends each record to the subtask that owns its key group.
pub struct HashOutput<T, S> {
    operator: OperatorUid,
    selector: S,
    hasher: KeyHasher,
    max_parallelism: MaxParallelism,
    /// Index of the channel of each key group: a look costs less than the division that it saves for every record.
    targets: Vec<u16>,
    channels: Vec<ChannelSender>,
    pending: Vec<BatchContent<T>>,
    /// How many records a pending batch holds before it is sent, for records as large as the last ones.
    batch_records_max: usize,
}

impl<T: Data, S: KeySelector<T>> HashOutput<T, S> {
    /// Over these channels, one for each subtask of the keyed operator `operator`, in order.
    pub fn new(
        operator: OperatorUid,
        selector: S,
        max_parallelism: MaxParallelism,
        channels: Vec<ChannelSender>,
    ) -> Self {
        let pending = channels.iter().map(|_| with_capacity(0)).collect();
        let target_of = |group| max_parallelism.subtask_of(group, channels.len() as u32) as u16;
        let targets = max_parallelism.all().iter().map(target_of).collect();
        Self {
            operator,
            selector,
            hasher: KeyHasher::default(),
            max_parallelism,
            targets,
            channels,
            pending,
            batch_records_max: BATCH_RECORDS_MAX,
        }
    }

    #[inline]
    fn push(&mut self, record: T, timestamp: Timestamp, hash: KeyHash) {
        let target = usize::from(self.targets[usize::from(self.max_parallelism.group_of(hash).0)]);
        let pending = &mut self.pending[target];
        pending.records.push(record);
        pending.timestamps.push(timestamp);
        pending.hashes.push(hash);
        if pending.records.len() >= self.batch_records_max {
            send(pending, &self.channels[target]);
        }
    }
}

fn with_capacity<T>(records: usize) -> BatchContent<T> {
    BatchContent {
        records: Vec::with_capacity(records),
        timestamps: Vec::with_capacity(records),
        hashes: Vec::with_capacity(records),
    }
}

fn send<T: Data>(pending: &mut BatchContent<T>, channel: &ChannelSender) {
    if !pending.records.is_empty() {
        // The next batch will be about as long: growing to that step by step costs more than the records.
        let next = with_capacity(pending.records.len());
        let BatchContent { records, timestamps, hashes } = std::mem::replace(pending, next);
        channel.send(Element::Batch(Box::new(Batch::keyed(records, timestamps, hashes))));
    }
}

impl<T: Data, S: KeySelector<T>> Output for HashOutput<T, S> {
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        let BatchContent { records, timestamps, .. } = downcast::<T>(batch)?.into_content();
        let record_bytes = estimate_record_bytes(&records).max(1);
        self.batch_records_max = (BATCH_BYTES_MAX / record_bytes).clamp(1, BATCH_RECORDS_MAX);
        for (record, timestamp) in records.into_iter().zip(timestamps) {
            let hash = self
                .selector
                .hash(&record, &mut self.hasher)
                .map_err(|error| TaskError::state(&self.operator)(StateError::KeyHash(error)))?;
            self.push(record, timestamp, hash);
        }
        Ok(())
    }

    fn flush(&mut self) {
        for (pending, channel) in self.pending.iter_mut().zip(&self.channels) {
            send(pending, channel);
        }
    }

    fn channels(&self) -> &[ChannelSender] {
        &self.channels
    }
}
