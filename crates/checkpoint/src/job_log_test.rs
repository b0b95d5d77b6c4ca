//! Replay of the job log and the next claim.

use highwater_state_api::{Attempt, CheckpointId, ObjectPath};
use insta::assert_snapshot;

use crate::script_test::{completed, job, metadata_handle};
use crate::{AttemptStart, LogError, LogRecord, LogView, claim_record, orphaned_checkpoints, paths};

fn claim(first_checkpoint: u64) -> LogRecord {
    LogRecord::Claim { nonce: 42, first_checkpoint: CheckpointId(first_checkpoint) }
}

fn complete(attempt: u64, checkpoint: u64) -> LogRecord {
    let (attempt, checkpoint) = (Attempt(attempt), CheckpointId(checkpoint));
    LogRecord::Completed { attempt, checkpoint, metadata: metadata_handle(attempt, checkpoint) }
}

fn finish(attempt: u64) -> LogRecord {
    LogRecord::Finished { attempt: Attempt(attempt) }
}

fn drop_above(attempt: u64, newest: Option<u64>) -> LogRecord {
    LogRecord::Dropped { attempt: Attempt(attempt), newest: newest.map(CheckpointId) }
}

fn error(records: Vec<(u64, LogRecord)>) -> LogError {
    LogView::replay(records, 1).unwrap_err()
}

/// Contract: M247.
#[test]
fn an_empty_log_is_that_of_a_job_that_was_never_started() {
    let view = LogView::replay(Vec::new(), 1).unwrap();
    assert_eq!((view.next_sequence(), view.claim(), view.latest(), view.is_finished()), (1, None, None, false));
    let (first, record) = claim_record(&view, None, 42);
    assert_eq!((first, record), (CheckpointId(1), claim(1)));
    let start = view.start(first);
    assert_eq!((start.attempt, start.next_sequence), (Attempt(1), 2));
}

#[test]
fn numbers_that_leave_no_room_are_refused() {
    let last = u64::MAX / 2;
    assert!(LogView::replay(vec![(1, claim(last))], 1).is_ok());
    let too_large = LogError::CheckpointTooLarge { sequence: 1, found: CheckpointId(last + 1) };
    assert_eq!(error(vec![(1, claim(last + 1))]), too_large);
    assert_eq!(
        error(vec![(1, claim(1)), (2, complete(1, u64::MAX))]),
        LogError::CheckpointTooLarge { sequence: 2, found: CheckpointId(u64::MAX) }
    );
    for sequence in [last + 1, u64::MAX] {
        assert_eq!(error(vec![(sequence, claim(1))]), LogError::SequenceTooLarge { sequence });
    }
    assert!(LogView::replay(vec![(last, claim(1))], 1).is_ok());
}

/// Whatever the job retains now: what it went back to must not be lost because fewer are retained than at that time.
///
/// Contract: M239, M246.
#[test]
fn what_the_job_went_back_to_is_retained() {
    let records = vec![(1, claim(1)), (2, complete(1, 1)), (3, complete(1, 2)), (4, complete(1, 3)), (5, claim(4))];
    for newest in 1..=3 {
        let mut records = records.clone();
        records.push((6, drop_above(5, Some(newest))));
        for retain in 1..=3 {
            let view = LogView::replay(records.clone(), retain).unwrap();
            assert_eq!(view.latest(), Some(&completed(newest + 1, 1, newest)), "{retain} are retained");
        }
    }
}

/// Contract: M239, M240, M245.
#[test]
fn the_newest_completed_checkpoints_are_retained() {
    // 3 and 6 were deleted when they were no longer retained.
    let records = vec![
        (1, claim(1)),
        (2, complete(1, 1)),
        (4, complete(1, 3)),
        (5, claim(6)),
        (7, complete(5, 8)),
        (8, complete(5, 9)),
    ];
    for (retain, kept) in [(0, vec![9]), (1, vec![9]), (2, vec![8, 9]), (3, vec![3, 8, 9]), (9, vec![1, 3, 8, 9])] {
        let view = LogView::replay(records.clone(), retain).unwrap();
        assert_eq!(view.completed().iter().map(|one| one.checkpoint.0).collect::<Vec<_>>(), kept);
        assert_eq!(view.latest(), Some(&completed(8, 5, 9)));
        assert_eq!(view.next_sequence(), 9);
        assert_eq!(view.claim().unwrap().attempt, Attempt(5));
        assert!(!view.is_finished());
    }
}

