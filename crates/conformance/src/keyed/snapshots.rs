//! Cases: a snapshot is of one moment, whatever happens meanwhile.

use highwater_state_api::{CheckpointId, KeyGroup, KeyedState, StateError, TableMeta};

use super::harness::{
    BackendFactory, Snapshot, all_groups, expected_values, freeze, group_of, map, select, set_values, value, values,
    with_every_cache, write_group,
};
use crate::threads::beside;

const KEYS: u64 = 200;

/// Contract: B41, B43.
/// Updates, new keys, removals and new states after the freeze do not show.
pub fn a_snapshot_does_not_see_later_changes(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<u64, String>(&mut state, "seen");
        set_values(&mut state, "count", KEYS, 1);
        for key in 0..KEYS {
            select(&mut state, &key);
            for entry in 0..key % 4 {
                seen.put(&mut state, entry, format!("{entry} of {key}")).unwrap();
            }
        }
        let before = Snapshot::of(&mut state);
        let mut frozen = freeze(&mut state, 2);
        set_values(&mut state, "count", KEYS + 50, 2);
        set_values(&mut state, "another", KEYS, 3);
        let count = value::<u64>(&mut state, "count");
        for key in 0..KEYS {
            select(&mut state, &key);
            match key % 3 {
                0 => seen.clear(&mut state).unwrap(),
                1 => seen.put(&mut state, 0, "changed".into()).unwrap(),
                _ => seen.put(&mut state, 99, "new".into()).unwrap(),
            }
            if key % 5 == 0 {
                count.clear(&mut state).unwrap();
            }
        }
        state.end_batch().unwrap();
        assert_same(&before, &Snapshot::written(&mut frozen, all_groups()));
        let mut restored = bench.restored::<u64>(&before);
        assert_eq!(values(&mut restored, "count", KEYS), expected_values(KEYS, 1));
    });
}

#[track_caller]
fn assert_same(expected: &Snapshot, found: &Snapshot) {
    assert_eq!(expected.tables, found.tables);
    assert_eq!(expected.entries(), found.entries());
}

/// Contract: B46.
/// Each of several open snapshots keeps its moment, in whatever order they are written and dropped.
pub fn several_snapshots_can_be_open_at_once(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut state = bench.open::<u64>();
            let mut open = Vec::new();
            let mut expected = Vec::new();
            for round in 0..4u64 {
                set_values(&mut state, "count", KEYS, round);
                // A part that only some rounds change.
                set_values(&mut state, "part", KEYS / (round + 1), round);
                expected.push([values(&mut state, "count", KEYS), values(&mut state, "part", KEYS)]);
                open.push(Some(freeze(&mut state, round + 1)));
                // The middle of a checkpoint that is under way when the next one begins.
                if round == 2 {
                    let group = KeyGroup(3);
                    let first = open[0].as_mut().map(|frozen| write_group(frozen, group));
                    assert!(first.is_some());
                }
            }
            set_values(&mut state, "count", KEYS, 1_000);
            state.end_batch().unwrap();
            for number in order {
                let mut frozen = open[number].take().unwrap();
                let snapshot = Snapshot::written(&mut frozen, all_groups());
                drop(frozen);
                let mut restored = bench.restored::<u64>(&snapshot);
                let found = [values(&mut restored, "count", KEYS), values(&mut restored, "part", KEYS)];
                assert_eq!(found, expected[number], "snapshot {number}");
                // The state goes on between the writes.
                set_values(&mut state, "part", KEYS, 2_000 + number as u64);
                state.end_batch().unwrap();
            }
            assert_eq!(values(&mut state, "count", KEYS), expected_values(KEYS, 1_000));
        }
    });
}

