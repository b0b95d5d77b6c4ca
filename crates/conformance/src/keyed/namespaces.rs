//! Cases: state in namespaces, and namespaces that are merged.

use highwater_state_api::{
    AggregatingStateDescriptor, KeyedState, KeyedStateStore, ListState, ListStateDescriptor, MapStateDescriptor,
    ReducingState, ReducingStateDescriptor, StateError, ValueState, ValueStateDescriptor,
};

use super::accumulating::Mean;
use super::harness::{BackendFactory, Snapshot, select, value, with_every_cache};

/// A namespace of two parts, like a window.
type Window = (i64, i64);

fn counts(state: &mut KeyedState) -> ValueState<u64> {
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Window>().unwrap();
    store.get_state(&ValueStateDescriptor::new("counts")).unwrap()
}

fn texts(state: &mut KeyedState) -> ListState<u64> {
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
    store.get_list_state(&ListStateDescriptor::new("texts")).unwrap()
}

fn sums(state: &mut KeyedState) -> ReducingState<u64> {
    let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
    store.get_reducing_state(&ReducingStateDescriptor::new("sums", |one: &u64, other: u64| one + other)).unwrap()
}

fn enter_window(state: &mut KeyedState, window: Window) {
    state.set_current_namespace(&window).unwrap();
}

fn enter(state: &mut KeyedState, namespace: &str) {
    state.set_current_namespace(&namespace.to_owned()).unwrap();
}

/// Contract: A30.
pub fn namespaces_do_not_share_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let counts = counts(&mut state);
        let windows: [Window; 3] = [(0, 10), (10, 20), (-10, 0)];
        for key in 0..5u64 {
            for (number, window) in (0..).zip(&windows) {
                select(&mut state, &key);
                enter_window(&mut state, *window);
                assert_eq!(counts.value(&mut state).unwrap(), None);
                counts.update(&mut state, key * 10 + number).unwrap();
            }
        }
        select(&mut state, &3u64);
        state.set_current_namespace(&windows[1]).unwrap();
        counts.clear(&mut state).unwrap();
        for key in 0..5u64 {
            for (number, window) in (0..).zip(&windows) {
                select(&mut state, &key);
                enter_window(&mut state, *window);
                let expected = ((key, number) != (3, 1)).then_some(key * 10 + number);
                assert_eq!(counts.value(&mut state).unwrap(), expected);
            }
        }
    });
}

/// States of both kinds are used side by side: with a namespace of its type, and with none.
pub fn state_in_no_namespace_is_apart_from_namespaces(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let (counts, texts, total) = (counts(&mut state), texts(&mut state), value::<u64>(&mut state, "total"));
        for key in 0..20u64 {
            select(&mut state, &key);
            total.update(&mut state, key).unwrap();
            enter_window(&mut state, (0, 1));
            enter(&mut state, "");
            counts.update(&mut state, key + 100).unwrap();
            texts.add_all(&mut state, [key, key]).unwrap();
            enter_window(&mut state, (1, 2));
            counts.update(&mut state, key + 200).unwrap();
            assert_eq!(total.value(&mut state).unwrap(), Some(key));
            if key % 2 == 0 {
                total.clear(&mut state).unwrap();
            }
        }
        for key in 0..20u64 {
            select(&mut state, &key);
            assert_eq!(total.value(&mut state).unwrap(), (key % 2 == 1).then_some(key));
            enter(&mut state, "");
            assert_eq!(texts.get(&mut state).unwrap(), [key, key]);
            enter(&mut state, "other");
            assert!(texts.is_empty(&mut state).unwrap());
            for (window, plus) in [((0, 1), 100), ((1, 2), 200)] {
                enter_window(&mut state, window);
                assert_eq!(counts.value(&mut state).unwrap(), Some(key + plus));
            }
        }
    });
}

/// No namespace is current until one is made so, after every change of the key, and in namespaces of another type.
pub fn without_a_current_namespace_there_is_no_state_in_one(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let (counts, texts) = (counts(&mut state), texts(&mut state));
        assert!(matches!(state.set_current_namespace(&(0i64, 1i64)), Err(StateError::NoKey)));
        select(&mut state, &1u64);
        assert_no_namespace("counts", counts.value(&mut state));
        enter_window(&mut state, (0i64, 1i64));
        counts.update(&mut state, 1).unwrap();
        assert_no_namespace("texts", texts.get(&mut state));
        select(&mut state, &1u64);
        assert_no_namespace("counts", counts.value(&mut state));
        let other = state.set_current_namespace(&7u8);
        assert!(matches!(other, Err(StateError::NoSuchNamespaces { .. })), "{other:?}");
    });
}

