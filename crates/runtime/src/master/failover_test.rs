//! A master of two regions: which of them hears what, and what the master of the next attempt takes for its own.

use bytes::Bytes;
use highwater_checkpoint::{Action, AttemptStart};
use highwater_state_api::{Attempt, CheckpointId, OperatorUid, StateError};

use super::super::support_test::{Numbers, at, config_of_sources};
use super::*;
use crate::control::Control;
use crate::graph::{AnyEnumerator, JobGraph, TaskNode};

const LEFT: SubtaskId = SubtaskId { task: 0, subtask: 0 };
const RIGHT: SubtaskId = SubtaskId { task: 1, subtask: 0 };

fn coordinator(attempt: u64) -> Coordinator {
    let (first_checkpoint, next_sequence) = (CheckpointId(attempt), attempt + 1);
    let start = AttemptStart { attempt: Attempt(attempt), first_checkpoint, next_sequence, retained: Vec::new() };
    Coordinator::new(config_of_sources(&["left", "right"]), start)
}

fn enumerator(uid: &str) -> (OperatorUid, Box<dyn AnyEnumerator>) {
    (OperatorUid::new(uid).unwrap(), Box::new(Numbers::default()))
}

fn regions() -> Regions {
    let task = || TaskNode { parallelism: 1, operators: Vec::new() };
    Regions::of(&JobGraph { tasks: vec![task(), task()], edges: Vec::new() })
}

/// The master of attempt 5, whose checkpoint 5 is pending.
fn master() -> Master {
    let enumerators = Enumerators::from([(0, enumerator("left")), (1, enumerator("right"))]);
    let mut master = Master::new(coordinator(5), [LEFT, RIGHT], enumerators).with_regions(regions());
    for report in [Report::Running(LEFT), Report::Running(RIGHT)] {
        master.on_report(at(0), report);
    }
    let orders = master.on_event(at(1_000), Event::Tick);
    assert!(matches!(orders[..], [Order::Store(Action::InitializeLocation { .. })]), "{orders:?}");
    master.on_event(at(1_000), Event::LocationInitialized { checkpoint: CheckpointId(5) });
    master
}

fn failed(subtask: SubtaskId) -> Report {
    Report::Failed(subtask, TaskError::Panic { task: "task".to_owned(), during: None, message: "boom".to_owned() })
}

/// Who is told what.
fn told(orders: &[Order]) -> Vec<(SubtaskId, &Control)> {
    let told = |order| match order {
        &Order::Tell(subtask, ref message) => Some((subtask, message)),
        _ => None,
    };
    orders.iter().filter_map(told).collect()
}

/// Contract: O275.
#[test]
fn only_those_that_go_on_hear_that_the_checkpoint_is_aborted_and_they_are_served_further() {
    let mut master = master();
    let orders = master.on_report(at(1_100), failed(LEFT));
    let aborted = Control::Aborted { checkpoint: CheckpointId(5), latest_complete: None };
    assert_eq!(told(&orders), [(RIGHT, &aborted)]);
    let Some(Order::End(MasterEnd::RegionFailed(0, _, tasks))) = orders.last() else { panic!("{orders:?}") };
    assert_eq!(*tasks, BTreeSet::from([0]));

    // Whatever is still heard of the region is of no interest.
    for report in [Report::SplitRequested(LEFT), failed(LEFT), Report::Stopped(LEFT), Report::Ended(LEFT)] {
        assert!(master.on_report(at(1_200), report).is_empty());
    }
    let orders = master.on_report(at(1_200), Report::SplitRequested(RIGHT));
    assert_eq!(told(&orders), [(RIGHT, &Control::AddSplit(Bytes::from(vec![1])))]);
    // The other region fails too: that is more than a region.
    let orders = master.on_report(at(1_300), failed(RIGHT));
    assert!(matches!(orders[..], [.., Order::End(MasterEnd::TaskFailed(1, _))]), "{orders:?}");
}

/// Contract: O282.
#[test]
fn a_failure_that_would_only_be_repeated_is_one_of_the_job() {
    let error = TaskError::state(&OperatorUid::new("left").unwrap())(StateError::TooManyStates);
    let orders = master().on_report(at(1_100), Report::Failed(LEFT, error));
    assert!(matches!(orders[..], [.., Order::End(MasterEnd::TaskFailed(0, _))]), "{orders:?}");
}

/// Contract: O275.
#[test]
fn the_next_master_goes_on_with_the_enumerator_and_waits_until_everybody_knows_the_attempt() {
    let mut master = master();
    master.on_report(at(1_100), failed(LEFT));
    master.on_report(at(1_200), Report::SplitRequested(RIGHT));
    let (survivors, enumerators) = (BTreeSet::from([1]), Enumerators::from([(0, enumerator("left"))]));
    let orders = master.take_over(Attempt(9), coordinator(9), &survivors, [LEFT], enumerators);
    assert_eq!(told(&orders), [(RIGHT, &Control::Adopt(Attempt(9)))]);
    let mut next = master;
    next.on_report(at(2_000), Report::Running(LEFT));
    // Said before it was told of the attempt.
    next.on_report(at(2_000), Report::Running(RIGHT));
    assert!(!next.coordinator().all_running());
    next.on_report(at(2_100), Report::Adopted(RIGHT));
    let orders = next.on_report(at(2_100), Report::Running(RIGHT));
    assert_eq!(told(&orders), [(LEFT, &Control::AllRunning), (RIGHT, &Control::AllRunning)]);
    let orders = next.on_report(at(2_200), Report::SplitRequested(RIGHT));
    assert_eq!(
        told(&orders),
        [(RIGHT, &Control::AddSplit(Bytes::from(vec![2])))],
        "the first one was handed out before"
    );
}