/// Nothing has changed since the last snapshot, or only a part, and all of it is in the next one.
pub fn an_unchanged_state_has_a_whole_snapshot_again(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<u64, u64>(&mut state, "seen");
        set_values(&mut state, "count", KEYS, 1);
        select(&mut state, &7u64);
        seen.put(&mut state, 1, 1).unwrap();
        let first = Snapshot::of(&mut state);
        state.confirmed(CheckpointId(1));
        assert_same(&first, &Snapshot::of(&mut state));
        let (mut one, mut two) = (freeze(&mut state, 2), freeze(&mut state, 3));
        assert_same(&first, &Snapshot::written(&mut one, all_groups()));
        assert_same(&first, &Snapshot::written(&mut two, all_groups()));
        let count = value::<u64>(&mut state, "count");
        select(&mut state, &8u64);
        count.clear(&mut state).unwrap();
        assert_eq!(Snapshot::of(&mut state).entries().len(), first.entries().len() - 1);
    });
}

/// A snapshot is written by another thread while the task goes on.
pub fn a_snapshot_can_be_written_on_another_thread(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        for round in 0..3u64 {
            set_values(&mut state, "count", KEYS, round);
            let mut frozen = freeze(&mut state, round + 1);
            let write = move || Snapshot::written(&mut frozen, all_groups());
            let (snapshot, ()) = beside(write, || {
                for change in 0..5 {
                    set_values(&mut state, "count", KEYS, 100 + change);
                    state.end_batch().unwrap();
                }
            });
            let mut restored = bench.restored::<u64>(&snapshot);
            assert_eq!(values(&mut restored, "count", KEYS), expected_values(KEYS, round));
        }
        assert_eq!(values(&mut state, "count", KEYS), expected_values(KEYS, 104));
    });
}

/// Groups may be asked for backwards, one alone, and twice.
pub fn a_key_group_can_be_written_in_any_order_and_again(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", KEYS, 1);
        let mut frozen = freeze(&mut state, 1);
        let mut backwards: Vec<_> = all_groups().iter().collect();
        backwards.reverse();
        let streams: Vec<_> = backwards.iter().map(|group| write_group(&mut frozen, *group)).collect();
        set_values(&mut state, "count", KEYS, 2);
        let again = Snapshot::written(&mut frozen, all_groups());
        let groups = backwards.into_iter().zip(streams).filter(|(_, stream)| !stream.is_empty()).collect();
        assert_same(&Snapshot { tables: frozen.tables.clone(), groups }, &again);
        assert_eq!(again.entries().len() as u64, KEYS);
    });
}

/// Every entry is in the group of its key, once, with the right table.
pub fn a_snapshot_has_every_entry_once(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let seen = map::<u64, u64>(&mut state, "seen");
        let mut expected = Vec::new();
        for round in 0..3u64 {
            set_values(&mut state, "count", KEYS, round);
            for key in 0..KEYS {
                select(&mut state, &key);
                for entry in 0..key % 3 {
                    seen.put(&mut state, entry, round).unwrap();
                }
            }
        }
        // With fixed-width integers the bytes of a number are the number.
        let bytes = |number: u64| number.to_le_bytes().to_vec();
        for key in 0..KEYS {
            let at = |name: &str, map_key| (name.to_owned(), group_of(&key), bytes(key), Vec::new(), map_key);
            expected.push((at("count", Vec::new()), bytes(key * 10 + 2)));
            expected.extend((0..key % 3).map(|entry| (at("seen", bytes(entry)), bytes(2))));
        }
        expected.sort_unstable();
        let snapshot = Snapshot::of(&mut state);
        assert_eq!(snapshot.entries().into_iter().collect::<Vec<_>>(), expected);
        let names: Vec<&str> = snapshot.tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["seen", "count"]);
    });
}