/// Contract: J190, M247, Q304.
#[test]
fn the_first_checkpoint_of_a_claim_is_larger_than_everything_known() {
    let first = |records: Vec<(u64, LogRecord)>, seen: Option<u64>| {
        claim_record(&LogView::replay(records, 1).unwrap(), seen.map(CheckpointId), 0).0.0
    };
    assert_eq!(first(vec![], Some(4)), 5);
    assert_eq!(first(vec![(1, claim(1))], None), 2);
    assert_eq!(first(vec![(1, claim(1)), (2, complete(1, 7))], None), 8);
    assert_eq!(first(vec![(1, claim(1)), (2, complete(1, 7))], Some(5)), 8);
    assert_eq!(first(vec![(1, claim(1)), (2, complete(1, 7)), (3, claim(12))], Some(9)), 13);
}

#[test]
fn a_finished_job_is_known_by_its_log() {
    let records = vec![(1, claim(1)), (2, complete(1, 1)), (3, finish(1))];
    let view = LogView::replay(records.clone(), 1).unwrap();
    assert!(view.is_finished());
    assert_eq!(view.latest(), None, "nothing will be restored any more");
    for record in [claim(2), complete(1, 2), finish(1), drop_above(1, None)] {
        let mut records = records.clone();
        records.push((4, record));
        assert_eq!(error(records), LogError::AfterFinished { sequence: 4 });
    }
}

#[test]
fn records_that_the_protocol_cannot_have_written_are_refused() {
    let errors = [
        error(vec![(1, complete(1, 1))]),
        error(vec![(1, finish(1))]),
        error(vec![(2, claim(1)), (2, complete(2, 1))]),
        error(vec![(2, claim(1)), (1, claim(1))]),
        error(vec![(1, claim(1)), (2, claim(2)), (3, complete(2, 2)), (4, complete(1, 3))]),
        error(vec![(1, claim(1)), (2, claim(2)), (3, complete(2, 2)), (4, finish(1))]),
        error(vec![(1, claim(1)), (2, complete(7, 1))]),
        error(vec![(1, claim(1)), (2, complete(1, 3)), (3, complete(1, 3))]),
        error(vec![(1, claim(1)), (2, complete(1, 3)), (3, complete(1, 2))]),
        error(vec![(1, claim(5)), (2, complete(1, 4))]),
        error(vec![(1, claim(1)), (2, complete(1, 3)), (3, claim(3))]),
        error(vec![(1, claim(5)), (2, claim(4))]),
        error(vec![(1, drop_above(1, None))]),
        error(vec![(1, claim(1)), (2, claim(2)), (3, complete(2, 2)), (4, drop_above(1, None))]),
        error(vec![(1, claim(1)), (2, complete(1, 3)), (3, drop_above(1, None)), (4, claim(3))]),
        error(vec![(u64::MAX, claim(1))]),
    ];
    assert_snapshot!(errors.map(|error| error.to_string()).join("\n"));
}

/// Contract: T346.
#[test]
fn folders_of_earlier_attempts_that_are_not_retained_are_orphans() {
    let start = AttemptStart {
        attempt: Attempt(9),
        first_checkpoint: CheckpointId(7),
        next_sequence: 10,
        retained: vec![completed(8, 4, 5)],
    };
    let listed = [
        "job/chk-4-4/_metadata",
        "job/chk-5-4/_metadata",
        "job/chk-5-4/counter-0",
        "job/chk-5-3/counter-0",
        "job/chk-6-4/counter-0",
        "job/chk-6-4/counter-1",
        "job/chk-7-9/counter-1",
        "job/chk-7-10/counter-1",
        "job/chk-x/counter-1",
        "job/log/00000000000000000001",
        "other/chk-1-1/counter-1",
    ]
    .map(|path| ObjectPath::parse(path).unwrap());
    let folder = |checkpoint, attempt| paths::checkpoint_folder(&job(), Attempt(attempt), CheckpointId(checkpoint));
    assert_eq!(orphaned_checkpoints(&job(), &listed, &start), [folder(4, 4), folder(5, 3), folder(6, 4)]);
}

#[test]
fn records_that_a_dead_attempt_did_not_delete_are_obsolete() {
    let mut records = vec![
        (1, claim(1)),
        (2, complete(1, 1)),
        (3, complete(1, 2)),
        (4, complete(1, 3)),
        (5, claim(4)),
        (6, complete(5, 4)),
        (7, complete(5, 5)),
        (63, complete(5, 6)),
    ];
    let obsolete =
        |records: &Vec<_>, retain| LogView::replay(records.clone(), retain).unwrap().obsolete_records().to_vec();
    assert_eq!(obsolete(&records, 1), [], "their successor is not in the log yet");
    records.push((64, complete(5, 7)));
    // Not 4: it is the last of its attempt. Not 64, before 4096 is there.
    assert_eq!(obsolete(&records, 1), [2, 3, 6, 7, 63]);
    assert_eq!(obsolete(&records, 2), [2, 3, 6, 7]);
    assert_eq!(obsolete(&records, 4), [2, 3]);
    assert_eq!(obsolete(&records, 9), []);
}

