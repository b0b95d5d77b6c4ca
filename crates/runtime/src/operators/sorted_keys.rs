//! A keyed function in batch mode: one key after the other.
//!
//! The operator keeps its input, sorted, until all of it is there. Then it replays it in steps: the records of a key in the
//! order in which they came, then the key's timers, and then the state of the key is dropped. It does so while the last
//! watermark is worked off, so that a subtask sees nothing but a watermark at which much is to be done.

use std::time::Duration;

use bincode::Options;
use highwater_state_api::{BoxedError, CheckpointId, KeyHash, RoundTrip};
use highwater_stream_api::{Data, KeySelector, KeyedProcessFunction, Timestamp};

use super::keyed_process::KeyedProcessOperator;
use crate::TaskError;
use crate::batch::{AnyBatch, Batch, BatchContent, downcast};
use crate::channel::Barrier;
use crate::operator::{FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran};
use crate::sort::{ExternalSorter, SortSettings, SortedRecord, SortedRecords};

/// How many records of a key are replayed together at most.
const BATCH_RECORDS_MAX: usize = 256;
/// A payload is the time of the record and then the record.
const TIMESTAMP_BYTES: usize = size_of::<i64>();

/// Calls a keyed function for one key at a time.
pub(crate) struct SortedKeysOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    keyed: KeyedProcessOperator<In, S, F>,
    settings: SortSettings,
    stage: Stage,
    uid: String,
    round_trip: RoundTrip,
    key: Vec<u8>,
    payload: Vec<u8>,
}

enum Stage {
    NotOpen,
    /// Input comes in.
    Collects(Box<ExternalSorter>),
    /// All of it is there, and is worked off.
    Replays(Box<Replay>),
    /// Every key has passed.
    Done,
}

struct Replay {
    records: SortedRecords,
    /// The key that is active, with its hash.
    active: Option<(u32, Vec<u8>)>,
    work: Work,
}

/// What the keyed operator is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Nothing,
    /// It has not done its batch.
    Batch,
    /// The timers of the key that ends fire.
    Timers,
}

impl<In, S, F> SortedKeysOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    /// Gives `keyed` its input by key.
    pub(crate) fn new(keyed: KeyedProcessOperator<In, S, F>, settings: SortSettings) -> Self {
        let (stage, uid) = (Stage::NotOpen, String::new());
        Self { keyed, settings, stage, uid, round_trip: RoundTrip::default(), key: Vec::new(), payload: Vec::new() }
    }

    /// Goes on with the replay; [`Ran::Done`] when every key has passed.
    fn replay(&mut self, replay: &mut Replay, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        let mut done = 0;
        while limits.allow(done, self.keyed.output_length()) {
            match replay.work {
                Work::Nothing if replay.has_passed() => replay.work = Work::Timers,
                Work::Nothing => {
                    let Some(batch) = replay.next_batch::<In>(limits.records_max - done, &self.uid)? else {
                        return self.keyed.advance(Timestamp::MAX, limits);
                    };
                    done += batch.len();
                    self.keyed.accept(Box::new(batch))?;
                    replay.work = Work::Batch;
                }
                Work::Batch => match self.keyed.run(limits)? {
                    Ran::Done => replay.work = Work::Nothing,
                    _ => return Ok(Ran::More),
                },
                Work::Timers => match self.keyed.advance(Timestamp::MAX, limits)? {
                    Ran::Done => {
                        self.keyed.end_key()?;
                        replay.active = None;
                        replay.work = Work::Nothing;
                        done += 1;
                    }
                    _ => return Ok(Ran::More),
                },
            }
        }
        Ok(Ran::More)
    }
}

impl Replay {
    /// Whether a key is active and has no more records.
    fn has_passed(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !self.records.peek().is_some_and(|next| is_of(next, active)))
    }

    /// The next records of the active key, or the first of the next key. `None` when there are no more.
    fn next_batch<In: Data>(&mut self, records_max: usize, uid: &str) -> Result<Option<Batch<In>>, TaskError> {
        let Self { records, active, .. } = self;
        let Some(first) = records.peek() else { return Ok(None) };
        let active = active.get_or_insert_with(|| (first.hash, first.key.clone()));
        let mut content = BatchContent { records: Vec::new(), timestamps: Vec::new(), hashes: Vec::new() };
        while let Some(record) = records.peek().filter(|record| is_of(record, active)) {
            let (timestamp, serialized) = record.payload.split_at(TIMESTAMP_BYTES);
            let timestamp = timestamp.try_into().expect("every payload begins with a time");
            content.records.push(options().deserialize(serialized).map_err(|error| failed(uid, error))?);
            content.timestamps.push(Timestamp::from_raw(i64::from_le_bytes(timestamp)));
            content.hashes.push(KeyHash(record.hash));
            records.advance().map_err(|error| failed(uid, error))?;
            if content.records.len() >= records_max.clamp(1, BATCH_RECORDS_MAX) {
                break;
            }
        }
        let BatchContent { records, timestamps, hashes } = content;
        Ok(Some(Batch::keyed(records, timestamps, hashes)))
    }
}

