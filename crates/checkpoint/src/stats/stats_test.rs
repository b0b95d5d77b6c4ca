//! The statistics of checkpoints, from the events and actions of a coordinator.

use std::time::Duration;

use bytes::Bytes;
use highwater_state_api::{Attempt, CheckpointId, StateHandle, SubtaskId};
use insta::assert_snapshot;

use crate::script_test::{ATTEMPT, acknowledgement, config, enumerated, metadata_handle, now, start, subtask, uid};
use crate::{
    Acknowledgement, CheckpointMetrics, CheckpointStatsSnapshot, CheckpointStatsTracker, Coordinator,
    CoordinatorConfig, Event,
};

/// A coordinator with a tracker that looks on.
struct Observed {
    coordinator: Coordinator,
    tracker: CheckpointStatsTracker,
}

impl Observed {
    fn new(config: CoordinatorConfig) -> Self {
        let mut tracker = CheckpointStatsTracker::new(3);
        tracker.begin_attempt(now(0), ATTEMPT, None, &config);
        Self { coordinator: Coordinator::new(config, start()), tracker }
    }

    fn event(&mut self, at_ms: u64, event: Event) {
        self.tracker.on_event(now(at_ms), &event);
        for action in self.coordinator.on_event(now(at_ms), event) {
            self.tracker.on_action(now(at_ms), &action);
        }
    }

    /// Every subtask runs and the first checkpoint is triggered.
    fn triggered(&mut self) {
        for subtask in config().subtasks() {
            self.event(0, Event::SubtaskRunning { subtask });
        }
        self.trigger(1_000, 1);
    }

    fn trigger(&mut self, at_ms: u64, checkpoint: u64) {
        let checkpoint = CheckpointId(checkpoint);
        self.event(at_ms, Event::Tick);
        self.event(at_ms, Event::LocationInitialized { checkpoint });
        self.event(at_ms, enumerated(checkpoint));
    }

    fn publish(&mut self, at_ms: u64, checkpoint: u64, sequence: u64) {
        let checkpoint = CheckpointId(checkpoint);
        let metadata = metadata_handle(ATTEMPT, checkpoint);
        self.event(at_ms, Event::MetadataWritten { checkpoint, metadata });
        self.event(at_ms, Event::LogAppended { sequence });
    }

    fn snapshot(&self) -> CheckpointStatsSnapshot {
        self.tracker.snapshot()
    }
}

/// An acknowledgement of a counter that has as much state, of which some is new.
fn with_state(checkpoint: u64, one: SubtaskId, new: u64, all: u64) -> Acknowledgement {
    let mut acknowledgement = acknowledgement(ATTEMPT, CheckpointId(checkpoint), one);
    if let Some(keyed) = &mut acknowledgement.snapshot.operators[0].1.keyed {
        keyed.state = StateHandle::Inline(Bytes::from(vec![0; all as usize]));
    }
    acknowledgement.metrics = CheckpointMetrics {
        bytes_persisted_of_this_checkpoint: new,
        total_bytes_persisted: all,
        ..CheckpointMetrics::default()
    };
    acknowledgement
}

/// Field case: R109.
#[test]
fn the_reported_size_is_that_of_all_subtasks_and_what_is_new_is_told_apart_from_what_is_needed() {
    let mut wide = config();
    wide.tasks[1].parallelism = 3;
    let mut observed = Observed::new(wide.clone());
    for subtask in wide.subtasks() {
        observed.event(0, Event::SubtaskRunning { subtask });
    }
    for (checkpoint, at_ms, sizes) in
        [(1, 1_000, [(100, 100), (250, 250), (0, 0)]), (2, 2_000, [(10, 110), (0, 250), (0, 0)])]
    {
        observed.trigger(at_ms, checkpoint);
        for index in 0..2 {
            observed.event(at_ms + 1, Event::Acknowledged(with_state(checkpoint, subtask(0, index), 0, 0)));
        }
        for (index, (new, all)) in (0..).zip(sizes) {
            let late_ms = 10 * u64::from(index);
            observed.event(at_ms + late_ms, Event::Acknowledged(with_state(checkpoint, subtask(1, index), new, all)));
        }
        observed.publish(at_ms + 50, checkpoint, 5 + checkpoint);
    }
    let history = observed.snapshot().history;
    let [incremental, full] = &history[..] else { panic!("{history:?}") };
    assert_eq!((full.checkpointed_size(), full.state_size()), (350, 350));
    assert_eq!((incremental.checkpointed_size(), incremental.state_size()), (10, 360));
    // The end is that of the slowest subtask, not that of the publication.
    assert_eq!(full.end_to_end_duration(), Some(Duration::from_millis(20)));
    assert_eq!(incremental.end_to_end_duration(), Some(Duration::from_millis(20)));
    let sizes = full.operator_state_bytes(&uid("counter"));
    assert_eq!(sizes.iter().map(|(it, size)| (it.subtask, *size)).collect::<Vec<_>>(), [(0, 100), (1, 250), (2, 0)]);
    assert_snapshot!(observed.snapshot().to_string());
}

