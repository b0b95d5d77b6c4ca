//! Sinks with two-phase commit with one defect each.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use highwater_state_api::{Attempt, BoxedError, CheckpointId};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkStart, SinkWriter, Timestamp};

use super::defects;
use crate::reference_sink::{Contents, ReferenceTransaction, ReferenceWriter};
use crate::sink::{Case, SinkUnderTest};
use crate::{ReferenceSink, ReferenceTarget};

/// How often a commit that checks first lets the others go before it acts.
const YIELDS_MAX: u32 = 1_000;

defects! {
    /// What is wrong with a [`WrongSink`].
    SinkDefect, caught by cases of sink: Case;

    /// Records are visible when they are written.
    WritesThrough => nothing_is_visible_before_its_checkpoint_is_complete,
    /// A transaction is committed when it is prepared.
    CommitsAtPrepare => nothing_is_visible_before_its_checkpoint_is_complete,
    /// A transaction is prepared when nothing was written.
    PreparesNothing => a_checkpoint_without_records_has_no_transaction,
    /// Attempts name their transactions alike.
    NamesWithoutAttempt => subtasks_and_attempts_never_meet,
    /// Subtasks name their transactions alike.
    NamesWithoutSubtask => subtasks_and_attempts_never_meet,
    /// A transaction is handed out with the next checkpoint.
    HandsOutOneTooLate => the_last_records_of_a_bounded_input_are_committed,
    /// A job that has left something before its first checkpoint cannot be started again.
    RefusesLeftOvers => a_crash_before_the_first_checkpoint_leaves_nothing_visible,
    /// A writer that is dropped commits its open transaction.
    CommitsOpenWhenDropped => a_crash_before_the_prepare_leaves_nothing_visible,
    /// A writer that is dropped commits what it has prepared.
    CommitsPreparedWhenDropped => a_crash_between_prepare_and_snapshot_leaves_nothing_visible,
    /// What a checkpoint does not cover is committed by the attempt that follows.
    CommitsWhatItFinds => a_crash_between_snapshot_and_completion_leaves_nothing_visible,
    /// A writer that is dropped aborts what it has prepared.
    AbortsPreparedWhenDropped => a_crash_between_completion_and_commit_is_made_good_by_the_restore,
    /// What is prepared is in the memory of the process.
    PreparesInMemory => a_crash_between_completion_and_commit_is_made_good_by_the_restore,
    /// A start aborts what is not committed, restored or not.
    AbortsAtStart => a_crash_among_the_commits_is_made_good_by_the_restore,
    /// A transaction that is committed is not found by its second commit.
    RefusesASecondCommit => a_crash_between_commit_and_forgetting_makes_nothing_visible_twice,
    /// A second commit makes the records visible a second time.
    CommitsTwice => a_transaction_committed_again_is_visible_once,
    /// A commit commits everything that is prepared.
    CommitsEverything => a_commit_makes_no_other_transaction_visible,
    /// A commit of what is committed commits what its subtask is at now.
    CommitsWhatIsCurrent => committing_an_old_transaction_again_leaves_newer_ones_alone,
    /// A transaction waits for earlier ones of other subtasks.
    WaitsForOtherSubtasks => transactions_of_subtasks_are_committed_in_any_order,
    /// The next checkpoint aborts what was prepared for the one before.
    AbortsAtNextPrepare => transactions_of_an_aborted_checkpoint_are_committed_with_the_next,
    /// A commit looks first whether the transaction is committed, and then commits it.
    ChecksBeforeItCommits => concurrent_commits_of_one_transaction_make_it_visible_once,
    /// An abort removes what is committed, too.
    AbortsCommitted => aborting_earlier_attempts_leaves_what_is_committed,
    /// An abort removes what the attempt itself has prepared, too.
    AbortsItself => aborting_earlier_attempts_leaves_what_this_attempt_has_prepared,
    /// Nothing is ever aborted.
    AbortsNothing => open_transactions_of_vanished_subtasks_are_aborted,
    /// An abort leaves the transactions of subtasks that there are no more.
    AbortsPresentSubtasks => open_transactions_of_vanished_subtasks_are_aborted,
    /// An abort leaves transactions that are not prepared.
    AbortsOnlyPrepared => open_transactions_of_vanished_subtasks_are_aborted,
    /// An abort commits what is prepared.
    CommitsAtAbort => what_a_dead_attempt_prepares_is_never_visible,
    /// What is not in the target is taken for what is committed.
    TakesALossForACommit => a_transaction_that_is_gone_is_not_said_to_be_committed,
    /// What is not in the target is asked for again and again.
    TakesALossForAnOutage => a_transaction_that_is_gone_is_not_said_to_be_committed,
    /// What was restored is said to be committed, and is not.
    IgnoresRestored => restored_transactions_are_visible_before_anything_new_is_written,
    /// What was restored is committed with the next prepare.
    CommitsRestoredLater => restored_transactions_are_visible_before_anything_new_is_written,
    /// Of what was restored, only the transactions of subtasks that there still are are committed.
    CommitsPresentSubtasks => a_restore_at_another_parallelism_commits_every_transaction_once,
    /// A checkpoint can be restored once.
    RestoresOnce => the_same_checkpoint_can_be_restored_twice,
    /// What is said to make it fail does nothing: the mistake of who hands a sink to the suite.
    FeelsNoOutage => an_outage_of_the_target_is_felt,
    /// A target that cannot be reached is taken for one that has lost the transaction.
    TakesAnOutageForALoss => an_outage_of_the_target_is_felt,
    /// A commit that failed is reported as done.
    HidesFailedCommits => a_commit_that_failed_can_be_made_good,
    /// A transaction whose commit failed is forgotten.
    ForgetsOnError => a_commit_that_failed_can_be_made_good_by_a_later_attempt,
}

