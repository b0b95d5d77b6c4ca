//! Sources that wait for the test: their input does not end before what the test waits for, however slow the machine is.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use highwater::prelude::*;
use highwater::state::CheckpointId;
use highwater::stream::{Boundedness, BoxedError, PollContext, Polled, SourceReader};

/// So few in a poll that all readers get some of what is granted.
const POLL_RECORDS_MAX: u64 = 10;

/// How far the readers of a source go.
#[derive(Clone)]
pub(crate) enum Pace {
    /// Each reader emits so many records and, whenever a checkpoint is complete, so many again: nobody comes far without
    /// checkpoints on the way.
    PerCheckpoint(u64),
    /// All readers together emit what the test grants, and do not end before it grants more than there is.
    Granted(Grants),
}

impl Pace {
    /// So many records and no more, and no end: for a job that is cancelled.
    pub(crate) fn up_to(records: u64) -> Self {
        Self::Granted(Grants::new(records))
    }
}

/// Records that may be emitted. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct Grants(Arc<Mutex<Granted>>);

struct Granted {
    records: u64,
    /// Readers that have found nothing.
    waiting: Vec<Waker>,
}

impl Grants {
    pub(crate) fn new(records: u64) -> Self {
        Self(Arc::new(Mutex::new(Granted { records, waiting: Vec::new() })))
    }

    pub(crate) fn add(&self, records: u64) {
        if records == 0 {
            return;
        }
        let mut granted = self.0.lock().unwrap();
        granted.records = granted.records.saturating_add(records);
        granted.waiting.drain(..).for_each(Waker::wake);
    }

    /// How many clones there are: every reader that is there has one.
    pub(crate) fn clones(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Lets the readers go on to the end of their input.
    pub(crate) fn add_all(&self) {
        self.add(u64::MAX);
    }

    fn take(&self, records_max: u64, waker: &Waker) -> u64 {
        let mut granted = self.0.lock().unwrap();
        let taken = granted.records.min(records_max);
        granted.records -= taken;
        if taken == 0 && !granted.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            granted.waiting.push(waker.clone());
        }
        taken
    }
}

/// A source whose readers go no further than they may.
pub(crate) struct Paced<S> {
    source: S,
    pace: Option<Pace>,
}

impl<S: Source> Paced<S> {
    /// Without a pace the source is as fast as it can be.
    pub(crate) fn new(source: S, pace: Option<Pace>) -> Self {
        Self { source, pace }
    }
}

impl<S: Source> Source for Paced<S> {
    type Out = S::Out;
    type Split = S::Split;
    type Enumerator = S::Enumerator;
    type Reader = PacedReader<S::Reader>;

    fn boundedness(&self) -> Boundedness {
        self.source.boundedness()
    }

    fn create_enumerator(&self) -> Result<S::Enumerator, BoxedError> {
        self.source.create_enumerator()
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<S::Enumerator, BoxedError> {
        self.source.restore_enumerator(state)
    }

    fn create_reader(&self, subtask: u32) -> Result<PacedReader<S::Reader>, BoxedError> {
        let (grants, again) = match &self.pace {
            None => (None, 0),
            Some(Pace::PerCheckpoint(records)) => (Some(Grants::new(*records)), *records),
            Some(Pace::Granted(grants)) => (Some(grants.clone()), 0),
        };
        Ok(PacedReader { reader: self.source.create_reader(subtask)?, grants, again })
    }
}

pub(crate) struct PacedReader<R> {
    reader: R,
    /// `None` for a reader that may emit whatever there is.
    grants: Option<Grants>,
    /// What a complete checkpoint grants.
    again: u64,
}

impl<R: SourceReader> SourceReader for PacedReader<R> {
    type Out = R::Out;
    type Split = R::Split;

    fn add_split(&mut self, split: R::Split) -> Result<(), BoxedError> {
        self.reader.add_split(split)
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<R::Out>) -> Result<Polled, BoxedError> {
        let Some(grants) = self.grants.as_ref().filter(|_| cx.records_max > 0) else {
            return self.reader.poll(cx, out);
        };
        let taken = grants.take(POLL_RECORDS_MAX.min(cx.records_max as u64), cx.waker);
        if taken == 0 {
            return Ok(Polled::Idle(None));
        }
        let before = out.len();
        let polled = self.reader.poll(&PollContext { records_max: taken as usize, ..*cx }, out)?;
        grants.add(taken - (out.len() - before) as u64);
        Ok(polled)
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<R::Split>, BoxedError> {
        self.reader.snapshot(checkpoint)
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        if let Some(grants) = &self.grants {
            grants.add(self.again);
        }
        self.reader.notify_checkpoint_complete(checkpoint)
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.reader.notify_checkpoint_aborted(checkpoint)
    }
}
