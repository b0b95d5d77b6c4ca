//! One key after the other, whatever holds the state.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use highwater_conformance::ReferenceBackend;
use highwater_state_api::{
    Attempt, BoxedError, FunctionInitializationContext, JobName, KeyCx, MapState, MapStateDescriptor, MaxParallelism,
    OperatorUid, RowSettings, StateBackend,
};
use highwater_state_kit::HeapStateBackend;
use highwater_stream_api::{ByValue, Collector, KeyedContext};

use super::*;

/// What happened to which key: the number of a record, or `None` for its timer.
type Seen = (u64, Option<u64>);

/// Notes records and timers, and looks how many keys have state.
#[derive(Default)]
struct Watching {
    numbers: MapState<u64, ()>,
    keys: usize,
}

impl KeyedProcessFunction<u64, u64> for Watching {
    type Out = Seen;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
        self.numbers = cx.keyed_state_store()?.get_map_state(&MapStateDescriptor::new("numbers"))?;
        Ok(())
    }

    fn process(
        &mut self,
        number: u64,
        cx: &mut KeyedContext<'_, u64>,
        out: &mut Collector<Seen>,
    ) -> Result<(), BoxedError> {
        assert_eq!(cx.timestamp(), Timestamp::from_millis(number as i64));
        assert_eq!(cx.current_watermark(), Timestamp::MIN, "event time goes on while the records of a key come");
        self.numbers.put(cx, number, ())?;
        cx.register_event_time_timer(Timestamp::from_millis(number as i64 + 1_000_000))?;
        let key = *cx.current_key();
        let keys: Vec<u64> = cx.keyed_state().keys(self.numbers.slot(), &())?;
        assert_eq!(keys, [key], "more than one key has state");
        self.keys += 1;
        out.collect((key, Some(number)));
        Ok(())
    }

    fn on_timer(
        &mut self,
        timestamp: Timestamp,
        cx: &mut KeyedContext<'_, u64>,
        out: &mut Collector<Seen>,
    ) -> Result<(), BoxedError> {
        assert_eq!(cx.current_watermark(), Timestamp::MAX);
        // The timers of a key begin when all its records are there.
        if timestamp < Timestamp::MAX {
            let number = timestamp.to_raw() as u64 - 1_000_000;
            assert!(self.numbers.contains(cx, &number)?);
            self.numbers.remove(cx, &number)?;
            if self.numbers.is_empty(cx)? {
                // Once more, at the very end of the key.
                cx.register_event_time_timer(Timestamp::MAX)?;
                self.numbers.put(cx, 0, ())?;
            }
        } else {
            out.collect((*cx.current_key(), None));
        }
        Ok(())
    }
}

const KEYS: u64 = 7;

type Watched = SortedKeysOperator<u64, ByValue<fn(&u64) -> u64, u64>, Watching>;

fn context(state_backend: Arc<dyn StateBackend>) -> OperatorContext {
    OperatorContext {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(1),
        uid: OperatorUid::new("watching").unwrap(),
        subtask: 0,
        parallelism: 1,
        max_parallelism: MaxParallelism::new(8).unwrap(),
        state_backend,
        row_settings: RowSettings { cached_rows_max: 2, hash_seed: 1 },
        now: Duration::ZERO,
        fence: Default::default(),
        restored_checkpoint: None,
        restored: None,
    }
}

fn opened_on(state_backend: Arc<dyn StateBackend>, memory_bytes: usize) -> Watched {
    let key: fn(&u64) -> u64 = |number| number % KEYS;
    let keyed = KeyedProcessOperator::new(ByValue::new(key), Watching::default());
    let mut operator = SortedKeysOperator::new(keyed, SortSettings { memory_bytes, directories: Vec::new() });
    operator.open(context(state_backend)).unwrap();
    operator
}

fn batch(numbers: impl IntoIterator<Item = u64>) -> Box<dyn AnyBatch> {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let timestamps = numbers.iter().map(|number| Timestamp::from_millis(*number as i64)).collect();
    Box::new(Batch::new(numbers, timestamps))
}

fn output(operator: &mut Watched) -> Vec<Seen> {
    operator.take_output().map_or(Vec::new(), |batch| downcast::<Seen>(batch).unwrap().into_content().records)
}

