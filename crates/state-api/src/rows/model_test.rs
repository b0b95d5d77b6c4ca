//! Random use of keyed state, over snapshots and changes of parallelism, against a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::fixture_test::{EVERY_WAY, Held, OwnedAt, Written, groups, hash, open, request, store};
use crate::{
    BincodeSerializer, FrozenKeyedState, KeyGroupRange, KeyedState, MapState, MapStateDescriptor, Serializer, TableId,
    ValueState, ValueStateDescriptor,
};

/// What is done with the state of one key.
#[derive(Debug, Clone)]
enum Call {
    Set(u16),
    Add(u16),
    TakeOut,
    Clear,
    Get,
    Put(String, String),
    Remove(String),
    GetEntry(String),
    Entries,
    IsEmpty,
    ClearMap,
}

/// What is done with the operator.
#[derive(Debug, Clone)]
enum Step {
    /// Calls under keys that are resolved together.
    Batch(Vec<(String, Call)>),
    /// A call under a key on its own.
    Single(String, Call),
    Freeze,
    Read(prop::sample::Index),
    Drop(prop::sample::Index),
    EveryMapEntry,
    /// A failure: what was taken last is restored at this parallelism, held this way.
    Restore(u32, Held),
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    values: BTreeMap<String, u16>,
    maps: BTreeMap<(String, String), String>,
}

struct Subtask {
    range: KeyGroupRange,
    state: KeyedState,
    /// Registered at their first use, so that states also stay dormant.
    value: ValueState<u16>,
    map: MapState<String, String>,
}

impl Subtask {
    fn all(held: Held, parallelism: u32) -> Vec<Self> {
        let subtask = |subtask| {
            let range = groups().range_of(subtask, parallelism);
            Self { range, state: open::<String>(held, range), value: ValueState::default(), map: MapState::default() }
        };
        (0..parallelism).map(subtask).collect()
    }

    fn register(&mut self, call: &Call) {
        let store = store(&mut self.state);
        match call {
            Call::Set(_) | Call::Add(_) | Call::TakeOut | Call::Clear | Call::Get => {
                self.value = store.get_state(&ValueStateDescriptor::new("value")).unwrap();
            }
            _ => self.map = store.get_map_state(&MapStateDescriptor::new("map")).unwrap(),
        }
    }

    /// Does a call under the current key, and the same to the model.
    fn call(&mut self, key: &str, call: &Call, model: &mut Model) {
        let (value, map, state) = (self.value, self.map, &mut self.state);
        let own = |map_key: &String| (key.to_owned(), map_key.clone());
        match call {
            Call::Set(number) => {
                value.update(state, *number).unwrap();
                model.values.insert(key.to_owned(), *number);
            }
            Call::Add(number) => {
                let add = |value: &mut Option<u16>| {
                    let sum = value.unwrap_or(1).wrapping_add(*number);
                    *value = Some(sum);
                    sum
                };
                let expected = add(&mut model.values.get(key).copied());
                model.values.insert(key.to_owned(), expected);
                assert_eq!(value.modify(state, add).unwrap(), expected);
            }
            Call::TakeOut => assert_eq!(value.modify(state, Option::take).unwrap(), model.values.remove(key)),
            Call::Clear => {
                value.clear(state).unwrap();
                model.values.remove(key);
            }
            Call::Get => assert_eq!(value.value(state).unwrap().as_ref(), model.values.get(key)),
            Call::Put(map_key, text) => {
                map.put(state, map_key.clone(), text.clone()).unwrap();
                model.maps.insert(own(map_key), text.clone());
            }
            Call::Remove(map_key) => {
                map.remove(state, map_key).unwrap();
                model.maps.remove(&own(map_key));
            }
            Call::GetEntry(map_key) => {
                assert_eq!(map.get(state, map_key).unwrap().as_ref(), model.maps.get(&own(map_key)));
                assert_eq!(map.contains(state, map_key).unwrap(), model.maps.contains_key(&own(map_key)));
            }
            Call::Entries => {
                let mut entries = map.entries(state).unwrap();
                entries.sort();
                let expected = model.maps.iter().filter(|((of, _), _)| of == key);
                assert_eq!(
                    entries,
                    Vec::from_iter(expected.map(|((_, map_key), text)| (map_key.clone(), text.clone())))
                );
            }
            Call::IsEmpty => {
                assert_eq!(map.is_empty(state).unwrap(), !model.maps.keys().any(|(of, _)| of == key));
            }
            Call::ClearMap => {
                map.clear(state).unwrap();
                model.maps.retain(|(of, _), _| of != key);
            }
        }
    }
}

/// The entries that a snapshot of the model has.
fn expected_entries(model: &Model) -> BTreeMap<(String, OwnedAt), Vec<u8>> {
    fn bytes<T: crate::State>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        BincodeSerializer::traced().serialize(value, &mut out).unwrap();
        out
    }
    let at = |key: &String, map_key: Vec<u8>| OwnedAt {
        table: TableId(0),
        group: groups().group_of(hash(key)),
        key: bytes(key),
        namespace: Vec::new(),
        map_key,
    };
    let values = model.values.iter().map(|(key, value)| (("value".to_owned(), at(key, Vec::new())), bytes(value)));
    let maps = model.maps.iter();
    let maps = maps.map(|((key, map_key), text)| (("map".to_owned(), at(key, bytes(map_key))), bytes(text)));
    values.chain(maps).collect()
}

