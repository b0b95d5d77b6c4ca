//! Types whose serialisation loses something, cannot be read, or panics: what is refused when, and what no snapshot has.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::KeyedState;
use crate::rows::fixture_test::{EVERY_WAY, Held, Written, all, groups, hash, open, request, store};
use crate::{
    FrozenKeyedState, Key, KeyedStateStore, ListStateDescriptor, MapState, MapStateDescriptor, ReducingStateDescriptor,
    StateError, ValueState, ValueStateDescriptor,
};

fn select<K: Key>(state: &mut KeyedState, key: &K) -> Result<(), StateError> {
    state.set_current_key(key, hash(key))
}

fn count(state: &mut KeyedState) -> ValueState<u32> {
    store(state).get_state(&ValueStateDescriptor::new("count")).unwrap()
}

fn written(mut frozen: FrozenKeyedState) -> Result<(), StateError> {
    all().iter().try_for_each(|group| frozen.content.visit_key_group(group, &mut |_| Ok(())))
}

/// Its `note` is not written: two that differ in it alone are written as the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Lossy {
    id: u32,
    #[serde(skip)]
    note: u32,
}

impl Lossy {
    fn good(id: u32) -> Self {
        Self { id, note: 0 }
    }

    fn bad(id: u32) -> Self {
        Self { id, note: 7 }
    }
}

fn lossy_map(state: &mut KeyedState) -> MapState<Lossy, u32> {
    store(state).get_map_state(&MapStateDescriptor::new("map")).unwrap()
}

#[track_caller]
fn assert_map_key_refused(outcome: Result<(), StateError>) {
    match outcome {
        Err(error @ StateError::NotRoundTrip { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with("state \"map\": ") && text.contains("written as the same bytes"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_map_key_that_is_read_as_another_one_is_refused() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let map = lossy_map(&mut state);
        select(&mut state, &1u32).unwrap();
        // However often the others are put.
        (0..6_000).for_each(|round| map.put(&mut state, Lossy::good(1), round).unwrap());
        assert_map_key_refused(map.put(&mut state, Lossy::bad(1), 1));
        assert_map_key_refused(map.put_all(&mut state, [(Lossy::good(2), 1), (Lossy::bad(1), 1)]));
        assert_eq!(map.entries(&mut state).unwrap(), [(Lossy::good(1), 5_999)], "{held:?}");
    }
}

#[test]
fn map_keys_that_are_written_as_the_same_bytes_make_no_snapshot() {
    for held in EVERY_WAY {
        for is_one_call in [false, true] {
            let mut state = open::<u32>(held, all());
            let map = lossy_map(&mut state);
            select(&mut state, &1u32).unwrap();
            map.put_all(&mut state, (0..2_000).map(|id| (Lossy::good(id), id))).unwrap();
            // It is not the turn of this one.
            let put = match is_one_call {
                true => map.put_all(&mut state, [(Lossy::bad(1), 1)]),
                false => map.put(&mut state, Lossy::bad(1), 1),
            };
            // In bytes they would be one already.
            if held != Held::Heap {
                assert_map_key_refused(put);
                assert_map_key_refused(map.get(&mut state, &Lossy::bad(1)).map(|_| ()));
                assert_map_key_refused(map.remove(&mut state, &Lossy::bad(1)));
                assert_eq!(map.entries(&mut state).unwrap().len(), 2_000);
                continue;
            }
            put.unwrap();
            assert_map_key_refused(written(state.freeze(&request()).unwrap()));
            map.remove(&mut state, &Lossy::bad(1)).unwrap();
            let mut restored = Written::of(state.freeze(&request()).unwrap()).reopen::<u32>(held);
            let map = lossy_map(&mut restored);
            select(&mut restored, &1u32).unwrap();
            assert_eq!(map.entries(&mut restored).unwrap().len(), 2_000);
        }
    }
}

/// Counts how often it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct Counted(u32);

thread_local! {
    static WRITES: Cell<u32> = const { Cell::new(0) };
}

impl Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITES.set(WRITES.get() + 1);
        self.0.serialize(serializer)
    }
}

#[test]
fn a_map_key_that_a_cache_knows_is_not_checked_again() {
    for held in EVERY_WAY.into_iter().filter(|held| *held != Held::Heap) {
        let mut state = open::<u32>(held, all());
        let map = store(&mut state).get_map_state(&MapStateDescriptor::<Counted, u32>::new("map")).unwrap();
        select(&mut state, &1u32).unwrap();
        WRITES.set(0);
        map.put_all(&mut state, [(Counted(1), 1)]).unwrap();
        assert_ne!(WRITES.take(), 0, "{held:?}");
        map.put_all(&mut state, [(Counted(1), 2)]).unwrap();
        map.put(&mut state, Counted(1), 3).unwrap();
        assert_eq!(WRITES.take(), 0, "{held:?}");
    }
}

/// On the heap nothing else writes.
#[test]
fn after_the_first_1_024_the_next_is_not_checked_in_whatever_calls_they_came() {
    let mut state = open::<u32>(Held::Heap, all());
    let value = store(&mut state).get_state(&ValueStateDescriptor::<Counted>::new("value")).unwrap();
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<Counted>::new("list")).unwrap();
    let map = store(&mut state).get_map_state(&MapStateDescriptor::<u32, Counted>::new("map")).unwrap();
    let map_keys = store(&mut state).get_map_state(&MapStateDescriptor::<Counted, u32>::new("map keys")).unwrap();
    select(&mut state, &1u32).unwrap();
    for number in 0..1_024 {
        WRITES.set(0);
        value.update(&mut state, Counted(number)).unwrap();
        assert_ne!(WRITES.take(), 0, "value {number}");
        list.add(&mut state, Counted(number)).unwrap();
        assert_ne!(WRITES.take(), 0, "element {number}");
        map.put(&mut state, number, Counted(number)).unwrap();
        assert_ne!(WRITES.take(), 0, "value {number} of the map");
        map_keys.put(&mut state, Counted(number), number).unwrap();
        assert_ne!(WRITES.take(), 0, "map key {number}");
    }
    value.update(&mut state, Counted(1)).unwrap();
    value.modify(&mut state, |value| *value = Some(Counted(2))).unwrap();
    list.add_all(&mut state, [Counted(1), Counted(2)]).unwrap();
    map.put(&mut state, 2_000, Counted(1)).unwrap();
    map_keys.put_all(&mut state, [(Counted(2_000), 1)]).unwrap();
    assert_eq!(WRITES.take(), 0);
}

