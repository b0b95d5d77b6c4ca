//! Cases: state moves with its key groups when the parallelism changes.

use highwater_state_api::{
    AggregatingState, FoldingState, FoldingStateDescriptor, Key, KeyGroup, KeyGroupRange, KeyedState, KeyedStateStore,
    ListState, ListStateDescriptor, MapState, ReducingState, ValueState,
};
use serde::{Deserialize, Serialize};

use super::accumulating::mean;
use super::harness::{
    BackendFactory, Bench, Snapshot, freeze, group_of, list, map, max_parallelism, select, set_values, store, sum,
    value, with_every_cache,
};

const KEYS: u64 = 200;

fn ranges(parallelism: u32) -> Vec<KeyGroupRange> {
    (0..parallelism).map(|subtask| max_parallelism().range_of(subtask, parallelism)).collect()
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Event {
    Start,
    Amount(u64),
    Move { from: String, to: i16 },
}

/// Field case: R79.
/// The groups are written down: they are the same in every process, build and version, and on every backend. Floats and
/// maps without an order are no keys, which the compiler sees to.
pub fn keys_are_in_the_key_groups_that_they_always_have(factory: BackendFactory<'_>) {
    fn check<K: Key>(bench: &Bench<'_>, key: K, group_of_128: u16) {
        // A hash that is in group `n` of 128 is in group `n` modulo 16 of 16.
        let group = KeyGroup(group_of_128 % max_parallelism().get() as u16);
        let mut state = bench.open::<K>();
        let count = value::<u64>(&mut state, "count");
        select(&mut state, &key);
        count.update(&mut state, 1).unwrap();
        let snapshot = Snapshot::of(&mut state);
        assert_eq!(Vec::from_iter(snapshot.groups.keys()), [&group]);
        let mut restored = bench.restored_range::<K>(KeyGroupRange::new(group, group).unwrap(), &[&snapshot]);
        let count = value::<u64>(&mut restored, "count");
        select(&mut restored, &key);
        assert_eq!(count.value(&mut restored).unwrap(), Some(1));
    }
    with_every_cache(factory, |bench| {
        check(bench, 0u64, 102);
        check(bench, -1i32, 19);
        check(bench, String::from("a"), 95);
        check(bench, (String::from("a"), 1i32), 3);
        check(bench, Event::Start, 1);
        check(bench, Event::Amount(7), 8);
        check(bench, Event::Move { from: "x".into(), to: -2 }, 97);
        check(bench, [1u8, 2], 99);
    });
}

/// Contract: F128.
/// One subtask, then three, then two: every key is in the subtask that owns its group, and only there.
pub fn state_moves_with_its_key_groups(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", KEYS, 0);
        let mut snapshots = vec![Snapshot::of(&mut state)];
        let mut changes = 0;
        for parallelism in [3, 2, 16, 1] {
            changes += 1;
            let mut next = Vec::new();
            let mut entries = 0;
            for range in ranges(parallelism) {
                let mut state = bench.restored_range::<u64>(range, &snapshots.iter().collect::<Vec<_>>());
                let count = value::<u64>(&mut state, "count");
                for key in (0..KEYS).filter(|key| range.contains(group_of(key))) {
                    select(&mut state, &key);
                    let seen = count.modify(&mut state, |count| {
                        *count = count.map(|count| count + 1);
                        *count
                    });
                    assert_eq!(seen.unwrap(), Some(key * 10 + changes), "key {key} at parallelism {parallelism}");
                }
                let snapshot = Snapshot::written(&mut freeze(&mut state, 1), range);
                entries += snapshot.entries().len() as u64;
                next.push(snapshot);
            }
            assert_eq!(entries, KEYS, "at parallelism {parallelism}");
            snapshots = next;
        }
    });
}

/// Contract: F128, F129.
/// Every kind, in no namespace and in one: one subtask, then three, then two, then one.
pub fn state_of_every_kind_moves_with_its_key_groups(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut one = bench.open::<u64>();
        let handles = EveryKind::of(&mut one);
        for key in 0..KEYS {
            select(&mut one, &key);
            handles.fill(&mut one, key);
        }
        let mut snapshots = vec![Snapshot::of(&mut one)];
        for parallelism in [3, 2, 1] {
            let subtasks = ranges(parallelism).into_iter().map(|range| {
                let mut state = bench.restored_range::<u64>(range, &Vec::from_iter(&snapshots));
                let handles = EveryKind::of(&mut state);
                for key in (0..KEYS).filter(|key| range.contains(group_of(key))) {
                    select(&mut state, &key);
                    handles.check(&mut state, key);
                }
                let keys = state.keys::<u64, ()>(handles.list.slot(), &()).unwrap();
                assert!(keys.iter().all(|key| range.contains(group_of(key))));
                Snapshot::written(&mut freeze(&mut state, 1), range)
            });
            snapshots = subtasks.collect();
        }
    });
}