#[track_caller]
fn assert_no_namespace<T: std::fmt::Debug>(expected: &str, outcome: Result<T, StateError>) {
    match outcome {
        Err(StateError::NoCurrentNamespace { state }) => assert_eq!(state, expected),
        other => panic!("{expected:?} was accessed in no namespace: {other:?}"),
    }
}

/// A name is of state in namespaces of one schema, or in none.
pub fn a_name_has_one_type_of_namespaces(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        counts(&mut state);
        let descriptor = ValueStateDescriptor::<u64>::new("counts");
        let of_none = (&mut state as &mut dyn KeyedStateStore).get_state(&descriptor).err();
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
        let of_texts = store.get_state(&descriptor).err();
        for error in [of_none, of_texts] {
            match error {
                Some(StateError::OtherSchema { state, part: "namespace", .. }) => assert_eq!(state, "counts"),
                other => panic!("state in windows was taken for another: {other:?}"),
            }
        }
    });
}

/// Contract: A36.
/// Field case: R77.
/// Keys and namespaces that are the same when they are joined do not mix; also those without any bytes.
pub fn namespaces_that_look_alike_are_different(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let parts = ["", "a", "ab", "b", "bc", "c", "\0", "a\0", "\u{ff}"];
        let mut state = bench.open::<String>();
        let texts = texts(&mut state);
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
        let maps = store.get_map_state(&MapStateDescriptor::<String, u64>::new("maps")).unwrap();
        let number = |key: usize, namespace: usize, map_key: usize| (key * 100 + namespace * 10 + map_key) as u64;
        for (i, key) in parts.iter().enumerate() {
            for (j, namespace) in parts.iter().enumerate() {
                select(&mut state, &(*key).to_owned());
                enter(&mut state, namespace);
                texts.add(&mut state, number(i, j, 0)).unwrap();
                for (k, map_key) in parts.iter().enumerate() {
                    maps.put(&mut state, (*map_key).to_owned(), number(i, j, k)).unwrap();
                }
            }
        }
        let mut restored = bench.restored::<String>(&Snapshot::of(&mut state));
        let (texts_again, maps_again) = (super::namespaces::texts(&mut restored), {
            let store: &mut dyn KeyedStateStore = &mut restored.in_namespaces::<String>().unwrap();
            store.get_map_state(&MapStateDescriptor::<String, u64>::new("maps")).unwrap()
        });
        for (state, texts, maps) in [(&mut state, texts, maps), (&mut restored, texts_again, maps_again)] {
            for (i, key) in parts.iter().enumerate() {
                for (j, namespace) in parts.iter().enumerate() {
                    select(state, &(*key).to_owned());
                    enter(state, namespace);
                    assert_eq!(texts.get(state).unwrap(), [number(i, j, 0)]);
                    let mut values = maps.values(state).unwrap();
                    values.sort_unstable();
                    assert_eq!(values, Vec::from_iter((0..parts.len()).map(|k| number(i, j, k))));
                }
            }
        }
    });
}

