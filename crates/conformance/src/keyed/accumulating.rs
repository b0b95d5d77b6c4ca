//! Cases: states into which values go one by one: reducing, aggregating and folding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater_state_api::{
    AggregateFunction, AggregatingState, AggregatingStateDescriptor, BoxedError, FoldingStateDescriptor, KeyedState,
    ReducingStateDescriptor, StateError,
};

use super::harness::{
    BackendFactory, Snapshot, Unwritable, assert_unwritable, select, store, sum, unwritable_after_restore,
    with_every_cache,
};

/// The mean of numbers: (sum, count).
pub(super) struct Mean {
    /// Changes the accumulator that it is given, or puts another in its place.
    pub(super) in_place: bool,
}

impl AggregateFunction for Mean {
    type In = u64;
    type Acc = (u64, u64);
    type Out = u64;

    fn create_accumulator(&self) -> (u64, u64) {
        (0, 0)
    }

    fn add(&self, value: u64, accumulator: &mut (u64, u64)) -> Result<(), BoxedError> {
        if value == 13 {
            accumulator.0 = 1_000_000;
            return Err("13 is not added".into());
        }
        if self.in_place {
            accumulator.0 += value;
            accumulator.1 += 1;
        } else {
            *accumulator = (accumulator.0 + value, accumulator.1 + 1);
        }
        Ok(())
    }

    fn result(&self, accumulator: &(u64, u64)) -> Result<u64, BoxedError> {
        accumulator.0.checked_div(accumulator.1).ok_or_else(|| "there is no mean of nothing".into())
    }

    fn merge(&self, one: (u64, u64), other: &(u64, u64)) -> Result<(u64, u64), BoxedError> {
        Ok((one.0 + other.0, one.1 + other.1))
    }
}

pub(super) fn mean(state: &mut KeyedState, in_place: bool) -> AggregatingState<u64, u64> {
    store(state).get_aggregating_state(&AggregatingStateDescriptor::new("mean", Mean { in_place })).unwrap()
}

/// Contract: A16.
/// The first value is taken as it is; the function is called for every other.
pub fn values_are_reduced(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = calls.clone();
        let descriptor = ReducingStateDescriptor::new("sum", move |one: &u64, other: u64| {
            counted.fetch_add(1, Ordering::Relaxed);
            one + other
        });
        let mut state = bench.open::<u64>();
        let sum = store(&mut state).get_reducing_state(&descriptor).unwrap();
        select(&mut state, &1u64);
        assert_eq!(sum.get(&mut state).unwrap(), None);
        sum.add(&mut state, 17).unwrap();
        assert_eq!((sum.get(&mut state).unwrap(), calls.load(Ordering::Relaxed)), (Some(17), 0));
        state.end_batch().unwrap();
        select(&mut state, &1u64);
        sum.add(&mut state, 11).unwrap();
        assert_eq!((sum.get(&mut state).unwrap(), calls.load(Ordering::Relaxed)), (Some(28), 1));
        select(&mut state, &2u64);
        assert_eq!(sum.get(&mut state).unwrap(), None);
        select(&mut state, &1u64);
        sum.clear(&mut state).unwrap();
        assert_eq!(sum.get(&mut state).unwrap(), None);
    });
}

/// Contract: A18.
/// Whether the function changes the accumulator or replaces it.
pub fn values_are_aggregated(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        for in_place in [false, true] {
            let mut state = bench.open::<u64>();
            let mean = mean(&mut state, in_place);
            select(&mut state, &1u64);
            assert_eq!(mean.get(&mut state).unwrap(), None);
            mean.add(&mut state, 17).unwrap();
            state.end_batch().unwrap();
            select(&mut state, &1u64);
            mean.add(&mut state, 11).unwrap();
            assert_eq!(mean.get(&mut state).unwrap(), Some(14));
            mean.clear(&mut state).unwrap();
            assert_eq!(mean.get(&mut state).unwrap(), None);
        }
    });
}

/// Nothing was folded until something was: the initial accumulator is not seen, and stays as it is.
pub fn values_are_folded(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let descriptor =
            FoldingStateDescriptor::new("path", String::from("/"), |path, step: u32| format!("{path}{step}/"));
        let path = store(&mut state).get_folding_state(&descriptor).unwrap();
        for key in [1u64, 2] {
            select(&mut state, &key);
            assert_eq!(path.get(&mut state).unwrap(), None);
            path.add(&mut state, 4).unwrap();
            path.add(&mut state, 2).unwrap();
            assert_eq!(path.get(&mut state).unwrap(), Some("/4/2/".to_owned()));
        }
        path.clear(&mut state).unwrap();
        assert_eq!(path.get(&mut state).unwrap(), None);
    });
}

