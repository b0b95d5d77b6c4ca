//! The simulation itself: clean seeds stay clean, planted bugs are caught, and a seed means the same run every time.

use crate::{Coverage, Planted, run, search};

/// Within how many seeds a planted bug must be caught.
const PLANTED_SEEDS: u64 = 2_000;

fn is_caught(planted: Planted, by: &str) {
    is_caught_by_one_of(planted, &[by]);
}

fn is_caught_by_one_of(planted: Planted, invariants: &[&str]) {
    let run = search(1..=PLANTED_SEEDS, Some(planted), &mut Coverage::default(), |_| ());
    let run = run.unwrap_or_else(|| panic!("{planted} was not caught within {PLANTED_SEEDS} seeds"));
    let violation = run.violation.unwrap();
    let is_expected = invariants.iter().any(|by| violation.invariant.starts_with(by));
    assert!(is_expected, "seed {}: {violation}", run.seed);
}

#[test]
fn six_hundred_seeds_are_clean() {
    let mut coverage = Coverage::default();
    let violated = search(1..=600, None, &mut coverage, |_| ());
    assert!(violated.is_none(), "{}", violated.map(|run| explain(&run)).unwrap_or_default());
    for what in [
        "kills",
        "pauses: resumed when another attempt had the job",
        "checkpoints completed",
        "restores",
        "storage failed after",
        "lost: acknowledgements",
    ] {
        assert!(coverage.of(what) > 50, "{what} hardly ever happened:\n{coverage}");
    }
    for what in [
        "subtasks that have finished before the job",
        "restores: with finished tasks",
        "pauses: a standby has taken over",
        "regions: restarted alone",
        "cancelled: all checkpoints are dropped",
        "hangs: the log has not answered in time",
    ] {
        assert!(coverage.of(what) > 10, "{what} hardly ever happened:\n{coverage}");
    }
}

fn explain(run: &crate::Run) -> String {
    let violation = run.violation.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("seed {}: {violation}\n{}", run.seed, run.lines.join("\n"))
}

#[test]
fn a_seed_means_the_same_run_every_time() {
    for seed in 1..=40 {
        let (first, second) = (run(seed, None, true), run(seed, None, true));
        assert_eq!(first.lines, second.lines, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.coverage, second.coverage, "seed {seed}");
    }
}

#[test]
fn a_snapshot_taken_after_a_record_behind_the_barrier_is_caught() {
    is_caught(Planted::SnapshotAfterRecord, "I1");
}

#[test]
fn a_barrier_swapped_with_the_record_behind_it_is_caught() {
    is_caught(Planted::BarrierAfterRecord, "I1");
}

#[test]
fn a_barrier_that_overtakes_a_record_is_caught() {
    is_caught(Planted::BarrierOvertakesRecord, "I2");
}

#[test]
fn a_commit_before_the_log_record_is_caught() {
    is_caught(Planted::CommitBeforeLog, "commits follow checkpoints");
}

#[test]
fn a_position_that_is_off_by_one_is_caught() {
    is_caught(Planted::PositionOffByOne, "I1");
}

#[test]
fn a_late_acknowledgement_that_is_counted_is_caught() {
    is_caught(Planted::LateAcknowledgementCounted, "I");
}

#[test]
fn a_subsumed_checkpoint_that_completes_all_the_same_is_caught() {
    is_caught(Planted::SubsumedPendingCompletes, "I4");
}

#[test]
fn failures_that_are_not_counted_are_caught() {
    is_caught(Planted::ExpiredNotCounted, "I10");
}

#[test]
fn a_retention_that_deletes_the_newest_checkpoint_is_caught() {
    is_caught(Planted::RetentionDeletesTheNewest, "I3");
}

#[test]
fn a_final_checkpoint_that_is_skipped_is_caught() {
    is_caught(Planted::FinalCheckpointSkipped, "commits follow checkpoints");
}

#[test]
fn a_finished_subtask_that_is_restored_as_fresh_is_caught() {
    // Records are read again, or the job cannot be started any more, as the seed will have it.
    is_caught_by_one_of(Planted::FinishedSubtaskRestoredAsFresh, &["I1", "progress"]);
}

#[test]
fn a_fenced_attempt_that_deletes_is_caught() {
    is_caught(Planted::FencedAttemptDeletes, "I9");
}

#[test]
fn a_standby_that_does_not_wait_is_caught() {
    is_caught(Planted::StandbyDoesNotWait, "I9");
}

#[test]
fn a_ledger_that_forgets_what_has_failed_is_caught() {
    // What is missing shows in the next checkpoint, or at the end.
    is_caught_by_one_of(Planted::LedgerForgetsOnError, &["I1", "commits follow checkpoints"]);
}

#[test]
fn a_task_that_is_restarted_without_its_region_is_caught() {
    // Its input has ended for it, or the others wait for ever for a barrier that it does not send.
    is_caught_by_one_of(Planted::TaskRestartedWithoutItsRegion, &["I", "commits follow checkpoints", "progress"]);
}

#[test]
fn a_takeover_that_reuses_ids_is_caught() {
    is_caught(Planted::TakeoverReusesIds, "I4");
}

#[test]
fn survivors_that_are_not_told_who_has_taken_them_over_are_caught() {
    is_caught(Planted::SurvivorsNotAdopted, "progress");
}

#[test]
fn a_dropped_checkpoint_that_is_restored_is_caught() {
    // Or it cannot be, since it is gone.
    is_caught_by_one_of(Planted::DroppedIsRestored, &["starts go on from the newest", "progress"]);
}

#[test]
fn a_checkpoint_that_is_deleted_before_the_log_says_that_it_is_dropped_is_caught() {
    is_caught(Planted::DeletedBeforeDropped, "I3");
}

#[test]
fn a_fall_back_that_keeps_what_is_newer_is_caught() {
    is_caught(Planted::FallBackKeepsTheNewer, "I3");
}

#[test]
fn a_fall_back_that_is_not_logged_is_caught() {
    is_caught(Planted::FallBackIsNotLogged, "starts go on from the newest");
}

#[test]
fn an_id_counter_that_restarts_is_caught() {
    is_caught(Planted::IdCounterRestarts, "I4");
}