#[test]
fn of_later_changes_in_place_one_in_4_096_is_checked() {
    let mut state = open::<u32>(Held::Heap, all());
    let value = store(&mut state).get_state(&ValueStateDescriptor::<Counted>::new("value")).unwrap();
    select(&mut state, &1u32).unwrap();
    let mut checked = Vec::new();
    for number in 0..6_000 {
        WRITES.set(0);
        value.modify(&mut state, |value| *value = Some(Counted(number))).unwrap();
        if WRITES.take() > 0 {
            checked.push(number);
        }
    }
    assert_eq!(checked, Vec::from_iter((0..1_024).chain([1_023 + 4_096])));
}

/// Equals itself when it is read, but is written in another way each time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "(u32, u32)")]
struct Restless(u32);

impl From<(u32, u32)> for Restless {
    fn from((id, _): (u32, u32)) -> Self {
        Self(id)
    }
}

impl Serialize for Restless {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITES.set(WRITES.get() + 1);
        (self.0, WRITES.get()).serialize(serializer)
    }
}

#[test]
fn a_map_key_that_is_written_in_two_ways_is_refused() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let map = store(&mut state).get_map_state(&MapStateDescriptor::<Restless, u32>::new("map")).unwrap();
        select(&mut state, &1u32).unwrap();
        let error = map.put(&mut state, Restless(1), 1).unwrap_err();
        assert!(matches!(&error, StateError::NotRoundTrip { state, .. } if state == "map"), "{error}");
        assert!(error.to_string().contains("equal values must write equal bytes"), "{error}");
        assert!(map.is_empty(&mut state).unwrap(), "{held:?}");
    }
}

