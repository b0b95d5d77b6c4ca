//! What answers to nothing that is pending: dropped, and deleted where nobody else may need it.

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath};
use insta::assert_snapshot;

use crate::script_test::{ATTEMPT, acknowledgement, completed, config, describe, now, object, run, start, subtask};
use crate::{Acknowledgement, Action, AttemptStart, Coordinator, CoordinatorConfig, Event, paths};

fn coordinator() -> Coordinator {
    Coordinator::new(CoordinatorConfig { max_concurrent: 9, timeout_ms: 60_000, ..config() }, start())
}

fn acknowledge(coordinator: &mut Coordinator, acknowledgement: Acknowledgement) -> Vec<String> {
    coordinator.on_event(now(1), Event::Acknowledged(acknowledgement)).iter().map(describe).collect()
}

/// The same acknowledgement with its state somewhere else.
fn with_state_at(mut acknowledgement: Acknowledgement, path: &str) -> Acknowledgement {
    for (_, snapshot) in &mut acknowledgement.snapshot.operators {
        if let Some(keyed) = &mut snapshot.keyed {
            keyed.state = object(ObjectPath::parse(path).unwrap());
        }
    }
    acknowledgement
}

/// Contract: J195.
#[test]
fn a_repeated_acknowledgement_changes_nothing() {
    assert_snapshot!(run(
        &mut coordinator(),
        "
        @0 running
        request
        enumerated 1
        enumerated 1
        ack-only 1 1/0
        ack-only 1 1/0
        ack-only 1 1/1
        ack-only 1 0/1
        ack-only 1 0/0
        ack 1
        written 1
        ack 1
        written 1
        appended 6
        ack 1
        written 1
        appended 6
        "
    ));
}

/// Contract: J195.
#[test]
fn the_first_acknowledgement_of_a_subtask_counts() {
    let mut coordinator = coordinator();
    run(&mut coordinator, "@0 running\n request\n enumerated 1\n ack-only 1 1/0");
    let first = acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 0));
    let second = with_state_at(first.clone(), "job/chk-1-5/another");
    assert!(acknowledge(&mut coordinator, second).is_empty());
    let mut written = Vec::new();
    for one in [subtask(0, 0), subtask(0, 1), subtask(1, 1)] {
        let last = acknowledgement(ATTEMPT, CheckpointId(1), one);
        written.extend(coordinator.on_event(now(1), Event::Acknowledged(last)));
    }
    let [Action::WriteMetadata { metadata, .. }] = &written[..] else { panic!("{written:?}") };
    assert_eq!(metadata.operators[1].subtasks[0], first.snapshot.operators[0].1);
}

/// Contract: J197.
#[test]
fn state_of_an_aborted_checkpoint_is_deleted_even_after_its_folder() {
    assert_snapshot!(run(
        &mut coordinator(),
        "
        @0 running
        request
        enumerated 1
        decline 1 0/0 async
        ack-only 1 1/0
        ack-only 1 0/1
        written 1
        "
    ));
}

/// Contract: J197, J204.
/// Field case: R15.
#[test]
fn state_that_comes_after_the_time_of_its_checkpoint_is_deleted_and_the_next_one_is_whole() {
    let mut coordinator =
        Coordinator::new(CoordinatorConfig { interval_ms: None, timeout_ms: 10_000, ..config() }, start());
    assert_snapshot!(run(
        &mut coordinator,
        "
        @0 running
        request
        enumerated 1
        ack-only 1 1/0
        @10000
        @11000 ack-only 1 1/1
        request
        enumerated 2
        ack 2
        written 2
        appended 6
        "
    ));
}

/// Contract: J196.
#[test]
fn unknown_subtasks_attempts_and_checkpoints_do_not_count() {
    assert_snapshot!(run(
        &mut coordinator(),
        "
        @0 running-only 7/0
        running-only 0/9
        running
        request
        enumerated 1
        ack-only 1 0/0
        ack-only 1 0/1
        ack-only 1 1/0
        ack-only 1 1/7
        ack-of-attempt 1 1/1 4
        ack-of-attempt 1 1/1 6
        ack-only 99 1/1
        decline 1 1/7 async
        decline 99 1/1 async
        enumerated 99
        written 99
        write-failed 99
        appended 99
        taken 99
        read-none 6
        "
    ));
}

