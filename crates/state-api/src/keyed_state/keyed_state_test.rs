//! Behaviour of keyed state, the same wherever it is held.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rows::fixture_test::{EVERY_WAY, Held, Written, all, groups, hash, open, request, store};
use crate::{
    AggregatingState, FoldingState, Key, KeyHash, KeyedState, ListState, MapState, MapStateDescriptor, ReducingState,
    State, StateError, StateKind, ValueState, ValueStateDescriptor,
};

fn value<T: State>(state: &mut KeyedState, name: &str) -> ValueState<T> {
    store(state).get_state(&ValueStateDescriptor::new(name)).unwrap()
}

fn map<UK: Key, UV: State>(state: &mut KeyedState, name: &str) -> MapState<UK, UV> {
    store(state).get_map_state(&MapStateDescriptor::new(name)).unwrap()
}

fn set_key<K: Key>(state: &mut KeyedState, key: K) {
    state.set_current_key(&key, hash(&key)).unwrap();
}

fn survives<T: State + PartialEq + std::fmt::Debug>(held: Held, written_value: T) {
    let mut state = open::<u8>(held, all());
    let handle = value(&mut state, "value");
    set_key(&mut state, 1u8);
    handle.update(&mut state, written_value.clone()).unwrap();
    set_key(&mut state, 2u8);
    assert_eq!(handle.value(&mut state).unwrap(), None);
    let mut state = Written::of(state.freeze(&request()).unwrap()).reopen::<u8>(held);
    let handle = value::<T>(&mut state, "value");
    set_key(&mut state, 1u8);
    assert_eq!(handle.value(&mut state).unwrap(), Some(written_value), "{held:?}");
    set_key(&mut state, 2u8);
    assert_eq!(handle.value(&mut state).unwrap(), None, "{held:?}");
}

/// Contract: A5.
#[test]
fn values_that_look_like_nothing_are_values() {
    for held in EVERY_WAY {
        survives(held, 0u64);
        survives(held, false);
        survives(held, String::new());
        survives(held, ());
        survives(held, Vec::<u8>::new());
        survives(held, None::<u8>);
        survives(held, f64::NAN.to_bits());
    }
}

#[test]
fn keys_whose_bytes_run_together_stay_apart() {
    let keys = [("k", "1x"), ("k1", "x"), ("", "k1x"), ("k1x", ""), ("", "")];
    let keys = keys.map(|(key, map_key)| (String::from(key), String::from(map_key)));
    let bytes: [Vec<u8>; 6] = [vec![], vec![0], vec![0, 0xff], vec![0xff], vec![0, 0xff, 0], vec![0xff, 0]];
    for held in EVERY_WAY {
        let mut state = open::<String>(held, all());
        let entries = map::<String, String>(&mut state, "entries");
        for (key, map_key) in &keys {
            set_key(&mut state, key.clone());
            entries.put(&mut state, map_key.clone(), format!("{key}/{map_key}")).unwrap();
        }
        let mut state = Written::of(state.freeze(&request()).unwrap()).reopen::<String>(held);
        let entries = map::<String, String>(&mut state, "entries");
        for (key, map_key) in &keys {
            set_key(&mut state, key.clone());
            assert_eq!(entries.get(&mut state, map_key).unwrap(), Some(format!("{key}/{map_key}")), "{held:?}");
        }
        set_key(&mut state, String::new());
        assert_eq!(entries.entries(&mut state).unwrap().len(), 2);
        assert_eq!(entries.get(&mut state, &"x".into()).unwrap(), None);

        let mut state = open::<Vec<u8>>(held, all());
        let entries = map::<Vec<u8>, usize>(&mut state, "entries");
        for (number, (key, map_key)) in bytes.iter().flat_map(|key| bytes.iter().map(move |m| (key, m))).enumerate() {
            set_key(&mut state, key.clone());
            entries.put(&mut state, map_key.clone(), number).unwrap();
        }
        let mut state = Written::of(state.freeze(&request()).unwrap()).reopen::<Vec<u8>>(held);
        let entries = map::<Vec<u8>, usize>(&mut state, "entries");
        for (number, (key, map_key)) in bytes.iter().flat_map(|key| bytes.iter().map(move |m| (key, m))).enumerate() {
            set_key(&mut state, key.clone());
            assert_eq!(entries.get(&mut state, map_key).unwrap(), Some(number), "{held:?} {key:?} {map_key:?}");
        }
    }
}