#[track_caller]
fn assert_key_refused(which: &str, outcome: Result<(), StateError>) {
    match outcome {
        Err(error @ StateError::KeyNotRoundTrip { what, .. }) => {
            assert_eq!(what, which);
            assert!(error.to_string().contains("two keys written as the same bytes"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_that_are_written_as_the_same_bytes_make_no_snapshot() {
    for held in EVERY_WAY {
        let mut state = open::<Lossy>(held, all());
        let count = count(&mut state);
        for id in 0..1_100 {
            select(&mut state, &Lossy::good(id)).unwrap();
            count.update(&mut state, id).unwrap();
        }
        // It is not the turn of this one.
        let selected = select(&mut state, &Lossy::bad(1));
        if held != Held::Heap {
            assert_key_refused("key", selected);
            select(&mut state, &Lossy::good(1)).unwrap();
            assert_eq!(count.value(&mut state).unwrap(), Some(1), "{held:?}");
            continue;
        }
        selected.unwrap();
        count.update(&mut state, 7).unwrap();
        assert_key_refused("key", written(state.freeze(&request()).unwrap()));
        // Once it is gone, there are snapshots again.
        count.clear(&mut state).unwrap();
        state.end_batch().unwrap();
        written(state.freeze(&request()).unwrap()).unwrap();
    }
}

#[test]
fn namespaces_that_are_written_as_the_same_bytes_make_no_snapshot() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Lossy>().unwrap();
        let count = store.get_state(&ValueStateDescriptor::<u32>::new("count")).unwrap();
        select(&mut state, &1u32).unwrap();
        for id in 0..1_100 {
            state.set_current_namespace(&Lossy::good(id)).unwrap();
            count.update(&mut state, id).unwrap();
        }
        let selected = state.set_current_namespace(&Lossy::bad(1));
        if held != Held::Heap {
            assert_key_refused("namespace", selected);
            continue;
        }
        selected.unwrap();
        count.update(&mut state, 7).unwrap();
        assert_key_refused("namespace", written(state.freeze(&request()).unwrap()));
    }
}

/// Its `note` is left out when there is none, which no format reads that does not name its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LeavesOut {
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    note: Option<u32>,
}

impl LeavesOut {
    fn good() -> Self {
        Self { number: 1, note: Some(1) }
    }

    fn bad() -> Self {
        Self { number: 1, note: None }
    }
}

#[test]
fn a_field_that_is_left_out_is_refused_with_a_hint_at_it() {
    let mut state = open::<u32>(Held::Heap, all());
    let notes = store(&mut state).get_state(&ValueStateDescriptor::<LeavesOut>::new("notes")).unwrap();
    select(&mut state, &1u32).unwrap();
    let error = notes.update(&mut state, LeavesOut::bad()).unwrap_err();
    assert!(matches!(error, StateError::NotRoundTrip { .. }), "{error}");
    assert!(error.to_string().contains("skip_serializing_if"), "{error}");
    assert!(!error.to_string().contains("HashMap"), "{error}");
}

/// Contract: A7, A8, A13, A21.
#[test]
fn a_value_that_cannot_be_read_is_refused_although_the_ones_before_it_could() {
    let is_refused = |outcome: Result<(), StateError>, name: &str| {
        assert!(
            matches!(&outcome, Err(StateError::NotRoundTrip { state, .. }) if state == name),
            "{name}: {outcome:?}"
        );
    };
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let value = store(&mut state).get_state(&ValueStateDescriptor::<LeavesOut>::new("value")).unwrap();
        let list = store(&mut state).get_list_state(&ListStateDescriptor::<LeavesOut>::new("list")).unwrap();
        let map = store(&mut state).get_map_state(&MapStateDescriptor::<u32, LeavesOut>::new("map")).unwrap();
        let latest = ReducingStateDescriptor::new("latest", |_: &LeavesOut, latest| latest);
        let latest = store(&mut state).get_reducing_state(&latest).unwrap();
        select(&mut state, &1u32).unwrap();
        for round in 0..50u32 {
            value.update(&mut state, LeavesOut::good()).unwrap();
            list.add(&mut state, LeavesOut::good()).unwrap();
            map.put(&mut state, round, LeavesOut::good()).unwrap();
            latest.add(&mut state, LeavesOut::good()).unwrap();
        }
        is_refused(value.update(&mut state, LeavesOut::bad()), "value");
        is_refused(value.modify(&mut state, |value| *value = Some(LeavesOut::bad())), "value");
        is_refused(list.add(&mut state, LeavesOut::bad()), "list");
        is_refused(list.add_all(&mut state, [LeavesOut::good(), LeavesOut::bad()]), "list");
        is_refused(list.update(&mut state, [LeavesOut::good(), LeavesOut::bad()]), "list");
        is_refused(map.put(&mut state, 1, LeavesOut::bad()), "map");
        is_refused(map.put_all(&mut state, [(50, LeavesOut::good()), (51, LeavesOut::bad())]), "map");
        is_refused(latest.add(&mut state, LeavesOut::bad()), "latest");
        assert_eq!(list.get(&mut state).unwrap(), vec![LeavesOut::good(); 50], "{held:?}");
        assert_eq!(latest.get(&mut state).unwrap(), Some(LeavesOut::good()), "{held:?}");
        assert_eq!(map.entries(&mut state).unwrap().len(), 50, "{held:?}");
    }
}

/// Contract: A8.
/// A call that is refused is refused again, wherever in it the bad one stands.
#[test]
fn a_call_that_is_refused_does_not_count() {
    let mut state = open::<u32>(Held::Heap, all());
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<LeavesOut>::new("list")).unwrap();
    let map = store(&mut state).get_map_state(&MapStateDescriptor::<u32, LeavesOut>::new("map")).unwrap();
    select(&mut state, &1u32).unwrap();
    let elements = || (0..1_024 + 4_095).map(|_| LeavesOut::good()).chain([LeavesOut::bad()]);
    for _ in 0..3 {
        let refused = list.add_all(&mut state, elements());
        assert!(matches!(refused, Err(StateError::NotRoundTrip { .. })), "{refused:?}");
        let refused = map.put_all(&mut state, (0..).zip(elements()));
        assert!(matches!(refused, Err(StateError::NotRoundTrip { .. })), "{refused:?}");
    }
    assert!(list.is_empty(&mut state).unwrap() && map.is_empty(&mut state).unwrap());
}