/// Field case: R15.
#[test]
fn another_jobs_state_is_never_deleted() {
    let mut foreign = acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 0));
    foreign.job = JobName::new("other").unwrap();
    let foreign = with_state_at(foreign, "other/chk-1-5/counter-0");
    assert!(acknowledge(&mut coordinator(), foreign).is_empty());
}

#[test]
fn state_outside_the_checkpoints_own_folder_is_never_deleted() {
    for path in ["job/chk-2-5/counter-0", "job/chk-1-4/counter-0", "job/shared/x", "x/job/chk-1-5/counter-0"] {
        let stray = with_state_at(acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 0)), path);
        assert!(acknowledge(&mut coordinator(), stray).is_empty(), "{path}");
    }
    let stray = || acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 0));
    let mut coordinator = coordinator();
    assert!(acknowledge(&mut coordinator, stray()).is_empty(), "a checkpoint that is still to come");
    run(&mut coordinator, "@0 running\n request\n decline 1 0/0 async");
    assert_eq!(acknowledge(&mut coordinator, stray()), ["discard job/chk-1-5/counter-0"]);
}

#[test]
fn state_of_a_retained_checkpoint_of_an_earlier_attempt_is_never_deleted() {
    let start = AttemptStart { retained: vec![completed(3, 2, 1)], ..start() };
    let mut coordinator = Coordinator::new(config(), start);
    let late = |attempt: u64| acknowledgement(Attempt(attempt), CheckpointId(1), subtask(1, 0));
    assert!(acknowledge(&mut coordinator, late(2)).is_empty());
    assert_eq!(acknowledge(&mut coordinator, late(1)), ["discard job/chk-1-1/counter-0"]);
    assert!(acknowledge(&mut coordinator, late(6)).is_empty(), "the attempt that has fenced this one");
}

#[test]
fn a_stray_does_not_delete_what_a_pending_checkpoint_names() {
    let mut coordinator = coordinator();
    run(&mut coordinator, "@0 running\n request\n enumerated 1\n ack-only 1 1/0");
    let named = paths::state_object(&config().job, ATTEMPT, CheckpointId(1), &crate::script_test::uid("counter"), 0);
    let stray = with_state_at(acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 7)), named.as_str());
    assert!(acknowledge(&mut coordinator, stray).is_empty());
}

#[test]
fn a_snapshot_that_does_not_fit_the_job_fails_the_checkpoint() {
    let finish_with = |odd: Acknowledgement| {
        let mut coordinator = coordinator();
        run(&mut coordinator, "@0 running\n request\n enumerated 1\n ack-only 1 0/0\n ack-only 1 0/1\n ack-only 1 1/1");
        acknowledge(&mut coordinator, odd).join("\n")
    };
    let good = || acknowledgement(ATTEMPT, CheckpointId(1), subtask(1, 0));
    let mut missing = good();
    missing.snapshot.operators.clear();
    let mut other = good();
    other.snapshot.operators[0].0 = crate::script_test::uid("stranger");
    let elsewhere = with_state_at(good(), "job/chk-0-4/counter-0");
    assert_snapshot!([finish_with(missing), finish_with(other), finish_with(elsewhere)].join("\n\n"));
}

#[test]
fn every_source_has_an_enumerator_state_and_nobody_else() {
    let finish_with = |uids: &[&str]| {
        let mut coordinator = coordinator();
        run(&mut coordinator, "@0 running\n request");
        let state = |uid: &&str| crate::EnumeratorState { operator: crate::script_test::uid(uid), state: "x".into() };
        let states = uids.iter().map(state).collect();
        coordinator.on_event(now(1), Event::EnumeratorsSnapshotted { checkpoint: CheckpointId(1), states });
        run(&mut coordinator, "@1 ack 1")
    };
    assert_snapshot!([finish_with(&[]), finish_with(&["source", "counter"])].join("\n"));
}

/// It may have begun to write before it heard of the end of the checkpoint, and went on after the folder was deleted.
#[test]
fn a_late_decline_deletes_what_its_subtask_may_have_written_meanwhile() {
    let mut coordinator = coordinator();
    let transcript = run(
        &mut coordinator,
        "
        @0 running
        request 1
        enumerated 1
        decline 1 0/0 async
        decline 1 1/1 async
        decline 99 1/1 async
        ",
    );
    assert_eq!(transcript.matches("discard job/chk-1-5").count(), 2, "{transcript}");
    assert!(!transcript.contains("chk-99"), "{transcript}");
}