/// Contract: A31, A36.
/// Field case: R77.
/// Keys, namespaces and map keys of any bytes do not mix, also where they are empty; the keys of a namespace are its own,
/// before and after a restore.
pub fn bytes_that_run_together_are_different(factory: BackendFactory<'_>) {
    const PARTS: [&[u8]; 12] =
        [b"", b"\0", b"\0\0", b"\xff", b"\xff\0", b"\0\xff", b"a", b"ab", b"bc", b"c", b"k", b"k1"];
    const MAP_KEYS: [&[u8]; 6] = [b"", b"\0", b"\xff", b"\xff\xff", b"x", b"1x"];
    let parts = || PARTS.map(<[u8]>::to_vec).into_iter().enumerate();
    // Not every key has state in every namespace, so that the keys of each are others.
    let has_state = |key: usize, namespace: usize| !(key + namespace).is_multiple_of(3);
    let entry = |key: usize, namespace: usize, map_key: usize| ((key * 100 + namespace) * 100 + map_key) as u64;
    let map_of = |state: &mut KeyedState| {
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<Vec<u8>>().unwrap();
        store.get_map_state(&MapStateDescriptor::<Vec<u8>, u64>::new("map")).unwrap()
    };
    let check = |state: &mut KeyedState| {
        let map = map_of(state);
        for (j, namespace) in parts() {
            for (i, key) in parts() {
                select(state, &key);
                state.set_current_namespace(&namespace).unwrap();
                for (k, map_key) in MAP_KEYS.iter().enumerate() {
                    let expected = has_state(i, j).then_some(entry(i, j, k));
                    let found = map.get(state, &map_key.to_vec()).unwrap();
                    assert_eq!(found, expected, "key {key:?}, namespace {namespace:?}, map key {map_key:?}");
                }
                assert_eq!(map.entries(state).unwrap().len(), if has_state(i, j) { MAP_KEYS.len() } else { 0 });
            }
            let mut keys = state.keys::<Vec<u8>, Vec<u8>>(map.slot(), &namespace).unwrap();
            keys.sort_unstable();
            let mut expected: Vec<_> = parts().filter(|(i, _)| has_state(*i, j)).map(|(_, key)| key).collect();
            expected.sort_unstable();
            assert_eq!(keys, expected, "namespace {namespace:?}");
        }
    };
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<Vec<u8>>();
        let map = map_of(&mut state);
        for (i, key) in parts() {
            for (j, namespace) in parts().filter(|(j, _)| has_state(i, *j)) {
                select(&mut state, &key);
                state.set_current_namespace(&namespace).unwrap();
                for (k, map_key) in MAP_KEYS.iter().enumerate() {
                    map.put(&mut state, map_key.to_vec(), entry(i, j, k)).unwrap();
                }
            }
        }
        check(&mut state);
        check(&mut bench.restored::<Vec<u8>>(&Snapshot::of(&mut state)));
    });
}

/// State in namespaces goes through snapshots, also unregistered, and the freeze keeps it as it was.
pub fn state_in_namespaces_is_restored(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let counts_before = counts(&mut state);
        for key in 0..50u64 {
            for start in 0..key as i64 % 4 {
                select(&mut state, &key);
                enter_window(&mut state, (start, start + 1));
                counts_before.update(&mut state, key + start as u64 * 1_000).unwrap();
            }
        }
        let mut frozen = super::harness::freeze(&mut state, 1);
        for key in 0..50u64 {
            select(&mut state, &key);
            enter_window(&mut state, (0, 1));
            counts_before.clear(&mut state).unwrap();
            enter_window(&mut state, (9, 10));
            counts_before.update(&mut state, 9).unwrap();
        }
        state.end_batch().unwrap();
        let snapshot = Snapshot::written(&mut frozen, super::harness::all_groups());
        let mut dormant = bench.restored::<u64>(&snapshot);
        let mut restored = bench.restored::<u64>(&Snapshot::of(&mut dormant));
        let counts = counts(&mut restored);
        for key in 0..50u64 {
            for start in 0..4 {
                select(&mut restored, &key);
                enter_window(&mut restored, (start, start + 1));
                let expected = (start < key as i64 % 4).then_some(key + start as u64 * 1_000);
                assert_eq!(counts.value(&mut restored).unwrap(), expected, "key {key}, window {start}");
            }
        }
    });
}

/// Contract: A14, A15.
pub fn lists_of_namespaces_are_merged(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let texts = texts(&mut state);
        let name = |name: &str| name.to_owned();
        for key in [1u64, 2] {
            select(&mut state, &key);
            for (namespace, elements) in [("1", vec![33, 55]), ("2", vec![22, 11]), ("4", vec![7])] {
                enter(&mut state, namespace);
                texts.add_all(&mut state, elements).unwrap();
            }
        }
        select(&mut state, &1u64);
        texts.merge_namespaces(&mut state, &name("1"), &[]).unwrap();
        texts.merge_namespaces(&mut state, &name("5"), &[]).unwrap();
        texts.merge_namespaces(&mut state, &name("1"), &["2", "3", "1", "2"].map(name)).unwrap();
        for (key, namespace, expected) in [
            (1u64, "1", vec![33, 55, 22, 11]),
            (1, "2", vec![]),
            (1, "3", vec![]),
            (1, "4", vec![7]),
            (1, "5", vec![]),
            (2, "1", vec![33, 55]),
            (2, "2", vec![22, 11]),
        ] {
            select(&mut state, &key);
            enter(&mut state, namespace);
            assert_eq!(texts.get(&mut state).unwrap(), expected, "key {key}, namespace {namespace}");
        }
        let mut pairs = state.keys_and_namespaces::<u64, String>(texts.slot()).unwrap();
        pairs.sort();
        let expected = [(1, "1"), (1, "4"), (2, "1"), (2, "2"), (2, "4")];
        assert_eq!(pairs, expected.map(|(key, namespace)| (key, name(namespace))));
    });
}

