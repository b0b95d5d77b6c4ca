//! Cases: one value a key.

use highwater_state_api::{KeyHasher, KeyedState, ListState, MapState, ValueState, ValueStateDescriptor};
use serde::{Deserialize, Serialize};

use super::harness::{
    BackendFactory, Snapshot, Unwritable, all_groups, assert_unwritable, expected_values, freeze, list, map, select,
    set_values, store, unwritable_after_restore, value, values, with_every_cache,
};

/// Contract: A1, A2.
/// Absent is `None`, before and after other keys have values.
pub fn a_value_is_absent_until_it_is_set(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<String>();
        let count = value::<u64>(&mut state, "count");
        let [a, b] = ["a", "b"].map(String::from);
        select(&mut state, &a);
        assert_eq!(count.value(&mut state).unwrap(), None);
        count.update(&mut state, 5).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), Some(5));
        select(&mut state, &b);
        assert_eq!(count.value(&mut state).unwrap(), None);
        count.clear(&mut state).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), None);
        select(&mut state, &a);
        assert_eq!(count.value(&mut state).unwrap(), Some(5));
    });
}

/// States of types whose values look like nothing.
struct Nothings {
    zero: ValueState<u64>,
    no: ValueState<bool>,
    text: ValueState<String>,
    bytes: ValueState<Vec<u8>>,
    unit: ValueState<()>,
    none: ValueState<Option<u8>>,
    list: ListState<u64>,
    set: MapState<String, ()>,
}

impl Nothings {
    fn of(state: &mut KeyedState) -> Self {
        Self {
            zero: value(state, "zero"),
            no: value(state, "false"),
            text: value(state, "empty text"),
            bytes: value(state, "empty bytes"),
            unit: value(state, "unit"),
            none: value(state, "none"),
            list: list(state, "list"),
            set: map(state, "set"),
        }
    }

    fn set(&self, state: &mut KeyedState) {
        self.zero.update(state, 0).unwrap();
        self.no.update(state, false).unwrap();
        self.text.update(state, String::new()).unwrap();
        self.bytes.update(state, Vec::new()).unwrap();
        self.unit.update(state, ()).unwrap();
        self.none.update(state, None).unwrap();
        self.list.update(state, []).unwrap();
        self.set.put(state, String::new(), ()).unwrap();
    }

    fn assert_set(&self, state: &mut KeyedState) {
        assert_eq!(self.zero.value(state).unwrap(), Some(0));
        assert_eq!(self.no.value(state).unwrap(), Some(false));
        assert_eq!(self.text.value(state).unwrap(), Some(String::new()));
        assert_eq!(self.bytes.value(state).unwrap(), Some(Vec::new()));
        assert_eq!(self.unit.value(state).unwrap(), Some(()));
        assert_eq!(self.none.value(state).unwrap(), Some(None));
        assert_eq!(self.list.get(state).unwrap(), [0; 0]);
        assert!(self.set.contains(state, &String::new()).unwrap());
        assert_eq!(self.set.entries(state).unwrap(), [(String::new(), ())]);
    }

    fn clear(&self, state: &mut KeyedState) {
        self.zero.clear(state).unwrap();
        self.no.clear(state).unwrap();
        self.text.clear(state).unwrap();
        self.bytes.clear(state).unwrap();
        self.unit.clear(state).unwrap();
        self.none.clear(state).unwrap();
        self.list.clear(state).unwrap();
        self.set.clear(state).unwrap();
    }

    fn assert_never_set(&self, state: &mut KeyedState) {
        assert_eq!(self.zero.value(state).unwrap(), None);
        assert_eq!(self.no.value(state).unwrap(), None);
        assert_eq!(self.text.value(state).unwrap(), None);
        assert_eq!(self.bytes.value(state).unwrap(), None);
        assert_eq!(self.unit.value(state).unwrap(), None);
        assert_eq!(self.none.value(state).unwrap(), None);
        assert_eq!(self.list.get(state).unwrap(), [0; 0]);
        assert!(!self.set.contains(state, &String::new()).unwrap());
        assert!(self.set.is_empty(state).unwrap());
    }
}

/// Contract: A5.
/// Field case: R61.
/// A value that looks like nothing is a value, also after a batch has ended and after a restore.
pub fn zero_false_empty_and_unit_are_values(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let (key, other) = (String::new(), String::from("other"));
        let mut state = bench.open::<String>();
        let nothings = Nothings::of(&mut state);
        select(&mut state, &key);
        nothings.set(&mut state);
        for _ in 0..2 {
            nothings.assert_set(&mut state);
            state.end_batch().unwrap();
            select(&mut state, &key);
        }
        select(&mut state, &other);
        nothings.assert_never_set(&mut state);
        nothings.set(&mut state);
        nothings.clear(&mut state);
        nothings.assert_never_set(&mut state);
        let mut restored = bench.restored::<String>(&Snapshot::of(&mut state));
        let nothings = Nothings::of(&mut restored);
        select(&mut restored, &key);
        nothings.assert_set(&mut restored);
        select(&mut restored, &other);
        nothings.assert_never_set(&mut restored);
    });
}