/// Panics when it is written on another thread than that of the test, as a snapshot is; 0 does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct PanicsInSnapshots(u32);

impl Serialize for PanicsInSnapshots {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 == 0 || std::thread::current().name() != Some("snapshot"), "boom");
        self.0.serialize(serializer)
    }
}

fn written_elsewhere(frozen: FrozenKeyedState) -> Result<(), StateError> {
    let write = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || written(frozen)).unwrap();
    write.join().expect("the panic is an error")
}

#[test]
fn a_serializer_that_panics_in_a_snapshot_is_an_error_that_names_the_state() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    let grumpy = ValueStateDescriptor::<PanicsInSnapshots>::new("grumpy").opaque_schema("panics", 1);
    let grumpy = store(&mut state).get_state(&grumpy).unwrap();
    select(&mut state, &1u32).unwrap();
    count.update(&mut state, 1).unwrap();
    grumpy.update(&mut state, PanicsInSnapshots(1)).unwrap();
    let error = written_elsewhere(state.freeze(&request()).unwrap()).unwrap_err();
    let expected = "a snapshot could not be written: a serializer of state \"grumpy\" panicked: boom";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_serializer_that_panics_is_blamed_after_entries_that_were_visited_too() {
    for values in [[0, 1], [1, 0]] {
        let mut state = open::<u32>(Held::Heap, all());
        let grumpy = MapStateDescriptor::<u32, PanicsInSnapshots>::new("grumpy").opaque_value_schema("panics", 1);
        let grumpy = store(&mut state).get_map_state(&grumpy).unwrap();
        select(&mut state, &1u32).unwrap();
        grumpy.put_all(&mut state, (0..).zip(values.map(PanicsInSnapshots))).unwrap();
        let error = written_elsewhere(state.freeze(&request()).unwrap()).unwrap_err();
        let expected = "a snapshot could not be written: a serializer of state \"grumpy\" panicked: boom";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_serializer_of_keys_that_panics_is_an_error_that_blames_no_state() {
    let mut state = open::<PanicsInSnapshots>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, &PanicsInSnapshots(1)).unwrap();
    count.update(&mut state, 1).unwrap();
    let error = written_elsewhere(state.freeze(&request()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "a snapshot could not be written: the serializer of the keys panicked: boom");
}

#[test]
fn a_visitor_that_panics_is_an_error_that_blames_no_serializer() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, &1u32).unwrap();
    count.update(&mut state, 1).unwrap();
    let mut frozen = state.freeze(&request()).unwrap();
    let group = groups().group_of(hash(&1u32));
    let error = frozen.content.visit_key_group(group, &mut |_| panic!("no disk")).unwrap_err();
    let expected = "a snapshot could not be written: the visitor of state \"count\" panicked: no disk";
    assert_eq!(error.to_string(), expected);
}