#[test]
fn a_batch_that_was_resolved_is_the_same_as_key_after_key() {
    let keys: Vec<u32> = (0..3000).map(|number| number * 7 % 500).collect();
    for held in EVERY_WAY {
        let mut batched = open::<u32>(held, all());
        let mut single = open::<u32>(held, all());
        let (count, total) = (value::<u32>(&mut batched, "count"), value::<u32>(&mut single, "count"));
        for batch in keys.chunks(700) {
            batched.resolve_batch(batch.iter().map(|key| (key, hash(key)))).unwrap();
            for index in (0..batch.len()).rev() {
                batched.select(index).unwrap();
                count.modify(&mut batched, |count| *count.get_or_insert(0) += batch[index]).unwrap();
            }
            batched.end_batch().unwrap();
        }
        for key in &keys {
            set_key(&mut single, *key);
            total.modify(&mut single, |count| *count.get_or_insert(0) += key).unwrap();
        }
        let (batched, single) = (batched.freeze(&request()).unwrap(), single.freeze(&request()).unwrap());
        assert_eq!(Written::of(batched).entries(), Written::of(single).entries(), "{held:?}");
    }
}

#[test]
fn keys_whose_hashes_collide_stay_apart() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let count = value::<u32>(&mut state, "count");
        let keys: Vec<u32> = (0..20).chain(0..20).collect();
        let same = KeyHash(7);
        for _ in 0..2 {
            state.resolve_batch(keys.iter().map(|key| (key, same))).unwrap();
            for (index, key) in keys.iter().enumerate() {
                state.select(index).unwrap();
                count.modify(&mut state, |count| *count.get_or_insert(0) += key).unwrap();
            }
            state.end_batch().unwrap();
        }
        for key in 0..20u32 {
            state.set_current_key(&key, same).unwrap();
            assert_eq!(count.value(&mut state).unwrap(), Some(key * 4));
        }
    }
}

#[test]
fn the_current_key_and_its_hash_can_be_asked_for() {
    for held in EVERY_WAY {
        let (mut texts, mut numbers) = (open::<String>(held, all()), open::<u32>(held, all()));
        assert!(matches!(texts.current_key::<String>(), Err(StateError::NoKey)));
        assert!(matches!(numbers.current_key_hash(), Err(StateError::NoKey)));
        set_key(&mut texts, String::from("a"));
        set_key(&mut numbers, 0u32);
        assert_eq!(texts.current_key::<String>().unwrap(), "a");
        assert_eq!((*numbers.current_key::<u32>().unwrap(), numbers.current_key_hash().unwrap()), (0, hash(&0u32)));
        assert!(matches!(numbers.current_key::<String>(), Err(StateError::OtherKeyType { .. })));
        assert!(matches!(texts.current_key::<u32>(), Err(StateError::OtherKeyType { .. })));
    }
}

/// Reducing, aggregating and folding state are one kind of column.
#[test]
fn a_handle_is_told_by_its_own_type_whatever_is_behind_it() {
    let mut state = open::<u8>(Held::Heap, all());
    set_key(&mut state, 1u8);
    let errors = [
        ReducingState::<u32>::default().add(&mut state, 1).unwrap_err(),
        ReducingState::<u32>::default().merge_namespaces(&mut state, &1u8, &[2]).unwrap_err(),
        AggregatingState::<u32, u64>::default().get(&mut state).unwrap_err(),
        FoldingState::<u32, String>::default().clear(&mut state).unwrap_err(),
        ListState::<u32>::default().merge_namespaces(&mut state, &1u8, &[2]).unwrap_err(),
    ];
    let types = [
        "ReducingState<u32>",
        "ReducingState<u32>",
        "AggregatingState<u32, u64>",
        "FoldingState<u32, String>",
        "ListState<u32>",
    ];
    for (error, expected) in errors.iter().zip(types) {
        assert!(error.to_string().starts_with(&format!("a handle `{expected}` was used before")), "{error}");
    }
}

