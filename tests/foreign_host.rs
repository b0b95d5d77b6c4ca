//! A host that is not our runtime runs a chain: bytes in, bytes out, snapshots by key group in its own maps.
//!
//! The host has no thread, channel, clock or tokio. It keeps [`Chain`] honest: whatever a chain needs besides batches,
//! watermarks and its restored state would have to be written here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use highwater::prelude::*;
use highwater::runtime::batch::{AnyBatch, Batch, decode};
use highwater::runtime::channel::Barrier;
use highwater::runtime::operator::{Limits, Operator, OperatorContext, Ran, RestoredKeyedState, RestoredOperator};
use highwater::runtime::operators::{FlatMapOperator, KeyedProcessOperator};
use highwater::runtime::output::ChainOutput;
use highwater::runtime::{Chain, FrozenChain, TaskError};
use highwater::state::{
    Attempt, BackendPairing, CheckpointId, JobName, KeyGroup, KeyGroupRange, KeyHasher, MaxParallelism, OperatorUid,
    RowSettings, TableMeta, canonical,
};
use highwater::stream::ByReference;

// The host.

/// The subtasks of one task, and the batches that they have sent.
struct Host {
    chains: Vec<Chain>,
    sent: Sent,
}

#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

/// The state of one operator: of each subtask its tables and a stream for each key group.
#[derive(Default)]
struct SavedOperator {
    keyed: Vec<(Vec<TableMeta>, BTreeMap<KeyGroup, Bytes>)>,
    watermark: Option<i64>,
}

type Saved = BTreeMap<OperatorUid, SavedOperator>;

impl Host {
    fn start(parallelism: u32, saved: &Saved) -> Self {
        let start = |subtask| {
            let mut chain = job();
            let range = max_parallelism().range_of(subtask, parallelism);
            let context = |uid: &OperatorUid| OperatorContext {
                job: JobName::new("foreign").unwrap(),
                attempt: Attempt(1),
                uid: uid.clone(),
                subtask,
                parallelism,
                max_parallelism: max_parallelism(),
                state_backend: BackendPairing::from(MemoryStateBackend::new()).state_backend,
                row_settings: RowSettings { cached_rows_max: 0, hash_seed: 1 },
                now: Duration::ZERO,
                fence: Default::default(),
                restored_checkpoint: saved.get(uid).map(|_| CheckpointId(1)),
                restored: saved.get(uid).map(|saved| saved.share_of(range)),
            };
            chain.open(context).unwrap();
            chain
        };
        Self { chains: (0..parallelism).map(start).collect(), sent: Sent::default() }
    }

    fn receive(&mut self, subtask: usize, batch: &[u8]) -> Result<(), TaskError> {
        self.chains[subtask].accept(decode::<Reading>(batch)?)?;
        while self.chains[subtask].run(&limits(), &mut self.sent)? == Ran::More {}
        Ok(())
    }

    fn advance(&mut self, watermark: Timestamp) -> Result<(), TaskError> {
        for chain in &mut self.chains {
            while chain.advance(watermark, &limits(), &mut self.sent)? == Ran::More {}
        }
        Ok(())
    }
}

fn save(frozen: Vec<FrozenChain>) -> Saved {
    let mut saved = Saved::new();
    for (uid, operator) in frozen.into_iter().flat_map(|chain| chain.operators) {
        let to = saved.entry(uid).or_default();
        to.watermark = operator.snapshot.watermark;
        let Some((range, mut keyed)) = operator.keyed else { continue };
        let write = |group| {
            let mut stream = Vec::new();
            canonical::write_key_group(&mut *keyed.content, group, &mut stream).unwrap();
            (group, stream.into())
        };
        let streams = range.iter().map(write).collect();
        to.keyed.push((keyed.tables, streams));
    }
    saved
}

impl SavedOperator {
    fn share_of(&self, range: KeyGroupRange) -> RestoredOperator {
        let keyed = self.keyed.iter().map(|(tables, streams)| RestoredKeyedState {
            tables: tables.clone(),
            groups: streams
                .range(range.start()..=range.end())
                .map(|(group, stream)| (*group, stream.clone()))
                .collect(),
        });
        let watermark = self.watermark.map_or(Timestamp::MIN, Timestamp::from_raw);
        let (checkpoint, keyed) = (CheckpointId(1), keyed.collect());
        RestoredOperator { checkpoint, keyed, raw_keyed: Vec::new(), operator: Vec::new(), watermark, finished: false }
    }
}

impl ChainOutput for Sent {
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.0.push(Vec::new());
        batch.encode(self.0.last_mut().unwrap())
    }

    fn watermark(&mut self, _: Timestamp) -> Result<(), TaskError> {
        Ok(())
    }
}

// The job.

type Reading = (String, u64);

const WINDOW_MS: i64 = 1_000;
const KEY_GROUPS: u32 = 16;

/// Sums the readings of each sensor in each window of a second.
#[derive(Default)]
struct WindowSum {
    /// End of the window to sum.
    sums: MapState<i64, u64>,
}

impl KeyedProcessFunction<String, Reading> for WindowSum {
    type Out = (String, i64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.sums = cx.keyed_state_store()?.get_map_state(&MapStateDescriptor::new("sums"))?;
        Ok(())
    }