/// `update`, `modify` and `clear` in every order.
pub fn a_value_is_replaced_changed_and_cleared(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let mut expected = None;
        for step in 0..40u64 {
            select(&mut state, &(step % 2));
            if step % 2 == 1 {
                count.update(&mut state, step).unwrap();
                continue;
            }
            match step / 2 % 5 {
                0 => {
                    count.update(&mut state, step).unwrap();
                    expected = Some(step);
                }
                1 | 2 => {
                    let seen = count.modify(&mut state, |count| {
                        let seen = *count;
                        *count = Some(count.unwrap_or(1_000) + 1);
                        seen
                    });
                    assert_eq!(seen.unwrap(), expected);
                    expected = Some(expected.unwrap_or(1_000) + 1);
                }
                3 => {
                    count.clear(&mut state).unwrap();
                    expected = None;
                }
                _ => {
                    assert_eq!(count.modify(&mut state, |count| count.take()).unwrap(), expected);
                    expected = None;
                }
            }
            assert_eq!(count.value(&mut state).unwrap(), expected, "step {step}");
        }
    });
}

/// Contract: A2.
/// Hundreds of keys, more than any small cache holds, each with its own value.
pub fn keys_do_not_share_values(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 300, 1);
        assert_eq!(values(&mut state, "count", 300), expected_values(300, 1));
        let count = value::<u64>(&mut state, "count");
        for key in (0..300u64).step_by(3) {
            select(&mut state, &key);
            count.clear(&mut state).unwrap();
        }
        for (key, value) in values(&mut state, "count", 300).into_iter().enumerate() {
            assert_eq!(value, (key % 3 != 0).then_some(key as u64 * 10 + 1), "key {key}");
        }
    });
}

/// Contract: A36.
/// Field case: R77.
/// Keys that are the same when their parts are joined, or when they are cut short.
pub fn keys_that_look_alike_are_different(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<(String, String)>();
        let whose = value::<String>(&mut state, "whose");
        let parts = ["", "a", "ab", "abc", "b", "bc", "c", "\0", "a\0", "\0a", "ä", "a\u{308}", "A"];
        let keys = || parts.iter().flat_map(|a| parts.iter().map(|b| (String::from(*a), String::from(*b))));
        for key in keys() {
            select(&mut state, &key);
            assert_eq!(whose.value(&mut state).unwrap(), None, "{key:?}");
            whose.update(&mut state, format!("{key:?}")).unwrap();
        }
        for key in keys() {
            select(&mut state, &key);
            assert_eq!(whose.value(&mut state).unwrap(), Some(format!("{key:?}")));
        }
    });
}

/// States of one operator, whatever their names and in whatever order they are made.
pub fn states_do_not_share_values(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let names = ["a", "ab", "b", "a b", "ä", "A", "0", "count/a", "count"];
        let handles = names.map(|name| value::<String>(&mut state, name));
        for key in 0..10u64 {
            select(&mut state, &key);
            for (name, handle) in names.iter().zip(&handles).skip((key % 3) as usize) {
                handle.update(&mut state, format!("{name} of {key}")).unwrap();
            }
        }
        for key in 0..10u64 {
            select(&mut state, &key);
            for (index, (name, handle)) in names.iter().zip(&handles).enumerate() {
                let expected = (index as u64 >= key % 3).then(|| format!("{name} of {key}"));
                assert_eq!(handle.value(&mut state).unwrap(), expected, "{name:?} of key {key}");
            }
        }
        // The same name is the same state.
        let again = value::<String>(&mut state, "a b");
        select(&mut state, &9u64);
        assert_eq!(again.value(&mut state).unwrap().as_deref(), Some("a b of 9"));
    });
}