/// Contract: A15, A17, A19.
pub fn accumulators_of_namespaces_are_merged(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let sums = sums(&mut state);
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
        let descriptor = AggregatingStateDescriptor::new("means", Mean { in_place: true });
        let means = store.get_aggregating_state(&descriptor).unwrap();
        let name = |name: &str| name.to_owned();
        select(&mut state, &1u64);
        for (namespace, values) in [("1", vec![33, 55]), ("2", vec![22, 11]), ("3", vec![44])] {
            enter(&mut state, namespace);
            for value in values {
                sums.add(&mut state, value).unwrap();
                means.add(&mut state, value).unwrap();
            }
        }
        sums.merge_namespaces(&mut state, &name("1"), &["2", "3", "4"].map(name)).unwrap();
        means.merge_namespaces(&mut state, &name("1"), &["2", "3", "4"].map(name)).unwrap();
        let expected = [("1", Some(165), Some(33)), ("2", None, None), ("3", None, None), ("4", None, None)];
        for (namespace, sum, mean) in expected {
            enter(&mut state, namespace);
            assert_eq!(sums.get(&mut state).unwrap(), sum, "namespace {namespace}");
            assert_eq!(means.get(&mut state).unwrap(), mean, "namespace {namespace}");
        }
        sums.merge_namespaces(&mut state, &name("new"), &["none", "1"].map(name)).unwrap();
        means.merge_namespaces(&mut state, &name("new"), &["none", "1"].map(name)).unwrap();
        means.merge_namespaces(&mut state, &name("new"), &[]).unwrap();
        enter(&mut state, "new");
        assert_eq!((sums.get(&mut state).unwrap(), means.get(&mut state).unwrap()), (Some(165), Some(33)));
        // Five values have been counted, and not twice five.
        means.add(&mut state, 33 + 6 * 5).unwrap();
        assert_eq!(means.get(&mut state).unwrap(), Some(38));
        enter(&mut state, "1");
        assert_eq!((sums.get(&mut state).unwrap(), means.get(&mut state).unwrap()), (None, None));
    });
}

/// All or nothing: the accumulators are as they were, those of the sources too.
pub fn a_merge_whose_function_fails_changes_nothing(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
        let checked = |one: &u64, other: u64| one.checked_add(other).ok_or_else(|| "too much".into());
        let sums = store.get_reducing_state(&ReducingStateDescriptor::fallible("sums", checked)).unwrap();
        let name = |name: &str| name.to_owned();
        let values = [("1", 1), ("2", 2), ("3", u64::MAX), ("4", 4)];
        select(&mut state, &1u64);
        for (namespace, value) in values {
            enter(&mut state, namespace);
            sums.add(&mut state, value).unwrap();
        }
        match sums.merge_namespaces(&mut state, &name("1"), &["2", "3", "4"].map(name)) {
            Err(StateError::Function { state, .. }) => assert_eq!(state, "sums"),
            other => panic!("the function that failed gave {other:?}"),
        }
        for (namespace, value) in values {
            enter(&mut state, namespace);
            assert_eq!(sums.get(&mut state).unwrap(), Some(value), "namespace {namespace}");
        }
    });
}

/// Values, maps and folded accumulators are not merged, nor are namespaces of another type; nothing changes.
pub fn what_cannot_be_merged_is_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let (counts, texts) = (counts(&mut state), texts(&mut state));
        select(&mut state, &1u64);
        for start in 0..2 {
            enter_window(&mut state, (start, start + 1));
            counts.update(&mut state, start as u64).unwrap();
        }
        match state.merge_namespaces(counts.slot(), &(0i64, 1i64), &[(1, 2)]) {
            Err(StateError::NotMergeable { state, .. }) => assert_eq!(state, "counts"),
            other => panic!("value state was merged: {other:?}"),
        }
        match texts.merge_namespaces(&mut state, &(0i64, 1i64), &[(1, 2)]) {
            Err(StateError::OtherNamespaceType { state, .. }) => assert_eq!(state, "texts"),
            other => panic!("namespaces of another type were merged: {other:?}"),
        }
        for start in 0..2 {
            enter_window(&mut state, (start, start + 1));
            assert_eq!(counts.value(&mut state).unwrap(), Some(start as u64));
        }
    });
}