/// A snapshot of all subtasks that has not been read yet, and what the model was.
type Open = (Vec<FrozenKeyedState>, Model);

fn read((subtasks, model): Open) -> (Vec<Written>, Model) {
    let written: Vec<Written> = subtasks.into_iter().map(Written::of).collect();
    let mut found = BTreeMap::new();
    for entries in written.iter().map(Written::entries) {
        let before = found.len() + entries.len();
        found.extend(entries);
        assert_eq!(found.len(), before, "two subtasks have the same entry");
    }
    assert_eq!(found, expected_entries(&model));
    (written, model)
}

fn run(held: Held, parallelism: u32, steps: Vec<Step>) {
    let mut subtasks = Subtask::all(held, parallelism);
    let mut model = Model::default();
    let mut open: Vec<Open> = Vec::new();
    let mut last: (Vec<Written>, Model) = Default::default();
    for step in steps {
        match step {
            Step::Batch(calls) => {
                for subtask in &mut subtasks {
                    let mut calls = calls.clone();
                    calls.retain(|(key, _)| subtask.range.contains(groups().group_of(hash(key))));
                    calls.iter().for_each(|(_, call)| subtask.register(call));
                    let keys: Vec<_> = calls.iter().map(|(key, _)| (key, hash(key))).collect();
                    subtask.state.resolve_batch(keys.iter().copied()).unwrap();
                    for (index, (key, call)) in calls.iter().enumerate() {
                        subtask.state.select(index);
                        subtask.call(key, call, &mut model);
                    }
                    subtask.state.end_batch().unwrap();
                }
            }
            Step::Single(key, call) => {
                let hash = hash(&key);
                let owner = subtasks.iter_mut().find(|subtask| subtask.range.contains(groups().group_of(hash)));
                let owner = owner.unwrap();
                owner.register(&call);
                owner.state.set_current_key(&key, hash).unwrap();
                owner.call(&key, &call, &mut model);
            }
            Step::Freeze => {
                let frozen = subtasks.iter_mut().map(|subtask| subtask.state.freeze(&request()).unwrap()).collect();
                open.push((frozen, model.clone()));
            }
            Step::Read(which) if !open.is_empty() => last = read(open.remove(which.index(open.len()))),
            Step::Drop(which) if !open.is_empty() => drop(open.remove(which.index(open.len()))),
            Step::Read(_) | Step::Drop(_) => {}
            Step::EveryMapEntry => {
                let mut found = BTreeMap::new();
                for subtask in &mut subtasks {
                    subtask.register(&Call::Entries);
                    let map = subtask.map;
                    let visit = |key: &String, of: crate::KeyHash, map_key: &String, text: &String| {
                        assert_eq!(of, hash(key));
                        assert_eq!(found.insert((key.clone(), map_key.clone()), text.clone()), None);
                    };
                    subtask.state.for_each_map_entry(&map, visit).unwrap();
                }
                assert_eq!(found, model.maps);
            }
            Step::Restore(parallelism, held) => {
                subtasks = Subtask::all(held, parallelism);
                for subtask in &mut subtasks {
                    for written in &last.0 {
                        written.restore_into(&mut subtask.state, subtask.range).unwrap();
                    }
                }
                model = last.1.clone();
            }
        }
    }
    open.into_iter().for_each(|open| drop(read(open)));
}

fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "k", "k1", "k1x", "\0", "\0\u{ff}", "a", "b", "c", "d"]).prop_map(String::from)
}

fn map_keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "1", "1x", "x", "\0", "\u{ff}"]).prop_map(String::from)
}

fn calls() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => (0..3u16).prop_map(Call::Set),
        3 => (0..3u16).prop_map(Call::Add),
        1 => Just(Call::TakeOut),
        1 => Just(Call::Clear),
        2 => Just(Call::Get),
        6 => (map_keys(), map_keys()).prop_map(|(map_key, text)| Call::Put(map_key, text)),
        2 => map_keys().prop_map(Call::Remove),
        2 => map_keys().prop_map(Call::GetEntry),
        1 => Just(Call::Entries),
        1 => Just(Call::IsEmpty),
        1 => Just(Call::ClearMap),
    ]
}

fn ways() -> impl Strategy<Value = Held> {
    prop::sample::select(EVERY_WAY.to_vec())
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((keys(), calls()), 0..12).prop_map(Step::Batch),
        6 => (keys(), calls()).prop_map(|(key, call)| Step::Single(key, call)),
        3 => Just(Step::Freeze),
        2 => any::<prop::sample::Index>().prop_map(Step::Read),
        1 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => Just(Step::EveryMapEntry),
        1 => (1..=3u32, ways()).prop_map(|(parallelism, held)| Step::Restore(parallelism, held)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Contract: A1, A2, A3, A4, A5, A22, B41, B46, B47, F128.
    #[test]
    fn keyed_state_agrees_with_a_map(
        held in ways(),
        parallelism in 1..=3u32,
        steps in prop::collection::vec(steps(), 1..40),
    ) {
        run(held, parallelism, steps);
    }
}
