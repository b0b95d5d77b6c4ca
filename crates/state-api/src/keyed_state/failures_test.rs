//! What is left when something fails in the middle: a call of the backend, a function, a registration, a restore.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::KeyedState;
use crate::rows::column::{ListColumn, MapColumn};
use crate::rows::fixture_test::{
    EVERY_WAY, Held, TreeBackend, Written, all, groups, hash, open, open_on, request, store,
};
use crate::{
    BincodeSerializer, KeyGroup, KeyedStateStore, ListState, ListStateDescriptor, MapStateDescriptor,
    ReducingStateDescriptor, Serializer, StateError, ValueState, ValueStateDescriptor,
};

fn select(state: &mut KeyedState, key: u32) -> Result<(), StateError> {
    state.set_current_key(&key, hash(&key))
}

fn count(state: &mut KeyedState) -> ValueState<u32> {
    store(state).get_state(&ValueStateDescriptor::new("count")).unwrap()
}

fn in_windows(state: &mut KeyedState) -> ListState<u32> {
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
    store.get_list_state(&ListStateDescriptor::new("windows")).unwrap()
}

/// Uses every kind of state in every way; errors end it.
fn use_everything(state: &mut KeyedState) -> Result<(), StateError> {
    let count = count(state);
    let list = store(state).get_list_state(&ListStateDescriptor::<u32>::new("list"))?;
    let map = store(state).get_map_state(&MapStateDescriptor::<u32, u32>::new("map"))?;
    let sum = ReducingStateDescriptor::new("sum", |one: &u32, other: u32| one + other);
    let sum = store(state).get_reducing_state(&sum)?;
    let windows = in_windows(state);
    for round in 0..40u32 {
        for key in [round % 2, 7] {
            select(state, key)?;
            count.modify(state, |count| *count.get_or_insert_default() += 1)?;
            list.add(state, round)?;
            map.put(state, round % 5, round)?;
            sum.add(state, round)?;
            state.set_current_namespace(&u64::from(round % 3))?;
            windows.add(state, round)?;
        }
        match round % 8 {
            1 => list.update(state, [round])?,
            2 => map.clear(state)?,
            3 => map.retain(state, |map_key, _| map_key % 2 == 0)?,
            4 => windows.merge_namespaces(state, &1u64, &[0, 2])?,
            5 => state.apply_to_all_keys(sum.slot(), &(), |state, _: &u32| sum.add(state, 1))?,
            6 => assert_eq!(list.is_empty(state)?, list.get(state)?.is_empty()),
            7 => list.clear(state)?,
            _ => {}
        }
        state.end_batch()?;
    }
    // A list in many chunks is written anew once it was read.
    for element in 0..40 {
        select(state, 9)?;
        list.add(state, element)?;
        state.end_batch()?;
    }
    select(state, 9)?;
    list.get(state)?;
    state.end_batch()
}

#[test]
fn after_a_call_of_the_backend_has_failed_no_snapshot_is_taken() {
    for cached_rows_max in [0, 3, 1_000] {
        let mut calls = 0;
        loop {
            calls += 1;
            let backend = TreeBackend::default();
            let to_failure = backend.calls_to_failure.clone();
            let mut state = open_on::<u32>(Box::new(backend), cached_rows_max, all());
            to_failure.store(calls, Ordering::Relaxed);
            // User code may swallow the error; the next calls succeed.
            let used = use_everything(&mut state);
            let frozen = state.freeze(&request());
            if to_failure.load(Ordering::Relaxed) > 0 {
                used.unwrap();
                frozen.unwrap();
                break;
            }
            assert!(used.is_err() || frozen.is_err(), "call {calls} failed, and nobody heard of it");
            assert!(frozen.is_err(), "a snapshot was taken after call {calls} had failed");
            assert!(matches!(state.freeze(&request()), Err(StateError::Failed)), "and after one that failed");
        }
        assert!(calls > 20, "only {calls} calls with {cached_rows_max} rows");
    }
}

