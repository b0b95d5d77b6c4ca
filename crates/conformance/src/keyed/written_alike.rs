//! Cases: keys, namespaces and map keys that are written as the same bytes.

use highwater_state_api::{
    CheckpointId, KeyHasher, KeyedState, KeyedStateStore, SnapshotRequest, StateError, ValueStateDescriptor, canonical,
};
use serde::{Deserialize, Serialize};

use super::harness::{BackendFactory, all_groups, map, select, value, with_every_cache};

/// Its `note` is not written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Lossy {
    id: u64,
    #[serde(skip)]
    note: u64,
}

/// Is read as it was written.
fn whole(id: u64) -> Lossy {
    Lossy { id, note: 0 }
}

/// Is written as [`whole`] is, and read as that.
fn noted(id: u64) -> Lossy {
    Lossy { id, note: 7 }
}

/// So many that a new one need not be checked at once.
const MANY: u64 = 1_100;

fn try_select(state: &mut KeyedState, key: &Lossy) -> Result<(), StateError> {
    state.set_current_key(key, KeyHasher::default().hash(key)?)
}

/// Whether a snapshot can be taken and written.
fn try_snapshot(state: &mut KeyedState) -> Result<(), StateError> {
    let mut frozen = state.freeze(&SnapshotRequest { checkpoint: CheckpointId(1) })?;
    let mut stream = Vec::new();
    all_groups().iter().try_for_each(|group| canonical::write_key_group(&mut *frozen.content, group, &mut stream))
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StateError>) {
    assert!(
        matches!(outcome, Err(StateError::KeyNotRoundTrip { .. } | StateError::NotRoundTrip { .. })),
        "two that are written alike were taken: {outcome:?}"
    );
}

/// Early ones are refused at once. Later ones are refused when they are used, or a snapshot in which there are two such keys
/// cannot be written: it could not be restored.
pub fn keys_that_are_written_alike_are_in_no_snapshot(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<Lossy>();
        let count = value::<u64>(&mut state, "count");
        try_select(&mut state, &whole(1)).unwrap();
        count.update(&mut state, 1).unwrap();
        assert_refused(try_select(&mut state, &noted(1)));
        for id in 0..MANY {
            try_select(&mut state, &whole(id)).unwrap();
            count.update(&mut state, id).unwrap();
        }
        try_snapshot(&mut state).unwrap();
        let late = try_select(&mut state, &noted(1)).and_then(|()| count.update(&mut state, 7));
        assert_refused(late.and_then(|()| try_snapshot(&mut state)));
        try_select(&mut state, &whole(1)).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
    });
}

/// The same for namespaces.
pub fn namespaces_that_are_written_alike_are_in_no_snapshot(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Lossy>().unwrap();
        let count = store.get_state(&ValueStateDescriptor::<u64>::new("count")).unwrap();
        select(&mut state, &1u64);
        state.set_current_namespace(&whole(1)).unwrap();
        count.update(&mut state, 1).unwrap();
        assert_refused(state.set_current_namespace(&noted(1)));
        for id in 0..MANY {
            state.set_current_namespace(&whole(id)).unwrap();
            count.update(&mut state, id).unwrap();
        }
        try_snapshot(&mut state).unwrap();
        select(&mut state, &1u64);
        let late = state.set_current_namespace(&noted(1)).and_then(|()| count.update(&mut state, 7));
        assert_refused(late.and_then(|()| try_snapshot(&mut state)));
        select(&mut state, &1u64);
        state.set_current_namespace(&whole(1)).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
    });
}

/// The same for the keys of a map, with the name of the state.
pub fn map_keys_that_are_written_alike_are_in_no_snapshot(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<Lossy, u64>(&mut state, "seen");
        select(&mut state, &1u64);
        seen.put(&mut state, whole(1), 1).unwrap();
        assert_refused(seen.put(&mut state, noted(1), 7));
        assert_refused(seen.put_all(&mut state, [(whole(2), 2), (noted(1), 7)]));
        assert_eq!(seen.entries(&mut state).unwrap(), [(whole(1), 1)]);
        seen.put_all(&mut state, (0..MANY).map(|id| (whole(id), id))).unwrap();
        try_snapshot(&mut state).unwrap();
        select(&mut state, &1u64);
        let late = seen.put(&mut state, noted(1), 7).and_then(|()| try_snapshot(&mut state));
        assert!(matches!(&late, Err(StateError::NotRoundTrip { state, .. }) if state == "seen"), "{late:?}");
        select(&mut state, &1u64);
        assert_eq!(seen.get(&mut state, &whole(1)).unwrap(), Some(1));
    });
}
