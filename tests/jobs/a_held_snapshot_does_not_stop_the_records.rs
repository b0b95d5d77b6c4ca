//! While a snapshot waits to be written, the task goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::pace::{Grants, Pace, Paced};
use crate::support::{environment, storage, wait_until};

/// So many that the state of a subtask is an object of its own.
const KEYS: u64 = 5_000;
const RECORDS_WHILE_HELD: u64 = 100_000;

#[derive(Default)]
struct Counter {
    count: ReducingState<u64>,
    processed: Arc<AtomicU64>,
}

impl KeyedProcessFunction<u64, u64> for Counter {
    type Out = (u64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        let descriptor = ReducingStateDescriptor::new("count", |one: &u64, other: u64| one + other);
        self.count = cx.keyed_state_store()?.get_reducing_state(&descriptor)?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Self::Out>) -> Result<()> {
        self.count.add(cx, 1)?;
        if number >= 4 * RECORDS_WHILE_HELD - KEYS {
            out.collect((*cx.current_key(), self.count.get(cx)?.unwrap_or_default()));
        }
        self.processed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn records_are_processed_while_the_asynchronous_half_is_held() {
    let faults = Faults::default();
    let storage = FaultyStorage::new(storage(), faults.clone());
    let (processed, was_held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    // Every key has a count before the snapshot; most records come when it is held.
    let grants = Grants::new(KEYS);
    let hold = {
        let (processed, was_held, grants) = (processed.clone(), was_held.clone(), grants.clone());
        move || {
            grants.add_all();
            let before = processed.load(Ordering::Relaxed);
            wait_until("records are processed while the snapshot is held", || {
                processed.load(Ordering::Relaxed) >= before + RECORDS_WHILE_HELD
            });
            was_held.store(true, Ordering::Relaxed);
        }
    };
    faults.arm(When::next(Operation::Create), Fault::Delay(Arc::new(hold)));

    let env = environment("held", Arc::new(storage));
    let records = CollectedRecords::default();
    let counted = processed.clone();
    env.from_source(Paced::new(SequenceSource::new(0..4 * RECORDS_WHILE_HELD), Some(Pace::Granted(grants))))
        .key_by_value(|number| number % KEYS)
        .process(move || Counter { processed: counted.clone(), ..Counter::default() })
        .uid("counter")
        .sink_to(CollectSink::new(records.clone()));
    let result = env.execute().unwrap();
    assert!(was_held.load(Ordering::Relaxed), "no snapshot was held");
    assert!(result.status.checkpoints_completed > 0);
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, Vec::from_iter((0..KEYS).map(|key| (key, 4 * RECORDS_WHILE_HELD / KEYS))));
}