/// Works the last watermark off in steps of `records_max`; everything that comes out.
fn replay(operator: &mut Watched, records_max: usize) -> Vec<Seen> {
    let nothing_waits = AtomicBool::new(false);
    let limits = Limits { records_max, control_waits: &nothing_waits, ..Limits::unlimited(Duration::ZERO) };
    let limits = Limits { waker: Waker::noop(), ..limits };
    let mut seen = Vec::new();
    loop {
        let ran = operator.advance(Timestamp::MAX, &limits).unwrap();
        let came_out = output(operator);
        assert!(
            came_out.len() <= records_max.saturating_mul(2),
            "{} records in a step of {records_max}",
            came_out.len()
        );
        seen.extend(came_out);
        if ran == Ran::Done {
            return seen;
        }
        assert_eq!(operator.watermark(), Timestamp::MIN, "event time stands still until every key has passed");
    }
}

/// Contract: U354.
#[test]
fn a_key_is_over_before_the_next_begins_and_its_state_with_it() {
    let backends: [Arc<dyn StateBackend>; 2] = [Arc::new(HeapStateBackend::new()), Arc::new(ReferenceBackend)];
    for backend in backends {
        for (memory_bytes, records_max) in [(1 << 20, usize::MAX), (64 * 1024, 10), (64 * 1024, 1)] {
            let mut operator = opened_on(backend.clone(), memory_bytes);
            for first in (0..3_000).step_by(100) {
                operator.accept(batch((first..first + 100).rev())).unwrap();
                assert_eq!(operator.run(&Limits::unlimited(Duration::ZERO)).unwrap(), Ran::Done);
                let watermark = Timestamp::from_millis(first as i64);
                assert_eq!(operator.advance(watermark, &Limits::unlimited(Duration::ZERO)).unwrap(), Ran::Done);
            }
            assert_eq!(output(&mut operator), [], "nothing comes out before all input is there");
            assert_eq!(operator.watermark(), Timestamp::MIN);

            let seen = replay(&mut operator, records_max);
            assert_eq!(operator.watermark(), Timestamp::MAX);
            let mut keys: Vec<u64> = seen.iter().map(|(key, _)| *key).collect();
            keys.dedup();
            let order = keys.clone();
            keys.sort_unstable();
            assert_eq!(keys, (0..KEYS).collect::<Vec<_>>(), "a key came twice: {order:?}");
            for key in 0..KEYS {
                let of_key: Vec<Option<u64>> =
                    seen.iter().filter(|(of, _)| *of == key).map(|(_, what)| *what).collect();
                let arrived = (0..3_000).step_by(100).flat_map(|first| (first..first + 100).rev());
                let numbers = arrived.filter(|number| number % KEYS == key).map(Some);
                let expected: Vec<Option<u64>> = numbers.chain([None]).collect();
                assert_eq!(of_key, expected, "key {key}");
            }
            assert_eq!(operator.counts().records_in, 3_000);
        }
    }
}

#[test]
fn a_waiting_message_interrupts_the_replay() {
    let mut operator = opened_on(Arc::new(HeapStateBackend::new()), 1 << 20);
    operator.accept(batch(0..100)).unwrap();
    let waits = AtomicBool::new(true);
    let limits = Limits { control_waits: &waits, ..Limits::unlimited(Duration::ZERO) };
    assert_eq!(operator.advance(Timestamp::MAX, &limits).unwrap(), Ran::More);
    assert_eq!(output(&mut operator), []);
    assert_eq!(replay(&mut operator, usize::MAX).len(), 100 + KEYS as usize);
}

#[test]
fn no_input_is_an_input_that_has_ended() {
    let mut operator = opened_on(Arc::new(HeapStateBackend::new()), 1 << 20);
    assert_eq!(replay(&mut operator, 1), []);
    assert_eq!(operator.watermark(), Timestamp::MAX);
    let again = operator.advance(Timestamp::MAX, &Limits::unlimited(Duration::ZERO)).unwrap();
    assert_eq!(again, Ran::Done);
}