#[test]
fn a_handle_works_only_where_it_was_made_and_under_a_key() {
    for held in EVERY_WAY {
        let (mut state, mut other) = (open::<u8>(held, all()), open::<u8>(held, all()));
        let mine = value::<u8>(&mut state, "mine");
        set_key(&mut other, 1u8);
        assert!(matches!(ValueState::<u8>::default().value(&mut other), Err(StateError::Unbound { .. })));
        assert!(matches!(MapState::<u8, u8>::default().is_empty(&mut other), Err(StateError::Unbound { .. })));
        assert!(matches!(mine.value(&mut other), Err(StateError::ForeignHandle { .. })));
        let no_key = |outcome: Result<Option<u8>, StateError>| {
            assert!(matches!(outcome, Err(StateError::NoCurrentKey { state }) if state == "mine"));
        };
        no_key(mine.value(&mut state));
        set_key(&mut state, 1u8);
        assert_eq!(mine.value(&mut state).unwrap(), None);
        state.end_batch().unwrap();
        no_key(mine.value(&mut state));
        state.resolve_batch([(&1u8, hash(&1u8))].into_iter()).unwrap();
        no_key(mine.value(&mut state));
        state.select(0).unwrap();
        assert_eq!(mine.value(&mut state).unwrap(), None);
    }
}

/// It has no name, so that its type has to do.
#[test]
fn a_handle_that_cannot_be_used_is_named_by_its_type() {
    let mut state = open::<u8>(Held::Heap, all());
    set_key(&mut state, 1u8);
    let outcomes = [
        ("ValueState<u8>", ValueState::<u8>::default().value(&mut state).map(drop)),
        ("MapState<u8, String>", MapState::<u8, String>::default().is_empty(&mut state).map(drop)),
        ("ListState<u64>", ListState::<u64>::default().is_empty(&mut state).map(drop)),
        ("AggregatingState<u8, u16>", AggregatingState::<u8, u16>::default().get(&mut state).map(drop)),
    ];
    for (handle, outcome) in outcomes {
        let expected = format!("a handle `{handle}` was used before `initialize_state` bound it to a descriptor");
        assert_eq!(outcome.unwrap_err().to_string(), expected);
    }
}

/// Contract: A29, D92.
#[test]
fn a_name_is_one_state_of_one_type() {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct Cents(u64);
    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct Euros(u64);

    for held in EVERY_WAY {
        let mut state = open::<u8>(held, all());
        let first = value::<Cents>(&mut state, "amount");
        set_key(&mut state, 1u8);
        first.update(&mut state, Cents(5)).unwrap();
        let again = value::<Cents>(&mut state, "amount");
        assert_eq!(again.value(&mut state).unwrap().unwrap().0, 5);

        let error = store(&mut state).get_state(&ValueStateDescriptor::<Euros>::new("amount")).unwrap_err();
        assert!(matches!(error, StateError::OtherType { state } if state == "amount"));
        let error = store(&mut state).get_state(&ValueStateDescriptor::<i64>::new("amount")).unwrap_err();
        assert!(matches!(error, StateError::OtherSchema { part: "value", .. }), "{error}");
        assert!(error.to_string().contains("two states need two names"), "{error}");
        let error = store(&mut state).get_map_state(&MapStateDescriptor::<u8, Cents>::new("amount")).unwrap_err();
        let kinds = (StateKind::Value, StateKind::Map);
        assert!(matches!(error, StateError::OtherKind { existing, requested, .. } if (existing, requested) == kinds));
        for blank in ["", " ", "\t"] {
            let error = store(&mut state).get_state(&ValueStateDescriptor::<u8>::new(blank)).unwrap_err();
            assert!(matches!(error, StateError::BlankName { name } if name == blank));
        }
        assert_eq!(first.value(&mut state).unwrap().unwrap().0, 5, "nothing has changed");
        assert_eq!(state.freeze(&request()).unwrap().tables.len(), 1);
    }
}

