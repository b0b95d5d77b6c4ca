//! A job of one sink, as small as can be: attempts with subtasks, and checkpoints that outlive them.

use std::collections::BTreeMap;
use std::mem;

use highwater_state_api::{Attempt, BoxedError, CheckpointId, JobName, OperatorUid};
use highwater_stream_api::{CommitError, SinkContext, SinkStart};

use super::erased::{AnySink, AnyWriter, Bytes};
use super::{Factory, SinkUnderTest};

/// A prepared transaction that is not known to be committed.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) checkpoint: u64,
    pub(super) transaction: Bytes,
}

/// How an attempt ends before the job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process is killed: nothing is dropped.
    Killed,
    /// The attempt fails, and what it has is dropped.
    Stopped,
}

/// Runs a case for every way in which an attempt can end.
pub(super) fn with_every_end(factory: Factory<'_>, case: impl Fn(Job, End)) {
    for end in [End::Killed, End::Stopped] {
        case(Job::new(factory), end);
    }
}

/// What outlives attempts.
pub(super) struct Job {
    pub(super) target: SinkUnderTest,
    /// The transactions in each snapshot.
    snapshots: BTreeMap<u64, Vec<Prepared>>,
    attempts: u64,
}

impl Job {
    pub(super) fn new(factory: Factory<'_>) -> Self {
        Self { target: factory(), snapshots: BTreeMap::new(), attempts: 0 }
    }

    /// Starts an attempt from nothing.
    pub(super) fn start(&mut self, parallelism: u32) -> Run {
        self.begin(None, Vec::new(), parallelism)
    }

    /// Starts an attempt from a checkpoint: what it has of transactions is committed, and what else there is aborted.
    pub(super) fn restore(&mut self, checkpoint: u64, parallelism: u32) -> Run {
        let mut run = self.restore_without_aborts(checkpoint, parallelism);
        run.abort_earlier_attempts();
        run
    }

    /// An attempt whose first try to abort earlier ones has failed: the next complete checkpoint tries again.
    pub(super) fn restore_without_aborts(&mut self, checkpoint: u64, parallelism: u32) -> Run {
        let mut run = self.restore_without_commits(checkpoint, parallelism);
        run.commit_up_to(checkpoint);
        run
    }

    pub(super) fn restore_without_commits(&mut self, checkpoint: u64, parallelism: u32) -> Run {
        let restored = self.snapshots[&checkpoint].clone();
        self.begin(Some(CheckpointId(checkpoint)), restored, parallelism)
    }

    fn begin(&mut self, restored: Option<CheckpointId>, transactions: Vec<Prepared>, parallelism: u32) -> Run {
        self.attempts += 1;
        let attempt = Attempt(self.attempts);
        let sink = (self.target.open)();
        let (job, operator) = (JobName::new("conformance").unwrap(), OperatorUid::new("sink").unwrap());
        sink.start(&SinkStart { job: &job, operator: &operator, attempt, restored }).unwrap();
        let subtask = |subtask| {
            let (job, operator) = (job.clone(), operator.clone());
            let context = SinkContext { job, operator, attempt, subtask, parallelism, restored };
            Subtask { writer: sink.create_writer(&context).unwrap(), ledger: Vec::new() }
        };
        let mut subtasks: Vec<Subtask> = (0..parallelism).map(subtask).collect();
        for (number, transaction) in transactions.into_iter().enumerate() {
            subtasks[number % parallelism as usize].ledger.push(transaction);
        }
        Run { attempt, sink, subtasks, has_aborted: false }
    }

    /// What a reader of the target sees, sorted.
    pub(super) fn visible(&self) -> Vec<String> {
        let mut visible = (self.target.visible)();
        visible.sort();
        visible
    }

    #[track_caller]
    pub(super) fn assert_visible(&self, expected: &[&str], when: &str) {
        assert_eq!(self.visible(), expected, "{when}");
    }
}

/// One attempt.
pub(super) struct Run {
    attempt: Attempt,
    pub(super) sink: Box<dyn AnySink>,
    subtasks: Vec<Subtask>,
    has_aborted: bool,
}

struct Subtask {
    writer: Box<dyn AnyWriter>,
    /// In the order in which they are to be committed.
    ledger: Vec<Prepared>,
}

impl Run {
    pub(super) fn write(&mut self, subtask: usize, records: &[&str]) {
        self.try_write(subtask, records).unwrap();
    }

    /// The same for an attempt whose transactions may be aborted by now.
    pub(super) fn try_write(&mut self, subtask: usize, records: &[&str]) -> Result<(), BoxedError> {
        records.iter().try_for_each(|record| self.subtasks[subtask].writer.write(record))
    }

    /// Prepares the open transaction of one subtask.
    pub(super) fn prepare(&mut self, subtask: usize, checkpoint: u64) -> Option<Prepared> {
        self.try_prepare(subtask, checkpoint).unwrap()
    }

    /// The same for an attempt whose transactions may be aborted by now.
    pub(super) fn try_prepare(&mut self, subtask: usize, checkpoint: u64) -> Result<Option<Prepared>, BoxedError> {
        let Subtask { writer, ledger } = &mut self.subtasks[subtask];
        let prepared = writer.prepare_commit(CheckpointId(checkpoint))?;
        let prepared = prepared.map(|transaction| Prepared { checkpoint, transaction });
        ledger.extend(prepared.clone());
        Ok(prepared)
    }

    /// Prepares the open transaction of every subtask; their snapshots are in the storage.
    pub(super) fn snapshot(&mut self, job: &mut Job, checkpoint: u64) {
        for subtask in 0..self.subtasks.len() {
            self.prepare(subtask, checkpoint);
        }
        let transactions = self.subtasks.iter().flat_map(|subtask| subtask.ledger.iter().cloned());
        job.snapshots.insert(checkpoint, transactions.collect());
    }

    /// Every subtask hears that a checkpoint is complete.
    pub(super) fn complete(&mut self, checkpoint: u64) {
        self.commit_up_to(checkpoint);
        self.abort_earlier_attempts();
    }

    fn abort_earlier_attempts(&mut self) {
        if !mem::replace(&mut self.has_aborted, true) {
            self.sink.abort_earlier_attempts(self.attempt).unwrap();
        }
    }

    /// A whole checkpoint.
    pub(super) fn checkpoint(&mut self, job: &mut Job, checkpoint: u64) {
        self.snapshot(job, checkpoint);
        self.complete(checkpoint);
    }

    /// Commits what one subtask has to commit, in order; stops at the first that fails.
    pub(super) fn try_commit(&mut self, subtask: usize, checkpoint: u64) -> Result<(), CommitError> {
        let ledger = &mut self.subtasks[subtask].ledger;
        while ledger.first().is_some_and(|next| next.checkpoint <= checkpoint) {
            self.sink.commit(&ledger[0].transaction)?;
            ledger.remove(0);
        }
        Ok(())
    }

    fn commit_up_to(&mut self, checkpoint: u64) {
        for subtask in 0..self.subtasks.len() {
            self.try_commit(subtask, checkpoint).unwrap();
        }
    }

    pub(super) fn end(self, end: End) {
        if end == End::Killed {
            mem::forget(self);
        }
    }
}