#[test]
fn a_record_after_the_last_watermark_is_an_error() {
    let mut operator = opened_on(Arc::new(HeapStateBackend::new()), 1 << 20);
    replay(&mut operator, 1);
    let error = operator.accept(batch([1])).unwrap_err();
    assert_eq!(error.operator(), Some("watching"));
    assert!(matches!(error, TaskError::SortedInput { .. }));
}

/// A record of which a part is not always written.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Partial {
    key: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<u8>,
    last: u8,
}

struct Nothing;

impl<In: Data> KeyedProcessFunction<u64, In> for Nothing {
    type Out = ();

    fn process(&mut self, _: In, _: &mut KeyedContext<'_, u64>, _: &mut Collector<()>) -> Result<(), BoxedError> {
        Ok(())
    }
}

#[test]
fn a_record_that_is_not_read_as_it_was_written_is_refused() {
    let key: fn(&Partial) -> u64 = |record| record.key;
    let keyed = KeyedProcessOperator::new(ByValue::<_, u64>::new(key), Nothing);
    let settings = SortSettings { memory_bytes: 1 << 20, directories: Vec::new() };
    let mut operator = SortedKeysOperator::new(keyed, settings);
    operator.open(context(Arc::new(HeapStateBackend::new()))).unwrap();
    let batch = |note| Box::new(Batch::new(vec![Partial { key: 1, note, last: 0 }], vec![Timestamp::NONE]));
    operator.accept(batch(Some(3))).unwrap();
    let error = crate::error::chain_of(&operator.accept(batch(None)).unwrap_err());
    assert!(error.contains("skip_serializing_if"), "{error}");
}

/// Reads a map again that is written in another order.
#[test]
fn a_record_may_have_a_map_whose_order_is_left_to_chance() {
    type Labelled = (u64, HashMap<u64, u64>);
    struct Entries;
    impl KeyedProcessFunction<u64, Labelled> for Entries {
        type Out = usize;

        fn process(
            &mut self,
            (_, labels): Labelled,
            _: &mut KeyedContext<'_, u64>,
            _: &mut Collector<usize>,
        ) -> Result<(), BoxedError> {
            if labels == labels_of(100) { Ok(()) } else { Err("other labels".into()) }
        }
    }
    fn labels_of(number: u64) -> HashMap<u64, u64> {
        (0..number).map(|label| (label, 3 * label)).collect()
    }

    let key: fn(&Labelled) -> u64 = |record| record.0;
    let keyed = KeyedProcessOperator::new(ByValue::<_, u64>::new(key), Entries);
    let settings = SortSettings { memory_bytes: 1 << 20, directories: Vec::new() };
    let mut operator = SortedKeysOperator::new(keyed, settings);
    operator.open(context(Arc::new(HeapStateBackend::new()))).unwrap();
    operator.accept(Box::new(Batch::new(vec![(1_u64, labels_of(100))], vec![Timestamp::NONE]))).unwrap();
    assert_eq!(operator.advance(Timestamp::MAX, &Limits::unlimited(Duration::ZERO)).unwrap(), Ran::Done);
    assert_eq!(operator.counts().records_in, 1);
}

/// Counts how often it is read.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Large {
    key: u64,
    #[serde(deserialize_with = "count_and_read")]
    text: String,
}

static READ: AtomicUsize = AtomicUsize::new(0);

fn count_and_read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    READ.fetch_add(1, Ordering::Relaxed);
    serde::Deserialize::deserialize(deserializer)
}

#[test]
fn fewer_records_are_read_again_where_they_are_large() {
    let key: fn(&Large) -> u64 = |record| record.key;
    let keyed = KeyedProcessOperator::new(ByValue::<_, u64>::new(key), Nothing);
    let settings = SortSettings { memory_bytes: 1 << 30, directories: Vec::new() };
    let mut operator = SortedKeysOperator::new(keyed, settings);
    operator.open(context(Arc::new(HeapStateBackend::new()))).unwrap();
    for key in 0..12 {
        let record = Large { key, text: "x".repeat(2 << 20) };
        operator.accept(Box::new(Batch::new(vec![record], vec![Timestamp::NONE]))).unwrap();
    }
    assert_eq!(READ.load(Ordering::Relaxed), 8, "16 MiB");
}
