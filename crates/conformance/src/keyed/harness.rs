//! What the keyed cases share: opening, selecting keys, taking snapshots and restoring them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use highwater_state_api::{
    BackendPairing, BincodeSerializer, CheckpointId, FrozenKeyedState, JobName, Key, KeyGroup, KeyGroupRange,
    KeyHasher, KeyedBackendParameters, KeyedState, KeyedStateBackend, KeyedStateStore, ListState, ListStateDescriptor,
    MapState, MapStateDescriptor, MaxParallelism, OperatorUid, ReducingState, ReducingStateDescriptor, RowSettings,
    SnapshotRequest, State, StateBackend, StateError, TableMeta, ValueState, ValueStateDescriptor, canonical,
};
use serde::{Deserialize, Serialize, Serializer};

use crate::{FaultyBackend, Outage};

/// A state backend on which a case is run. Made from any [`StateBackend`].
pub struct BackendUnderTest {
    backend: Arc<dyn StateBackend>,
    set_outage: Option<Box<dyn Fn(bool)>>,
}

impl<B: StateBackend + 'static> From<B> for BackendUnderTest {
    fn from(backend: B) -> Self {
        Self { backend: Arc::new(backend), set_outage: None }
    }
}

impl fmt::Debug for BackendUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendUnderTest").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl BackendUnderTest {
    /// The state backend of a pairing, as a job gets it.
    pub fn of(pairing: impl Into<BackendPairing>) -> Self {
        Self { backend: pairing.into().state_backend, set_outage: None }
    }

    /// Makes the cases about failures possible: `set_outage(true)` makes what lies beneath the backend fail, its disk
    /// for instance, for every keyed backend that it has made and is going to make; `set_outage(false)` puts it right.
    ///
    /// It is called between calls of the backend and in the middle of scans, by the visitor.
    pub fn with_outage(mut self, set_outage: impl Fn(bool) + 'static) -> Self {
        self.set_outage = Some(Box::new(set_outage));
        self
    }

    /// A backend behind a [`FaultyBackend`], with that one's outages.
    pub fn behind_faults(backend: impl StateBackend + 'static) -> Self {
        let outage = Outage::default();
        Self::from(FaultyBackend::new(backend, outage.clone())).with_outage(move |lasts| outage.set(lasts))
    }

    pub(super) fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        self.backend.create_keyed_backend(parameters)
    }

    /// An empty state of some key groups.
    pub(super) fn open_state<K: Key>(&self, range: KeyGroupRange, cached_rows_max: usize) -> KeyedState {
        let parameters = parameters(range);
        let backend = self.create_keyed_backend(&parameters).unwrap();
        let settings = RowSettings { cached_rows_max, hash_seed: 7 };
        KeyedState::open::<K>(backend, &parameters, Arc::new(BincodeSerializer::traced()), settings).unwrap()
    }

    pub(super) fn outage(&self) -> Option<&dyn Fn(bool)> {
        self.set_outage.as_deref()
    }
}

/// Makes a new state backend; called at least once by every case.
pub type BackendFactory<'f> = &'f dyn Fn() -> BackendUnderTest;

/// A case: panics when the backend breaks the contract.
pub type KeyedCase = fn(BackendFactory<'_>);

/// Key groups of the job in all cases.
const KEY_GROUPS: u32 = 16;

/// Rows that the write-back cache holds: off, so small that it is emptied in the middle of everything, and never full.
const CACHED_ROWS: [usize; 3] = [0, 3, 100_000];

/// A backend under test, with one setting of the cache.
pub(super) struct Bench<'f> {
    factory: BackendFactory<'f>,
    cached_rows_max: usize,
}

/// Runs a case with every setting of the cache.
pub(super) fn with_every_cache(factory: BackendFactory<'_>, case: impl Fn(&Bench<'_>)) {
    for cached_rows_max in CACHED_ROWS {
        case(&Bench { factory, cached_rows_max });
    }
}

pub(super) fn max_parallelism() -> MaxParallelism {
    MaxParallelism::new(KEY_GROUPS).unwrap()
}

pub(super) fn all_groups() -> KeyGroupRange {
    max_parallelism().all()
}

