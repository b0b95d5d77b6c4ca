//! Cases: all keys of a state, and who hears of a change of the current one.

use std::sync::{Arc, Mutex};

use highwater_state_api::{KeyHasher, KeyedStateStore, StateError, ValueStateDescriptor};

use super::harness::{BackendFactory, list, map, select, set_values, value, with_every_cache};

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

/// Contract: A31.
/// Keys without state in this state are not among them, whatever they have in others.
pub fn the_keys_of_a_state_are_those_that_have_some(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 1_000, 1);
        let (count, seen) = (value::<u64>(&mut state, "count"), map::<u64, u64>(&mut state, "seen"));
        let events = list::<u64>(&mut state, "events");
        for key in 0..1_000u64 {
            select(&mut state, &key);
            match key % 3 {
                0 => count.clear(&mut state).unwrap(),
                1 => {
                    seen.put_all(&mut state, (0..3).map(|entry| (entry, entry))).unwrap();
                    events.add_all(&mut state, 0..3).unwrap();
                }
                _ => {
                    seen.put(&mut state, 1, 1).unwrap();
                    seen.remove(&mut state, &1).unwrap();
                }
            }
        }
        let of = |rest: &[u64]| Vec::from_iter((0..1_000).filter(|key| rest.contains(&(key % 3))));
        assert_eq!(sorted(state.keys::<u64, ()>(count.slot(), &()).unwrap()), of(&[1, 2]));
        assert_eq!(sorted(state.keys::<u64, ()>(seen.slot(), &()).unwrap()), of(&[1]));
        assert_eq!(sorted(state.keys::<u64, ()>(events.slot(), &()).unwrap()), of(&[1]));
        assert!(matches!(state.keys::<String, ()>(count.slot(), &()), Err(StateError::OtherKeyType { .. })));
        let other = state.keys::<u64, u8>(count.slot(), &1);
        assert!(matches!(other, Err(StateError::OtherNamespaceType { .. })), "{other:?}");
    });
}

/// Contract: A32.
pub fn the_pairs_of_key_and_namespace_are_those_that_have_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u8>().unwrap();
        let count = store.get_state(&ValueStateDescriptor::<u64>::new("count")).unwrap();
        let mut expected = Vec::new();
        for key in 0..100u64 {
            select(&mut state, &key);
            for namespace in 0..4u8 {
                state.set_current_namespace(&namespace).unwrap();
                count.update(&mut state, key).unwrap();
                if key % 4 == u64::from(namespace) {
                    count.clear(&mut state).unwrap();
                } else {
                    expected.push((key, namespace));
                }
            }
        }
        assert_eq!(sorted(state.keys_and_namespaces::<u64, u8>(count.slot()).unwrap()), expected);
        let in_two = expected.iter().filter(|(_, namespace)| *namespace == 2).map(|(key, _)| *key);
        assert_eq!(sorted(state.keys::<u64, u8>(count.slot(), &2).unwrap()), Vec::from_iter(in_two));
    });
}

/// Contract: A33.
/// Also what is gone through may be removed, and the key that was current is current again.
pub fn a_call_for_all_keys_leaves_the_current_key(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 20, 0);
        let count = value::<u64>(&mut state, "count");
        select(&mut state, &77u64);
        let mut applied = Vec::new();
        let outcome = state.apply_to_all_keys(count.slot(), &(), |state, key: &u64| {
            assert_eq!(state.current_key::<u64>().unwrap(), key);
            applied.push(*key);
            count.clear(state)
        });
        outcome.unwrap();
        assert_eq!(sorted(applied), Vec::from_iter(0..20));
        assert_eq!(state.current_key::<u64>().unwrap(), &77);
        count.update(&mut state, 5).unwrap();
        assert_eq!(state.keys::<u64, ()>(count.slot(), &()).unwrap(), [77]);
    });
}

/// In the middle of a batch too, and after an error, which ends it.
pub fn a_call_for_all_keys_leaves_the_batch(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 50, 0);
        let count = value::<u64>(&mut state, "count");
        let mut hasher = KeyHasher::default();
        let keys = [3u64, 90, 91, 4];
        let hashes = keys.map(|key| hasher.hash(&key).unwrap());
        state.resolve_batch(keys.iter().zip(hashes)).unwrap();
        state.select(1).unwrap();
        count.update(&mut state, 1).unwrap();
        let mut calls = 0;
        let outcome = state.apply_to_all_keys(count.slot(), &(), |state, _: &u64| {
            calls += 1;
            if calls == 40 {
                return Err(StateError::Damaged("enough".into()));
            }
            count.modify(state, |count| *count = count.map(|count| count + 1_000))
        });
        assert!(matches!(outcome, Err(StateError::Damaged(_))), "{outcome:?}");
        assert_eq!(calls, 40);
        assert_eq!(state.current_key::<u64>().unwrap(), &90);
        for (index, key) in keys.iter().enumerate() {
            state.select(index).unwrap();
            assert_eq!(state.current_key::<u64>().unwrap(), key);
        }
        state.select(2).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), None);
        state.end_batch().unwrap();
        assert_eq!(state.keys::<u64, ()>(count.slot(), &()).unwrap().len(), 51);
    });
}

/// Contract: A34.
/// Once for each choice, with the key that is next, until it is removed.
pub fn a_key_listener_hears_of_every_key(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = heard.clone();
        let other = state.register_key_listener(|_: &String| {});
        assert!(matches!(other, Err(StateError::OtherKeyType { .. })), "{other:?}");
        let listener = state.register_key_listener(move |key: &u64| hear.lock().unwrap().push(*key)).unwrap();
        for key in [1u64, 2, 2, 1] {
            select(&mut state, &key);
            count.update(&mut state, key).unwrap();
        }
        let mut hasher = KeyHasher::default();
        let keys = [7u64, 8];
        let hashes = keys.map(|key| hasher.hash(&key).unwrap());
        state.resolve_batch(keys.iter().zip(hashes)).unwrap();
        state.select(1).unwrap();
        state.select(0).unwrap();
        // Chosen again is chosen, although the key does not change.
        state.select(0).unwrap();
        assert_eq!(*heard.lock().unwrap(), [1, 2, 2, 1, 8, 7, 7]);
        assert!(state.deregister_key_listener(listener));
        assert!(!state.deregister_key_listener(listener));
        state.select(1).unwrap();
        select(&mut state, &9u64);
        assert_eq!(*heard.lock().unwrap(), [1, 2, 2, 1, 8, 7, 7]);
    });
}
