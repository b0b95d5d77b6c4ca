//! Sources: input that can be read again from a recorded position.
//!
//! A source is a factory. Its *enumerator* knows which splits there are and hands them out, one for the job; its
//! *readers* read splits, one a subtask. A split carries the position of the next record to be emitted, so that a split
//! that a reader gives back continues exactly there.

use std::fmt;
use std::task::Waker;
use std::time::Duration;

use highwater_state_api::{BoxedError, CheckpointId, State};

use crate::{Collector, Data};

/// Whether the input of a source ends. Flink's `Boundedness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundedness {
    /// There is so much input and no more.
    Bounded,
    /// There may always be more input, or it is not known whether there is.
    ContinuousUnbounded,
}

/// A source: makes the enumerator and the readers of every attempt. An error of one of these methods ends the job, unless
/// this process has restarted it before. A panic counts as an error.
pub trait Source: Send + Sync + 'static {
    /// What is read.
    type Out: Data;
    /// A part of the input with the position to read from. Goes into checkpoints.
    type Split: State + fmt::Debug;
    /// Hands out the splits.
    type Enumerator: SplitEnumerator<Split = Self::Split>;
    /// Reads splits.
    type Reader: SourceReader<Out = Self::Out, Split = Self::Split>;

    /// Whether the input ends. Only bounded input can be processed in batch mode, where nothing comes out before it has ended;
    /// so a source that does not say is taken for one that does not end. Flink's `Source.getBoundedness`.
    fn boundedness(&self) -> Boundedness {
        Boundedness::ContinuousUnbounded
    }

    /// The enumerator of a job that starts from nothing: finds the splits.
    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError>;

    /// The enumerator of a job that is restored: from what [`SplitEnumerator::snapshot`] wrote. What a first start
    /// decided is not decided again.
    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError>;

    /// A reader without splits for one subtask.
    fn create_reader(&self, subtask: u32) -> Result<Self::Reader, BoxedError>;
}

/// Hands the splits of a source to its readers. A value that is called and never calls.
pub trait SplitEnumerator: Send {
    /// What is handed out.
    type Split;

    /// The next split for a reader that has nothing to read.
    fn next_split(&mut self, subtask: u32) -> Result<SplitAssignment<Self::Split>, BoxedError>;

    /// Takes back splits that a reader had, with the positions it had reached.
    fn add_splits_back(&mut self, splits: Vec<Self::Split>);

    /// The splits that have not been handed out, as bytes for [`Source::restore_enumerator`]. An error fails the checkpoint,
    /// and the job goes on.
    fn snapshot(&self) -> Result<Vec<u8>, BoxedError>;

    /// Whether the source works through a backlog: records that have waited for long, so that how soon they are in a
    /// checkpoint matters less than how fast they are read. Then checkpoints may be taken at an interval of their own, or
    /// not at all. Asked after every other call. Flink's `SplitEnumeratorContext.setIsProcessingBacklog`.
    fn is_processing_backlog(&self) -> bool {
        false
    }
}

/// What an enumerator has for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitAssignment<S> {
    /// A split to read.
    Split(S),
    /// Nothing now and nothing ever: the reader ends when it has read what it has.
    NoMoreSplits,
}

/// Reads splits. Polled by one task, never concurrently; must not block on a network. An error ends the attempt.
pub trait SourceReader: Send {
    /// What is read.
    type Out;
    /// What it is read from.
    type Split;

    /// Gives the reader a split to read, after those it has.
    fn add_split(&mut self, split: Self::Split) -> Result<(), BoxedError>;

    /// Emits up to `cx.records_max` records. A record that was emitted counts as read in the next snapshot.
    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<Self::Out>) -> Result<Polled, BoxedError>;

    /// The splits that are not read to their end, with the positions of the next records, for a checkpoint. A later call is
    /// for a later checkpoint, and one need not be complete before the next is taken.
    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Vec<Self::Split>, BoxedError>;

    /// A checkpoint is complete: records before its positions are never read again, and upstream may be told so, but not of
    /// those that came later. The word of a checkpoint may be lost; then one of a later checkpoint comes.
    fn notify_checkpoint_complete(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }

    /// A checkpoint will never be complete. Its records are in the next one.
    fn notify_checkpoint_aborted(&mut self, _checkpoint: CheckpointId) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// What a reader may use in a poll.
#[derive(Debug, Clone, Copy)]
pub struct PollContext<'a> {
    /// How many records may be emitted at most.
    pub records_max: usize,
    /// Time since a fixed instant, on a clock that never goes backwards.
    pub now: Duration,
    /// Wakes the task when an idle reader has records again.
    pub waker: &'a Waker,
}

/// How a poll ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// There may be more records at once.
    More,
    /// Every split is read to its end.
    NeedSplit,
    /// No record now: poll again when the waker is used or, if it is given, when `now` has reached this time.
    Idle(Option<Duration>),
}