pub(super) fn parameters(range: KeyGroupRange) -> KeyedBackendParameters {
    KeyedBackendParameters {
        job: JobName::new("conformance").unwrap(),
        operator: OperatorUid::new("operator").unwrap(),
        subtask: 0,
        max_parallelism: max_parallelism(),
        range,
    }
}

/// The group that a key belongs to.
pub(super) fn group_of<K: Key>(key: &K) -> KeyGroup {
    max_parallelism().group_of(KeyHasher::default().hash(key).unwrap())
}

impl<'f> Bench<'f> {
    pub(super) fn new(factory: BackendFactory<'f>, cached_rows_max: usize) -> Self {
        Self { factory, cached_rows_max }
    }

    /// An empty state of all key groups.
    pub(super) fn open<K: Key>(&self) -> KeyedState {
        self.open_range::<K>(all_groups())
    }

    pub(super) fn open_range<K: Key>(&self, range: KeyGroupRange) -> KeyedState {
        (self.factory)().open_state::<K>(range, self.cached_rows_max)
    }

    /// A state of all key groups that goes on from a snapshot.
    pub(super) fn restored<K: Key>(&self, snapshot: &Snapshot) -> KeyedState {
        self.restored_range::<K>(all_groups(), &[snapshot])
    }

    /// A state of some key groups that goes on from what snapshots have of them.
    pub(super) fn restored_range<K: Key>(&self, range: KeyGroupRange, snapshots: &[&Snapshot]) -> KeyedState {
        let mut state = self.open_range::<K>(range);
        for snapshot in snapshots {
            snapshot.restore(&mut state, range).unwrap();
        }
        state
    }
}

/// Makes a key current.
#[track_caller]
pub(super) fn select<K: Key>(state: &mut KeyedState, key: &K) {
    state.set_current_key(key, KeyHasher::default().hash(key).unwrap()).unwrap();
}

/// A handle on a value state.
#[track_caller]
pub(super) fn value<T: State>(state: &mut KeyedState, name: &str) -> ValueState<T> {
    try_value(state, name).unwrap()
}

pub(super) fn try_value<T: State>(state: &mut KeyedState, name: &str) -> Result<ValueState<T>, StateError> {
    let store: &mut dyn KeyedStateStore = state;
    store.get_state(&ValueStateDescriptor::new(name))
}

/// A handle on a map state.
#[track_caller]
pub(super) fn map<UK: Key, UV: State>(state: &mut KeyedState, name: &str) -> MapState<UK, UV> {
    try_map(state, name).unwrap()
}

pub(super) fn try_map<UK: Key, UV: State>(state: &mut KeyedState, name: &str) -> Result<MapState<UK, UV>, StateError> {
    let store: &mut dyn KeyedStateStore = state;
    store.get_map_state(&MapStateDescriptor::new(name))
}

/// The typed methods of a state as a store.
pub(super) fn store(state: &mut KeyedState) -> &mut dyn KeyedStateStore {
    state
}

/// A handle on a list state.
#[track_caller]
pub(super) fn list<T: State>(state: &mut KeyedState, name: &str) -> ListState<T> {
    store(state).get_list_state(&ListStateDescriptor::new(name)).unwrap()
}

/// A handle on a reducing state that adds numbers.
#[track_caller]
pub(super) fn sum(state: &mut KeyedState, name: &str) -> ReducingState<u64> {
    store(state).get_reducing_state(&ReducingStateDescriptor::new(name, |one: &u64, other: u64| one + other)).unwrap()
}

/// A value that can be read, and written unless it is the bad one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub(super) struct Unwritable(u64);

impl Unwritable {
    pub(super) fn good(number: u64) -> Self {
        assert_ne!(number, u64::MAX, "this is the bad one");
        Self(number)
    }

    pub(super) fn bad() -> Self {
        Self(u64::MAX)
    }
}

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::bad() {
            return Err(serde::ser::Error::custom("the bad value is not written"));
        }
        serializer.serialize_newtype_struct("Unwritable", &self.0)
    }
}

/// A state with what `fill` puts under key 1, restored, so that the next write of every state is one that is checked.
pub(super) fn unwritable_after_restore(bench: &Bench<'_>, fill: impl Fn(&mut KeyedState)) -> KeyedState {
    let mut state = bench.open::<u64>();
    select(&mut state, &1u64);
    fill(&mut state);
    bench.restored::<u64>(&Snapshot::of(&mut state))
}