#[test]
fn nothing_is_current_after_a_key_was_refused() {
    let own = groups().range_of(0, 2);
    let is_own = |key: &u32| own.contains(groups().group_of(hash(key)));
    let mine = (0u32..).find(is_own).unwrap();
    let foreign = (0u32..).find(|key| !is_own(key)).unwrap();
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, own);
        let windows = in_windows(&mut state);
        select(&mut state, mine).unwrap();
        state.set_current_namespace(&7u64).unwrap();
        windows.add(&mut state, 1).unwrap();
        assert!(matches!(select(&mut state, foreign), Err(StateError::ForeignKeyGroup { .. })));
        assert!(matches!(windows.add(&mut state, 99), Err(StateError::NoCurrentKey { .. })));
        assert!(matches!(state.set_current_namespace(&7u64), Err(StateError::NoKey)));
        select(&mut state, mine).unwrap();
        state.set_current_namespace(&7u64).unwrap();
        assert_eq!(windows.get(&mut state).unwrap(), [1]);
    }
}

#[test]
fn a_record_that_is_not_in_the_batch_is_an_error() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let keys = [1u32, 2];
        state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
        state.select(0).unwrap();
        select(&mut state, 9).unwrap();
        assert!(matches!(state.select(1), Err(StateError::NotInBatch { index: 1, length: 0 })));
        assert_eq!(state.current_key::<u32>().unwrap(), &9);
    }
}

#[test]
fn the_key_that_was_current_is_current_again_also_after_a_failure() {
    let backend = TreeBackend::default();
    let to_failure = backend.calls_to_failure.clone();
    let mut state = open_on::<u32>(Box::new(backend), 2, all());
    let count = count(&mut state);
    for key in 0..3 {
        select(&mut state, key).unwrap();
        count.update(&mut state, key).unwrap();
    }
    state.end_batch().unwrap();
    let heard = Arc::new(Mutex::new(None));
    let hear = heard.clone();
    state.register_key_listener(move |key: &u32| *hear.lock().unwrap() = Some(*key)).unwrap();
    let keys = [0u32, 1];
    state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
    state.select(0).unwrap();
    let outcome = state.apply_to_all_keys(count.slot(), &(), |state, _: &u32| {
        to_failure.store(1, Ordering::Relaxed);
        count.value(state).map(|_| ())
    });
    assert!(matches!(outcome, Err(StateError::Backend(_))), "{outcome:?}");
    assert_eq!(state.current_key::<u32>().unwrap(), &0);
    assert_eq!(*heard.lock().unwrap(), Some(0), "a listener knows which key is current");
    state.select(1).unwrap();
    assert_eq!(state.current_key::<u32>().unwrap(), &1);
}

/// The error of a caller may be of another type.
#[test]
fn an_error_of_the_caller_ends_a_call_for_all_keys() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, 1).unwrap();
    count.update(&mut state, 1).unwrap();
    let outcome: Result<(), crate::BoxedError> =
        state.apply_to_all_keys(count.slot(), &(), |_, _: &u32| Err("enough".into()));
    assert_eq!(outcome.unwrap_err().to_string(), "enough");
}

#[test]
fn namespaces_of_one_type_have_one_schema() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        in_windows(&mut state);
        let opaque: Arc<dyn Serializer<u64>> = Arc::new(BincodeSerializer::opaque("window", 2));
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces_with(opaque).unwrap();
        match store.get_state(&ValueStateDescriptor::<u32>::new("other")) {
            Err(StateError::OtherSchema { state, part: "namespace", .. }) => assert_eq!(state, "other"),
            other => panic!("one namespace was written in two ways: {other:?}"),
        }
        let names: Vec<String> = state.rows.metas().into_iter().map(|meta| meta.name).collect();
        assert_eq!(names, ["windows"]);
    }
}

#[test]
fn a_registration_that_is_refused_makes_no_namespaces_known() {
    let mut state = open::<u32>(Held::Heap, all());
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
    assert!(matches!(store.get_state(&ValueStateDescriptor::<u32>::new(" ")), Err(StateError::BlankName { .. })));
    select(&mut state, 1).unwrap();
    let error = state.set_current_namespace(&1u64).unwrap_err();
    assert_eq!(error.to_string(), "no state is in namespaces of type u64");
}

#[test]
fn a_damaged_stream_is_damaged_whatever_holds_the_state() {
    let mut state = open::<u32>(Held::Heap, all());
    let handle = count(&mut state);
    select(&mut state, 1).unwrap();
    handle.update(&mut state, 5).unwrap();
    let written = Written::of(state.freeze(&request()).unwrap());
    let (group, stream) = written.groups.first_key_value().unwrap();
    let other = KeyGroup((group + 1) % 16);
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let moved = state.restore_key_group(&written.tables, other, stream.clone());
        let moved = moved.and_then(|()| store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")));
        assert!(matches!(moved, Err(StateError::Damaged(_))), "{held:?}: a key in a group of others: {moved:?}");

        let mut state = open::<u32>(held, all());
        written.restore_into(&mut state, all()).unwrap();
        let twice = written.restore_into(&mut state, all());
        assert!(matches!(twice, Err(StateError::Damaged(_))), "{held:?}: restored twice: {twice:?}");
    }
}

