//! Regional failover as the coordinators of the two attempts see it.

use std::collections::BTreeSet;

use highwater_state_api::{Attempt, CheckpointId};

use crate::script_test::{ATTEMPT, acknowledgement, config, now, run, start, subtask, uid};
use crate::{
    Acknowledgement, Action, AttemptStart, Coordinator, CoordinatorConfig, Event, OperatorPlan, OperatorSnapshot,
    SubtaskSnapshot, TaskPlan,
};

/// The checkpoint whose record is being appended is decided by the log; whatever else is pending fails, and nothing is begun.
///
/// Contract: O275.
#[test]
fn an_append_that_is_under_way_when_a_region_fails_is_waited_for_and_counts() {
    let config = CoordinatorConfig { max_concurrent: 3, timeout_ms: 60_000, ..config() };
    let mut coordinator = Coordinator::new(config, start());
    insta::assert_snapshot!(run(
        &mut coordinator,
        "
        @0 running
        @1000 enumerated 1
        ack 1
        written 1
        @2000 enumerated 2
        ack 2
        written 2
        @3000 enumerated 3
        ack-only 3 0/0
        @3100 region-failed 1/0 index out of bounds
        unknown 6 time-out
        request 1
        read-own 6
        ack 3
        @9000
        "
    ));
    assert!(!coordinator.may_fail_over(), "one failure at a time");
    assert_eq!(coordinator.latest_complete(), Some(CheckpointId(1)));
    assert_eq!(coordinator.pending().next(), None);
}

/// The task of a source, one of a counter behind it, and one without input.
fn two_regions() -> CoordinatorConfig {
    let mut config = config();
    let operators = vec![OperatorPlan { uid: uid("other"), ..config.tasks[0].operators[0].clone() }];
    config.tasks.push(TaskPlan { is_source: false, group: 2, operators, ..config.tasks[0].clone() });
    config
}

fn next_attempt() -> AttemptStart {
    AttemptStart { attempt: Attempt(ATTEMPT.0 + 4), first_checkpoint: CheckpointId(2), ..start() }
}

/// Contract: O275.
#[test]
fn a_task_that_has_finished_is_finished_in_the_attempt_that_takes_it_over_too() {
    let mut coordinator = Coordinator::new(two_regions(), start());
    let others = [subtask(2, 0), subtask(2, 1)];
    let mut told = |event| coordinator.on_event(now(10), event);
    for one in others {
        told(Event::SubtaskRunning { subtask: one });
        told(Event::SubtaskEnded { subtask: one });
    }
    run(&mut coordinator, "@20 running\n @1020 enumerated 1\n ack 1");
    for one in others {
        let snapshot = SubtaskSnapshot { operators: vec![(uid("other"), OperatorSnapshot::default())] };
        let acknowledgement = Acknowledgement { snapshot, ..acknowledgement(ATTEMPT, CheckpointId(1), one) };
        coordinator.on_event(now(1_020), Event::Acknowledged(acknowledgement));
    }
    run(&mut coordinator, "written 1\n @1021 appended 6");
    for one in others {
        coordinator.on_event(now(1_030), Event::SubtaskSettled { subtask: one, checkpoint: CheckpointId(1) });
    }
    coordinator.on_event(now(1_040), Event::RegionFailed { subtask: subtask(1, 0), cause: "lost".to_owned() });
    let mut next = Coordinator::new(two_regions(), next_attempt()).taking_over(&coordinator, &BTreeSet::from([2]));
    assert_eq!(coordinator.latest_complete(), Some(CheckpointId(1)));
    // The other region is started anew, and of the finished one nobody is waited for.
    insta::assert_snapshot!(run(&mut next, "@2000 running\n @3000 enumerated 2"));
}

#[test]
fn a_task_that_goes_on_is_waited_for_until_it_has_reported_again() {
    let mut coordinator = Coordinator::new(two_regions(), start());
    run(&mut coordinator, "@0 running\n running-only 2/0\n running-only 2/1\n region-failed 1/0 lost");
    let mut next = Coordinator::new(two_regions(), next_attempt()).taking_over(&coordinator, &BTreeSet::from([2]));
    run(&mut next, "@100 running\n running-only 2/0");
    assert!(!next.all_running());
    run(&mut next, "@100 running-only 2/1");
    assert!(next.all_running());
}

/// The claim for the region is on its way to the number that the end of the job would have.
#[test]
fn a_job_does_not_end_while_a_region_is_restarted() {
    for fails in [false, true] {
        let mut coordinator = Coordinator::new(config(), start());
        run(&mut coordinator, "@0 ended\n enumerated 1\n ack 1\n written 1");
        assert!(coordinator.may_fail_over());
        if fails {
            run(&mut coordinator, "@0 region-failed 1/0 lost");
        }
        let transcript = run(&mut coordinator, "@0 appended 6\n settled 1");
        assert_eq!(coordinator.latest_complete(), Some(CheckpointId(1)));
        assert_eq!(transcript.contains("finished"), !fails, "{transcript}");
    }
}

#[test]
fn a_job_that_is_about_to_be_over_does_not_fail_over() {
    let mut coordinator = Coordinator::new(config(), start());
    assert!(coordinator.may_fail_over());
    run(&mut coordinator, "@0 ended\n enumerated 1\n ack 1\n written 1\n appended 6");
    assert!(!coordinator.may_fail_over(), "the last checkpoint is complete");
    let mut failed = Coordinator::new(config(), start());
    let actions = failed.on_event(now(0), Event::TaskFailed { subtask: subtask(0, 0), cause: String::new() });
    assert!(actions.iter().all(|action| !matches!(action, Action::Fail(_))));
    assert!(!failed.may_fail_over());
}
