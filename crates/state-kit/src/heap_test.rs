//! Tests of the two ways to take a snapshot of heap state.

use std::cell::Cell;

use highwater_state_api::{
    BincodeSerializer, CheckpointId, FrozenKeyedState, JobName, KeyHasher, KeyedState, KeyedStateStore, MapState,
    MapStateDescriptor, MaxParallelism, OperatorUid, RowSettings, ValueState, ValueStateDescriptor, canonical,
};
use serde::{Deserialize, Serialize};

use super::*;

thread_local! {
    static CLONES: Cell<usize> = const { Cell::new(0) };
}

/// A value that counts how often it is cloned. A page of rows is copied by cloning its cells.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Counted(u64);

impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONES.set(CLONES.get() + 1);
        Self(self.0)
    }
}

fn clones_in(work: impl FnOnce()) -> usize {
    let before = CLONES.get();
    work();
    CLONES.get() - before
}

const KEYS: u64 = 1_000;
const KEY_GROUPS: u32 = 16;

/// Keys with a value and a map each.
struct World {
    state: KeyedState,
    value: ValueState<Counted>,
    map: MapState<u64, Counted>,
}

impl World {
    fn new(backend: HeapStateBackend) -> Self {
        let max_parallelism = MaxParallelism::new(KEY_GROUPS).unwrap();
        let parameters = KeyedBackendParameters {
            job: JobName::new("job").unwrap(),
            operator: OperatorUid::new("operator").unwrap(),
            subtask: 0,
            max_parallelism,
            range: max_parallelism.all(),
        };
        let backend = backend.create_keyed_backend(&parameters).unwrap();
        let settings = RowSettings { cached_rows_max: 0, hash_seed: 7 };
        let serializer = Arc::new(BincodeSerializer::traced());
        let mut state = KeyedState::open::<u64>(backend, &parameters, serializer, settings).unwrap();
        let store: &mut dyn KeyedStateStore = &mut state;
        let value = store.get_state(&ValueStateDescriptor::new("value")).unwrap();
        let map = store.get_map_state(&MapStateDescriptor::new("map")).unwrap();
        let mut world = Self { state, value, map };
        world.write_all(0);
        world
    }

    fn write_all(&mut self, plus: u64) {
        for key in 0..KEYS {
            let state = &mut self.state;
            state.set_current_key(&key, KeyHasher::default().hash(&key).unwrap()).unwrap();
            self.value.update(state, Counted(key + plus)).unwrap();
            self.map.put(state, key % 3, Counted(key + plus)).unwrap();
        }
    }

    fn freeze(&mut self) -> FrozenKeyedState {
        self.state.freeze(&SnapshotRequest { checkpoint: CheckpointId(1) }).unwrap()
    }
}

/// The canonical stream of each key group.
fn bytes(frozen: &mut FrozenKeyedState) -> Vec<Vec<u8>> {
    let groups = MaxParallelism::new(KEY_GROUPS).unwrap().all().iter();
    let streams = groups.map(|group| {
        let mut stream = Vec::new();
        canonical::write_key_group(&mut *frozen.content, group, &mut stream).unwrap();
        stream
    });
    streams.collect()
}

#[test]
fn a_synchronous_snapshot_has_the_bytes_of_an_asynchronous_one() {
    let mut synchronous = World::new(HeapStateBackend::synchronous());
    let mut asynchronous = World::new(HeapStateBackend::new());
    let (mut of_synchronous, mut of_asynchronous) = (synchronous.freeze(), asynchronous.freeze());
    assert_eq!(of_synchronous.tables, of_asynchronous.tables);
    synchronous.write_all(7);
    asynchronous.write_all(7);
    let expected = bytes(&mut of_asynchronous);
    assert!(expected.iter().all(|stream| !stream.is_empty()));
    assert_eq!(bytes(&mut of_synchronous), expected);
    assert_eq!(bytes(&mut of_synchronous), expected, "the bytes are handed out once only");
    assert_ne!(bytes(&mut synchronous.freeze()), expected);
}

#[test]
fn after_a_synchronous_snapshot_no_write_copies_a_page() {
    let mut asynchronous = World::new(HeapStateBackend::new());
    let open = asynchronous.freeze();
    let copied = clones_in(|| asynchronous.write_all(1));
    assert!(copied >= KEYS as usize, "a write beside an open snapshot copies its page, but only {copied} cells were");
    drop(open);

    let mut synchronous = World::new(HeapStateBackend::synchronous());
    let open = synchronous.freeze();
    assert_eq!(clones_in(|| synchronous.write_all(1)), 0);
    drop(open);
}

#[test]
fn only_what_was_left_open_is_taken_from_the_cluster() {
    let mut notices = ConfigNotices::default();
    let synchronous = Configuration::from([("state.backend.async", "false")]);
    let open = HeapStateBackend::new();
    let configured = open.configure(&synchronous, &mut notices).unwrap();
    assert!(format!("{configured:?}").contains("asynchronous: Some(false)"), "{configured:?}");
    assert!(open.configure(&Configuration::new(), &mut notices).unwrap().is_none());
    for set in [HeapStateBackend::synchronous(), open.with_asynchronous_snapshots(true)] {
        assert!(set.configure(&synchronous, &mut notices).unwrap().is_none());
    }
    let wrong = Configuration::from([("state.backend.async", "maybe")]);
    let error = open.configure(&wrong, &mut notices).unwrap_err();
    assert_eq!(error.to_string(), r#"state.backend.async: "maybe" is not valid; expected true or false"#);
    assert!(notices.is_empty());
}

#[test]
fn the_factory_reads_how_snapshots_are_taken() {
    for (configuration, asynchronous) in [
        (Configuration::new(), true),
        (Configuration::from([("state.backend.async", "true")]), true),
        (Configuration::from([("state.backend.async", "FALSE")]), false),
    ] {
        let made = HeapStateBackendFactory.create_from_config(&configuration, &mut ConfigNotices::default()).unwrap();
        assert_eq!(made.name(), "hashmap");
        assert!(format!("{made:?}").contains(&format!("asynchronous: Some({asynchronous})")), "{made:?}");
    }
}
