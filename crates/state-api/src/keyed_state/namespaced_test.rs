//! The rows of namespaces: when they are made, given back and forgotten.

use super::KeyedState;
use crate::rows::fixture_test::{EVERY_WAY, Held, all, hash, open, store};
use crate::{
    KeyedStateStore, ListStateDescriptor, ReducingStateDescriptor, StateError, ValueState, ValueStateDescriptor,
};

fn in_windows(state: &mut KeyedState, name: &str) -> ValueState<u32> {
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
    store.get_state(&ValueStateDescriptor::new(name)).unwrap()
}

fn select(state: &mut KeyedState, key: u32, window: u64) {
    state.set_current_key(&key, hash(&key)).unwrap();
    state.set_current_namespace(&window).unwrap();
}

fn rows(state: &KeyedState) -> (usize, usize) {
    (state.rows.keys.column.len(), state.rows.namespaces[0].rows.len())
}

#[test]
fn rows_of_namespaces_without_state_are_given_back_with_their_keys() {
    let mut state = open::<u32>(Held::Heap, all());
    let (count, other) = (in_windows(&mut state, "count"), in_windows(&mut state, "other"));
    let total = store(&mut state).get_state(&ValueStateDescriptor::<u32>::new("total")).unwrap();
    for key in 0..10 {
        for window in 0..3 {
            select(&mut state, key, window);
            count.update(&mut state, key).unwrap();
        }
    }
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (10, 30));
    // Looking is not having.
    for key in 0..20 {
        select(&mut state, key, 7);
        assert_eq!(count.value(&mut state).unwrap(), None);
    }
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (10, 30));
    for key in 0..10 {
        select(&mut state, key, 0);
        count.clear(&mut state).unwrap();
        select(&mut state, key, 1);
        other.update(&mut state, 1).unwrap();
        count.clear(&mut state).unwrap();
    }
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (10, 20));
    for key in 0..10 {
        select(&mut state, key, 1);
        other.clear(&mut state).unwrap();
        select(&mut state, key, 2);
        count.clear(&mut state).unwrap();
        if key == 3 {
            total.update(&mut state, 1).unwrap();
        }
    }
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (1, 0));
    select(&mut state, 3, 2);
    assert_eq!((total.value(&mut state).unwrap(), count.value(&mut state).unwrap()), (Some(1), None));
}

#[test]
fn a_row_that_has_only_an_accumulator_or_a_list_is_kept_until_that_is_cleared() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = in_windows(&mut state, "count");
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
    let sum = ReducingStateDescriptor::new("sum", |one: &u32, other: u32| one + other);
    let sum = store.get_reducing_state(&sum).unwrap();
    let list = store.get_list_state(&ListStateDescriptor::<u32>::new("list")).unwrap();
    select(&mut state, 1, 0);
    sum.add(&mut state, 5).unwrap();
    select(&mut state, 1, 1);
    list.add(&mut state, 5).unwrap();
    // Only where something was cleared is a row looked at.
    for window in 0..2 {
        select(&mut state, 1, window);
        count.update(&mut state, 1).unwrap();
        count.clear(&mut state).unwrap();
    }
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (1, 2));
    select(&mut state, 1, 0);
    assert_eq!(sum.get(&mut state).unwrap(), Some(5));
    sum.clear(&mut state).unwrap();
    select(&mut state, 1, 1);
    assert_eq!(list.get(&mut state).unwrap(), [5]);
    list.clear(&mut state).unwrap();
    state.end_batch().unwrap();
    assert_eq!(rows(&state), (0, 0));
}

#[test]
fn rows_of_namespaces_count_toward_the_bound_of_the_cache() {
    let mut state = open::<u32>(Held::Bytes { cached_rows_max: 20 }, all());
    let count = in_windows(&mut state, "count");
    for key in 0..100 {
        select(&mut state, key, 1);
        count.update(&mut state, key).unwrap();
        let (keys, windows) = rows(&state);
        assert!(keys + windows <= 22, "{keys} keys and {windows} windows");
    }
    for key in 0..100 {
        select(&mut state, key, 1);
        assert_eq!(count.value(&mut state).unwrap(), Some(key));
    }
}

#[test]
fn two_types_of_one_schema_are_two_kinds_of_namespaces() {
    #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
    struct Session(u64);

    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        in_windows(&mut state, "count");
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Session>().unwrap();
        match store.get_state(&ValueStateDescriptor::<u32>::new("count")) {
            Err(StateError::OtherType { state }) => assert_eq!(state, "count"),
            Err(StateError::OtherSchema { part: "namespace", .. }) => {}
            other => panic!("a session was taken for a window: {other:?}"),
        }
    }
}

#[test]
fn state_in_namespaces_of_unit_is_state_in_none() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let descriptor = ValueStateDescriptor::<u32>::new("count");
        let plain = store(&mut state).get_state(&descriptor).unwrap();
        let namespaced: &mut dyn KeyedStateStore = &mut state.in_namespaces::<()>().unwrap();
        let of_unit = namespaced.get_state(&descriptor).unwrap();
        state.set_current_key(&1u32, hash(&1u32)).unwrap();
        plain.update(&mut state, 5).unwrap();
        state.set_current_namespace(&()).unwrap();
        assert_eq!(of_unit.value(&mut state).unwrap(), Some(5));
    }
}
