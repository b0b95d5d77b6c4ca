//! Sources with replay positions and sinks with two-phase commit.
//!
//! * [`SequenceSource`]: numbers, for tests, examples and benchmarks.
//! * [`FileSource`]: CSV files, plain or compressed, from a path or a pattern, continued at the exact record.
//! * [`Throttled`]: any source, slowed down to a rate.
//! * [`FileSink`]: part files that appear when a checkpoint covers them, and never change after that.
//! * [`CollectSink`]: committed records in memory, for tests and for embedding.
//! * [`SplitQueue`]: the split enumerator of sources that know all their splits at the start.
//!
//! Connectors know the traits of `stream-api` and nothing of the engine that drives them. None of them reads a clock.

mod collect;
mod file_sink;
mod file_source;
mod sequence;
mod split_queue;
mod throttle;

#[cfg(test)]
mod support_test;
#[cfg(test)]
mod throttle_test;

pub use collect::{CollectSink, CollectSinkError, CollectTransaction, CollectWriter, CollectedRecords};
pub use file_sink::{
    CsvRows, FileSink, FileSinkError, FileSinkWriter, FileTransaction, Lines, PartName, RowEncoder, RowFormat,
    SinkOfJob,
};
pub use file_source::{FileIdentity, FilePosition, FileSource, FileSourceError, FileSourceReader, FileSplit, RowPlace};
pub use sequence::{SequenceReader, SequenceSource, SequenceSplit};
pub use split_queue::{SplitQueue, SplitQueueError};
pub use throttle::{Throttled, ThrottledReader};