/// A [`ReferenceSink`] with one defect.
#[derive(Debug)]
pub struct WrongSink {
    defect: SinkDefect,
    right: ReferenceSink,
    target: ReferenceTarget,
    /// The checkpoints that were restored, by whichever instance.
    restored: Arc<Mutex<Vec<CheckpointId>>>,
    attempt: AtomicU64,
    parallelism: AtomicU32,
    /// Commits that are put off.
    later: Arc<Mutex<Vec<ReferenceTransaction>>>,
}

impl WrongSink {
    /// A new target with wrong sinks on it, as the suite takes it.
    pub fn under_test(defect: SinkDefect) -> SinkUnderTest {
        let (target, restored) = (ReferenceTarget::default(), Arc::default());
        let (visible, uncommitted, outage) = (target.clone(), target.clone(), target.clone());
        let open = move || Self {
            defect,
            right: ReferenceSink::on(&target),
            target: target.clone(),
            restored: Arc::clone(&restored),
            attempt: AtomicU64::new(0),
            parallelism: AtomicU32::new(0),
            later: Arc::default(),
        };
        SinkUnderTest::new(open, move || visible.visible())
            .with_uncommitted(move || uncommitted.uncommitted())
            .with_outage(move |is_away| outage.set_outage(is_away && defect != SinkDefect::FeelsNoOutage))
    }

    fn is_restored(&self, transaction: &ReferenceTransaction) -> bool {
        transaction.attempt.0 != self.attempt.load(Ordering::Relaxed)
    }

    fn commit_in_outage(&self, transaction: &ReferenceTransaction) -> Result<(), CommitError> {
        match self.defect {
            SinkDefect::HidesFailedCommits => return Ok(()),
            SinkDefect::TakesAnOutageForALoss => return Err(CommitError::Lost("no answer".into())),
            SinkDefect::ForgetsOnError => drop(self.target.contents().transactions.remove(transaction)),
            _ => {}
        }
        self.right.commit(transaction)
    }

    fn commit_slowly(&self, transaction: &ReferenceTransaction) -> Result<(), CommitError> {
        if self.target.contents().transactions.get(transaction).is_some_and(|entry| entry.times_visible > 0) {
            return Ok(());
        }
        (0..YIELDS_MAX).for_each(|_| thread::yield_now());
        commit_where(&mut self.target.contents(), |other| other == transaction);
        Ok(())
    }
}