/// A resolved batch, with keys that come again, is like its keys one after the other.
pub fn a_batch_is_like_its_keys_one_by_one(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let keys: Vec<u64> = (0..100).map(|index| index * index % 17).collect();
        let mut hasher = KeyHasher::default();
        let hashes: Vec<_> = keys.iter().map(|key| hasher.hash(key).unwrap()).collect();
        for _ in 0..3 {
            state.resolve_batch(keys.iter().zip(hashes.iter().copied())).unwrap();
            for index in 0..keys.len() {
                state.select(index).unwrap();
                count.modify(&mut state, |count| *count = Some(count.unwrap_or(0) + 1)).unwrap();
            }
            state.end_batch().unwrap();
        }
        for key in 0..17u64 {
            select(&mut state, &key);
            let expected = 3 * keys.iter().filter(|other| **other == key).count() as u64;
            assert_eq!(count.value(&mut state).unwrap(), (expected > 0).then_some(expected), "key {key}");
        }
    });
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Payment {
    account: String,
    cents: i64,
    rate: f64,
    tags: Vec<Option<Tag>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Tag {
    Plain,
    Named(String),
    Span { from: u8, to: u128 },
}

/// Structs, enums, extremes, and a value of a mebibyte.
pub fn values_of_any_shape_and_size_are_kept(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let payment = value::<Payment>(&mut state, "payment");
        let payments = [
            Payment { account: String::new(), cents: i64::MIN, rate: -0.0, tags: Vec::new() },
            Payment { account: "ä".into(), cents: -1, rate: f64::MAX, tags: vec![None, Some(Tag::Plain)] },
            Payment {
                account: "x".repeat(1 << 20),
                cents: i64::MAX,
                rate: f64::INFINITY,
                tags: vec![Some(Tag::Named("\0".into())), Some(Tag::Span { from: 0, to: u128::MAX })],
            },
        ];
        for (key, expected) in payments.iter().enumerate() {
            select(&mut state, &(key as u64));
            payment.update(&mut state, expected.clone()).unwrap();
        }
        state.end_batch().unwrap();
        for (key, expected) in payments.into_iter().enumerate() {
            select(&mut state, &(key as u64));
            assert!(payment.value(&mut state).unwrap() == Some(expected), "payment {key} differs");
        }
    });
}

/// Contract: A1, A4.
/// The default stands for an absent value; it is no value, and nobody can change it.
pub fn a_default_stands_for_an_absent_value(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let descriptor = ValueStateDescriptor::new("greeting").with_default("Hello".to_owned());
        let greeting = store(&mut state).get_state(&descriptor).unwrap();
        for key in [1u64, 2] {
            select(&mut state, &key);
            greeting.value(&mut state).unwrap().unwrap().push_str(", changed");
            assert_eq!(greeting.value(&mut state).unwrap(), Some("Hello".to_owned()));
            assert_eq!(greeting.modify(&mut state, |greeting| greeting.clone()).unwrap(), None);
            greeting.update(&mut state, "1".into()).unwrap();
            assert_eq!(greeting.value(&mut state).unwrap(), Some("1".to_owned()));
            greeting.clear(&mut state).unwrap();
            assert_eq!(greeting.value(&mut state).unwrap(), Some("Hello".to_owned()));
        }
        assert!(state.keys::<u64, ()>(greeting.slot(), &()).unwrap().is_empty());
    });
}

/// Contract: A3.
/// A value that was changed to `None`, or cleared, is no entry any more.
pub fn a_value_that_is_gone_has_no_entry(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        for key in 0..3u64 {
            select(&mut state, &key);
            count.update(&mut state, key).unwrap();
        }
        select(&mut state, &0u64);
        count.modify(&mut state, |count| *count = None).unwrap();
        select(&mut state, &1u64);
        count.clear(&mut state).unwrap();
        assert_eq!(state.keys::<u64, ()>(count.slot(), &()).unwrap(), [2]);
        assert_eq!(Snapshot::of(&mut state).entries().len(), 1);
        select(&mut state, &0u64);
        assert_eq!(count.value(&mut state).unwrap(), None);
    });
}

/// Contract: A40, B49.
/// What was read is the reader's own; what `modify` changes is stored.
pub fn a_value_that_was_read_is_a_copy(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let words = value::<Vec<String>>(&mut state, "words");
        select(&mut state, &1u64);
        words.update(&mut state, vec!["a".into()]).unwrap();
        let mut frozen = freeze(&mut state, 1);
        select(&mut state, &1u64);
        words.value(&mut state).unwrap().unwrap().push("lost".into());
        assert_eq!(words.value(&mut state).unwrap().unwrap(), ["a"]);
        let push = |words: &mut Option<Vec<String>>| words.get_or_insert_default().push("b".into());
        words.modify(&mut state, push).unwrap();
        state.end_batch().unwrap();
        select(&mut state, &1u64);
        assert_eq!(words.value(&mut state).unwrap().unwrap(), ["a", "b"]);
        let mut restored = bench.restored::<u64>(&Snapshot::written(&mut frozen, all_groups()));
        let words = value::<Vec<String>>(&mut restored, "words");
        select(&mut restored, &1u64);
        assert_eq!(words.value(&mut restored).unwrap().unwrap(), ["a"]);
    });
}

/// A value that cannot be written is an error that names the state, and the value is as it was.
pub fn a_value_that_cannot_be_written_leaves_the_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        for call in 0..2 {
            let mut state = unwritable_after_restore(bench, |state| {
                value::<Unwritable>(state, "latest").update(state, Unwritable::good(1)).unwrap();
            });
            let latest = value::<Unwritable>(&mut state, "latest");
            select(&mut state, &1u64);
            let outcome = match call {
                0 => latest.update(&mut state, Unwritable::bad()),
                _ => latest.modify(&mut state, |latest| *latest = Some(Unwritable::bad())),
            };
            assert_unwritable("latest", outcome);
            assert_eq!(latest.value(&mut state).unwrap(), Some(Unwritable::good(1)));
        }
    });
}
