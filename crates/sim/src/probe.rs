//! Probes: operators around the job's own that watch which records pass between snapshots, and change nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use highwater_runtime::TaskError;
use highwater_runtime::batch::{AnyBatch, Batch};
use highwater_runtime::channel::Barrier;
use highwater_runtime::operator::{
    FreezeError, FrozenOperator, Limits, Operator, OperatorContext, OperatorCounts, Ran, SourceControl,
};
use highwater_state_api::CheckpointId;
use highwater_stream_api::Timestamp;

use crate::record::{Counted, Record, RecordId};

/// The operators that are watched, in the order in which records pass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Reads.
    Source,
    /// Counts.
    Counter,
    /// Writes.
    Sink,
}

/// What a probe has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Records that came in.
    pub taken: Vec<RecordId>,
    /// Records that went out.
    pub put: Vec<RecordId>,
    /// For each snapshot, how many of them were before it.
    pub frozen: BTreeMap<CheckpointId, (usize, usize)>,
    /// There will be no others.
    pub ended: bool,
    /// The first of the snapshots that were taken after that.
    pub first_at_the_end: Option<CheckpointId>,
}

impl Seen {
    /// How many there were before the barrier of a checkpoint, as far as that is known.
    pub(crate) fn before(&self, checkpoint: CheckpointId) -> Option<(usize, usize)> {
        // Whoever has finished takes no part any more: all that there was is before it.
        let has_finished = self.first_at_the_end.is_some_and(|first| first < checkpoint);
        let all = || has_finished.then_some((self.taken.len(), self.put.len()));
        self.frozen.get(&checkpoint).copied().or_else(all)
    }
}

/// What the probes of one attempt have seen. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Testimony>>);

/// What the probes of one attempt have seen, by operator and subtask.
#[derive(Debug, Default)]
pub(crate) struct Testimony {
    /// By operator and subtask.
    pub seen: BTreeMap<(Role, u32), Seen>,
    /// Snapshots that nobody has looked at yet.
    fresh: Vec<CheckpointId>,
}

impl Witness {
    /// The checkpoints of which snapshots were taken since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<CheckpointId> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// What was seen.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Testimony> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches an operator.
pub(crate) struct Probe {
    inner: Box<dyn Operator>,
    key: (Role, u32),
    witness: Witness,
}

impl Probe {
    /// Watches the operator of a subtask.
    pub(crate) fn new(inner: Box<dyn Operator>, role: Role, subtask: u32, witness: Witness) -> Self {
        witness.lock().seen.entry((role, subtask)).or_default();
        Self { inner, key: (role, subtask), witness }
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(self.witness.lock().seen.entry(self.key).or_default());
    }
}

fn ids(batch: &dyn AnyBatch) -> Vec<RecordId> {
    let batch = match batch.share().into_any().downcast::<Batch<Record>>() {
        Ok(records) => return records.content().records.iter().map(Record::id).collect(),
        Err(other) => other,
    };
    let counted = batch.downcast::<Batch<Counted>>();
    counted.map_or_else(|_| Vec::new(), |counted| counted.content().records.iter().map(|it| it.record.id()).collect())
}

#[deny(clippy::missing_trait_methods)]
impl Operator for Probe {
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError> {
        self.inner.open(cx)
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        let ids = ids(&*batch);
        self.note(|seen| seen.taken.extend(ids));
        self.inner.accept(batch)
    }

    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        self.inner.run(limits)
    }

    fn advance(&mut self, watermark: Timestamp, limits: &Limits<'_>) -> Result<Ran, TaskError> {
        self.inner.advance(watermark, limits)
    }

    fn watermark(&self) -> Timestamp {
        self.inner.watermark()
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        self.note(|seen| seen.ended = true);
        self.inner.finish()
    }

    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>> {
        let output = self.inner.take_output()?;
        let ids = ids(&*output);
        self.note(|seen| seen.put.extend(ids));
        Some(output)
    }

    fn prepare_snapshot(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.inner.prepare_snapshot(checkpoint)
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        let checkpoint = barrier.checkpoint;
        // What was accepted and not yet worked on is not before the snapshot.
        let taken = self.inner.counts().records_in as usize;
        self.note(|seen| {
            seen.frozen.insert(checkpoint, (taken, seen.put.len()));
            if seen.ended {
                seen.first_at_the_end.get_or_insert(checkpoint);
            }
        });
        self.witness.lock().fresh.push(checkpoint);
        self.inner.freeze(barrier)
    }

    fn notify_all_running(&mut self) -> Result<(), TaskError> {
        self.inner.notify_all_running()
    }

    fn notify_complete(&mut self, checkpoint: CheckpointId, now: Duration) -> Result<(), TaskError> {
        self.inner.notify_complete(checkpoint, now)
    }

    fn notify_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.inner.notify_aborted(checkpoint)
    }

    fn notify_subsumed(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        self.inner.notify_subsumed(checkpoint)
    }

    fn next_timer(&self) -> Option<Duration> {
        self.inner.next_timer()
    }

    fn on_timer(&mut self, now: Duration) -> Result<(), TaskError> {
        self.inner.on_timer(now)
    }

    fn is_settled(&self) -> bool {
        self.inner.is_settled()
    }

    fn as_source(&mut self) -> Option<&mut dyn SourceControl> {
        self.inner.as_source()
    }

    fn counts(&self) -> OperatorCounts {
        self.inner.counts()
    }
}
