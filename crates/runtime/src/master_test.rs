//! The master between enumerators and readers: in which order readers hear what, and what the failure of an enumerator
//! does.

use std::sync::{Arc, Mutex};

use highwater_checkpoint::{
    Acknowledgement, AttemptStart, CheckpointFailureReason, CheckpointMetrics, CheckpointStatsStatus,
    CheckpointStatsTracker, OperatorSnapshot, SubtaskSnapshot,
};
use highwater_state_api::{Attempt, StateHandle};

use super::support_test::{Mood, Numbers, at, config_of_sources};
use super::*;
use crate::log_test::log_of;

const READER: SubtaskId = SubtaskId { task: 0, subtask: 0 };

/// A master of one source with one reader; the storage makes every place ready.
struct Fixture {
    master: Master,
    mood: Arc<Mutex<Mood>>,
    is_behind: Arc<Mutex<bool>>,
    stats: SharedStats,
    now_ms: u64,
}

impl Fixture {
    fn new() -> Self {
        let uid = OperatorUid::new("numbers").unwrap();
        let config = config_of_sources(&["numbers"]);
        let attempt = Attempt(5);
        let start = AttemptStart { attempt, first_checkpoint: CheckpointId(1), next_sequence: 6, retained: Vec::new() };
        let numbers = Numbers::default();
        let (mood, is_behind) = (numbers.mood.clone(), numbers.is_behind.clone());
        let numbers: Box<dyn AnyEnumerator> = Box::new(numbers);
        let mut tracker = CheckpointStatsTracker::new(10);
        tracker.begin_attempt(Now::default(), attempt, None, &config);
        let stats = Arc::new(Mutex::new(tracker));
        let enumerators = Enumerators::from([(0, (uid, numbers))]);
        let coordinator = Coordinator::new(config, start).with_backlog_interval(0);
        let master = Master::new(coordinator, [READER], enumerators).with_stats(stats.clone());
        Self { master, mood, is_behind, stats, now_ms: 0 }
    }

    /// Goes on in time.
    fn at(&mut self, now_ms: u64) -> Vec<Order> {
        self.now_ms = now_ms;
        let orders = self.master.on_event(self.now(), Event::Tick);
        self.with_answers(orders)
    }

    fn report(&mut self, report: Report) -> Vec<Order> {
        let orders = self.master.on_report(self.now(), report);
        self.with_answers(orders)
    }

    fn now(&self) -> Now {
        at(self.now_ms)
    }

    fn with_answers(&mut self, orders: Vec<Order>) -> Vec<Order> {
        let mut all = Vec::new();
        for order in orders {
            match order {
                Order::Store(Action::InitializeLocation { checkpoint, .. }) => {
                    all.extend(self.master.on_event(self.now(), Event::LocationInitialized { checkpoint }));
                }
                other => all.push(other),
            }
        }
        all
    }
}

/// What the reader is told, in order.
fn told(orders: &[Order]) -> Vec<&Control> {
    let told = |order| match order {
        &Order::Tell(READER, ref message) => Some(message),
        _ => None,
    };
    orders.iter().filter_map(told).collect()
}

/// Contract: R323.
#[test]
fn what_an_enumerator_says_before_its_snapshot_is_in_front_of_the_trigger_in_the_same_lane() {
    let mut fixture = Fixture::new();
    let mut orders = fixture.report(Report::Running(READER));
    orders.extend(fixture.report(Report::SplitRequested(READER)));
    orders.extend(fixture.at(1_000));
    let split = Control::AddSplit(Bytes::from(vec![1]));
    let trigger = Control::Trigger { checkpoint: CheckpointId(1), triggered_at_ms: 1_000 };
    assert_eq!(told(&orders), [&Control::AllRunning, &split, &trigger]);
    // What it says afterwards waits until the reader has taken its snapshot, or until there will be none.
    assert!(told(&fixture.report(Report::SplitRequested(READER))).is_empty());
    let aborted = Control::Aborted { checkpoint: CheckpointId(1), latest_complete: None };
    let orders = fixture.at(1_600);
    assert_eq!(told(&orders), [&aborted, &Control::AddSplit(Bytes::from(vec![2]))]);
}