#[track_caller]
pub(super) fn assert_unwritable(expected: &str, outcome: Result<(), StateError>) {
    match outcome {
        Err(StateError::Serializer { state, .. } | StateError::NotRoundTrip { state, .. }) => {
            assert_eq!(state, expected);
        }
        other => panic!("a value that cannot be written was taken by {expected:?}: {other:?}"),
    }
}

/// Takes a snapshot and leaves it open.
pub(super) fn freeze(state: &mut KeyedState, checkpoint: u64) -> FrozenKeyedState {
    state.freeze(&SnapshotRequest { checkpoint: CheckpointId(checkpoint) }).unwrap()
}

/// A snapshot as it was written: the canonical stream of each key group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    pub(super) tables: Vec<TableMeta>,
    pub(super) groups: BTreeMap<KeyGroup, Bytes>,
}

/// Name of the state, key group, key, namespace, map key.
pub(super) type EntryAddress = (String, KeyGroup, Vec<u8>, Vec<u8>, Vec<u8>);

impl Snapshot {
    /// Takes a snapshot of a state of all key groups and writes it.
    pub(super) fn of(state: &mut KeyedState) -> Self {
        Self::written(&mut freeze(state, 1), all_groups())
    }

    /// Writes an open snapshot.
    pub(super) fn written(frozen: &mut FrozenKeyedState, range: KeyGroupRange) -> Self {
        let mut groups = BTreeMap::new();
        for group in range.iter() {
            let stream = write_group(frozen, group);
            if !stream.is_empty() {
                groups.insert(group, stream);
            }
        }
        Self { tables: frozen.tables.clone(), groups }
    }

    /// Restores the key groups of a range.
    pub(super) fn restore(&self, state: &mut KeyedState, range: KeyGroupRange) -> Result<(), StateError> {
        state.restore_tables(&self.tables)?;
        for (group, stream) in self.groups.iter().filter(|(group, _)| range.contains(**group)) {
            state.restore_key_group(&self.tables, *group, stream.clone())?;
        }
        Ok(())
    }

    /// The entries, each of which is there once, in sections that are in order.
    pub(super) fn entries(&self) -> BTreeMap<EntryAddress, Vec<u8>> {
        let mut entries = BTreeMap::new();
        for (group, stream) in &self.groups {
            for section in canonical::sections(stream.clone()).unwrap() {
                let name = &self.tables[usize::from(section.table.0)].name;
                let visited = section.visit(section.table, *group, &mut |entry| {
                    let [key, namespace, map_key] =
                        [entry.at.key, entry.at.namespace, entry.at.map_key].map(<[u8]>::to_vec);
                    let address = (name.clone(), *group, key, namespace, map_key);
                    let twice = entries.insert(address, entry.value.to_vec());
                    assert!(twice.is_none(), "an entry of {name:?} is in the snapshot twice: {:?}", entry.at);
                    Ok(())
                });
                visited.unwrap();
            }
        }
        entries
    }
}

/// Writes one group of an open snapshot.
pub(super) fn write_group(frozen: &mut FrozenKeyedState, group: KeyGroup) -> Bytes {
    let mut stream = Vec::new();
    canonical::write_key_group(&mut *frozen.content, group, &mut stream).unwrap();
    stream.into()
}

/// The values of keys `0..count` in a value state named `name`.
pub(super) fn values(state: &mut KeyedState, name: &str, count: u64) -> Vec<Option<u64>> {
    let handle = value::<u64>(state, name);
    let read = |key| {
        select(state, &key);
        handle.value(state).unwrap()
    };
    (0..count).map(read).collect()
}

/// Sets the value of keys `0..count` in a value state named `name` to ten times the key plus `plus`.
pub(super) fn set_values(state: &mut KeyedState, name: &str, count: u64, plus: u64) {
    let handle = value::<u64>(state, name);
    for key in 0..count {
        select(state, &key);
        handle.update(state, key * 10 + plus).unwrap();
    }
}

/// What [`values`] reads after [`set_values`].
pub(super) fn expected_values(count: u64, plus: u64) -> Vec<Option<u64>> {
    (0..count).map(|key| Some(key * 10 + plus)).collect()
}
