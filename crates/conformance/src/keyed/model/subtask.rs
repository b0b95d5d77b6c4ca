//! One subtask under test: does a call, does the same to the model, and compares what comes out.

use std::collections::BTreeMap;

use highwater_state_api::{
    AggregatingState, FoldingState, FoldingStateDescriptor, KeyGroupRange, KeyedState, KeyedStateStore, ListState,
    ListStateDescriptor, MapState, ReducingState, ReducingStateDescriptor, ValueState,
};

use super::super::accumulating::mean;
use super::super::harness::{Bench, list, map, store, sum, value};
use super::calls::{Call, ListCall, MapCall, ValueCall};
use super::plain::Plain;

/// The state of one subtask. States are registered at their first use, so that restored ones also stay unread.
pub(super) struct Subtask {
    pub(super) range: KeyGroupRange,
    pub(super) state: KeyedState,
    pub(super) handles: Handles,
}

/// The handles; those of states that are not registered are bound to nothing.
#[derive(Default, Clone, Copy)]
pub(super) struct Handles {
    pub(super) value: ValueState<u16>,
    pub(super) map: MapState<String, String>,
    pub(super) list: ListState<u16>,
    pub(super) reduced: ReducingState<u64>,
    pub(super) aggregated: AggregatingState<u64, u64>,
    folded: FoldingState<u16, Vec<u16>>,
    pub(super) window_list: ListState<u16>,
    window_reduced: ReducingState<u64>,
}

impl Subtask {
    pub(super) fn open(bench: &Bench<'_>, range: KeyGroupRange) -> Self {
        Self { range, state: bench.open_range::<String>(range), handles: Handles::default() }
    }

    /// Registers the states that a call is about.
    pub(super) fn register(&mut self, call: &Call) {
        let (state, handles) = (&mut self.state, &mut self.handles);
        match call {
            Call::Value(_) => handles.value = value(state, "value"),
            Call::Map(_) => handles.map = map(state, "map"),
            Call::List(_) => handles.list = list(state, "list"),
            Call::Reduce(_) => handles.reduced = sum(state, "reduced"),
            Call::Aggregate(_) => handles.aggregated = mean(state, true),
            Call::Fold(_) => {
                let descriptor = FoldingStateDescriptor::new("folded", vec![7u16], |mut folded, value| {
                    folded.push(value);
                    folded
                });
                handles.folded = store(state).get_folding_state(&descriptor).unwrap();
            }
            Call::WindowList(..) | Call::WindowReduce(..) | Call::Merge(..) => {
                let store: &mut dyn KeyedStateStore = &mut state.in_namespaces::<String>().unwrap();
                handles.window_list = store.get_list_state(&ListStateDescriptor::new("window list")).unwrap();
                let add = ReducingStateDescriptor::new("window reduced", |one: &u64, other: u64| one + other);
                handles.window_reduced = store.get_reducing_state(&add).unwrap();
            }
        }
    }

    /// Does a call under the current key, and the same to the model.
    pub(super) fn call(&mut self, key: &str, call: &Call, plain: &mut Plain) {
        let (state, handles) = (&mut self.state, self.handles);
        let owned = || key.to_owned();
        match call {
            Call::Value(call) => call_value(state, handles.value, call, key, &mut plain.values),
            Call::Map(call) => call_map(state, handles.map, call, key, &mut plain.maps),
            Call::List(call) => call_list(state, handles.list, call, owned(), &mut plain.lists),
            Call::Reduce(added) => call_sum(state, handles.reduced, *added, owned(), &mut plain.reduced),
            Call::Aggregate(Some(added)) => {
                let added = u64::from(*added);
                handles.aggregated.add(state, added).unwrap();
                let mean = plain.aggregated.entry(owned()).or_default();
                *mean = (mean.0 + added, mean.1 + 1);
                assert_eq!(handles.aggregated.get(state).unwrap(), Some(mean.0 / mean.1));
            }
            Call::Aggregate(None) => {
                handles.aggregated.clear(state).unwrap();
                plain.aggregated.remove(key);
                assert_eq!(handles.aggregated.get(state).unwrap(), None);
            }
            Call::Fold(Some(added)) => {
                handles.folded.add(state, *added).unwrap();
                let folded = plain.folded.entry(owned()).or_insert_with(|| vec![7]);
                folded.push(*added);
                assert_eq!(handles.folded.get(state).unwrap().as_ref(), Some(&*folded));
            }
            Call::Fold(None) => {
                handles.folded.clear(state).unwrap();
                plain.folded.remove(key);
                assert_eq!(handles.folded.get(state).unwrap(), None);
            }
            Call::WindowList(namespace, call) => {
                state.set_current_namespace(namespace).unwrap();
                call_list(state, handles.window_list, call, (owned(), namespace.clone()), &mut plain.window_lists);
            }
            Call::WindowReduce(namespace, added) => {
                state.set_current_namespace(namespace).unwrap();
                let at = (owned(), namespace.clone());
                call_sum(state, handles.window_reduced, *added, at, &mut plain.window_reduced);
            }
            Call::Merge(target, sources) => {
                handles.window_list.merge_namespaces(state, target, sources).unwrap();
                handles.window_reduced.merge_namespaces(state, target, sources).unwrap();
                let at = |namespace: &String| (owned(), namespace.clone());
                for source in sources.iter().filter(|source| *source != target) {
                    if let Some(list) = plain.window_lists.remove(&at(source)) {
                        plain.window_lists.entry(at(target)).or_default().extend(list);
                    }
                    if let Some(sum) = plain.window_reduced.remove(&at(source)) {
                        *plain.window_reduced.entry(at(target)).or_default() += sum;
                    }
                }
            }
        }
    }
}