/// Contract: A35.
#[test]
fn a_key_belongs_to_one_subtask_and_has_one_type() {
    let own = groups().range_of(0, 2);
    let is_own = |key: &u32| own.contains(groups().group_of(hash(key)));
    let (mine, foreign) = ((0u32..).find(is_own).unwrap(), (0u32..).find(|key| !is_own(key)).unwrap());
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, own);
        let count = value::<u8>(&mut state, "count");
        set_key(&mut state, mine);
        count.update(&mut state, 1).unwrap();
        let error = state.set_current_key(&foreign, hash(&foreign)).unwrap_err();
        assert!(matches!(error, StateError::ForeignKeyGroup { range, .. } if range == own));
        assert!(matches!(count.value(&mut state), Err(StateError::NoCurrentKey { .. })));
        let keys = [mine, foreign];
        let error = state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap_err();
        assert!(matches!(error, StateError::ForeignKeyGroup { .. }));
        let text = String::from("1");
        assert!(matches!(state.set_current_key(&text, hash(&text)), Err(StateError::OtherKeyType { .. })));
        let keys = std::iter::once((&text, hash(&text)));
        assert!(matches!(state.resolve_batch(keys), Err(StateError::OtherKeyType { .. })));
        set_key(&mut state, mine);
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
    }
}

/// Does not survive being written and read again, unless it is even.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
struct RoundsDown(u32);

impl From<u32> for RoundsDown {
    fn from(number: u32) -> Self {
        Self(number / 2 * 2)
    }
}

impl From<RoundsDown> for u32 {
    fn from(number: RoundsDown) -> Self {
        number.0
    }
}

#[test]
fn a_value_that_does_not_survive_is_refused_before_it_is_stored() {
    let is_refused = |error: StateError, name: &str| match error {
        StateError::NotRoundTrip { ref state, .. } => {
            assert_eq!(state, name);
            assert!(error.to_string().contains("is there a HashMap or HashSet in it"), "{error}");
        }
        other => panic!("{other}"),
    };
    for held in EVERY_WAY {
        let mut state = open::<u8>(held, all());
        let (number, numbers) =
            (value::<RoundsDown>(&mut state, "number"), map::<u8, RoundsDown>(&mut state, "numbers"));
        set_key(&mut state, 1u8);
        is_refused(number.update(&mut state, RoundsDown(1)).unwrap_err(), "number");
        is_refused(number.modify(&mut state, |number| *number = Some(RoundsDown(1))).unwrap_err(), "number");
        is_refused(numbers.put(&mut state, 1, RoundsDown(1)).unwrap_err(), "numbers");
        assert_eq!(number.value(&mut state).unwrap(), None);
        assert!(numbers.is_empty(&mut state).unwrap());

        // The first 1,024 are checked, and after them one in 4,096.
        for _ in 0..1_024 + 4_095 {
            number.update(&mut state, RoundsDown(2)).unwrap();
            numbers.put(&mut state, 1, RoundsDown(2)).unwrap();
        }
        is_refused(number.modify(&mut state, |number| number.as_mut().unwrap().0 = 3).unwrap_err(), "number");
        is_refused(number.update(&mut state, RoundsDown(3)).unwrap_err(), "number");
        is_refused(numbers.put(&mut state, 1, RoundsDown(3)).unwrap_err(), "numbers");
        assert_eq!(number.value(&mut state).unwrap(), Some(RoundsDown(2)), "the old value is put back");
        assert_eq!(numbers.get(&mut state, &1).unwrap(), Some(RoundsDown(2)));
        number.update(&mut state, RoundsDown(4)).unwrap();
        number.update(&mut state, RoundsDown(5)).unwrap();
    }
}

