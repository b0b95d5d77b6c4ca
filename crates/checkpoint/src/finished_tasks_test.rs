//! The coordinator and tasks that end before others: whom checkpoints ask then, and when they are theirs no more.

use insta::assert_snapshot;

use crate::coordinator_test::check;
use crate::script_test::{config, now, run, start};
use crate::{Action, Coordinator, CoordinatorConfig, Event};

/// A script in which both sources end and have their final checkpoint, 1. What they settle comes behind it.
fn sources_end(then: &str) -> String {
    format!(
        "
        @0 running
        ended-only 0/0
        ended-only 0/1
        @1000 enumerated 1
        ack 1
        written 1
        appended 6
        {then}
        "
    )
}

/// Contract: G151, P289, P290.
#[test]
fn a_task_that_has_settled_its_final_checkpoint_is_finished_in_those_that_follow() {
    assert_snapshot!(check(
        config(),
        &sources_end(
            "
            settled-only 1 0/0
            settled-only 1 0/1
            settled-only 1 0/1
            @2000 enumerated 2
            ack-only 2 0/0
            ack-only 2 1/0
            ack-only 2 1/1
            written 2
            appended 7
            @2500 ended-only 1/0
            ended-only 1/1
            enumerated 3
            ack-only 3 1/0
            ack-only 3 1/1
            written 3
            appended 8
            settled-only 3 1/0
            settled-only 3 1/1
            appended 9
            "
        )
    ));
}

#[test]
fn a_subtask_that_has_ended_takes_part_until_all_of_its_task_have() {
    assert_snapshot!(check(
        config(),
        "
        @0 running
        ended-only 0/0
        @1000 enumerated 1
        ack 1
        written 1
        appended 6
        settled-only 1 0/0
        ended-only 0/1
        settled-only 1 0/1
        @2000 enumerated 2
        ack 2
        written 2
        appended 7
        settled-only 2 0/1
        settled-only 2 0/0
        "
    ));
}

/// A checkpoint that was triggered before it finished waits for it, and it is there to take part.
#[test]
fn a_task_is_let_go_only_when_no_pending_checkpoint_waits_for_it() {
    let script = sources_end(
        "
        settled-only 1 0/0
        @2000 enumerated 2
        settled-only 1 0/1
        @3000 enumerated 3
        ack-only 3 1/0
        ack-only 3 1/1
        ack 2
        written 2
        appended 7
        ",
    );
    assert_snapshot!(check(CoordinatorConfig { max_concurrent: 2, timeout_ms: 60_000, ..config() }, &script));
}

/// Contract: P290.
#[test]
fn a_task_that_is_restored_as_finished_stays_finished() {
    let mut config = config();
    config.tasks[0].finished = true;
    assert_snapshot!(run(
        &mut Coordinator::new(config, start()),
        "
        @0 running-only 1/0
        running-only 1/1
        @1000 enumerated 1
        ack-only 1 0/0
        ack-only 1 1/0
        ack-only 1 1/1
        written 1
        appended 6
        "
    ));
}

/// What is left of a job after everything that was still running has been taken out of it.
#[test]
fn a_job_all_of_which_has_finished_ends_with_one_more_checkpoint() {
    let mut config = config();
    config.tasks.iter_mut().for_each(|task| task.finished = true);
    assert_snapshot!(run(
        &mut Coordinator::new(config, start()),
        "@0\nenumerated 1\nwritten 1\nappended 6\nappended 7"
    ));
}

/// Contract: P295.
#[test]
fn turned_off_there_is_no_checkpoint_between_the_first_end_and_the_last() {
    assert_snapshot!(check(
        CoordinatorConfig { checkpoints_after_tasks_finish: false, ..config() },
        "
        @0 running
        @1000 enumerated 1
        ended-only 0/1
        request 7
        ack 1
        written 1
        appended 6
        settled-only 1 0/1
        @2000
        @3000 request 8 forced
        ended-only 0/0
        ended-only 1/0
        request 9
        ended-only 1/1
        request 10
        enumerated 2
        ack 2
        written 2
        appended 7
        settled 2
        appended 8
        "
    ));
}

/// Contract: P295.
#[test]
fn turned_off_there_is_none_either_when_a_task_is_restored_as_finished() {
    let mut config = CoordinatorConfig { checkpoints_after_tasks_finish: false, ..config() };
    config.tasks[0].finished = true;
    assert_snapshot!(run(
        &mut Coordinator::new(config, start()),
        "
        @0 running-only 1/0
        running-only 1/1
        @1000 request 1
        ended-only 1/0
        ended-only 1/1
        "
    ));
}

/// Field case: R19.
#[test]
fn a_subtask_that_has_failed_is_never_taken_for_one_that_has_finished() {
    // The first half: one of two has finished all it had, the other one has failed.
    assert_snapshot!(
        "one_fails",
        check(
            config(),
            "
            @0 running
            @1000 enumerated 1
            ended-only 0/0
            ended-only 1/0
            ended-only 1/1
            task-failed 0/1 out of memory
            request 5
            @2000
            settled-only 1 0/0
            ended-only 0/1
            @3000
            "
        )
    );
    // The second one: both end as they should.
    assert_snapshot!("both_end", check(config(), "@0 running\nended\nenumerated 1\nack 1\nwritten 1\nappended 6"));
}

#[test]
fn a_job_of_which_all_tasks_had_finished_takes_its_last_checkpoint_though_nobody_says_anything() {
    let mut config = config();
    config.tasks.iter_mut().for_each(|task| task.finished = true);
    let mut coordinator = Coordinator::new(config, start());
    assert_eq!(coordinator.next_deadline(), Some(0));
    let actions = coordinator.on_event(now(5), Event::Tick);
    assert!(matches!(actions[..], [Action::InitializeLocation { .. }]), "{actions:?}");
}