/// Makes the records of some transactions visible, once more where they are.
fn commit_where(contents: &mut Contents, wanted: impl Fn(&ReferenceTransaction) -> bool) {
    for (transaction, entry) in &mut contents.transactions {
        entry.times_visible += usize::from(wanted(transaction));
    }
}

impl Sink for WrongSink {
    type In = String;
    type Transaction = ReferenceTransaction;
    type Writer = WrongWriter;

    fn start(&self, start: &SinkStart<'_>) -> Result<(), BoxedError> {
        self.attempt.store(start.attempt.0, Ordering::Relaxed);
        let contents = &mut *self.target.contents();
        match self.defect {
            SinkDefect::RefusesLeftOvers if start.restored.is_none() && !contents.transactions.is_empty() => {
                return Err("the target is not empty".into());
            }
            SinkDefect::AbortsAtStart => contents.transactions.retain(|_, entry| entry.times_visible > 0),
            SinkDefect::CommitsWhatItFinds => {
                let prepared = contents.transactions.values_mut().filter(|entry| entry.is_prepared);
                prepared.for_each(|entry| entry.times_visible = 1);
            }
            SinkDefect::RestoresOnce => {
                let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
                if start.restored.is_some_and(|checkpoint| restored.contains(&checkpoint)) {
                    return Err("the checkpoint has been restored before".into());
                }
                restored.extend(start.restored);
            }
            _ => {}
        }
        Ok(())
    }

    fn create_writer(&self, cx: &SinkContext) -> Result<WrongWriter, BoxedError> {
        self.parallelism.store(cx.parallelism, Ordering::Relaxed);
        let mut right = self.right.create_writer(cx)?;
        match self.defect {
            SinkDefect::NamesWithoutAttempt => right.open.attempt = Attempt(0),
            SinkDefect::NamesWithoutSubtask => right.open.subtask = 0,
            _ => {}
        }
        let later = self.later.clone();
        Ok(WrongWriter { defect: self.defect, right, prepared: Vec::new(), held: None, later })
    }

    fn commit(&self, transaction: &ReferenceTransaction) -> Result<(), CommitError> {
        if self.target.contents().is_away {
            return self.commit_in_outage(transaction);
        }
        let mut contents = self.target.contents();
        let entry = contents.transactions.get(transaction);
        let (is_gone, is_committed) = (entry.is_none(), entry.is_some_and(|entry| entry.times_visible > 0));
        match self.defect {
            SinkDefect::TakesALossForACommit if is_gone => return Ok(()),
            SinkDefect::TakesALossForAnOutage if is_gone => {
                return Err(CommitError::Retryable("it is not there yet".into()));
            }
            SinkDefect::RefusesASecondCommit if is_committed => {
                return Err(CommitError::Lost("it is not among what is prepared".into()));
            }
            SinkDefect::PreparesInMemory if self.is_restored(transaction) && !is_committed => {
                return Err(CommitError::Lost("another process had it".into()));
            }
            SinkDefect::IgnoresRestored if self.is_restored(transaction) => return Ok(()),
            SinkDefect::CommitsPresentSubtasks if transaction.subtask >= self.parallelism.load(Ordering::Relaxed) => {
                return Ok(());
            }
            SinkDefect::CommitsRestoredLater if self.is_restored(transaction) => {
                self.later.lock().unwrap_or_else(PoisonError::into_inner).push(*transaction);
                return Ok(());
            }
            SinkDefect::CommitsTwice => {
                commit_where(&mut contents, |other| other == transaction);
                return Ok(());
            }
            SinkDefect::CommitsEverything => {
                contents
                    .transactions
                    .values_mut()
                    .for_each(|entry| entry.times_visible = usize::from(entry.is_prepared));
            }
            SinkDefect::CommitsWhatIsCurrent if is_committed => {
                let subtasks =
                    contents.transactions.iter_mut().filter(|(other, _)| other.subtask == transaction.subtask);
                subtasks.for_each(|(_, entry)| entry.times_visible = 1);
            }
            SinkDefect::WaitsForOtherSubtasks => {
                let mut others = contents.transactions.iter().filter(|(other, _)| other.number < transaction.number);
                if others.any(|(_, entry)| entry.times_visible == 0) {
                    return Err(CommitError::Retryable("another one is first".into()));
                }
            }
            SinkDefect::ChecksBeforeItCommits => {
                drop(contents);
                return self.commit_slowly(transaction);
            }
            _ => {}
        }
        drop(contents);
        self.right.commit(transaction)
    }

