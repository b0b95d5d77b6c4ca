//! Cases: a map a key.

use std::collections::BTreeMap;

use super::harness::{
    BackendFactory, Snapshot, Unwritable, assert_unwritable, map, select, unwritable_after_restore, value,
    with_every_cache,
};

/// More entries than a backend is likely to read at a time.
const MANY: u64 = 3_000;

/// `get`, `contains`, `put` and `remove` of one entry.
pub fn a_map_entry_is_absent_until_it_is_put(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<String, u64>(&mut state, "seen");
        let [a, b] = ["a", "b"].map(String::from);
        select(&mut state, &1u64);
        assert_eq!(seen.get(&mut state, &a).unwrap(), None);
        assert!(!seen.contains(&mut state, &a).unwrap());
        seen.put(&mut state, a.clone(), 1).unwrap();
        assert_eq!(seen.get(&mut state, &a).unwrap(), Some(1));
        assert!(seen.contains(&mut state, &a).unwrap());
        assert_eq!(seen.get(&mut state, &b).unwrap(), None);
        select(&mut state, &2u64);
        assert_eq!(seen.get(&mut state, &a).unwrap(), None);
        select(&mut state, &1u64);
        seen.put(&mut state, a.clone(), 2).unwrap();
        assert_eq!(seen.get(&mut state, &a).unwrap(), Some(2));
        seen.remove(&mut state, &b).unwrap();
        seen.remove(&mut state, &a).unwrap();
        seen.remove(&mut state, &a).unwrap();
        assert_eq!(seen.get(&mut state, &a).unwrap(), None);
    });
}

/// An entry whose key and value look like nothing is an entry.
pub fn empty_map_keys_and_values_are_entries(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<String>();
        let set = map::<String, ()>(&mut state, "set");
        let of_unit = map::<(), String>(&mut state, "of unit");
        let (some, other) = (String::new(), String::from("other"));
        select(&mut state, &some);
        set.put(&mut state, String::new(), ()).unwrap();
        of_unit.put(&mut state, (), String::new()).unwrap();
        select(&mut state, &other);
        assert!(set.is_empty(&mut state).unwrap());
        assert!(!of_unit.contains(&mut state, &()).unwrap());
        select(&mut state, &some);
        assert_eq!(set.entries(&mut state).unwrap(), [(String::new(), ())]);
        assert_eq!(of_unit.get(&mut state, &()).unwrap(), Some(String::new()));
    });
}

/// Contract: A22, A24.
/// No entries is the same as no map, however it came to it.
pub fn a_map_without_entries_is_empty(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<u64, u64>(&mut state, "seen");
        for key in 0..6u64 {
            select(&mut state, &key);
            assert!(seen.is_empty(&mut state).unwrap());
            assert!(!seen.contains(&mut state, &0).unwrap());
            assert_eq!(seen.get(&mut state, &0).unwrap(), None);
            assert!(seen.keys(&mut state).unwrap().is_empty() && seen.values(&mut state).unwrap().is_empty());
            seen.clear(&mut state).unwrap();
            for entry in 0..key {
                seen.put(&mut state, entry, entry).unwrap();
            }
            assert_eq!(seen.is_empty(&mut state).unwrap(), key == 0);
        }
        for key in 0..6u64 {
            select(&mut state, &key);
            assert_eq!(seen.entries(&mut state).unwrap().len() as u64, key);
            if key % 2 == 0 {
                seen.clear(&mut state).unwrap();
            } else {
                for entry in 0..key {
                    assert!(!seen.is_empty(&mut state).unwrap());
                    seen.remove(&mut state, &entry).unwrap();
                }
            }
            assert!(seen.is_empty(&mut state).unwrap());
            assert!(seen.entries(&mut state).unwrap().is_empty());
            assert!(!seen.contains(&mut state, &0).unwrap());
            assert!(!state.keys::<u64, ()>(seen.slot(), &()).unwrap().contains(&key));
            select(&mut state, &key);
            seen.put(&mut state, 100, 100).unwrap();
            assert_eq!(seen.entries(&mut state).unwrap(), [(100, 100)]);
        }
        for key in 0..6u64 {
            select(&mut state, &key);
            seen.remove(&mut state, &100).unwrap();
        }
        assert!(Snapshot::of(&mut state).entries().is_empty());
    });
}