#[test]
fn the_entries_of_all_maps_are_visited_and_the_current_key_stays() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let squares = map::<u32, u32>(&mut state, "squares");
        for key in 0..100u32 {
            set_key(&mut state, key);
            for other in 0..key % 4 {
                squares.put(&mut state, other, key * other).unwrap();
            }
        }
        set_key(&mut state, 2u32);
        squares.remove(&mut state, &1).unwrap();
        set_key(&mut state, 3u32);
        squares.put(&mut state, 9, 27).unwrap();
        let mut found = BTreeSet::new();
        let visit = |key: &u32, of: KeyHash, other: &u32, product: &u32| {
            assert_eq!((of, *product), (hash(key), key * other));
            assert!(found.insert((*key, *other)));
        };
        state.for_each_map_entry(&squares, visit).unwrap();
        let mut expected: BTreeSet<_> = (0..100).flat_map(|key| (0..key % 4).map(move |other| (key, other))).collect();
        expected.remove(&(2, 1));
        expected.insert((3, 9));
        assert_eq!(found, expected, "{held:?}");
        assert_eq!(squares.get(&mut state, &9).unwrap(), Some(27), "the current key is still 3");
        let error = state.for_each_map_entry(&squares, |_: &String, _, _, _| {}).unwrap_err();
        assert!(matches!(error, StateError::OtherKeyType { .. }));
        let error = state.for_each_map_entry(&MapState::<u32, u32>::default(), |_: &u32, _, _, _| {}).unwrap_err();
        assert!(matches!(error, StateError::Unbound { .. }));
    }
}

/// Contract: A24.
#[test]
fn a_map_that_is_cleared_or_emptied_is_no_state() {
    for held in EVERY_WAY {
        let mut state = open::<u8>(held, all());
        let (numbers, mark) = (map::<u32, u32>(&mut state, "numbers"), value::<()>(&mut state, "mark"));
        for key in 0..3u8 {
            set_key(&mut state, key);
            mark.update(&mut state, ()).unwrap();
            // More than what is removed from byte tables at a time.
            (0..10_000).for_each(|number| numbers.put(&mut state, number, number).unwrap());
            state.end_batch().unwrap();
        }
        set_key(&mut state, 0u8);
        numbers.put(&mut state, 77, 1).unwrap();
        numbers.clear(&mut state).unwrap();
        assert!(numbers.is_empty(&mut state).unwrap());
        assert_eq!(numbers.get(&mut state, &77).unwrap(), None);
        numbers.put(&mut state, 5, 55).unwrap();
        assert_eq!(numbers.entries(&mut state).unwrap(), [(5, 55)]);
        set_key(&mut state, 1u8);
        (0..10_000).for_each(|number| numbers.remove(&mut state, &number).unwrap());
        assert!(numbers.is_empty(&mut state).unwrap());
        numbers.remove(&mut state, &5).unwrap();
        assert_eq!(numbers.entries(&mut state).unwrap(), []);
        let mut keys = state.keys::<u8, ()>(numbers.slot(), &()).unwrap();
        keys.sort_unstable();
        assert_eq!(keys, [0, 2], "{held:?}");
        set_key(&mut state, 2u8);
        assert_eq!(numbers.entries(&mut state).unwrap().len(), 10_000);
        assert_eq!(mark.value(&mut state).unwrap(), Some(()));
        let written = Written::of(state.freeze(&request()).unwrap());
        assert_eq!(written.entries().len(), 3 + 1 + 10_000, "{held:?}");
    }
}

#[test]
fn the_keys_of_a_resolved_batch_are_told_without_a_current_key() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        let keys = [7u32, 3, 7];
        state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
        assert_eq!([0, 1, 2].map(|index| *state.resolved_key::<u32>(index).unwrap()), keys);
        assert!(matches!(state.resolved_key::<u32>(3), Err(StateError::NotInBatch { index: 3, length: 3 })));
        assert!(matches!(state.resolved_key::<u64>(0), Err(StateError::OtherKeyType { .. })));
        assert!(matches!(state.current_key::<u32>(), Err(StateError::NoKey)), "{held:?}");
    }
}

