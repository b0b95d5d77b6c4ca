//! What heap state costs in memory: for each key, for a freeze, and while a snapshot is open. Counted, not timed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use highwater::MemoryStateBackend;
use highwater::state::{
    BackendPairing, BincodeSerializer, CheckpointId, FrozenKeyedState, JobName, KeyHash, KeyHasher,
    KeyedBackendParameters, KeyedState, KeyedStateStore, MaxParallelism, OperatorUid, RowSettings, SnapshotRequest,
    StateBackend, ValueState, ValueStateDescriptor,
};

const KEYS: u64 = 1_000_000;
const BATCH: usize = 1_024;
const MIB: u64 = 1 << 20;
const BYTES_A_KEY_MAX: u64 = 64;

/// A state of `u64` keys and values in which no key is yet.
fn empty() -> (KeyedState, ValueState<u64>) {
    let max_parallelism = MaxParallelism::new(128).unwrap();
    let parameters = KeyedBackendParameters {
        job: JobName::new("memory").unwrap(),
        operator: OperatorUid::new("operator").unwrap(),
        subtask: 0,
        max_parallelism,
        range: max_parallelism.all(),
    };
    let pairing = BackendPairing::from(MemoryStateBackend::new());
    let backend = pairing.state_backend.create_keyed_backend(&parameters).unwrap();
    let settings = RowSettings { cached_rows_max: 0, hash_seed: 7 };
    let mut state =
        KeyedState::open::<u64>(backend, &parameters, Arc::new(BincodeSerializer::traced()), settings).unwrap();
    let store: &mut dyn KeyedStateStore = &mut state;
    let count = store.get_state(&ValueStateDescriptor::new("count")).unwrap();
    (state, count)
}

/// Adds one to the values of some keys, in batches, as a task does.
fn add(state: &mut KeyedState, count: ValueState<u64>, keys: impl Iterator<Item = u64>) {
    let mut hasher = KeyHasher::default();
    let keys: Vec<(u64, KeyHash)> = keys.map(|key| (key, hasher.hash(&key).unwrap())).collect();
    for batch in keys.chunks(BATCH) {
        state.resolve_batch(batch.iter().map(|(key, hash)| (key, *hash))).unwrap();
        for index in 0..batch.len() {
            state.select(index).unwrap();
            count.modify(state, |count| *count.get_or_insert_default() += 1).unwrap();
        }
        state.end_batch().unwrap();
    }
}

fn full() -> (KeyedState, ValueState<u64>) {
    let (mut state, count) = empty();
    add(&mut state, count, 0..KEYS);
    (state, count)
}

fn freeze(state: &mut KeyedState) -> FrozenKeyedState {
    state.freeze(&SnapshotRequest { checkpoint: CheckpointId(1) }).unwrap()
}

fn kept(info: AllocationInfo) -> u64 {
    u64::try_from(info.bytes_current).unwrap()
}

#[test]
fn a_key_costs_at_most_64_bytes_and_twice_that_while_a_snapshot_is_open() {
    let mut state = None;
    let without = kept(measure(|| state = Some(full()))) / KEYS;
    let (mut state, count) = state.unwrap();
    assert!(without <= BYTES_A_KEY_MAX, "a key costs {without} bytes");

    // The worst case: every value is changed while the snapshot is open.
    let mut frozen = None;
    let more = measure(|| {
        frozen = Some(freeze(&mut state));
        add(&mut state, count, 0..KEYS);
    });
    let with = without + kept(more) / KEYS;
    assert!(with <= 2 * BYTES_A_KEY_MAX, "a key costs {with} bytes while a snapshot is open");
    eprintln!("a key costs {without} bytes, {with} while a snapshot is open and everything changes");
    drop(black_box(frozen));
}

#[test]
fn a_freeze_of_a_million_keys_allocates_less_than_a_mebibyte() {
    let (mut state, count) = full();
    for round in 0..3 {
        let mut frozen = None;
        let freezing = measure(|| frozen = Some(freeze(&mut state)));
        assert!(freezing.bytes_total < MIB, "freeze {round} allocated {} bytes", freezing.bytes_total);

        // What a freeze does not copy is copied by the first write to a page of 64 cells, and by no later one.
        let first = measure(|| add(&mut state, count, 0..1));
        let again = measure(|| add(&mut state, count, 0..1));
        assert!(first.bytes_total > again.bytes_total, "the first write copied nothing");
        assert!(first.bytes_total < 64 * BYTES_A_KEY_MAX + again.bytes_total, "{} bytes", first.bytes_total);
        eprintln!("freeze {round} allocated {} bytes, the first write {}", freezing.bytes_total, first.bytes_total);
        drop(frozen);
        for _ in 0..100 {
            state.end_batch().unwrap();
        }
    }
}
