//! Timers fire once, in order of time, for the key that set them, and survive a restore.

use std::sync::Arc;

use highwater_state_api::{
    BincodeSerializer, CheckpointId, JobName, KeyHasher, KeyedBackendParameters, KeyedState, MaxParallelism,
    OperatorUid, RowSettings, SnapshotRequest, StateBackend, canonical,
};
use highwater_state_kit::HeapStateBackend;
use highwater_stream_api::{TimerRegistry, Timestamp};

use super::EventTimeTimers;

struct Fixture {
    state: KeyedState,
    timers: EventTimeTimers<String>,
}

fn state(subtask: u32, parallelism: u32) -> KeyedState {
    let max_parallelism = MaxParallelism::new(16).unwrap();
    let parameters = KeyedBackendParameters {
        job: JobName::new("job").unwrap(),
        operator: OperatorUid::new("operator").unwrap(),
        subtask,
        max_parallelism,
        range: max_parallelism.range_of(subtask, parallelism),
    };
    let backend = HeapStateBackend::new().create_keyed_backend(&parameters).unwrap();
    let settings = RowSettings { cached_rows_max: 0, hash_seed: 7 };
    KeyedState::open::<String>(backend, &parameters, Arc::new(BincodeSerializer::traced()), settings).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let mut state = state(0, 1);
        let timers = EventTimeTimers::open(&mut state).unwrap();
        Self { state, timers }
    }

    fn key(&mut self, key: &str) -> &mut Self {
        let key = key.to_owned();
        let hash = KeyHasher::default().hash(&key).unwrap();
        self.state.set_current_key(&key, hash).unwrap();
        self
    }

    fn register(&mut self, time: i64) -> &mut Self {
        self.timers.register(&mut self.state, Timestamp::from_millis(time)).unwrap();
        self
    }

    fn delete(&mut self, time: i64) -> &mut Self {
        self.timers.delete(&mut self.state, Timestamp::from_millis(time)).unwrap();
        self
    }

    /// What fires when event time comes to `watermark`.
    fn fire(&mut self, watermark: i64) -> Vec<(i64, String)> {
        let mut fired = Vec::new();
        while let Some(time) = self.timers.pop(Timestamp::from_millis(watermark), &mut self.state).unwrap() {
            fired.push((time.millis().unwrap(), self.state.current_key::<String>().unwrap().clone()));
        }
        self.state.end_batch().unwrap();
        fired
    }
}

fn of(key: &str, times: &[i64]) -> Vec<(i64, String)> {
    times.iter().map(|time| (*time, key.to_owned())).collect()
}

/// Contract: S328.
#[test]
fn timers_fire_in_order_up_to_the_watermark() {
    let mut fixture = Fixture::new();
    fixture.key("a").register(5).register(3).register(9);
    assert_eq!(fixture.fire(2), []);
    assert_eq!(fixture.fire(6), of("a", &[3, 5]));
    assert_eq!(fixture.fire(9), of("a", &[9]));
    assert_eq!(fixture.fire(i64::MAX), []);
}

/// Contract: S327.
#[test]
fn a_timer_that_is_registered_twice_fires_once() {
    let mut fixture = Fixture::new();
    fixture.key("a").register(5).register(5).key("b").register(5).key("a").register(5);
    let mut fired = fixture.fire(5);
    fired.sort();
    assert_eq!(fired, [of("a", &[5]), of("b", &[5])].concat());
}

/// Contract: S327.
#[test]
fn a_deleted_timer_does_not_fire_and_a_new_one_in_its_place_does() {
    let mut fixture = Fixture::new();
    fixture.key("a").register(5).delete(5).delete(6).key("b").register(5);
    assert_eq!(fixture.fire(5), of("b", &[5]));
    fixture.key("a").register(8).delete(8).register(8);
    assert_eq!(fixture.fire(8), of("a", &[8]));
}

#[test]
fn a_deleted_timer_is_forgotten() {
    let mut fixture = Fixture::new();
    fixture.key("a").register(1_000_000);
    // A time-out that every record puts off.
    for time in 0..1_000 {
        fixture.delete(1_000_000 + time).register(1_000_001 + time).register(7).delete(7);
    }
    assert_eq!(fixture.timers.queued(), 1);
    assert_eq!(fixture.fire(i64::MAX), of("a", &[1_001_000]));
    assert_eq!(fixture.timers.queued(), 0);
}

/// Contract: F129, S330.
#[test]
fn timers_are_restored_to_the_subtask_that_owns_their_key() {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let mut fixture = Fixture::new();
    for (time, key) in (1..).zip(keys) {
        fixture.key(key).register(time).register(100).delete(100);
    }
    let mut frozen = fixture.state.freeze(&SnapshotRequest { checkpoint: CheckpointId(1) }).unwrap();
    // What happens after the snapshot is not part of it.
    fixture.key("a").delete(1).register(50);

    let max_parallelism = MaxParallelism::new(16).unwrap();
    let mut fired = Vec::new();
    for subtask in 0..3 {
        let mut state = state(subtask, 3);
        for group in max_parallelism.range_of(subtask, 3).iter() {
            let mut stream = Vec::new();
            canonical::write_key_group(&mut *frozen.content, group, &mut stream).unwrap();
            state.restore_key_group(&frozen.tables, group, stream.into()).unwrap();
        }
        let timers = EventTimeTimers::open(&mut state).unwrap();
        fired.extend(Fixture { state, timers }.fire(i64::MAX));
    }
    fired.sort();
    let expected: Vec<(i64, String)> = (1..).zip(keys).map(|(time, key)| (time, key.to_owned())).collect();
    assert_eq!(fired, expected);
}
