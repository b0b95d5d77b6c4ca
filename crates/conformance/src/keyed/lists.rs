//! Cases: a list a key.

use super::harness::{
    BackendFactory, Snapshot, Unwritable, assert_unwritable, list, select, unwritable_after_restore, with_every_cache,
};

/// Contract: A6, A12.
pub fn a_list_is_empty_until_something_is_added(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let events = list::<String>(&mut state, "events");
        select(&mut state, &1u64);
        assert!(events.get(&mut state).unwrap().is_empty());
        assert!(events.is_empty(&mut state).unwrap());
        events.clear(&mut state).unwrap();
        events.add(&mut state, "a".into()).unwrap();
        assert!(!events.is_empty(&mut state).unwrap());
        events.add_all(&mut state, ["b".into(), "c".into()]).unwrap();
        assert_eq!(events.get(&mut state).unwrap(), ["a", "b", "c"]);
        select(&mut state, &2u64);
        assert!(events.is_empty(&mut state).unwrap());
        select(&mut state, &1u64);
        events.update(&mut state, ["x".into(), "y".into(), "z".into()]).unwrap();
        assert_eq!(events.get(&mut state).unwrap(), ["x", "y", "z"]);
        events.add(&mut state, "a".into()).unwrap();
        assert_eq!(events.get(&mut state).unwrap(), ["x", "y", "z", "a"]);
        events.clear(&mut state).unwrap();
        assert!(events.get(&mut state).unwrap().is_empty());
    });
}

/// Elements that look like nothing, or like what could stand between elements, are elements.
pub fn elements_of_any_shape_are_kept(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let texts = list::<String>(&mut state, "texts");
        let units = list::<()>(&mut state, "units");
        let large = "x".repeat(1 << 20);
        let elements = [",", "\0", "", "a,b", &large, "", ","].map(String::from);
        select(&mut state, &1u64);
        texts.add(&mut state, elements[0].clone()).unwrap();
        texts.add_all(&mut state, elements[1..].to_vec()).unwrap();
        units.add_all(&mut state, [(), ()]).unwrap();
        assert!(texts.get(&mut state).unwrap() == elements);
        let mut restored = bench.restored::<u64>(&Snapshot::of(&mut state));
        let texts = list::<String>(&mut restored, "texts");
        let units = list::<()>(&mut restored, "units");
        select(&mut restored, &1u64);
        assert!(texts.get(&mut restored).unwrap() == elements);
        assert_eq!(units.get(&mut restored).unwrap().len(), 2);
    });
}

/// Contract: A9, A11.
/// No elements is the same as no list, however it came to it.
pub fn a_list_without_elements_has_no_entry(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let events = list::<u64>(&mut state, "events");
        for key in 0..4u64 {
            select(&mut state, &key);
            match key {
                0 => {}
                1 => events.add_all(&mut state, []).unwrap(),
                2 => {
                    events.add_all(&mut state, [1, 2]).unwrap();
                    events.add_all(&mut state, []).unwrap();
                    assert_eq!(events.get(&mut state).unwrap(), [1, 2]);
                    events.update(&mut state, []).unwrap();
                }
                _ => {
                    events.add(&mut state, 1).unwrap();
                    events.clear(&mut state).unwrap();
                }
            }
            assert!(events.is_empty(&mut state).unwrap());
        }
        assert!(state.keys::<u64, ()>(events.slot(), &()).unwrap().is_empty());
        assert!(Snapshot::of(&mut state).entries().is_empty());
    });
}

/// Contract: A7, A8, A13.
/// All or nothing: a call in which one element cannot be written changes nothing.
pub fn an_element_that_cannot_be_written_leaves_the_list(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let good = Unwritable::good;
        for call in 0..3 {
            let mut state = unwritable_after_restore(bench, |state| {
                list::<Unwritable>(state, "events").add(state, good(1)).unwrap();
            });
            let events = list::<Unwritable>(&mut state, "events");
            select(&mut state, &1u64);
            let outcome = match call {
                0 => events.add(&mut state, Unwritable::bad()),
                1 => events.add_all(&mut state, [good(2), Unwritable::bad()]),
                _ => events.update(&mut state, [good(3), Unwritable::bad()]),
            };
            assert_unwritable("events", outcome);
            assert_eq!(events.get(&mut state).unwrap(), [good(1)]);
            events.add(&mut state, good(2)).unwrap();
            assert_eq!(events.get(&mut state).unwrap(), [good(1), good(2)]);
        }
    });
}

/// Contract: B55.
/// The order is that of the additions, over ends of batches, snapshots that nobody read before, and restores.
pub fn a_list_keeps_its_order_over_batches_and_restores(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let mut expected = [Vec::new(), Vec::new(), Vec::new()];
        let mut next = 0u32;
        for round in 0..5 {
            let events = list::<u32>(&mut state, "events");
            for key in (0..3u64).cycle().take(150) {
                select(&mut state, &key);
                events.add(&mut state, next).unwrap();
                expected[key as usize].push(next);
                next += 1;
                if next.is_multiple_of(7) {
                    state.end_batch().unwrap();
                }
            }
            if round % 2 == 0 {
                state = bench.restored::<u64>(&Snapshot::of(&mut state));
            }
            let events = list::<u32>(&mut state, "events");
            for key in 0..3u64 {
                if round > 2 {
                    select(&mut state, &key);
                    assert_eq!(events.get(&mut state).unwrap(), expected[key as usize], "key {key} in round {round}");
                }
            }
        }
    });
}

/// What is added, replaced and cleared after the freeze does not show, in long lists and short ones.
pub fn a_snapshot_does_not_see_later_elements(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let events = list::<u64>(&mut state, "events");
        for key in 0..40u64 {
            select(&mut state, &key);
            events.add_all(&mut state, 0..key * 10).unwrap();
        }
        let mut frozen = super::harness::freeze(&mut state, 1);
        for key in 0..50u64 {
            select(&mut state, &key);
            match key % 4 {
                0 => events.add(&mut state, 1_000).unwrap(),
                1 => events.clear(&mut state).unwrap(),
                2 => events.update(&mut state, [7]).unwrap(),
                _ => {
                    events.get(&mut state).unwrap();
                    events.add_all(&mut state, 0..200).unwrap();
                }
            }
        }
        state.end_batch().unwrap();
        let snapshot = Snapshot::written(&mut frozen, super::harness::all_groups());
        let mut restored = bench.restored::<u64>(&snapshot);
        let events = list::<u64>(&mut restored, "events");
        for key in 0..50u64 {
            select(&mut restored, &key);
            let count = if key < 40 { key * 10 } else { 0 };
            assert_eq!(events.get(&mut restored).unwrap(), Vec::from_iter(0..count), "key {key}");
        }
    });
}