/// Entries are visited once with their newest value, wherever old and new ones are.
pub fn every_entry_is_visited_once(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<u64, u64>(&mut state, "seen");
        let mut expected = BTreeMap::new();
        for round in 0..5u64 {
            select(&mut state, &1u64);
            for entry in round * 7..round * 7 + 20 {
                seen.put(&mut state, entry, round).unwrap();
                expected.insert(entry, round);
            }
            for entry in (0..40).step_by(3) {
                seen.remove(&mut state, &entry).unwrap();
                expected.remove(&entry);
            }
            // Another key has entries of the same map keys.
            select(&mut state, &2u64);
            seen.put(&mut state, round, 1_000).unwrap();
            if round % 2 == 0 {
                state.end_batch().unwrap();
            }
            select(&mut state, &1u64);
            seen.put(&mut state, 500, round).unwrap();
            expected.insert(500, round);
            let entries = seen.entries(&mut state).unwrap();
            assert_eq!(entries.len(), expected.len(), "an entry is visited twice, or not at all");
            assert_eq!(BTreeMap::from_iter(entries), expected);
        }
    });
}

/// Keys and map keys that are the same when they are joined.
pub fn maps_of_keys_that_look_alike_do_not_mix(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<String>();
        let seen = map::<String, String>(&mut state, "seen");
        let seen_too = map::<String, String>(&mut state, "seen too");
        let parts = ["", "a", "ab", "abc", "b", "bc", "c", "\0", "a\0"].map(String::from);
        for key in &parts {
            select(&mut state, key);
            for map_key in &parts {
                seen.put(&mut state, map_key.clone(), format!("{key:?} {map_key:?}")).unwrap();
                seen_too.put(&mut state, map_key.clone(), format!("{key:?} {map_key:?} too")).unwrap();
            }
        }
        for key in &parts {
            select(&mut state, key);
            for (handle, too) in [(&seen, ""), (&seen_too, " too")] {
                let mut entries = handle.entries(&mut state).unwrap();
                entries.sort_unstable();
                let expected = parts.iter().map(|map_key| (map_key.clone(), format!("{key:?} {map_key:?}{too}")));
                let mut expected: Vec<_> = expected.collect();
                expected.sort_unstable();
                assert_eq!(entries, expected, "{key:?}");
            }
        }
    });
}

/// A clear is of one map of one key.
pub fn clearing_a_map_leaves_its_neighbours(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<String>();
        let seen = map::<String, u64>(&mut state, "seen");
        let other = map::<String, u64>(&mut state, "other");
        let count = value::<u64>(&mut state, "count");
        let keys = ["a", "ab", "", "b"].map(String::from);
        for key in &keys {
            select(&mut state, key);
            count.update(&mut state, 7).unwrap();
            for number in 0..5 {
                seen.put(&mut state, format!("b{number}"), number).unwrap();
                other.put(&mut state, format!("b{number}"), number).unwrap();
            }
        }
        select(&mut state, &keys[0]);
        seen.clear(&mut state).unwrap();
        assert!(seen.is_empty(&mut state).unwrap());
        for key in &keys {
            select(&mut state, key);
            assert_eq!(seen.entries(&mut state).unwrap().len(), if *key == keys[0] { 0 } else { 5 }, "{key:?}");
            assert_eq!(other.entries(&mut state).unwrap().len(), 5);
            assert_eq!(count.value(&mut state).unwrap(), Some(7));
        }
    });
}

/// A walk through all keys visits each entry once with its newest value, and keeps the current key.
pub fn the_entries_of_all_keys_are_visited_once(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let timers = map::<String, u64>(&mut state, "timers");
        let others = map::<String, u64>(&mut state, "others");
        let mut expected = BTreeMap::new();
        for round in 0..2u64 {
            for key in 0..30u64 {
                select(&mut state, &key);
                for entry in 0..key % 4 {
                    timers.put(&mut state, format!("{entry}"), round).unwrap();
                    expected.insert((key, format!("{entry}")), round);
                }
                others.put(&mut state, "0".into(), 9).unwrap();
                if key % 7 == round {
                    timers.clear(&mut state).unwrap();
                    expected.retain(|(of, _), _| *of != key);
                }
            }
            select(&mut state, &1u64);
            let mut visited = BTreeMap::new();
            let walk = state.for_each_map_entry(&timers, |key: &u64, _, map_key, value| {
                assert_eq!(visited.insert((*key, map_key.clone()), *value), None, "an entry is visited twice");
            });
            walk.unwrap();
            assert_eq!(visited, expected);
            others.put(&mut state, "1".into(), 1).unwrap();
            assert_eq!(others.entries(&mut state).unwrap().len(), 2, "the current key is another");
            others.remove(&mut state, &String::from("1")).unwrap();
        }
    });
}

