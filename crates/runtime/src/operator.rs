//! What the runtime asks of an operator, whatever the types of its records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::OperatorSnapshot;
use highwater_state_api::{
    Attempt, CheckpointId, FrozenKeyedState, FrozenOperatorState, FrozenRawKeyedState, JobName, KeyGroup,
    KeyGroupRange, MaxParallelism, OperatorStateMeta, OperatorUid, RestoredElements, RowSettings, StateBackend,
    StateError, TableMeta, TaskInfo, operator_state,
};
use highwater_stream_api::Timestamp;

use crate::TaskError;
use crate::batch::AnyBatch;
use crate::channel::Barrier;

/// An operator of a chain.
///
/// Records come as batches: [`Operator::accept`] takes one, [`Operator::run`] works on it until it is done or has to
/// yield, [`Operator::take_output`] gives what came out. Between the calls of `run` the rest of the batch is the only
/// place inside the operator where records wait. After an error the operator is dropped; only [`FreezeError::Decline`]
/// lets it go on.
pub trait Operator: Send {
    /// Prepares the operator, with restored state if there is any. Called once, first.
    fn open(&mut self, cx: OperatorContext) -> Result<(), TaskError>;

    /// Takes a batch to work on. The one before must be done.
    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError>;

    /// Works on the accepted batch, or, if it is a source, reads.
    fn run(&mut self, limits: &Limits<'_>) -> Result<Ran, TaskError>;

    /// Event time has come to `watermark`: fires what is due. To be called again while it returns [`Ran::More`].
    fn advance(&mut self, watermark: Timestamp, limits: &Limits<'_>) -> Result<Ran, TaskError>;

    /// The watermark of the operator's output.
    fn watermark(&self) -> Timestamp;

    /// There will be no more input, and everything due has been fired.
    fn finish(&mut self) -> Result<(), TaskError>;

    /// What came out since the last call.
    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>>;

    /// A snapshot is about to be taken: emit now what must not be part of it.
    fn prepare_snapshot(&mut self, _checkpoint: CheckpointId) -> Result<(), TaskError> {
        Ok(())
    }

    /// Takes a snapshot for the checkpoint of `barrier`: the synchronous part.
    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError>;

    /// Every subtask of the job runs: whatever was restored is settled, everywhere. Called once, before the first checkpoint.
    fn notify_all_running(&mut self) -> Result<(), TaskError> {
        Ok(())
    }

    /// A checkpoint is complete.
    fn notify_complete(&mut self, _checkpoint: CheckpointId, _now: Duration) -> Result<(), TaskError> {
        Ok(())
    }

    /// A checkpoint will never complete.
    fn notify_aborted(&mut self, _checkpoint: CheckpointId) -> Result<(), TaskError> {
        Ok(())
    }

    /// A complete checkpoint is no longer kept: nothing will be restored from it.
    fn notify_subsumed(&mut self, _checkpoint: CheckpointId) -> Result<(), TaskError> {
        Ok(())
    }

    /// When [`Operator::on_timer`] is to be called, on the clock that never goes backwards.
    fn next_timer(&self) -> Option<Duration> {
        None
    }

    /// The time that [`Operator::next_timer`] gave has come.
    fn on_timer(&mut self, _now: Duration) -> Result<(), TaskError> {
        Ok(())
    }

    /// Whether every effect outside the job that complete checkpoints allow has been carried out.
    fn is_settled(&self) -> bool {
        true
    }

    /// The operator as a source, if it is one.
    fn as_source(&mut self) -> Option<&mut dyn SourceControl> {
        None
    }

    /// What the operator has counted since its start.
    fn counts(&self) -> OperatorCounts;
}

/// What a source is told besides records.
pub trait SourceControl {
    /// A split to read, serialised.
    fn add_split(&mut self, split: &[u8]) -> Result<(), TaskError>;

    /// There will be no more splits.
    fn no_more_splits(&mut self);
}

/// When a running operator has to yield.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// How many records, or timers, at most.
    pub records_max: usize,
    /// How many records of output at most, about.
    pub output_max: usize,
    /// Set while control messages wait: nothing new is begun then.
    pub control_waits: &'a AtomicBool,
    /// Time since a fixed instant, on a clock that never goes backwards.
    pub now: Duration,
    /// Wakes the task.
    pub waker: &'a Waker,
}

static NOTHING_WAITS: AtomicBool = AtomicBool::new(false);

impl Limits<'static> {
    /// No limits: for a host that lets a chain work until it is done. Wakes nobody.
    pub fn unlimited(now: Duration) -> Self {
        Self {
            records_max: usize::MAX,
            output_max: usize::MAX,
            control_waits: &NOTHING_WAITS,
            now,
            waker: Waker::noop(),
        }
    }
}

impl Limits<'_> {
    /// Whether another record may be begun after `done` records with `output` records of output.
    #[inline]
    pub fn allow(&self, done: usize, output: usize) -> bool {
        done < self.records_max && output < self.output_max && !self.control_waits.load(Ordering::Relaxed)
    }
}