    fn process(
        &mut self,
        (_, value): Reading,
        cx: &mut KeyedContext<'_, String>,
        _: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let end = window_end(cx.timestamp().millis().unwrap_or(0));
        let sum = self.sums.get(cx, &end)?.unwrap_or(0);
        self.sums.put(cx, end, sum + value)?;
        cx.register_event_time_timer(Timestamp::from_millis(end))?;
        Ok(())
    }

    fn on_timer(
        &mut self,
        timestamp: Timestamp,
        cx: &mut KeyedContext<'_, String>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        let end = timestamp.millis().unwrap_or(0);
        let sum = self.sums.get(cx, &end)?.unwrap_or(0);
        self.sums.remove(cx, &end)?;
        out.collect((cx.current_key().clone(), end, sum));
        Ok(())
    }
}

fn job() -> Chain {
    let sensor = ByReference::new(|reading: &Reading| &reading.0);
    let sums = KeyedProcessOperator::<Reading, _, _>::new(sensor, WindowSum::default());
    let rows = FlatMapOperator::new(|(sensor, end, sum): (String, i64, u64), out: &mut Collector<String>| {
        out.collect(format!("{sensor} {end} {sum}"));
        Ok(())
    });
    let uid = |uid: &str| OperatorUid::new(uid).unwrap();
    let operators: [Box<dyn Operator>; 2] = [Box::new(sums), Box::new(rows)];
    Chain::new([uid("sums"), uid("rows")].into_iter().zip(operators).collect())
}

fn max_parallelism() -> MaxParallelism {
    MaxParallelism::new(KEY_GROUPS).unwrap()
}

/// Few records at a time, so that the chain yields in the middle of batches and timers.
fn limits() -> Limits<'static> {
    Limits { records_max: 7, ..Limits::unlimited(Duration::ZERO) }
}

fn window_end(millis: i64) -> i64 {
    millis - millis % WINDOW_MS + WINDOW_MS - 1
}

// The test.

/// The time of reading `i` and the reading: 61 sensors, 100 readings a second.
fn reading(i: u64) -> (i64, Reading) {
    (i as i64 * 10, (format!("sensor {}", i * 7919 % 61), i))
}

/// The batches, as bytes, that bring readings to the subtasks that own their keys.
fn batches(readings: std::ops::Range<u64>, parallelism: u32) -> Vec<(usize, Vec<u8>)> {
    let mut hasher = KeyHasher::default();
    let mut parts: BTreeMap<usize, (Vec<Reading>, Vec<Timestamp>)> = BTreeMap::new();
    for (millis, reading) in readings.map(reading) {
        let group = max_parallelism().group_of(hasher.hash(&reading.0).unwrap());
        let part = parts.entry(max_parallelism().subtask_of(group, parallelism) as usize).or_default();
        part.0.push(reading);
        part.1.push(Timestamp::from_millis(millis));
    }
    let encode = |(subtask, (readings, timestamps))| {
        let mut bytes = Vec::new();
        Batch::new(readings, timestamps).encode(&mut bytes).unwrap();
        (subtask, bytes)
    };
    parts.into_iter().map(encode).collect()
}

fn feed(host: &mut Host, readings: std::ops::Range<u64>) {
    for (subtask, batch) in batches(readings, host.chains.len() as u32) {
        host.receive(subtask, &batch).unwrap();
    }
}

fn rows(sent: &[Vec<u8>]) -> Vec<String> {
    let records = sent.iter().map(|bytes| {
        let batch = decode::<String>(bytes).unwrap().into_any().downcast::<Batch<String>>().unwrap();
        batch.into_content().records
    });
    records.flatten().collect()
}

/// Contract: F128, S330.
#[test]
fn a_chain_is_all_that_a_foreign_host_needs() {
    let mut host = Host::start(2, &Saved::new());
    feed(&mut host, 0..230);
    host.advance(Timestamp::from_millis(1_999)).unwrap();
    feed(&mut host, 230..250);

    // Frozen at reading 250, in the middle of a window; written after the live state has gone on.
    let barrier = Barrier { checkpoint: CheckpointId(1), triggered_at_ms: 0 };
    let frozen = host.chains.iter_mut().map(|chain| chain.freeze(barrier).unwrap()).collect();
    let mut rows_sent = rows(&host.sent.0);
    assert_eq!(rows_sent.len(), 2 * 61, "the first two windows are complete");
    feed(&mut host, 250..500);
    host.advance(Timestamp::MAX).unwrap();
    let saved = save(frozen);
    drop(host);

    let mut host = Host::start(3, &saved);
    for start in (250..1_000).step_by(50) {
        feed(&mut host, start..start + 50);
        host.advance(Timestamp::from_millis((start as i64 + 50) * 10 - 1)).unwrap();
    }
    for chain in &mut host.chains {
        assert!(chain.counts().all(|(_, counts)| counts.records_in > 0), "every subtask has work");
        chain.finish(&limits(), &mut host.sent).unwrap();
    }

    rows_sent.extend(rows(&host.sent.0));
    rows_sent.sort();
    let mut sums: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for (millis, (sensor, value)) in (0..1_000).map(reading) {
        *sums.entry((sensor, window_end(millis))).or_default() += value;
    }
    let expected = sums.into_iter().map(|((sensor, end), sum)| format!("{sensor} {end} {sum}"));
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    for (row, expected) in rows_sent.iter().zip(&expected) {
        assert_eq!(row, expected, "the first row that differs");
    }
    assert_eq!(rows_sent.len(), expected.len());
}