fn call_value(
    state: &mut KeyedState,
    value: ValueState<u16>,
    call: &ValueCall,
    key: &str,
    plain: &mut BTreeMap<String, u16>,
) {
    match call {
        ValueCall::Set(number) => {
            value.update(state, *number).unwrap();
            plain.insert(key.to_owned(), *number);
        }
        ValueCall::Add(number) => {
            let add = |value: &mut Option<u16>| *value.insert(value.unwrap_or(1).wrapping_add(*number));
            let expected = add(&mut plain.get(key).copied());
            plain.insert(key.to_owned(), expected);
            assert_eq!(value.modify(state, add).unwrap(), expected);
        }
        ValueCall::TakeOut => assert_eq!(value.modify(state, Option::take).unwrap(), plain.remove(key)),
        ValueCall::Clear => {
            value.clear(state).unwrap();
            plain.remove(key);
        }
        ValueCall::Get => assert_eq!(value.value(state).unwrap().as_ref(), plain.get(key)),
    }
}

fn call_map(
    state: &mut KeyedState,
    map: MapState<String, String>,
    call: &MapCall,
    key: &str,
    plain: &mut BTreeMap<(String, String), String>,
) {
    let own = |map_key: &String| (key.to_owned(), map_key.clone());
    match call {
        MapCall::Put(map_key, text) => {
            map.put(state, map_key.clone(), text.clone()).unwrap();
            plain.insert(own(map_key), text.clone());
        }
        MapCall::PutAll(entries) => {
            map.put_all(state, entries.clone()).unwrap();
            plain.extend(entries.iter().map(|(map_key, text)| (own(map_key), text.clone())));
        }
        MapCall::Remove(map_key) => {
            map.remove(state, map_key).unwrap();
            plain.remove(&own(map_key));
        }
        MapCall::Get(map_key) => {
            assert_eq!(map.get(state, map_key).unwrap().as_ref(), plain.get(&own(map_key)));
            assert_eq!(map.contains(state, map_key).unwrap(), plain.contains_key(&own(map_key)));
        }
        MapCall::Entries => {
            let mut entries = map.entries(state).unwrap();
            entries.sort();
            let expected = plain.iter().filter(|((of, _), _)| of == key);
            let expected = expected.map(|((_, map_key), text)| (map_key.clone(), text.clone()));
            assert_eq!(entries, Vec::from_iter(expected));
        }
        MapCall::IsEmpty => assert_eq!(map.is_empty(state).unwrap(), !plain.keys().any(|(of, _)| of == key)),
        MapCall::Retain(length) => {
            map.retain(state, |map_key, _| map_key.len() < *length).unwrap();
            plain.retain(|(of, map_key), _| of != key || map_key.len() < *length);
        }
        MapCall::Append(text) => {
            map.for_each_mut(state, |_, value| value.push_str(text)).unwrap();
            let own = plain.iter_mut().filter(|((of, _), _)| of == key);
            own.for_each(|(_, value)| value.push_str(text));
        }
        MapCall::Clear => {
            map.clear(state).unwrap();
            plain.retain(|(of, _), _| of != key);
        }
    }
}

fn call_list<At: Ord>(
    state: &mut KeyedState,
    list: ListState<u16>,
    call: &ListCall,
    at: At,
    plain: &mut BTreeMap<At, Vec<u16>>,
) {
    match call {
        ListCall::Add(number) => {
            list.add(state, *number).unwrap();
            plain.entry(at).or_default().push(*number);
        }
        ListCall::AddAll(numbers) => {
            list.add_all(state, numbers.iter().copied()).unwrap();
            if !numbers.is_empty() {
                plain.entry(at).or_default().extend(numbers);
            }
        }
        ListCall::Update(numbers) => {
            list.update(state, numbers.iter().copied()).unwrap();
            plain.remove(&at);
            if !numbers.is_empty() {
                plain.insert(at, numbers.clone());
            }
        }
        ListCall::Get => assert_eq!(list.get(state).unwrap(), plain.get(&at).cloned().unwrap_or_default()),
        ListCall::IsEmpty => assert_eq!(list.is_empty(state).unwrap(), !plain.contains_key(&at)),
        ListCall::Clear => {
            list.clear(state).unwrap();
            plain.remove(&at);
        }
    }
}

fn call_sum<At: Ord>(
    state: &mut KeyedState,
    sum: ReducingState<u64>,
    added: Option<u16>,
    at: At,
    plain: &mut BTreeMap<At, u64>,
) {
    let expected = match added {
        Some(added) => {
            sum.add(state, added.into()).unwrap();
            let expected = plain.entry(at).or_default();
            *expected += u64::from(added);
            Some(*expected)
        }
        None => {
            sum.clear(state).unwrap();
            plain.remove(&at);
            None
        }
    };
    assert_eq!(sum.get(state).unwrap(), expected);
}