#[test]
fn a_value_that_is_in_a_stream_twice_is_damage() {
    let mut state = open::<u32>(Held::Heap, all());
    let handle = count(&mut state);
    select(&mut state, 1).unwrap();
    handle.update(&mut state, 5).unwrap();
    let written = Written::of(state.freeze(&request()).unwrap());
    let (group, stream) = written.groups.first_key_value().unwrap();
    let mut twice = stream.to_vec();
    twice.extend_from_slice(&stream[10..]);
    let length = (twice.len() - 10) as u64;
    twice[2..10].copy_from_slice(&length.to_le_bytes());
    let mut state = open::<u32>(Held::Heap, all());
    let read = state.restore_key_group(&written.tables, KeyGroup(*group), twice.into());
    let read = read.and_then(|()| store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")));
    assert!(matches!(read, Err(StateError::Damaged(_))), "{read:?}");
}

/// Every key is looked at, not only the first of a stream.
#[test]
fn a_key_of_another_group_behind_one_of_the_right_group_is_damage() {
    let mut state = open::<u32>(Held::Heap, all());
    let handle = count(&mut state);
    for key in 0..8 {
        select(&mut state, key).unwrap();
        handle.update(&mut state, key).unwrap();
    }
    let written = Written::of(state.freeze(&request()).unwrap());
    let mut groups = written.groups.iter();
    let (Some((group, first)), Some((_, second))) = (groups.next(), groups.next()) else { panic!("one group only") };
    // One section with the entries of both: its header is the table and a length.
    let mut mixed = first.to_vec();
    mixed.extend_from_slice(&second[10..]);
    let length = (mixed.len() - 10) as u64;
    mixed[2..10].copy_from_slice(&length.to_le_bytes());
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let read = state.restore_key_group(&written.tables, KeyGroup(*group), mixed.clone().into());
        let read = read.and_then(|()| store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")));
        assert!(matches!(read, Err(StateError::Damaged(_))), "{held:?}: {read:?}");
    }
}

#[test]
fn a_chunk_whose_position_is_out_of_range_is_damage() {
    let mut state = open::<u32>(Held::Heap, all());
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
    select(&mut state, 1).unwrap();
    list.add_all(&mut state, [10, 11]).unwrap();
    let written = Written::of(state.freeze(&request()).unwrap());
    for (position, is_good) in [(5u64, true), ((1 << 62) - 1, true), (1 << 62, false), (u64::MAX, false)] {
        let mut written = written.clone();
        for stream in written.groups.values_mut() {
            let mut bytes = stream.to_vec();
            let at = bytes.windows(9).position(|window| window == [8, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
            bytes[at + 1..at + 9].copy_from_slice(&position.to_be_bytes());
            *stream = bytes.into();
        }
        for held in EVERY_WAY {
            let mut state = open::<u32>(held, all());
            let read = written.restore_into(&mut state, all()).and_then(|()| {
                let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list"))?;
                select(&mut state, 1)?;
                list.add(&mut state, 12)?;
                state.freeze(&request())?;
                list.get(&mut state)
            });
            match read {
                Ok(read) if is_good => assert_eq!(read, [10, 11, 12], "{position}, {held:?}"),
                Err(StateError::Damaged(_)) if !is_good => {}
                other => panic!("{position}, {held:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_may_have_to_be_written_is_listed_once() {
    let mut state = open_on::<u32>(Box::<TreeBackend>::default(), 1_000_000, all());
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
    let map = store(&mut state).get_map_state(&MapStateDescriptor::<u32, u32>::new("map")).unwrap();
    for _ in 0..1_000 {
        select(&mut state, 1).unwrap();
        list.add(&mut state, 1).unwrap();
        list.clear(&mut state).unwrap();
        map.put(&mut state, 1, 1).unwrap();
        map.clear(&mut state).unwrap();
    }
    let tables = &mut state.rows.tables;
    assert_eq!(tables[0].typed_column::<ListColumn<u32>>().unwrap().listed_rows(), 1);
    assert_eq!(tables[1].typed_column::<MapColumn<u32, u32>>().unwrap().listed_rows(), 1);
}

#[test]
fn elements_count_toward_the_bound_of_the_cache() {
    let backend = TreeBackend::default();
    let mut state = open_on::<u32>(Box::new(backend), 100, all());
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
    for element in 0..10_000u32 {
        select(&mut state, 1).unwrap();
        list.add(&mut state, element).unwrap();
        assert!(state.rows.cached_rows() <= 102, "{} rows are cached", state.rows.cached_rows());
    }
    select(&mut state, 1).unwrap();
    assert_eq!(list.get(&mut state).unwrap(), Vec::from_iter(0..10_000));
}

#[test]
fn an_operator_without_records_does_not_pile_up_what_snapshots_left() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, 1).unwrap();
    count.update(&mut state, 1).unwrap();
    state.end_batch().unwrap();
    for _ in 0..100 {
        drop(state.freeze(&request()).unwrap());
    }
    assert!(!state.rows.fold() || !state.rows.fold(), "there is more than one snapshot left to fold back");
}

/// Writes itself in a way in which two of it are the same, or that cannot be read again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
struct Odd {
    #[serde(with = "tens")]
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<u32>,
}

mod tens {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        (number / 10).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Ok(u64::deserialize(deserializer)? * 10)
    }
}

#[test]
fn a_key_or_namespace_that_is_read_as_another_is_refused() {
    let good = Odd { number: 20, tenant: Some(1) };
    for bad in [Odd { number: 21, tenant: Some(1) }, Odd { number: 20, tenant: None }] {
        for held in EVERY_WAY {
            let mut state = open::<Odd>(held, all());
            let count = store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
            state.set_current_key(&good, hash(&good)).unwrap();
            count.update(&mut state, 1).unwrap();
            let refused = state.set_current_key(&bad, hash(&bad));
            assert!(matches!(refused, Err(StateError::KeyNotRoundTrip { what: "key", .. })), "{bad:?}: {refused:?}");

            let mut state = open::<u32>(held, all());
            let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Odd>().unwrap();
            let count = store.get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
            select(&mut state, 1).unwrap();
            state.set_current_namespace(&good).unwrap();
            count.update(&mut state, 1).unwrap();
            let refused = state.set_current_namespace(&bad);
            assert!(matches!(refused, Err(StateError::KeyNotRoundTrip { what: "namespace", .. })), "{refused:?}");
            assert_eq!(count.value(&mut state).unwrap(), Some(1));

            let mut state = open::<u32>(held, all());
            let map = super::failures_test::store(&mut state)
                .get_map_state(&MapStateDescriptor::<Odd, u32>::new("map"))
                .unwrap();
            select(&mut state, 1).unwrap();
            let refused = map.put(&mut state, bad.clone(), 1);
            assert!(matches!(refused, Err(StateError::NotRoundTrip { .. })), "{refused:?}");
            assert!(map.is_empty(&mut state).unwrap());
        }
    }
}

#[test]
fn the_names_of_the_runtime_are_refused() {
    let mut state = open::<u32>(Held::Heap, all());
    let timers = MapStateDescriptor::<i64, ()>::new("_timer_state/event_user-timers");
    let refused = store(&mut state).get_map_state(&timers);
    assert!(matches!(refused, Err(StateError::ReservedName { .. })), "{refused:?}");
    state.reserved_map_state(&timers).unwrap();
    assert!(store(&mut state).get_map_state(&timers).is_err());
}

#[test]
fn what_a_closure_changed_before_it_panicked_is_written() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let count = count(&mut state);
        select(&mut state, 1).unwrap();
        count.update(&mut state, 1).unwrap();
        drop(state.freeze(&request()).unwrap());
        select(&mut state, 1).unwrap();
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            count.modify(&mut state, |count| {
                *count = Some(1_000);
                panic!("after the change");
            })
        }));
        assert!(changed.is_err());
        let live = count.value(&mut state).unwrap();
        let mut restored = Written::of(state.freeze(&request()).unwrap()).reopen::<u32>(held);
        let count = super::failures_test::count(&mut restored);
        select(&mut restored, 1).unwrap();
        assert_eq!(count.value(&mut restored).unwrap(), live, "{held:?}");
    }
}

#[test]
fn merging_the_only_namespace_of_a_type_changes_nothing() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let list = store(&mut state).get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
        select(&mut state, 1).unwrap();
        list.add(&mut state, 1).unwrap();
        list.merge_namespaces(&mut state, &(), &[(), ()]).unwrap();
        assert_eq!(list.get(&mut state).unwrap(), [1]);
    }
}
