//! Two operators of one job are started again, each with another parallelism of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use highwater::MemoryCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::{Pace, Paced};
use crate::support::{NEVER, environment, storage, take_checkpoints, wait_until};

const NUMBERS: u64 = 6_000;
const KEYS: u64 = 50;

/// What the subtasks of one operator did in one start.
#[derive(Clone, Default)]
struct Subtasks {
    made: Arc<AtomicU32>,
    keys: Arc<Mutex<BTreeMap<u64, SeenKey>>>,
}

/// What was seen of a key.
struct SeenKey {
    /// The subtasks that had it.
    subtasks: BTreeSet<u32>,
    /// Its count before its first record.
    first: u64,
}

impl Subtasks {
    fn next(&self) -> Counter {
        Counter { subtask: self.made.fetch_add(1, Ordering::SeqCst), all: self.clone(), count: ValueState::default() }
    }

    /// Panics unless there were `parallelism` subtasks, each had keys, and every key was with one of them, which found
    /// its count.
    fn assert_shared_out(&self, parallelism: u32) {
        assert_eq!(self.made.load(Ordering::SeqCst), parallelism);
        let keys = self.keys.lock().unwrap();
        let mut with_keys = BTreeSet::<u32>::new();
        for (key, seen) in keys.iter() {
            assert_eq!(seen.subtasks.len(), 1, "key {key} was with several subtasks");
            assert!(seen.first > 0, "the count of key {key} was not restored");
            with_keys.extend(&seen.subtasks);
        }
        assert_eq!((keys.len() as u64, with_keys.len() as u32), (KEYS, parallelism));
    }
}

/// Counts the records of each key, and puts out the key with the count.
struct Counter {
    subtask: u32,
    all: Subtasks,
    count: ValueState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Counter {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<(u64, u64)>) -> Result<()> {
        let before = self.count.value(cx)?.unwrap_or(0);
        self.count.update(cx, before + 1)?;
        let mut keys = self.all.keys.lock().unwrap();
        let seen = keys.entry(*cx.current_key()).or_insert(SeenKey { subtasks: BTreeSet::new(), first: before });
        seen.subtasks.insert(self.subtask);
        out.collect((*cx.current_key(), before + 1));
        Ok(())
    }
}

/// One start of the job, with a parallelism for each of its two counters; the second counts what the first puts out.
fn describe(
    storage: &Arc<MemoryCheckpointStorage>,
    records: &CollectedRecords<(u64, u64)>,
    pace: Option<Pace>,
    parallelism: [u32; 2],
) -> (StreamExecutionEnvironment, [Subtasks; 2]) {
    let subtasks: [Subtasks; 2] = Default::default();
    let [first, second] = subtasks.clone();
    let env = environment("rescaled-apart", storage.clone());
    let source = SequenceSource::new(0..NUMBERS);
    env.from_source(Paced::new(source, pace))
        .uid("numbers")
        .key_by_value(|number| number % KEYS)
        .process(move || first.next())
        .uid("first")
        .set_parallelism(parallelism[0])
        // So that every subtask of the second counter gets records of every subtask of the first.
        .map(|(key, count)| key + count)
        .key_by_value(|sum| sum % KEYS)
        .process(move || second.next())
        .uid("second")
        .set_parallelism(parallelism[1])
        .sink_to(CollectSink::new(records.clone()))
        .uid("records");
    (env, subtasks)
}

/// Contract: F132.
#[test]
fn from_two_to_three_and_from_three_to_one() {
    let storage = storage();
    let records = CollectedRecords::default();
    let (env, _) = describe(&storage, &records, Some(Pace::up_to(NUMBERS / 2)), [2, 3]);
    env.enable_checkpointing(NEVER);
    let handle = env.execute_async().unwrap();
    let monitor = handle.monitor();
    wait_until("half of the numbers are read", || handle.status().records_read == NUMBERS / 2);
    take_checkpoints(&handle, 1);
    wait_until("some rounds of all keys are committed", || records.len() as u64 > KEYS * 10);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    let last = monitor.status().last_checkpoint;
    assert!((records.len() as u64) < NUMBERS, "the job had finished before it was cancelled");

    let (env, [first, second]) = describe(&storage, &records, None, [3, 1]);
    let result = env.execute().unwrap();
    assert_eq!((result.status.restored_from, result.status.restarts), (last, 0));
    first.assert_shared_out(3);
    second.assert_shared_out(1);

    // Every round of the first counter, one record a key, is a round of the second.
    let expected = (0..KEYS).flat_map(|key| (1..=NUMBERS / KEYS).map(move |count| (key, count)));
    let mut found = records.to_vec();
    found.sort_unstable();
    assert!(found == Vec::from_iter(expected), "the counts are not those of an undisturbed run");
}
