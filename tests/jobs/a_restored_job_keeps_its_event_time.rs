//! Timers and the watermark are part of a checkpoint: a window that has fired does not fire again for a late record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::{Pace, Paced};
use crate::support::{environment, storage};

/// Records in a window of 100 ms, put out when it is over. Fails the task once when `fail_at` records have come.
struct Window {
    count: ValueState<u64>,
    seen: Arc<AtomicU64>,
    fail_at: u64,
}

impl KeyedProcessFunction<i64, i64> for Window {
    type Out = (i64, u64);

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: i64, cx: &mut KeyedContext<'_, i64>, _: &mut Collector<(i64, u64)>) -> Result<()> {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.fail_at {
            return Err("as planned".into());
        }
        let end = Timestamp::from_millis(*cx.current_key() + 99);
        if cx.current_watermark() >= end {
            cx.count_late_record();
            return Ok(());
        }
        self.count.modify(cx, |count| *count.get_or_insert_default() += 1)?;
        cx.register_event_time_timer(end)?;
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timestamp,
        cx: &mut KeyedContext<'_, i64>,
        out: &mut Collector<(i64, u64)>,
    ) -> Result<()> {
        let count = self.count.value(cx)?.unwrap_or(0);
        self.count.clear(cx)?;
        out.collect((*cx.current_key(), count));
        Ok(())
    }
}

/// Ten records a window in order of time, and behind every tenth window one record that comes ten windows late.
fn event_times() -> Vec<i64> {
    let mut times = Vec::new();
    for window in 0..200 {
        times.extend((0..10).map(|n| window * 100 + n * 10));
        if window % 10 == 9 {
            times.push((window - 9) * 100);
        }
    }
    times
}

fn run(parallelism: u32, fail_at: u64) -> (Vec<(i64, u64)>, JobResult) {
    let env = environment("windows", storage());
    env.set_parallelism(parallelism);
    let records = CollectedRecords::default();
    let seen = Arc::new(AtomicU64::new(0));
    let times = event_times();
    let source = SequenceSource::new(0..times.len() as u64);
    env.from_source(Paced::new(source, Some(Pace::PerCheckpoint(100))))
        .set_parallelism(1)
        .map(move |index| times[index as usize])
        .set_parallelism(1)
        .assign_timestamps(|time| *time)
        .set_parallelism(1)
        .key_by_value(|time| time - time.rem_euclid(100))
        .process(move || Window { count: ValueState::default(), seen: seen.clone(), fail_at })
        .uid("windows")
        .sink_to(CollectSink::new(records.clone()));
    let result = env.execute().unwrap();
    let mut windows = records.to_vec();
    windows.sort_unstable();
    (windows, result)
}

/// Contract: S330, S331.
#[test]
fn whatever_the_moment_of_the_failure() {
    for (parallelism, fail_at) in [(1, u64::MAX), (1, 700), (2, 1_005), (3, 1_500), (2, 1_999)] {
        let (windows, result) = run(parallelism, fail_at);
        let case = format!("parallelism {parallelism}, failure at record {fail_at}: {windows:?}");
        // A late record is counted if it comes with the records that end its window, and dropped if it comes behind
        // them: the watermark moves between batches. Either way its window fires once.
        let starts: Vec<i64> = windows.iter().map(|(start, _)| *start).collect();
        assert_eq!(starts, (0..200).map(|window| window * 100).collect::<Vec<i64>>(), "{case}");
        let is_right = |(start, count): &(i64, u64)| *count == 10 || (*count == 11 && start % 1_000 == 0);
        assert!(windows.iter().all(is_right), "{case}");
        let restarts = u32::from(fail_at != u64::MAX);
        assert_eq!(result.status.restarts, restarts);
        assert_eq!(result.status.restored_from.is_some(), restarts > 0, "{case}");
        if restarts == 0 {
            let counted: u64 = windows.iter().map(|(_, count)| count).sum();
            assert_eq!(counted + result.status.late_records, event_times().len() as u64, "{case}");
        }
    }
}