/// How a call of [`Operator::run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// Everything is done.
    Done,
    /// It yielded: there is more to do.
    More,
    /// A source has read all its splits and wants another.
    NeedsSplit,
    /// A source has nothing to read now; until this time, or until it wakes its task.
    Idle(Option<Duration>),
    /// A source has read everything it will ever have.
    Ended,
}

/// Counters of one operator since the start of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperatorCounts {
    /// Records taken in, or read by a source.
    pub records_in: u64,
    /// Records dropped because they came too late.
    pub late_records: u64,
}

/// What an operator is opened with.
#[derive(Clone)]
pub struct OperatorContext {
    /// The job.
    pub job: JobName,
    /// The attempt.
    pub attempt: Attempt,
    /// The operator.
    pub uid: OperatorUid,
    /// Index of the subtask.
    pub subtask: u32,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: MaxParallelism,
    /// Makes keyed backends.
    pub state_backend: Arc<dyn StateBackend>,
    /// How the row tier behaves.
    pub row_settings: RowSettings,
    /// Time since a fixed instant, on a clock that never goes backwards.
    pub now: Duration,
    /// The checkpoint that the job was started from, if the operator's task had state in it: the same for all operators of
    /// a task, also for one that is new in it.
    pub restored_checkpoint: Option<CheckpointId>,
    /// What is restored; `None` when the job starts from nothing or the operator had no part in the checkpoint.
    pub restored: Option<RestoredOperator>,
}

impl OperatorContext {
    /// Which of the subtasks of the operator this is.
    pub fn task_info(&self) -> TaskInfo {
        TaskInfo { subtask: self.subtask, parallelism: self.parallelism }
    }

    /// The key groups that the subtask owns.
    pub fn key_groups(&self) -> KeyGroupRange {
        self.max_parallelism.range_of(self.subtask, self.parallelism)
    }
}

/// The share of one subtask in the restored state of its operator, read and checked.
#[derive(Debug, Clone)]
pub struct RestoredOperator {
    /// The checkpoint it comes from.
    pub checkpoint: CheckpointId,
    /// Keyed state, one entry for each old subtask that held some of it.
    pub keyed: Vec<RestoredKeyedState>,
    /// Raw keyed state, in ascending order of key group.
    pub raw_keyed: Vec<(KeyGroup, Bytes)>,
    /// Operator state: of every state of the operator what the subtask gets of it.
    pub operator: Vec<RestoredOperatorState>,
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// Every old subtask had been finished.
    pub finished: bool,
}

/// Keyed state of one old subtask.
#[derive(Debug, Clone)]
pub struct RestoredKeyedState {
    /// The tables by their numbers in the streams.
    pub tables: Vec<TableMeta>,
    /// The canonical streams of the key groups that are needed.
    pub groups: Vec<(KeyGroup, Bytes)>,
}

/// What one subtask gets of one operator state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredOperatorState {
    /// The state.
    pub meta: OperatorStateMeta,
    /// The elements, in order.
    pub elements: Vec<RestoredElements>,
}

impl RestoredOperatorState {
    /// The serialised elements of a list, one by one.
    pub fn serialized_elements(&self) -> impl Iterator<Item = Result<&[u8], StateError>> {
        self.elements.iter().flat_map(|elements| operator_state::elements(&elements.content))
    }
}

impl RestoredOperator {
    /// The serialised elements of a list that an operator keeps by itself; none if there is no such list. Fails when they
    /// were written with another schema.
    pub fn serialized_elements(&self, meta: &OperatorStateMeta) -> Result<Vec<&[u8]>, StateError> {
        let is_it = |state: &&RestoredOperatorState| !state.meta.is_broadcast() && state.meta.name == meta.name;
        let Some(state) = self.operator.iter().find(is_it) else { return Ok(Vec::new()) };
        state.meta.check_usable_as(meta)?;
        state.serialized_elements().collect()
    }
}

/// A snapshot of one operator that waits to be written.
#[derive(Default)]
pub struct FrozenOperator {
    /// Keyed state with the key groups it covers.
    pub keyed: Option<(KeyGroupRange, FrozenKeyedState)>,
    /// Raw keyed state.
    pub raw_keyed: Option<FrozenRawKeyedState>,
    /// Operator state.
    pub operator: Option<FrozenOperatorState>,
    /// The rest, with everything but the state filled in.
    pub snapshot: OperatorSnapshot,
}

/// The synchronous part of a snapshot failed.
#[derive(Debug)]
pub enum FreezeError {
    /// The checkpoint cannot be taken; the task goes on.
    Decline(TaskError),
    /// The task cannot go on.
    Fail(TaskError),
}

impl From<TaskError> for FreezeError {
    fn from(error: TaskError) -> Self {
        Self::Fail(error)
    }
}