/// A state of every kind, and one in namespaces.
struct EveryKind {
    value: ValueState<u64>,
    list: ListState<u64>,
    map: MapState<u64, u64>,
    reducing: ReducingState<u64>,
    aggregating: AggregatingState<u64, u64>,
    folding: FoldingState<u64, Vec<u64>>,
    windows: ListState<u64>,
}

impl EveryKind {
    fn of(state: &mut KeyedState) -> Self {
        let (value, list, map) = (value(state, "value"), list(state, "list"), map(state, "map"));
        let (reducing, aggregating) = (sum(state, "reducing"), mean(state, true));
        let push = |mut folded: Vec<u64>, value| {
            folded.push(value);
            folded
        };
        let folding = store(state).get_folding_state(&FoldingStateDescriptor::new("folding", vec![7], push)).unwrap();
        let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<u64>().unwrap();
        let windows = store.get_list_state(&ListStateDescriptor::new("windows")).unwrap();
        Self { value, list, map, reducing, aggregating, folding, windows }
    }

    fn fill(&self, state: &mut KeyedState, key: u64) {
        self.value.update(state, key).unwrap();
        for number in 0..=key % 5 {
            self.list.add(state, key + number).unwrap();
            self.map.put(state, number, key).unwrap();
            self.reducing.add(state, number).unwrap();
            self.aggregating.add(state, key + 1_000).unwrap();
            self.folding.add(state, key).unwrap();
            state.set_current_namespace(&number).unwrap();
            self.windows.add_all(state, [key, number]).unwrap();
        }
    }

    #[track_caller]
    fn check(&self, state: &mut KeyedState, key: u64) {
        let last = key % 5;
        assert_eq!(self.value.value(state).unwrap(), Some(key));
        assert_eq!(self.list.get(state).unwrap(), Vec::from_iter(key..=key + last));
        let mut entries = self.map.entries(state).unwrap();
        entries.sort_unstable();
        assert_eq!(entries, Vec::from_iter((0..=last).map(|number| (number, key))));
        assert_eq!(self.reducing.get(state).unwrap(), Some(last * (last + 1) / 2));
        assert_eq!(self.aggregating.get(state).unwrap(), Some(key + 1_000));
        assert_eq!(self.folding.get(state).unwrap(), Some([vec![7], vec![key; last as usize + 1]].concat()));
        for number in 0..6 {
            state.set_current_namespace(&number).unwrap();
            let expected = if number <= last { vec![key, number] } else { Vec::new() };
            assert_eq!(self.windows.get(state).unwrap(), expected);
        }
    }
}

/// Field case: R49.
/// A state that only one subtask registered, late, is restored by all, at every parallelism.
pub fn a_state_that_one_subtask_registered_is_restored_by_all(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let keys = Vec::from_iter((0..100u64).filter(|key| max_parallelism().range_of(0, 2).contains(group_of(key))));
        let mut snapshots = Vec::new();
        for (subtask, range) in ranges(2).into_iter().enumerate() {
            let mut state = bench.open_range::<u64>(range);
            if subtask == 0 {
                for key in &keys {
                    select(&mut state, key);
                    let late = value::<u64>(&mut state, "late");
                    late.update(&mut state, key + 1).unwrap();
                }
            }
            snapshots.push(Snapshot::written(&mut freeze(&mut state, 1), range));
        }
        for parallelism in [4, 1] {
            let subtasks = ranges(parallelism).into_iter().map(|range| {
                let mut state = bench.restored_range::<u64>(range, &Vec::from_iter(&snapshots));
                let late = value::<u64>(&mut state, "late");
                for key in (0..100).filter(|key| range.contains(group_of(key))) {
                    select(&mut state, &key);
                    assert_eq!(late.value(&mut state).unwrap(), keys.contains(&key).then_some(key + 1));
                }
                Snapshot::written(&mut freeze(&mut state, 1), range)
            });
            snapshots = subtasks.collect();
        }
    });
}
