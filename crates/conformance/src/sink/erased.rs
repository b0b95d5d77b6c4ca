//! A sink of any type, with transactions as the bytes that a checkpoint has of them.

use std::sync::Arc;

use highwater_state_api::{Attempt, BincodeSerializer, BoxedError, CheckpointId, Serializer};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkStart, SinkWriter, Timestamp};

/// A prepared transaction, serialised.
pub(super) type Bytes = Arc<[u8]>;

/// A sink of any type.
pub(super) trait AnySink: Send + Sync {
    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError>;
    fn create_writer(&self, cx: &SinkContext) -> Result<Box<dyn AnyWriter>, BoxedError>;
    fn commit(&self, transaction: &Bytes) -> Result<(), CommitError>;
    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError>;
}

/// A writer of any type.
pub(super) trait AnyWriter {
    fn write(&mut self, record: &str) -> Result<(), BoxedError>;
    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Bytes>, BoxedError>;
}

/// Makes a record from a text.
pub(super) type ToRecord<S> = Arc<dyn Fn(&str) -> <S as Sink>::In + Send + Sync>;

pub(super) struct Erased<S: Sink> {
    pub(super) sink: S,
    pub(super) record: ToRecord<S>,
}

struct ErasedWriter<S: Sink> {
    writer: S::Writer,
    record: ToRecord<S>,
}

impl<S: Sink> AnySink for Erased<S> {
    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError> {
        self.sink.start(start)
    }

    fn create_writer(&self, cx: &SinkContext) -> Result<Box<dyn AnyWriter>, BoxedError> {
        let writer = self.sink.create_writer(cx)?;
        Ok(Box::new(ErasedWriter::<S> { writer, record: self.record.clone() }))
    }

    fn commit(&self, transaction: &Bytes) -> Result<(), CommitError> {
        let transaction = BincodeSerializer::default().deserialize(transaction).unwrap();
        self.sink.commit(&transaction)
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError> {
        self.sink.abort_earlier_attempts(attempt)
    }
}

impl<S: Sink> AnyWriter for ErasedWriter<S> {
    fn write(&mut self, record: &str) -> Result<(), BoxedError> {
        self.writer.write((self.record)(record), Timestamp::NONE)
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<Bytes>, BoxedError> {
        let Some(transaction) = self.writer.prepare_commit(checkpoint)? else { return Ok(None) };
        let mut bytes = Vec::new();
        BincodeSerializer::default().serialize(&transaction, &mut bytes)?;
        Ok(Some(bytes.into()))
    }
}