/// Contract: J208, J210.
#[test]
fn an_enumerator_that_cannot_be_snapshotted_fails_that_checkpoint_and_no_reader_is_asked() {
    let mut fixture = Fixture::new();
    fixture.report(Report::Running(READER));
    *fixture.mood.lock().unwrap() = Mood::Fails;
    let orders = fixture.at(1_000);
    assert!(!told(&orders).iter().any(|message| matches!(message, Control::Trigger { .. })), "{orders:?}");
    assert!(!orders.iter().any(|order| matches!(order, Order::End(_))), "{orders:?}");
    {
        let snapshot = fixture.stats.lock().unwrap().snapshot();
        let CheckpointStatsStatus::Failed(failure) = &snapshot.history[0].status else { panic!("{snapshot}") };
        assert_eq!(failure.reason, CheckpointFailureReason::TriggerCheckpointFailure);
        assert!(failure.message.ends_with("numbers could not be snapshotted: the topic is away"), "{failure}");
    }
    *fixture.mood.lock().unwrap() = Mood::Good;
    let trigger = Control::Trigger { checkpoint: CheckpointId(2), triggered_at_ms: 2_000 };
    assert_eq!(told(&fixture.at(2_000)), [&trigger]);
}

#[test]
fn an_enumerator_that_panics_while_it_is_snapshotted_ends_the_attempt() {
    let mut fixture = Fixture::new();
    fixture.report(Report::Running(READER));
    *fixture.mood.lock().unwrap() = Mood::Panics;
    let orders = fixture.at(1_000);
    let [Order::End(MasterEnd::TaskFailed(0, error))] = &orders[..] else { panic!("{orders:?}") };
    assert!(chain_of(error).contains("panicked: boom"), "{error:?}");
}

/// Contract: J218.
#[test]
fn while_an_enumerator_says_that_there_is_a_backlog_the_interval_for_it_applies() {
    let mut fixture = Fixture::new();
    *fixture.is_behind.lock().unwrap() = true;
    fixture.report(Report::Running(READER));
    for now_ms in [1_000, 50_000] {
        assert!(told(&fixture.at(now_ms)).is_empty(), "an interval of 0 means none");
    }
    *fixture.is_behind.lock().unwrap() = false;
    fixture.report(Report::SplitRequested(READER));
    assert!(told(&fixture.at(50_999)).is_empty());
    let trigger = Control::Trigger { checkpoint: CheckpointId(1), triggered_at_ms: 51_000 };
    assert_eq!(told(&fixture.at(51_000)), [&trigger]);
}

#[test]
fn people_are_told_once_that_the_last_checkpoint_is_complete_and_subtasks_until_they_have_settled_it() {
    let mut fixture = Fixture::new();
    fixture.report(Report::Running(READER));
    fixture.report(Report::Ended(READER));
    let checkpoint = CheckpointId(1);
    let metadata = StateHandle::Inline(Bytes::new());
    fixture.report(Report::Acknowledged(Acknowledgement {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(5),
        checkpoint,
        subtask: READER,
        snapshot: SubtaskSnapshot {
            operators: vec![(OperatorUid::new("numbers").unwrap(), OperatorSnapshot::default())],
        },
        metrics: CheckpointMetrics::default(),
    }));
    fixture.master.on_event(fixture.now(), Event::MetadataWritten { checkpoint, metadata });
    let mut complete = Vec::new();
    let log = log_of(|| {
        complete.extend(fixture.master.on_event(fixture.now(), Event::LogAppended { sequence: 6 }));
        for second in 1..=3 {
            complete.extend(fixture.at(second * 1_000));
        }
    });
    assert_eq!(told(&complete), [&Control::Complete(checkpoint); 4]);
    assert_eq!(log.matches("complete job=job checkpoint=1").count(), 1, "{log}");
}

#[test]
fn a_checkpoint_that_fails_is_a_warning_unless_that_follows_from_something_else() {
    for (event, level) in [(Event::Shutdown, "INFO"), (Event::Tick, "WARN")] {
        let mut fixture = Fixture::new();
        fixture.report(Report::Running(READER));
        fixture.at(1_000);
        let log = log_of(|| {
            fixture.master.on_event(at(1_000_000), event);
        });
        let line = log.lines().find(|line| line.contains("failed job=job checkpoint=1"));
        assert!(line.is_some_and(|line| line.contains(level)), "{log}");
    }
}