/// Contract: A20.
/// An error of the function is returned, and the state is as it was.
pub fn a_function_that_fails_leaves_the_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let checked = |one: &u64, other: u64| one.checked_add(other).ok_or_else(|| "too much".into());
        let sum = store(&mut state).get_reducing_state(&ReducingStateDescriptor::fallible("sum", checked)).unwrap();
        let folded = FoldingStateDescriptor::fallible("folded", 1u64, |one: u64, other: u64| {
            one.checked_mul(other).ok_or_else(|| "too much".into())
        });
        let folded = store(&mut state).get_folding_state(&folded).unwrap();
        let mean = mean(&mut state, true);
        select(&mut state, &1u64);
        sum.add(&mut state, 17).unwrap();
        folded.add(&mut state, 17).unwrap();
        mean.add(&mut state, 17).unwrap();
        assert_function_failed("sum", sum.add(&mut state, u64::MAX));
        assert_function_failed("folded", folded.add(&mut state, u64::MAX));
        assert_function_failed("mean", mean.add(&mut state, 13));
        for _ in 0..2 {
            assert_eq!(sum.get(&mut state).unwrap(), Some(17));
            assert_eq!(folded.get(&mut state).unwrap(), Some(17));
            assert_eq!(mean.get(&mut state).unwrap(), Some(17));
            state.end_batch().unwrap();
            select(&mut state, &1u64);
        }
    });
}

#[track_caller]
fn assert_function_failed(expected: &str, outcome: Result<(), StateError>) {
    match outcome {
        Err(StateError::Function { state, .. }) => assert_eq!(state, expected),
        other => panic!("the failed function of {expected:?} gave {other:?}"),
    }
}

/// Contract: A21.
/// A result that cannot be written is an error that names the state, and the state is as it was.
pub fn an_accumulator_that_cannot_be_written_leaves_the_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let descriptor = || ReducingStateDescriptor::new("latest", |_: &Unwritable, latest| latest);
        let mut state = unwritable_after_restore(bench, |state| {
            let latest = store(state).get_reducing_state(&descriptor()).unwrap();
            latest.add(state, Unwritable::good(1)).unwrap();
        });
        let latest = store(&mut state).get_reducing_state(&descriptor()).unwrap();
        select(&mut state, &1u64);
        assert_unwritable("latest", latest.add(&mut state, Unwritable::bad()));
        assert_eq!(latest.get(&mut state).unwrap(), Some(Unwritable::good(1)));
        latest.add(&mut state, Unwritable::good(2)).unwrap();
        assert_eq!(latest.get(&mut state).unwrap(), Some(Unwritable::good(2)));
    });
}

/// The last value that was added.
struct Latest;

impl AggregateFunction for Latest {
    type In = Unwritable;
    type Acc = Unwritable;
    type Out = Unwritable;

    fn create_accumulator(&self) -> Unwritable {
        Unwritable::good(0)
    }

    fn add(&self, value: Unwritable, accumulator: &mut Unwritable) -> Result<(), BoxedError> {
        *accumulator = value;
        Ok(())
    }

    fn result(&self, accumulator: &Unwritable) -> Result<Unwritable, BoxedError> {
        Ok(accumulator.clone())
    }

    fn merge(&self, _: Unwritable, other: &Unwritable) -> Result<Unwritable, BoxedError> {
        Ok(other.clone())
    }
}

/// Contract: A21.
pub fn an_aggregate_that_cannot_be_written_leaves_the_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let descriptor = || AggregatingStateDescriptor::new("latest", Latest);
        let mut state = unwritable_after_restore(bench, |state| {
            let latest = store(state).get_aggregating_state(&descriptor()).unwrap();
            latest.add(state, Unwritable::good(1)).unwrap();
        });
        let latest = store(&mut state).get_aggregating_state(&descriptor()).unwrap();
        select(&mut state, &1u64);
        assert_unwritable("latest", latest.add(&mut state, Unwritable::bad()));
        assert_eq!(latest.get(&mut state).unwrap(), Some(Unwritable::good(1)));
    });
}

/// Accumulators go through snapshots, and go on after them.
pub fn a_restored_accumulator_goes_on(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let (total, average) = (sum(&mut state, "sum"), mean(&mut state, false));
        for key in 0..30u64 {
            select(&mut state, &key);
            for value in 0..=key {
                total.add(&mut state, value * 100).unwrap();
                average.add(&mut state, value * 100).unwrap();
            }
        }
        let mut restored = bench.restored::<u64>(&Snapshot::of(&mut state));
        let (total, average) = (sum(&mut restored, "sum"), mean(&mut restored, false));
        for key in 0..30u64 {
            select(&mut restored, &key);
            let expected = key * (key + 1) / 2 * 100;
            assert_eq!(total.get(&mut restored).unwrap(), Some(expected));
            assert_eq!(average.get(&mut restored).unwrap(), Some(expected / (key + 1)));
            total.add(&mut restored, 1).unwrap();
            assert_eq!(total.get(&mut restored).unwrap(), Some(expected + 1));
        }
    });
}
