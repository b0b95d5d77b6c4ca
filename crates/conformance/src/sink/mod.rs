//! The contract of a sink with two-phase commit, one function a behaviour.
//!
//! The cases drive the sink themselves, in the order that is written down at [`Sink`], over
//! attempts that are killed or stopped at every step. Transactions always go through their bytes, as they do in a job.

#![expect(clippy::unwrap_used, reason = "a case is a test: it panics where the contract is broken")]

mod aborts;
mod commits;
mod crashes;
mod erased;
mod job;
mod outages;
mod restores;
mod visibility;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use highwater_stream_api::Sink;

pub use aborts::*;
pub use commits::*;
pub use crashes::*;
pub use outages::*;
pub use restores::*;
pub use visibility::*;

use crate::trial::{self, Trial};
use erased::{AnySink, Erased, ToRecord};

/// Runs every case on a sink, one after the other, and tells how each ended: for tables and tools. Tests are made by
/// [`transactional_sink_conformance!`](crate::transactional_sink_conformance).
pub fn run_all(factory: Factory<'_>) -> Vec<Trial> {
    run(factory, |_| true)
}

/// Runs the cases of which the names are wanted.
pub(crate) fn run(factory: Factory<'_>, wanted: impl Fn(&str) -> bool) -> Vec<Trial> {
    let cases = CASES.iter().filter(|(name, _)| wanted(name));
    cases.map(|(name, case)| trial::run(name, || case(factory))).collect()
}

/// An empty target with the sinks that write to it, on which a case is run.
pub struct SinkUnderTest {
    open: Box<dyn Fn() -> Box<dyn AnySink>>,
    visible: Box<dyn Fn() -> Vec<String>>,
    uncommitted: Option<Box<dyn Fn() -> usize>>,
    set_outage: Option<Box<dyn Fn(bool)>>,
    kept: Option<Box<dyn Any>>,
}

impl fmt::Debug for SinkUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkUnderTest").finish_non_exhaustive()
    }
}

impl SinkUnderTest {
    /// A target for texts. `open` makes a new sink for it, as a restarted process would; `visible` is what a reader of the
    /// target sees, in any order.
    pub fn new<S: Sink<In = String>>(
        open: impl Fn() -> S + 'static,
        visible: impl Fn() -> Vec<String> + 'static,
    ) -> Self {
        Self::of_records(open, str::to_owned, visible)
    }

    /// A target for records of any type: `record` makes one from a short text, and `visible` turns what a reader sees back
    /// into these texts.
    pub fn of_records<S: Sink>(
        open: impl Fn() -> S + 'static,
        record: impl Fn(&str) -> S::In + Send + Sync + 'static,
        visible: impl Fn() -> Vec<String> + 'static,
    ) -> Self {
        let record: ToRecord<S> = Arc::new(record);
        let open = move || -> Box<dyn AnySink> { Box::new(Erased { sink: open(), record: record.clone() }) };
        Self { open: Box::new(open), visible: Box::new(visible), uncommitted: None, set_outage: None, kept: None }
    }

    /// Makes the case about what is left behind possible: how many transactions are in the target that are neither
    /// committed nor aborted. A reader may have to wait for these.
    pub fn with_uncommitted(mut self, uncommitted: impl Fn() -> usize + 'static) -> Self {
        self.uncommitted = Some(Box::new(uncommitted));
        self
    }

    /// Makes the cases about failures possible: `set_outage(true)` makes commits fail, whichever sink is asked;
    /// `set_outage(false)` puts it right.
    pub fn with_outage(mut self, set_outage: impl Fn(bool) + 'static) -> Self {
        self.set_outage = Some(Box::new(set_outage));
        self
    }

    /// Keeps something for as long as the target, such as a temporary directory.
    pub fn keeping(mut self, kept: impl Any) -> Self {
        self.kept = Some(Box::new((self.kept.take(), kept)));
        self
    }
}

/// Makes an empty target; called at least once by every case.
pub type Factory<'f> = &'f dyn Fn() -> SinkUnderTest;

/// A case: panics when the sink breaks the contract.
pub type Case = fn(Factory<'_>);

/// The one list of the suite: from it come [`CASES`] and [`transactional_sink_conformance!`].
macro_rules! suite {
    ($d:tt $($case:ident),* $(,)?) => {
        /// Every case with its name, in the order of the suite.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($case), $case)),*];

        /// Makes one `#[test]` for each case of the suite of sinks with two-phase commit.
        ///
        /// Takes a factory, `Fn() -> SinkUnderTest`, that makes an empty target at each call.
        #[macro_export]
        macro_rules! transactional_sink_conformance {
            ($d factory:expr $d(,)?) => {
                $(
                    #[test]
                    fn $case() {
                        $d crate::sink::$case(&$d factory);
                    }
                )*
            };
        }
    };
}

suite! { $
    nothing_is_visible_before_its_checkpoint_is_complete,
    a_checkpoint_without_records_has_no_transaction,
    subtasks_and_attempts_never_meet,
    the_last_records_of_a_bounded_input_are_committed,
    a_crash_before_the_first_checkpoint_leaves_nothing_visible,
    a_crash_before_the_prepare_leaves_nothing_visible,
    a_crash_between_prepare_and_snapshot_leaves_nothing_visible,
    a_crash_between_snapshot_and_completion_leaves_nothing_visible,
    a_crash_between_completion_and_commit_is_made_good_by_the_restore,
    a_crash_among_the_commits_is_made_good_by_the_restore,
    a_crash_between_commit_and_forgetting_makes_nothing_visible_twice,
    a_transaction_committed_again_is_visible_once,
    a_commit_makes_no_other_transaction_visible,
    committing_an_old_transaction_again_leaves_newer_ones_alone,
    transactions_of_subtasks_are_committed_in_any_order,
    transactions_of_an_aborted_checkpoint_are_committed_with_the_next,
    concurrent_commits_of_one_transaction_make_it_visible_once,
    aborting_earlier_attempts_leaves_what_is_committed,
    aborting_earlier_attempts_leaves_what_this_attempt_has_prepared,
    open_transactions_of_vanished_subtasks_are_aborted,
    what_a_dead_attempt_prepares_is_never_visible,
    a_transaction_that_is_gone_is_not_said_to_be_committed,
    restored_transactions_are_visible_before_anything_new_is_written,
    a_restore_at_another_parallelism_commits_every_transaction_once,
    the_same_checkpoint_can_be_restored_twice,
    an_outage_of_the_target_is_felt,
    a_commit_that_failed_can_be_made_good,
    a_commit_that_failed_can_be_made_good_by_a_later_attempt,
}
