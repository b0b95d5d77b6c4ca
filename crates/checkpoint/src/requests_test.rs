//! The coordinator and those who ask it for checkpoints, or for none; and what it tidies up meanwhile.

use std::collections::{BTreeSet, VecDeque};

use insta::assert_snapshot;

use crate::coordinator_test::{check, complete};
use crate::script_test::{ATTEMPT, acknowledgement, config, enumerated, metadata_handle, now, run, start};
use crate::{Action, CheckpointRequest, Coordinator, CoordinatorConfig, Discard, Event, RequestId};

/// Contract: K219, K220.
#[test]
fn a_request_waits_for_room_and_a_forced_one_does_not() {
    assert_snapshot!(check(
        CoordinatorConfig { interval_ms: None, timeout_ms: 10_000, ..config() },
        "
        @0 running
        request 1
        enumerated 1
        request 2
        request 3 forced
        enumerated 2
        ack 1
        written 1
        appended 6
        "
    ));
}

/// Contract: K225.
#[test]
fn while_a_checkpoint_is_being_begun_no_other_is() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 3, interval_ms: Some(100), timeout_ms: 10_000, ..config() },
        "
        @0 running
        @100 request 1 forced
        @200
        enumerated 1
        enumerated 2
        "
    ));
}

/// Contract: K224.
#[test]
fn a_periodic_request_within_the_pause_fails_and_what_somebody_asks_for_does_not_wait() {
    let script = format!(
        "@0 running\n{}@1600 request 1 periodic\n request 2\n enumerated 2\n decline 2 0/0 async\n @2999\n @3000",
        complete(1_500, 1, 6)
    );
    assert_snapshot!(check(CoordinatorConfig { min_pause_ms: 1_500, ..config() }, &script));
}

/// Contract: J190.
#[test]
fn stopping_gives_everything_up_but_the_final_checkpoint() {
    assert_snapshot!(check(
        CoordinatorConfig { max_concurrent: 2, timeout_ms: 10_000, ..config() },
        "
        @0 running
        @1000 enumerated 1
        request 1
        enumerated 2
        request 2
        stop-scheduler
        request 3 periodic
        @5000
        start-scheduler
        enumerated 3
        stop-scheduler
        @6000 ended
        stop-scheduler
        enumerated 4
        ack 4
        written 4
        appended 6
        settled 4
        appended 7
        request 9
        "
    ));
}

/// Contract: J213.
#[test]
fn the_end_answers_everybody_who_waits_and_everybody_who_asks_later() {
    assert_snapshot!(check(
        CoordinatorConfig { interval_ms: None, timeout_ms: 10_000, ..config() },
        "
        @0 running
        request 1
        enumerated 1
        request 2
        shutdown
        shutdown
        request 3
        "
    ));
}

#[test]
fn the_last_checkpoint_is_for_everybody_who_waits_for_one() {
    assert_snapshot!(check(
        config(),
        "
        @0 request 1
        request 2
        ended
        enumerated 1
        ack 1
        written 1
        appended 6
        request 3
        settled 1
        appended 7
        "
    ));
}

/// Contract: J191, K224.
/// Field case: R17.
#[test]
fn no_periodic_checkpoint_is_triggered_within_the_pause_whatever_comes_first() {
    for round in 0..10_000u64 {
        let (interval_ms, min_pause_ms, timeout_ms) = (Some(1_000), 5_000, 10_000);
        let config = CoordinatorConfig { interval_ms, min_pause_ms, timeout_ms, ..config() };
        let mut coordinator = Coordinator::new(config, start());
        run(&mut coordinator, "@0 running\n@5000 enumerated 1\n ack 1\n written 1");
        let completed_at_ms = 5_000 + round % 1_000;
        let periodic = CheckpointRequest { periodic: true, ..CheckpointRequest::default() };
        let ask = Event::CheckpointRequested { id: RequestId(1), request: periodic };
        // The completion and the ticks of the trigger come in any order.
        let mut events = [Event::LogAppended { sequence: 6 }, Event::Tick, ask];
        events.rotate_left((round % 3) as usize);
        let mut triggered = Vec::new();
        let mut note = |at_ms: u64, actions: Vec<Action>| {
            let is_trigger = |action: &Action| matches!(action, Action::InitializeLocation { .. });
            triggered.extend(actions.iter().any(is_trigger).then_some(at_ms));
        };
        for event in events {
            note(completed_at_ms, coordinator.on_event(now(completed_at_ms), event));
        }
        for at_ms in [completed_at_ms + 1, completed_at_ms + 4_999, completed_at_ms + 5_000] {
            note(at_ms, coordinator.on_event(now(at_ms), Event::Tick));
        }
        assert_eq!(triggered, [completed_at_ms + 5_000], "round {round}");
    }
}