/// Contract: A23.
/// A value that is `None` is a value.
pub fn a_map_key_whose_value_is_none_is_an_entry(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let optional = map::<u64, Option<String>>(&mut state, "optional");
        select(&mut state, &1u64);
        optional.put(&mut state, 1, Some("a".into())).unwrap();
        optional.put(&mut state, 2, None).unwrap();
        let mut restored = bench.restored::<u64>(&Snapshot::of(&mut state));
        let again = map::<u64, Option<String>>(&mut restored, "optional");
        for (state, optional) in [(&mut state, optional), (&mut restored, again)] {
            select(state, &1u64);
            assert!(optional.contains(state, &2).unwrap());
            assert_eq!(optional.get(state, &2).unwrap(), Some(None));
            assert_eq!(optional.get(state, &3).unwrap(), None);
            assert_eq!(optional.entries(state).unwrap().len(), 2);
            optional.remove(state, &1).unwrap();
            assert!(!optional.is_empty(state).unwrap());
        }
    });
}

/// Contract: A25, A26.
/// Every entry is seen once, those that are not to be kept go, the others stay.
pub fn entries_are_removed_while_they_are_visited(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let squares = map::<u64, u64>(&mut state, "squares");
        select(&mut state, &1u64);
        squares.put_all(&mut state, (0..MANY).map(|number| (number, number * number))).unwrap();
        select(&mut state, &2u64);
        squares.put(&mut state, 1, 1).unwrap();
        state.end_batch().unwrap();
        select(&mut state, &1u64);
        let mut visited = Vec::new();
        let keep = |number: &u64, square: &u64| {
            visited.push((*number, *square));
            number.is_multiple_of(2)
        };
        squares.retain(&mut state, keep).unwrap();
        visited.sort_unstable();
        assert_eq!(visited, Vec::from_iter((0..MANY).map(|number| (number, number * number))));
        let mut kept = squares.keys(&mut state).unwrap();
        kept.sort_unstable();
        assert_eq!(kept, Vec::from_iter((0..MANY).step_by(2)));
        squares.retain(&mut state, |_, _| false).unwrap();
        assert!(squares.is_empty(&mut state).unwrap());
        assert_eq!(state.keys::<u64, ()>(squares.slot(), &()).unwrap(), [2]);
    });
}

/// Contract: A27.
pub fn values_are_changed_while_they_are_visited(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let squares = map::<u64, u64>(&mut state, "squares");
        select(&mut state, &1u64);
        squares.put_all(&mut state, (0..300).map(|number| (number, number))).unwrap();
        squares.for_each_mut(&mut state, |number, value| *value *= number).unwrap();
        state.end_batch().unwrap();
        select(&mut state, &1u64);
        let mut entries = squares.entries(&mut state).unwrap();
        entries.sort_unstable();
        assert_eq!(entries, Vec::from_iter((0..300).map(|number| (number, number * number))));
        let mut values = squares.values(&mut state).unwrap();
        values.sort_unstable();
        assert_eq!(values, Vec::from_iter((0..300).map(|number| number * number)));
    });
}

/// Contract: A28.
/// All or nothing: a call in which one entry cannot be written changes nothing.
pub fn an_entry_that_cannot_be_written_leaves_the_map(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let (good, bad) = (Unwritable::good, Unwritable::bad);
        for call in 0..5 {
            let mut state = unwritable_after_restore(bench, |state| {
                let entries = map::<Unwritable, Unwritable>(state, "entries");
                entries.put_all(state, [(good(1), good(1)), (good(2), good(2))]).unwrap();
            });
            let entries = map::<Unwritable, Unwritable>(&mut state, "entries");
            select(&mut state, &1u64);
            let outcome = match call {
                0 => entries.put(&mut state, bad(), good(9)),
                1 => entries.put(&mut state, good(1), bad()),
                2 => entries.put_all(&mut state, [(good(1), good(9)), (bad(), good(9))]),
                3 => entries.put_all(&mut state, [(good(3), good(9)), (good(1), bad())]),
                _ => entries.for_each_mut(&mut state, |_, value| {
                    *value = if *value == good(1) { good(9) } else { bad() };
                }),
            };
            assert_unwritable("entries", outcome);
            let mut values = entries.values(&mut state).unwrap();
            values.sort_unstable();
            assert_eq!(values, [good(1), good(2)], "call {call}");
            entries.put_all(&mut state, [(good(3), good(3))]).unwrap();
            assert_eq!(entries.get(&mut state, &good(3)).unwrap(), Some(good(3)));
        }
    });
}