/// A visitor that fails is not called again, its error comes back, and the group can be visited anew.
pub fn the_error_of_a_visitor_ends_the_visit_and_is_returned(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", KEYS, 1);
        let mut frozen = freeze(&mut state, 1);
        let group = group_of(&0u64);
        let whole = write_group(&mut frozen, group);
        for wanted in 1..=3 {
            let mut visited = 0;
            let visit = frozen.content.visit_key_group(group, &mut |_| {
                visited += 1;
                if visited == wanted { Err(StateError::Backend("no room to write".into())) } else { Ok(()) }
            });
            match visit {
                Err(StateError::Backend(source)) => assert_eq!(source.to_string(), "no room to write"),
                other => panic!("the error of the visitor became {other:?}"),
            }
            assert_eq!(visited, wanted);
        }
        assert_eq!(write_group(&mut frozen, group).len(), whole.len());
    });
}

/// Cleared values, removed entries and keys without any state are not in the next snapshot.
pub fn a_snapshot_does_not_have_what_was_removed(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let seen = map::<u64, u64>(&mut state, "seen");
        for key in 0..30u64 {
            select(&mut state, &key);
            count.update(&mut state, key).unwrap();
            seen.put(&mut state, 1, key).unwrap();
            seen.put(&mut state, 2, key).unwrap();
        }
        let first = Snapshot::of(&mut state);
        assert_eq!(first.entries().len(), 90);
        for key in 0..30u64 {
            select(&mut state, &key);
            if key < 20 {
                count.clear(&mut state).unwrap();
                seen.remove(&mut state, &1).unwrap();
            }
            if key < 10 {
                seen.clear(&mut state).unwrap();
            }
        }
        let second = Snapshot::of(&mut state);
        assert_eq!(second.entries().len(), 10 + 10 * 3);
        // Once more by way of a restore.
        let mut restored = bench.restored::<u64>(&second);
        let seen = map::<u64, u64>(&mut restored, "seen");
        for key in 10..20u64 {
            select(&mut restored, &key);
            seen.remove(&mut restored, &2).unwrap();
        }
        assert_eq!(Snapshot::of(&mut restored).entries().len(), 30);
    });
}

/// Contract: B42, B57.
/// Without entries there is still what was registered.
pub fn an_empty_state_has_a_snapshot(factory: BackendFactory<'_>) {
    fn names(tables: &[TableMeta]) -> Vec<&str> {
        tables.iter().map(|table| table.name.as_str()).collect()
    }
    with_every_cache(factory, |bench| {
        let mut state: KeyedState = bench.open::<u64>();
        let snapshot = Snapshot::of(&mut state);
        assert!(snapshot.tables.is_empty() && snapshot.groups.is_empty());
        value::<u64>(&mut state, "count");
        map::<u64, String>(&mut state, "seen");
        let snapshot = Snapshot::of(&mut state);
        assert_eq!(names(&snapshot.tables), ["count", "seen"]);
        assert!(snapshot.groups.is_empty());
    });
}

/// Notifications may come late, twice, for unknown checkpoints or not at all; the state has gone on meanwhile.
pub fn the_fate_of_a_checkpoint_changes_no_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        state.aborted(CheckpointId(7));
        for round in 1..=6u64 {
            set_values(&mut state, "count", KEYS, round);
            let mut frozen = freeze(&mut state, round);
            set_values(&mut state, "count", KEYS, 100 + round);
            state.end_batch().unwrap();
            match round % 3 {
                0 => state.confirmed(CheckpointId(round)),
                1 => state.aborted(CheckpointId(round)),
                _ => {}
            }
            state.confirmed(CheckpointId(round.saturating_sub(2)));
            assert_eq!(values(&mut state, "count", KEYS), expected_values(KEYS, 100 + round));
            let snapshot = Snapshot::written(&mut frozen, all_groups());
            state.confirmed(CheckpointId(round));
            let mut restored = bench.restored::<u64>(&snapshot);
            assert_eq!(values(&mut restored, "count", KEYS), expected_values(KEYS, round));
        }
    });
}