#[test]
fn a_claim_that_fell_into_the_hole_of_a_deleted_record_is_void() {
    // Attempt 1 has completed 69 checkpoints and deleted what it may. Somebody whose list ended with record 5 claimed the
    // job under 6; attempt 1 never met that claim and goes on.
    let mut records = vec![(1, claim(1)), (6, claim(6)), (64, complete(1, 63)), (70, complete(1, 69))];
    let view = LogView::replay(records.clone(), 1).unwrap();
    assert_eq!(view.claim().unwrap().attempt, Attempt(1));
    assert_eq!(view.latest().unwrap().checkpoint, CheckpointId(69));
    assert_eq!(view.obsolete_records(), [6]);
    // The next claim is at the end and counts.
    records.extend([(71, claim(70)), (72, complete(71, 70))]);
    assert_eq!(LogView::replay(records.clone(), 1).unwrap().claim().unwrap().attempt, Attempt(71));
    // From then on attempt 1 is fenced.
    records.push((73, complete(1, 71)));
    assert!(matches!(LogView::replay(records, 1), Err(LogError::OtherAttempt { sequence: 73, .. })));
}

fn kept(records: &[(u64, LogRecord)]) -> Vec<u64> {
    let view = LogView::replay(records.to_vec(), 9).unwrap();
    view.completed().iter().map(|one| one.checkpoint.0).collect()
}

/// Contract: M244, M247.
#[test]
fn after_its_checkpoints_were_dropped_a_job_begins_from_nothing_and_ids_go_on() {
    let mut records = vec![(1, claim(1)), (2, complete(1, 1)), (3, complete(1, 7)), (4, drop_above(1, None))];
    let view = LogView::replay(records.clone(), 9).unwrap();
    assert_eq!((view.latest(), view.is_finished(), view.next_sequence()), (None, false, 5));
    assert!(view.is_dropped());
    let (first, record) = claim_record(&view, None, 42);
    assert_eq!((first, record), (CheckpointId(8), claim(8)));
    assert_eq!(view.start(first).retained, []);
    // What comes after is as it always is.
    records.extend([(5, claim(8)), (6, complete(5, 8)), (7, complete(5, 9))]);
    assert_eq!(kept(&records), [8, 9]);
    assert!(!LogView::replay(records[..5].to_vec(), 9).unwrap().is_dropped(), "somebody has claimed it");
    // Attempt 1 is fenced from the next attempt on, whatever it last wrote.
    records.push((8, drop_above(1, None)));
    assert!(matches!(LogView::replay(records, 9), Err(LogError::OtherAttempt { sequence: 8, .. })));
}

/// Contract: M246.
#[test]
fn an_attempt_that_fell_back_has_dropped_what_is_newer() {
    let mut records = vec![(1, claim(1)), (2, complete(1, 1)), (3, complete(1, 2)), (4, complete(1, 3)), (5, claim(4))];
    records.push((6, drop_above(5, Some(2))));
    assert_eq!(kept(&records), [1, 2]);
    assert!(!LogView::replay(records.clone(), 9).unwrap().is_dropped(), "some are left");
    assert_eq!(claim_record(&LogView::replay(records.clone(), 9).unwrap(), None, 0).0, CheckpointId(5));
    records.push((7, complete(5, 5)));
    assert_eq!(kept(&records), [1, 2, 5]);
}

#[test]
fn the_record_that_drops_checkpoints_stays_and_theirs_go_when_they_may() {
    let mut records = vec![(1, claim(1)), (2, complete(1, 1)), (3, complete(1, 2)), (4, drop_above(1, None))];
    records.extend([(5, claim(3)), (64, complete(5, 3))]);
    let view = LogView::replay(records, 1).unwrap();
    // Not 3: it is the last of its attempt. Without 4 it would count again.
    assert_eq!(view.obsolete_records(), [2]);
}

#[test]
fn a_claim_in_a_hole_is_void_also_when_the_record_behind_it_drops_checkpoints() {
    let records = vec![(1, claim(1)), (6, claim(6)), (64, complete(1, 63)), (70, drop_above(1, None))];
    let view = LogView::replay(records, 1).unwrap();
    assert_eq!((view.claim().unwrap().attempt, view.latest()), (Attempt(1), None));
    assert!(view.obsolete_records().contains(&6));
}