fn is_of(record: &SortedRecord, (hash, key): &(u32, Vec<u8>)) -> bool {
    record.hash == *hash && record.key == *key
}

/// Whether a record is read as it was written, as far as that can be told: it has to be written as the same bytes again. Their
/// order does not count, as a map or a set may be in another one: records, unlike keys, are not told apart by their bytes.
fn check_round_trip<In: Data>(written: &[u8]) -> Result<usize, BoxedError> {
    const HINT: &str = "every field has to be written: is there a `skip_serializing_if` in it?";
    let read: In = options()
        .deserialize(written)
        .map_err(|error| format!("a record that was written for sorting cannot be read: {error}; {HINT}"))?;
    if is_permutation(&options().serialize(&read)?, written) {
        return Ok(written.len());
    }
    Err(format!("a record that was written for sorting is read as another one; {HINT}").into())
}

fn is_permutation(one: &[u8], other: &[u8]) -> bool {
    let counts = |bytes: &[u8]| {
        let mut counts = [0_usize; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts
    };
    one == other || counts(one) == counts(other)
}

fn options() -> impl Options {
    bincode::options().with_fixint_encoding().reject_trailing_bytes()
}

fn failed(uid: &str, error: impl Into<BoxedError>) -> TaskError {
    TaskError::SortedInput { operator: uid.to_owned(), source: error.into() }
}

impl<In, S, F> Operator for SortedKeysOperator<In, S, F>
where
    In: Data,
    S: KeySelector<In>,
    F: KeyedProcessFunction<S::Key, In>,
{
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        self.uid = cx.uid.to_string();
        self.stage = Stage::Collects(Box::new(ExternalSorter::new(self.settings.clone(), cx.subtask as usize)));
        self.keyed.open(cx)
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        let Self { keyed, stage, uid, round_trip, key: key_bytes, payload, .. } = self;
        let Stage::Collects(sorter) = stage else {
            return Err(failed(uid, "a record came after the last watermark"));
        };
        let BatchContent { records, timestamps, hashes } = downcast::<In>(batch)?.into_content();
        keyed.for_each_key(&records, hashes, |index, hash, key| {
            key_bytes.clear();
            options().serialize_into(&mut *key_bytes, key).map_err(|error| failed(uid, error))?;
            payload.clear();
            payload.extend_from_slice(&timestamps[index].to_raw().to_le_bytes());
            options().serialize_into(&mut *payload, &records[index]).map_err(|error| failed(uid, error))?;
            round_trip
                .check(|| check_round_trip::<In>(&payload[TIMESTAMP_BYTES..]))
                .map_err(|error| failed(uid, error))?;
            sorter.push(hash.0, key_bytes, payload).map_err(|error| failed(uid, error))
        })
    }

    fn run(&mut self, _: &Limits<'_>) -> Result<Ran, TaskError> {
        Ok(Ran::Done)
    }

    fn advance(&mut self, watermark: Timestamp, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        // Where event time stands meanwhile says nothing: the records come in another order.
        if watermark < Timestamp::MAX {
            return Ok(Ran::Done);
        }
        let mut replay = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Done => return Ok(Ran::Done),
            Stage::Replays(replay) => replay,
            Stage::NotOpen => unreachable!("an operator is opened before anything else is asked of it"),
            Stage::Collects(sorter) => {
                self.keyed.end_key()?;
                let records = sorter.finish().map_err(|error| failed(&self.uid, error))?;
                Box::new(Replay { records, active: None, work: Work::Nothing })
            }
        };
        let ran = self.replay(&mut replay, limits)?;
        if ran == Ran::More {
            self.stage = Stage::Replays(replay);
        }
        Ok(ran)
    }

    fn watermark(&self) -> Timestamp {
        match self.stage {
            Stage::Done => self.keyed.watermark(),
            _ => Timestamp::MIN,
        }
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        self.keyed.finish()
    }

    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>> {
        self.keyed.take_output()
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        self.keyed.freeze(barrier)
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        self.keyed.notify_complete(checkpoint, now)
    }

    fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.keyed.notify_aborted(checkpoint)
    }

    fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.keyed.notify_subsumed(checkpoint)
    }

    fn counts(&self) -> OperatorCounts {
        self.keyed.counts()
    }
}

#[cfg(test)]
#[path = "sorted_keys_test.rs"]
mod sorted_keys_test;