    fn abort_earlier_attempts(&self, attempt: Attempt) -> Result<(), BoxedError> {
        let parallelism = self.parallelism.load(Ordering::Relaxed);
        let mut contents = self.target.contents();
        match self.defect {
            SinkDefect::AbortsNothing => return Ok(()),
            SinkDefect::AbortsCommitted => {
                contents.transactions.retain(|transaction, _| transaction.attempt >= attempt)
            }
            SinkDefect::AbortsItself => contents.transactions.retain(|_, entry| entry.times_visible > 0),
            SinkDefect::AbortsPresentSubtasks => contents.transactions.retain(|transaction, entry| {
                entry.times_visible > 0 || transaction.attempt >= attempt || transaction.subtask >= parallelism
            }),
            SinkDefect::AbortsOnlyPrepared => contents.transactions.retain(|transaction, entry| {
                entry.times_visible > 0 || transaction.attempt >= attempt || !entry.is_prepared
            }),
            SinkDefect::CommitsAtAbort => {
                let earlier = contents.transactions.iter_mut().filter(|(it, _)| it.attempt < attempt);
                earlier.for_each(|(_, entry)| entry.times_visible = usize::from(entry.is_prepared));
            }
            _ => {
                drop(contents);
                return self.right.abort_earlier_attempts(attempt);
            }
        }
        Ok(())
    }
}

/// The writer of a [`WrongSink`].
#[derive(Debug)]
pub struct WrongWriter {
    defect: SinkDefect,
    right: ReferenceWriter,
    prepared: Vec<ReferenceTransaction>,
    held: Option<ReferenceTransaction>,
    later: Arc<Mutex<Vec<ReferenceTransaction>>>,
}

impl WrongWriter {
    /// Makes some transactions visible.
    fn commit(&self, transactions: &[ReferenceTransaction]) {
        let contents = &mut *self.right.target.contents();
        for transaction in transactions {
            if let Some(entry) = contents.transactions.get_mut(transaction) {
                entry.times_visible = 1;
            }
        }
    }

    /// Removes some transactions that are not committed.
    fn abort(&self, transactions: &[ReferenceTransaction]) {
        let contents = &mut *self.right.target.contents();
        contents.transactions.retain(|other, entry| entry.times_visible > 0 || !transactions.contains(other));
    }
}

impl SinkWriter for WrongWriter {
    type In = String;
    type Transaction = ReferenceTransaction;

    fn write(&mut self, record: String, timestamp: Timestamp) -> Result<(), BoxedError> {
        self.right.write(record, timestamp)?;
        if self.defect == SinkDefect::WritesThrough {
            self.commit(&[self.right.open]);
        }
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Option<ReferenceTransaction>, BoxedError> {
        let transaction = self.right.prepare_commit(checkpoint)?;
        let later = std::mem::take(&mut *self.later.lock().unwrap_or_else(PoisonError::into_inner));
        self.commit(&later);
        match self.defect {
            SinkDefect::CommitsAtPrepare => self.commit(transaction.as_slice()),
            SinkDefect::PreparesNothing => return Ok(transaction.or(Some(self.right.open))),
            SinkDefect::HandsOutOneTooLate => return Ok(std::mem::replace(&mut self.held, transaction)),
            SinkDefect::AbortsAtNextPrepare => self.abort(&self.prepared),
            _ => {}
        }
        self.prepared.extend(transaction);
        Ok(transaction)
    }
}

impl Drop for WrongWriter {
    fn drop(&mut self) {
        match self.defect {
            SinkDefect::CommitsOpenWhenDropped => self.commit(&[self.right.open]),
            SinkDefect::CommitsPreparedWhenDropped => self.commit(&self.prepared),
            SinkDefect::AbortsPreparedWhenDropped => self.abort(&self.prepared),
            _ => {}
        }
    }
}
