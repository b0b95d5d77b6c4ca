//! What the tests of sources share: polling by hand, reading to the end, and stopping after every record.

use std::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::task::Waker;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_state_api::{BincodeSerializer, CheckpointId, Serializer, State};
use highwater_stream_api::{
    BoxedError, Collector, PollContext, Polled, Source, SourceReader, SplitAssignment, SplitEnumerator, Timestamp,
};

/// Every poll of these tests is one of a bounded number.
const POLLS_MAX: usize = 100_000;

pub(crate) fn poll_at<R: SourceReader>(
    reader: &mut R,
    now: Duration,
    records_max: usize,
    out: &mut Vec<(R::Out, Timestamp)>,
) -> Result<Polled, BoxedError> {
    let mut collector = Collector::default();
    let polled = reader.poll(&PollContext { records_max, now, waker: Waker::noop() }, &mut collector);
    let (records, timestamps) = collector.take();
    assert!(records.len() <= records_max, "{} records where {records_max} were asked for", records.len());
    out.extend(records.into_iter().zip(timestamps));
    polled
}

/// Reads up to `count` records; fewer only when there are no more.
pub(crate) fn read<R: SourceReader, E: SplitEnumerator<Split = R::Split>>(
    enumerator: &mut E,
    reader: &mut R,
    count: usize,
    records_max: usize,
) -> Result<Vec<R::Out>, BoxedError> {
    let mut out = Vec::new();
    for _ in 0..POLLS_MAX {
        let wanted = (count - out.len()).min(records_max);
        if wanted == 0 {
            return Ok(out.into_iter().map(|(record, _)| record).collect());
        }
        if poll_at(reader, Duration::ZERO, wanted, &mut out)? == Polled::NeedSplit {
            match enumerator.next_split(0)? {
                SplitAssignment::Split(split) => reader.add_split(split)?,
                SplitAssignment::NoMoreSplits => return Ok(out.into_iter().map(|(record, _)| record).collect()),
            }
        }
    }
    panic!("the source does not come to an end");
}

pub(crate) fn read_all<S: Source>(source: &S) -> Result<Vec<S::Out>, BoxedError> {
    read(&mut source.create_enumerator()?, &mut source.create_reader(0)?, usize::MAX, 7)
}

/// Stops after every number of records, goes on from the snapshot with everything new, and compares with one go.
pub(crate) fn continues_exactly_after_every_record<S: Source>(new_source: &dyn Fn() -> S)
where
    S::Out: PartialEq + Debug,
{
    let source = new_source();
    let whole = read_all(&source).unwrap();
    for count in 0..=whole.len() {
        let (mut enumerator, mut reader) = (source.create_enumerator().unwrap(), source.create_reader(0).unwrap());
        let mut records = read(&mut enumerator, &mut reader, count, 2).unwrap();
        let enumerator_state = enumerator.snapshot().unwrap();
        let splits: Vec<S::Split> =
            reader.snapshot(CheckpointId(1)).unwrap().iter().map(through_a_checkpoint).collect();

        let restored = new_source();
        let mut enumerator = restored.restore_enumerator(&enumerator_state).unwrap();
        let mut reader = restored.create_reader(1).unwrap();
        if count % 2 == 0 {
            enumerator.add_splits_back(splits);
        } else {
            splits.into_iter().for_each(|split| reader.add_split(split).unwrap());
        }
        records.extend(read(&mut enumerator, &mut reader, usize::MAX, 3).unwrap());
        assert_eq!(records, whole, "stopped after {count} records");
    }
}

/// A value as it comes back from a checkpoint; its type has a schema that can be recorded.
pub(crate) fn through_a_checkpoint<T: State>(value: &T) -> T {
    let serializer = BincodeSerializer::traced();
    Serializer::<T>::schema(&serializer).unwrap();
    let mut bytes = Vec::new();
    serializer.serialize(value, &mut bytes).unwrap();
    serializer.deserialize(&bytes).unwrap()
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn write(directory: &Path, name: &str, content: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An error with all of its causes, as one text.
pub(crate) fn full_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