/// Contract: B44, B45.
/// A snapshot that is given up, whole or in the middle of a group, or that could not be written, leaves
/// the state and the next snapshot as they would have been.
pub fn a_snapshot_that_is_given_up_leaves_the_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        for round in 0..6u64 {
            set_values(&mut state, "count", KEYS, round);
            let mut frozen = freeze(&mut state, round + 1);
            match round % 3 {
                0 => {}
                1 => drop(write_group(&mut frozen, KeyGroup(0))),
                _ => {
                    let mut entries = 0;
                    let outcome = frozen.content.visit_key_group(KeyGroup(1), &mut |_| {
                        entries += 1;
                        let full = || StateError::Backend("the disk is full".into());
                        if entries < 3 { Ok(()) } else { Err(full()) }
                    });
                    assert!(matches!(outcome, Err(StateError::Backend(_))), "{outcome:?}");
                    assert_eq!(entries, 3, "nothing is visited after an error");
                }
            }
            set_values(&mut state, "count", KEYS / 2, 1_000);
            drop(frozen);
            state.end_batch().unwrap();
            let mut expected = expected_values(KEYS, round);
            expected[..KEYS as usize / 2].copy_from_slice(&expected_values(KEYS / 2, 1_000));
            assert_eq!(values(&mut state, "count", KEYS), expected);
            let mut restored = bench.restored::<u64>(&Snapshot::of(&mut state));
            assert_eq!(values(&mut restored, "count", KEYS), expected);
        }
    });
}

/// Contract: B48.
/// Taken again and again while the number of keys grows from nothing to thousands.
pub fn a_snapshot_taken_while_the_state_grows_is_whole(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let mut open = Vec::new();
        for key in 0..3_000u64 {
            select(&mut state, &key);
            count.update(&mut state, key).unwrap();
            if key % 300 == 299 {
                open.push((key + 1, freeze(&mut state, key)));
            }
        }
        for (keys, mut frozen) in open {
            let entries = Snapshot::written(&mut frozen, all_groups()).entries();
            assert_eq!(entries.len() as u64, keys);
        }
    });
}

/// Contract: B56.
/// What a snapshot needs lives as long as it does: the state may go first.
pub fn a_snapshot_outlives_its_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", KEYS, 1);
        let mut frozen = freeze(&mut state, 1);
        set_values(&mut state, "count", KEYS, 2);
        drop(state);
        let mut restored = bench.restored::<u64>(&Snapshot::written(&mut frozen, all_groups()));
        drop(frozen);
        assert_eq!(values(&mut restored, "count", KEYS), expected_values(KEYS, 1));
    });
}

/// Field case: R81.
/// Of it, the keyed state: all values are set anew, half of them removed and a state registered while the snapshot waits.
pub fn a_snapshot_that_waits_has_what_it_had(factory: BackendFactory<'_>) {
    const MANY: u64 = 10_000;
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        for key in 0..MANY {
            select(&mut state, &key);
            count.update(&mut state, 1).unwrap();
        }
        let mut frozen = freeze(&mut state, 1);
        let late = value::<u64>(&mut state, "late");
        for key in 0..MANY {
            select(&mut state, &key);
            count.update(&mut state, 2).unwrap();
            late.update(&mut state, 3).unwrap();
            if key % 2 == 1 {
                count.clear(&mut state).unwrap();
            }
        }
        state.end_batch().unwrap();
        let snapshot = Snapshot::written(&mut frozen, all_groups());
        assert_eq!(snapshot.tables.len(), 1);
        let entries = snapshot.entries();
        assert_eq!(entries.len() as u64, MANY);
        assert!(entries.values().all(|value| *value == 1u64.to_le_bytes()));
        let mut restored = bench.restored::<u64>(&snapshot);
        assert_eq!(values(&mut restored, "count", MANY), vec![Some(1); MANY as usize]);
        let live = values(&mut state, "count", MANY);
        assert_eq!(live, Vec::from_iter((0..MANY).map(|key| (key % 2 == 0).then_some(2))));
    });
}
