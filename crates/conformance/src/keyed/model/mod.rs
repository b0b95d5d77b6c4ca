//! Random use of keyed state, over snapshots, failures, changes of the parallelism and of the backend, against plain maps.

mod calls;
mod plain;
mod subtask;

use std::collections::BTreeMap;

use calls::{Call, ListCall, MapCall, Step, Way};
use highwater_state_api::{FrozenKeyedState, KeyHash, KeyHasher};
use plain::{Plain, join_lists};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use subtask::Subtask;

use super::harness::{BackendFactory, Bench, Snapshot, freeze, group_of, max_parallelism, select};

/// Uses backends at random and compares them with plain maps, `cases` times: values, maps, lists, accumulators, namespaces,
/// with and without a cache, in batches and one by one. Snapshots are taken and written at any time, and restored at another
/// parallelism and into another of the backends.
///
/// The same seed gives the same cases. Panics with the shortest case found in which something differs.
pub fn check_against_plain_maps(backends: &[BackendFactory<'_>], cases: u32, seed: u64) {
    let config = Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    let outcome = TestRunner::new(config).run(&calls::cases(backends.len()), |(parallelism, way, steps)| {
        Run::new(backends, parallelism, way).all(steps);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// A snapshot of all subtasks that is not written yet, and what the model was.
type Open = (Vec<FrozenKeyedState>, Plain);

/// One case.
struct Run<'f> {
    backends: &'f [BackendFactory<'f>],
    subtasks: Vec<Subtask>,
    plain: Plain,
    open: Vec<Open>,
    written: (Vec<Snapshot>, Plain),
}

impl<'f> Run<'f> {
    fn new(backends: &'f [BackendFactory<'f>], parallelism: u32, way: Way) -> Self {
        let mut run = Self {
            backends,
            subtasks: Vec::new(),
            plain: Plain::default(),
            open: Vec::new(),
            written: (Vec::new(), Plain::default()),
        };
        run.restore(parallelism, way);
        run
    }

    fn all(mut self, steps: Vec<Step>) {
        steps.into_iter().for_each(|step| self.step(step));
        std::mem::take(&mut self.open).into_iter().for_each(|open| self.write(open));
        // What was written last is complete, and what it is restored to is it.
        let way = Way { backend: 0, cached_rows_max: 3 };
        self.restore(2, way);
        self.keys();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Batch(calls) => self.batch(&calls),
            Step::Single(key, call) => {
                let group = group_of(&key);
                let subtask = self.subtasks.iter_mut().find(|subtask| subtask.range.contains(group));
                let subtask = subtask.expect("every group has a subtask");
                subtask.register(&call);
                select(&mut subtask.state, &key);
                subtask.call(&key, &call, &mut self.plain);
            }
            Step::EndBatch => self.subtasks.iter_mut().for_each(|subtask| subtask.state.end_batch().unwrap()),
            Step::Freeze => {
                let frozen = self.subtasks.iter_mut().map(|subtask| freeze(&mut subtask.state, 1)).collect();
                self.open.push((frozen, self.plain.clone()));
            }
            Step::Write(which) if !self.open.is_empty() => {
                let open = self.open.remove(which.index(self.open.len()));
                self.write(open);
            }
            Step::Drop(which) if !self.open.is_empty() => drop(self.open.remove(which.index(self.open.len()))),
            Step::Write(_) | Step::Drop(_) => {}
            Step::Keys => self.keys(),
            Step::AddToAll(number) => self.add_to_all(number),
            Step::EveryMapEntry => self.every_map_entry(),
            Step::Restore(parallelism, way) => self.restore(parallelism, way),
        }
    }

    fn batch(&mut self, calls: &[(String, Call)]) {
        for subtask in &mut self.subtasks {
            let own = calls.iter().filter(|(key, _)| subtask.range.contains(group_of(key)));
            let own: Vec<_> = own.collect();
            own.iter().for_each(|(_, call)| subtask.register(call));
            let keys: Vec<_> = own.iter().map(|(key, _)| (key, hash(key))).collect();
            subtask.state.resolve_batch(keys.iter().copied()).unwrap();
            for (index, (key, call)) in own.iter().enumerate() {
                subtask.state.select(index).unwrap();
                subtask.call(key, call, &mut self.plain);
            }
            subtask.state.end_batch().unwrap();
        }
    }

    fn write(&mut self, (subtasks, plain): Open) {
        let parallelism = subtasks.len() as u32;
        let written = (0..).zip(subtasks).map(|(subtask, mut frozen)| {
            Snapshot::written(&mut frozen, max_parallelism().range_of(subtask, parallelism))
        });
        let written: Vec<Snapshot> = written.collect();
        let entries: Vec<_> = written.iter().map(Snapshot::entries).collect();
        let count: usize = entries.iter().map(BTreeMap::len).sum();
        let all: BTreeMap<_, _> = entries.into_iter().flatten().collect();
        assert_eq!(all.len(), count, "two subtasks have the same entry");
        assert_eq!(join_lists(all), plain.entries());
        self.written = (written, plain);
    }

    fn keys(&mut self) {
        let of_list = Call::List(ListCall::Get);
        let of_window = Call::WindowReduce(String::new(), None);
        let (mut lists, mut windows) = (Vec::new(), Vec::new());
        for subtask in &mut self.subtasks {
            subtask.register(&of_list);
            subtask.register(&of_window);
            let handles = subtask.handles;
            lists.extend(subtask.state.keys::<String, ()>(handles.list.slot(), &()).unwrap());
            windows.extend(subtask.state.keys_and_namespaces::<String, String>(handles.window_list.slot()).unwrap());
        }
        lists.sort();
        windows.sort();
        assert_eq!(lists, Vec::from_iter(self.plain.lists.keys().cloned()));
        assert_eq!(windows, Vec::from_iter(self.plain.window_lists.keys().cloned()));
    }

    fn add_to_all(&mut self, number: u16) {
        for subtask in &mut self.subtasks {
            subtask.register(&Call::Reduce(None));
            let reduced = subtask.handles.reduced;
            let add = subtask
                .state
                .apply_to_all_keys(reduced.slot(), &(), |state, _: &String| reduced.add(state, number.into()));
            add.unwrap();
        }
        self.plain.reduced.values_mut().for_each(|sum| *sum += u64::from(number));
    }

    fn every_map_entry(&mut self) {
        let mut found = BTreeMap::new();
        for subtask in &mut self.subtasks {
            subtask.register(&Call::Map(MapCall::Entries));
            let visit = |key: &String, of: KeyHash, map_key: &String, text: &String| {
                assert_eq!(of, hash(key));
                assert_eq!(found.insert((key.clone(), map_key.clone()), text.clone()), None);
            };
            subtask.state.for_each_map_entry(&subtask.handles.map, visit).unwrap();
        }
        assert_eq!(found, self.plain.maps);
    }

    fn restore(&mut self, parallelism: u32, Way { backend, cached_rows_max }: Way) {
        let bench = Bench::new(self.backends[backend], cached_rows_max);
        let subtasks = (0..parallelism).map(|subtask| {
            let mut subtask = Subtask::open(&bench, max_parallelism().range_of(subtask, parallelism));
            let (state, range) = (&mut subtask.state, subtask.range);
            self.written.0.iter().for_each(|snapshot| snapshot.restore(state, range).unwrap());
            subtask
        });
        self.subtasks = subtasks.collect();
        self.plain = self.written.1.clone();
    }
}

fn hash(key: &String) -> KeyHash {
    KeyHasher::default().hash(key).unwrap()
}
