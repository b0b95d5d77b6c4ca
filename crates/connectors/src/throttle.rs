//! A throttle: any source, slowed down to a number of records per second.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use highwater_state_api::CheckpointId;
use highwater_stream_api::{Boundedness, BoxedError, Collector, PollContext, Polled, Source, SourceReader};

/// A reader takes what is due in this time at once: fewer wake-ups, and still an even flow.
const BEAT: Duration = Duration::from_millis(10);
/// What readers have missed, because they were busy or had nothing to read, is made good up to this much.
const CATCH_UP: Duration = Duration::from_millis(100);
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A source that emits no more than a number of records per second, over all of its readers together.
///
/// The readers of an attempt share one schedule: each reserves a few records at the earliest free time, waits for
/// that time and emits them, so that they take turns however unevenly they are polled. Time is what the reader is
/// told in [`PollContext::now`].
#[derive(Debug)]
pub struct Throttled<S> {
    source: S,
    records_per_second: Option<NonZeroU64>,
    /// The schedule of the attempt that was started last.
    schedule: Mutex<Arc<Mutex<Schedule>>>,
}

impl<S: Source> Throttled<S> {
    /// Slows `source` down to `records_per_second`; `None` leaves it as fast as it is.
    pub fn new(source: S, records_per_second: impl Into<Option<NonZeroU64>>) -> Self {
        Self { source, records_per_second: records_per_second.into(), schedule: Mutex::default() }
    }

    /// A new attempt has a clock of its own and owes nothing to the one before.
    fn start_attempt(&self) {
        *lock(&self.schedule) = Arc::default();
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for Throttled<S> {
    type Out = S::Out;
    type Split = S::Split;
    type Enumerator = S::Enumerator;
    type Reader = ThrottledReader<S::Reader>;

    fn boundedness(&self) -> Boundedness {
        self.source.boundedness()
    }

    fn create_enumerator(&self) -> Result<S::Enumerator, BoxedError> {
        self.start_attempt();
        self.source.create_enumerator()
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<S::Enumerator, BoxedError> {
        self.start_attempt();
        self.source.restore_enumerator(state)
    }

    fn create_reader(&self, subtask: u32) -> Result<ThrottledReader<S::Reader>, BoxedError> {
        Ok(ThrottledReader {
            reader: self.source.create_reader(subtask)?,
            records_per_second: self.records_per_second,
            schedule: Arc::clone(&lock(&self.schedule)),
            reserved: None,
        })
    }
}

/// The reader of a throttled source.
#[derive(Debug)]
pub struct ThrottledReader<R> {
    reader: R,
    records_per_second: Option<NonZeroU64>,
    schedule: Arc<Mutex<Schedule>>,
    reserved: Option<Reservation>,
}

#[deny(clippy::missing_trait_methods)]
impl<R: SourceReader> SourceReader for ThrottledReader<R> {
    type Out = R::Out;
    type Split = R::Split;

    fn add_split(&mut self, split: R::Split) -> Result<(), BoxedError> {
        self.reader.add_split(split)
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<R::Out>) -> Result<Polled, BoxedError> {
        let Some(rate) = self.records_per_second else { return self.reader.poll(cx, out) };
        if cx.records_max == 0 {
            return self.reader.poll(cx, out);
        }
        let mut reserved =
            self.reserved.take().unwrap_or_else(|| lock(&self.schedule).reserve(rate, cx.now, cx.records_max as u64));
        if cx.now < reserved.at {
            let until = reserved.at;
            self.reserved = Some(reserved);
            return Ok(Polled::Idle(Some(until)));
        }

        let before = out.len();
        let records_max = usize::try_from(reserved.records).map_or(cx.records_max, |max| max.min(cx.records_max));
        let polled = self.reader.poll(&PollContext { records_max, ..*cx }, out)?;
        reserved.records = reserved.records.saturating_sub((out.len() - before) as u64);
        if polled == Polled::More {
            self.reserved = (reserved.records > 0).then_some(reserved);
        } else {
            lock(&self.schedule).give_back(reserved.records);
        }
        Ok(polled)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<R::Split>, BoxedError> {
        self.reader.snapshot(checkpoint)
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.reader.notify_checkpoint_aborted(checkpoint)
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.reader.notify_checkpoint_complete(checkpoint)
    }
}

/// Records that a reader may emit from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reservation {
    records: u64,
    at: Duration,
}

/// When the next record is due.
///
/// Time is counted in nanoseconds times the rate, so that a record takes exactly [`NANOS_PER_SECOND`] of it: no
/// rounding adds up, whatever the rate.
#[derive(Debug, Default)]
struct Schedule {
    /// `None` before the first reservation.
    next: Option<u128>,
}

impl Schedule {
    fn reserve(&mut self, rate: NonZeroU64, now: Duration, records_max: u64) -> Reservation {
        let rate = u128::from(rate.get());
        let scaled = |time: Duration| time.as_nanos() * rate;
        let earliest = scaled(now.saturating_sub(CATCH_UP));
        let start = self.next.map_or(scaled(now), |next| next.max(earliest));
        let beat = u64::try_from(scaled(BEAT) / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        let records = beat.clamp(1, records_max.max(1));
        self.next = Some(start + u128::from(records) * NANOS_PER_SECOND);
        let nanos = u64::try_from(start.div_ceil(rate)).unwrap_or(u64::MAX);
        Reservation { records, at: Duration::from_nanos(nanos) }
    }

    fn give_back(&mut self, records: u64) {
        let span = u128::from(records) * NANOS_PER_SECOND;
        self.next = self.next.map(|next| next.saturating_sub(span));
    }
}

/// A schedule and a handle are whole after every statement, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