/// Contract: K221, M243.
/// Field case: R35.
#[test]
fn a_storage_that_deletes_nothing_for_a_minute_stops_no_checkpoint_and_is_tidied_up_afterwards() {
    let config = CoordinatorConfig { timeout_ms: 10_000, ..config() };
    let mut coordinator = Coordinator::new(config.clone(), start());
    let (mut completed, mut deleted, mut now_ms) = (0, BTreeSet::new(), 0);
    let mut events: VecDeque<Event> =
        config.subtasks().into_iter().map(|subtask| Event::SubtaskRunning { subtask }).collect();
    while now_ms < 120_000 {
        let event = match events.pop_front() {
            Some(event) => event,
            None => {
                now_ms = coordinator.next_deadline().unwrap();
                Event::Tick
            }
        };
        for action in coordinator.on_event(now(now_ms), event) {
            match action {
                Action::InitializeLocation { checkpoint, .. } => {
                    events.push_back(Event::LocationInitialized { checkpoint });
                }
                Action::SnapshotEnumerators { checkpoint } => events.push_back(enumerated(checkpoint)),
                Action::TriggerSubtasks { checkpoint, .. } => {
                    let acknowledge = |one| Event::Acknowledged(acknowledgement(ATTEMPT, checkpoint, one));
                    events.extend(config.subtasks().into_iter().map(acknowledge));
                }
                Action::WriteMetadata { checkpoint, .. } => {
                    let metadata = metadata_handle(ATTEMPT, checkpoint);
                    events.push_back(Event::MetadataWritten { checkpoint, metadata });
                }
                Action::AppendLog { sequence, .. } => events.push_back(Event::LogAppended { sequence }),
                Action::NotifyComplete { .. } => completed += u64::from(now_ms < 60_000),
                Action::Discard { id, .. } if now_ms < 60_000 => events.push_back(Event::DiscardFailed { id }),
                Action::Discard { id, discard } => {
                    if let Discard::Folder(folder) = discard {
                        assert!(deleted.insert(folder), "deleted twice");
                    }
                    events.push_back(Event::Discarded { id });
                }
                Action::NotifySubsumed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(completed >= 50, "{completed} checkpoints in 60 s");
    assert_eq!(coordinator.discards_outstanding(), 0);
    // All but the retained one, of which the last may just have been published.
    assert!(deleted.len() as u64 + 2 >= coordinator.next_checkpoint().0 - 1, "{} deleted", deleted.len());
}

#[test]
fn what_is_forced_waits_like_everything_while_too_many_checkpoints_wait_for_the_log() {
    let mut coordinator =
        Coordinator::new(CoordinatorConfig { interval_ms: None, timeout_ms: 60_000, ..config() }, start());
    run(&mut coordinator, "@0 running");
    for request in 1..=20 {
        let waits_for_the_log =
            (1..=request).map(|id| format!("enumerated {id}\nack {id}\nwritten {id}\n")).collect::<String>();
        run(&mut coordinator, &format!("@1 request {request} forced\n{waits_for_the_log}"));
    }
    assert_eq!(coordinator.pending().count(), 8);
}