/// Contract: G136.
#[test]
fn a_checkpoint_that_expires_names_who_was_late_and_later_how_late() {
    let mut observed = Observed::new(config());
    observed.triggered();
    observed.event(1_020, Event::Acknowledged(with_state(1, subtask(0, 0), 0, 0)));
    observed.event(1_030, Event::Acknowledged(with_state(1, subtask(0, 1), 0, 0)));
    let mut slow = with_state(1, subtask(1, 1), 4_096, 4_096);
    slow.metrics.alignment_duration = Duration::from_millis(200);
    slow.metrics.bytes_processed_during_alignment = 12_345;
    slow.metrics.async_duration = Duration::from_millis(150);
    observed.event(1_400, Event::Acknowledged(slow));
    let pending = observed.snapshot().to_string();
    observed.event(1_600, Event::Tick);
    let expired = observed.snapshot().to_string();
    observed.event(1_900, Event::Acknowledged(with_state(1, subtask(1, 0), 100, 100)));
    let late = observed.snapshot().to_string();
    assert_snapshot!(format!("at 1400 ms\n{pending}\nat 1600 ms\n{expired}\nat 1900 ms\n{late}"));
}

/// Contract: G136.
#[test]
fn a_checkpoint_says_what_its_alignment_cost_and_how_old_the_barrier_was() {
    let mut observed = Observed::new(config());
    observed.triggered();
    let mut aligned = with_state(1, subtask(1, 0), 1, 1);
    aligned.metrics.alignment_duration = Duration::from_millis(30);
    aligned.metrics.bytes_processed_during_alignment = 300;
    aligned.metrics.sync_duration = Duration::from_millis(5);
    aligned.metrics.async_duration = Duration::from_millis(15);
    observed.event(1_250, Event::Acknowledged(aligned));
    let pending = &observed.snapshot().pending[0];
    let stats = pending.tasks[1].subtasks[0].as_ref().unwrap();
    assert_eq!(stats.start_delay(), Duration::from_millis(200));
    assert_eq!(pending.processed_data(), 300);
}

#[test]
fn the_history_has_a_bound_and_the_last_of_each_kind_is_kept_all_the_same() {
    let mut observed = Observed::new(CoordinatorConfig { interval_ms: Some(1_000), ..config() });
    observed.triggered();
    for one in config().subtasks() {
        observed.event(1_010, Event::Acknowledged(with_state(1, one, 1, 1)));
    }
    observed.publish(1_020, 1, 6);
    for checkpoint in 2..10 {
        observed.trigger(1_000 * checkpoint, checkpoint);
        observed.event(1_000 * checkpoint + 600, Event::Tick);
    }
    let snapshot = observed.snapshot();
    assert_eq!(snapshot.history.iter().map(|it| it.checkpoint.0).collect::<Vec<_>>(), [9, 8, 7]);
    assert_eq!(snapshot.latest_completed.map(|it| it.checkpoint.0), Some(1));
    assert_eq!(snapshot.counts.to_string(), "1 completed, 8 failed, 0 in progress, 0 restored");
}

#[test]
fn what_an_attempt_has_left_pending_ends_with_the_next() {
    for restored in [None, Some(CheckpointId(1))] {
        let mut observed = Observed::new(config());
        observed.triggered();
        observed.tracker.begin_attempt(now(9_000), Attempt(6), restored, &config());
        // It is of an attempt that is over.
        observed.event(9_001, Event::Acknowledged(with_state(1, subtask(0, 0), 1, 1)));
        let counts = observed.snapshot().counts;
        assert_eq!((counts.completed, counts.failed), if restored.is_some() { (1, 0) } else { (0, 1) });
        assert_eq!(observed.snapshot().history[0].acknowledged().count(), 0);
    }
}

#[test]
fn what_a_fenced_attempt_has_left_pending_ends_with_the_job() {
    let mut observed = Observed::new(config());
    observed.triggered();
    observed.event(1_500, Event::Fenced { sequence: 6 });
    assert_eq!(observed.snapshot().counts.in_progress, 1);
    observed.tracker.end_job(now(1_600));
    let snapshot = observed.snapshot();
    assert_eq!(snapshot.counts.to_string(), "0 completed, 1 failed, 0 in progress, 0 restored");
    assert!(snapshot.to_string().contains("it was pending when the job ended in this process"), "{snapshot}");
}

#[test]
fn a_task_that_had_finished_before_is_neither_late_nor_waited_for() {
    let mut config = config();
    config.tasks[0].finished = true;
    let counters = [subtask(1, 0), subtask(1, 1)];
    let mut job = Observed::new(config);
    counters.into_iter().for_each(|subtask| job.event(0, Event::SubtaskRunning { subtask }));
    job.event(1_000, Event::Tick);
    assert_eq!(job.snapshot().pending[0].not_acknowledged().count(), 0, "nobody has been asked");
    job.trigger(1_000, 1);
    job.event(1_100, Event::Acknowledged(acknowledgement(ATTEMPT, CheckpointId(1), counters[0])));
    assert_eq!(job.snapshot().pending[0].not_acknowledged().collect::<Vec<_>>(), [counters[1]]);
    job.event(1_200, Event::Acknowledged(acknowledgement(ATTEMPT, CheckpointId(1), counters[1])));
    job.publish(1_300, 1, 6);
    let stats = job.snapshot().history[0].clone();
    assert_eq!(stats.acknowledged().map(|(subtask, _)| subtask).collect::<Vec<_>>(), counters);
    assert!(stats.to_string().contains("acknowledged  by 2 of 2, "), "{stats}");
}