/// Contract: A3.
#[test]
fn rows_without_state_are_given_back_and_used_again() {
    let mut state = open::<u32>(Held::Heap, all());
    let (count, numbers) = (value::<u32>(&mut state, "count"), map::<u8, u8>(&mut state, "numbers"));
    for round in 0..20u32 {
        let keys: Vec<u32> = (round * 1000..round * 1000 + 200).collect();
        state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
        for index in 0..keys.len() {
            state.select(index).unwrap();
            match index % 4 {
                0 => count.update(&mut state, 1).unwrap(),
                1 => numbers.put(&mut state, 1, 1).unwrap(),
                2 => assert_eq!(count.value(&mut state).unwrap(), None),
                _ => count.modify(&mut state, |count| assert_eq!(*count, None)).unwrap(),
            }
        }
        state.end_batch().unwrap();
        assert_eq!(state.rows.keys.column.len(), 100);
        state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
        for index in 0..keys.len() {
            state.select(index).unwrap();
            match index % 8 {
                0 => count.clear(&mut state).unwrap(),
                4 => drop(count.modify(&mut state, Option::take).unwrap()),
                1 => numbers.remove(&mut state, &1).unwrap(),
                5 => numbers.clear(&mut state).unwrap(),
                _ => {}
            }
        }
        state.end_batch().unwrap();
        assert_eq!(state.rows.keys.column.len(), 0);
    }
    let keys: Vec<u32> = (0..200).collect();
    state.resolve_batch(keys.iter().map(|key| (key, hash(key)))).unwrap();
    assert!(state.batch.iter().all(|row| *row < 200), "row numbers are used again");
}

#[test]
fn the_cache_is_kept_within_its_bound() {
    for cached_rows_max in [0, 3, 50] {
        let mut state = open::<u32>(Held::Bytes { cached_rows_max }, all());
        let (count, numbers) = (value::<u32>(&mut state, "count"), map::<u32, u32>(&mut state, "numbers"));
        for key in 0..300u32 {
            set_key(&mut state, key % 40);
            count.modify(&mut state, |count| *count.get_or_insert(0) += 1).unwrap();
            numbers.put(&mut state, key, key).unwrap();
            if key % 3 == 0 {
                state.end_batch().unwrap();
                assert!(state.rows.cached_rows() <= cached_rows_max);
            }
        }
        let entries = Written::of(state.freeze(&request()).unwrap()).entries();
        assert_eq!(entries.len(), 40 + 300);
    }
}

#[test]
fn state_of_another_range_is_refused() {
    let own = groups().range_of(1, 2);
    for held in EVERY_WAY {
        let mut state = open::<u8>(held, own);
        let error = state.restore_key_group(&[], groups().range_of(0, 2).start(), Default::default()).unwrap_err();
        assert!(matches!(error, StateError::ForeignKeyGroup { range, .. } if range == own));
        state.restore_key_group(&[], own.end(), Default::default()).unwrap();
    }
}

#[test]
#[should_panic(expected = "before the first state is registered")]
fn restoring_after_registering_is_a_mistake() {
    let mut state = open::<u8>(Held::Heap, all());
    value::<u8>(&mut state, "value");
    drop(state.restore_tables(&[]));
}

#[test]
fn restored_states_that_nobody_has_registered_are_named() {
    for held in EVERY_WAY {
        let mut state = open::<u8>(held, all());
        let (old, kept) = (value::<u64>(&mut state, "old name"), value::<u64>(&mut state, "kept"));
        set_key(&mut state, 1u8);
        old.update(&mut state, 7).unwrap();
        kept.update(&mut state, 8).unwrap();
        assert_eq!(state.unregistered_states().count(), 0);
        let mut state = Written::of(state.freeze(&request()).unwrap()).reopen::<u8>(held);
        value::<u64>(&mut state, "new name");
        value::<u64>(&mut state, "kept");
        assert_eq!(state.unregistered_states().collect::<Vec<_>>(), ["old name"], "{held:?}");
    }
}
