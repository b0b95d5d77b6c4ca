//! What is kept and what goes while notifications are lost, and what others say is not listened to.

use std::collections::BTreeSet;

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath};

use crate::script_test::{ATTEMPT, acknowledgement, config, enumerated, metadata_handle, now, start};
use crate::{
    Action, CheckpointFailure, CheckpointFailureReason, Coordinator, CoordinatorConfig, Decline, Discard, DiscardId,
    Event, paths,
};

/// A coordinator whose job does everything it asks for at once.
struct World {
    coordinator: Coordinator,
    now_ms: u64,
    /// The folders of checkpoints.
    folders: BTreeSet<ObjectPath>,
    /// How often subtasks were told of a checkpoint.
    told: Vec<CheckpointId>,
}

impl World {
    fn new(config: CoordinatorConfig) -> Self {
        let mut world = Self {
            coordinator: Coordinator::new(config, start()),
            now_ms: 0,
            folders: BTreeSet::new(),
            told: Vec::new(),
        };
        for subtask in config_subtasks() {
            world.send(Event::SubtaskRunning { subtask });
        }
        world
    }

    fn send(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.coordinator.on_event(now(self.now_ms), event) {
                events.extend(self.carry_out(action));
            }
        }
    }

    fn carry_out(&mut self, action: Action) -> Vec<Event> {
        let folder = |checkpoint| paths::checkpoint_folder(&crate::script_test::job(), ATTEMPT, checkpoint);
        match action {
            Action::InitializeLocation { checkpoint, .. } => vec![Event::LocationInitialized { checkpoint }],
            Action::SnapshotEnumerators { checkpoint } => vec![enumerated(checkpoint)],
            Action::TriggerSubtasks { checkpoint, .. } => {
                self.folders.insert(folder(checkpoint));
                let acknowledge = |one| Event::Acknowledged(acknowledgement(ATTEMPT, checkpoint, one));
                config_subtasks().into_iter().map(acknowledge).collect()
            }
            Action::WriteMetadata { checkpoint, .. } => {
                vec![Event::MetadataWritten { checkpoint, metadata: metadata_handle(ATTEMPT, checkpoint) }]
            }
            Action::AppendLog { sequence, .. } => vec![Event::LogAppended { sequence }],
            Action::NotifyComplete { checkpoint } => {
                self.told.push(checkpoint);
                Vec::new()
            }
            Action::Discard { id, discard } => vec![self.discard(id, &discard)],
            _ => Vec::new(),
        }
    }

    fn discard(&mut self, id: DiscardId, discard: &Discard) -> Event {
        if let Discard::Folder(folder) = discard {
            self.folders.remove(folder);
        }
        Event::Discarded { id }
    }

    /// Lets time go on, deadline by deadline.
    fn go_on_until(&mut self, end_ms: u64) {
        while let Some(at_ms) = self.coordinator.next_deadline().filter(|at_ms| *at_ms <= end_ms) {
            self.now_ms = at_ms;
            self.send(Event::Tick);
        }
        self.now_ms = end_ms;
    }

    fn kept(&self) -> Vec<u64> {
        let ids = self.folders.iter().filter_map(|path| paths::checkpoint_of(&crate::script_test::job(), path));
        let mut ids: Vec<u64> = ids.map(|(checkpoint, _)| checkpoint.0).collect();
        ids.sort_unstable();
        ids
    }
}

fn config_subtasks() -> BTreeSet<highwater_state_api::SubtaskId> {
    config().subtasks()
}

/// Field case: R37.
#[test]
fn whether_anybody_hears_of_a_checkpoint_has_no_say_in_what_is_kept() {
    // Whatever the coordinator says to subtasks has no answer, so that it makes no difference whether it arrives.
    let mut world = World::new(config());
    world.go_on_until(9_500);
    assert_eq!(world.told.last(), Some(&CheckpointId(9)));
    assert_eq!(world.kept(), [9]);
    // A subtask that has heard nothing of 4 to 8 snapshots and acknowledges as ever, and again.
    for one in config_subtasks() {
        world.send(Event::Acknowledged(acknowledgement(ATTEMPT, CheckpointId(9), one)));
        world.send(Event::Acknowledged(acknowledgement(ATTEMPT, CheckpointId(8), one)));
    }
    assert_eq!(world.kept(), [9]);
    world.go_on_until(12_500);
    assert_eq!(world.kept(), [12]);
    assert_eq!(world.coordinator.discards_outstanding(), 0);
}

/// Contract: J198.
#[test]
fn an_acknowledgement_or_decline_of_another_job_touches_nothing() {
    let mut coordinator = Coordinator::new(config(), start());
    for subtask in config_subtasks() {
        coordinator.on_event(now(0), Event::SubtaskRunning { subtask });
    }
    coordinator.on_event(now(1_000), Event::Tick);
    coordinator.on_event(now(1_000), Event::LocationInitialized { checkpoint: CheckpointId(1) });
    let begun = coordinator.on_event(now(1_000), enumerated(CheckpointId(1)));
    assert!(matches!(begun[..], [Action::TriggerSubtasks { .. }]), "{begun:?}");
    let other = JobName::new("other").unwrap();
    for (attempt, checkpoint) in [(ATTEMPT, 1), (ATTEMPT, 7), (Attempt(1), 1), (Attempt(9), 1)] {
        for subtask in config_subtasks() {
            let mut acknowledgement = acknowledgement(attempt, CheckpointId(checkpoint), subtask);
            acknowledgement.job = other.clone();
            assert_eq!(coordinator.on_event(now(1_001), Event::Acknowledged(acknowledgement)), []);
            let failure = CheckpointFailure::from(CheckpointFailureReason::Declined);
            let (job, checkpoint) = (other.clone(), CheckpointId(checkpoint));
            let decline = Decline { job, attempt, checkpoint, subtask, failure };
            assert_eq!(coordinator.on_event(now(1_001), Event::Declined(decline)), []);
        }
    }
    assert_eq!(coordinator.pending().collect::<Vec<_>>(), [CheckpointId(1)]);
    // It completes from the acknowledgements of its own job, as if nothing had happened.
    let mut last = Vec::new();
    for subtask in config_subtasks() {
        last =
            coordinator.on_event(now(1_002), Event::Acknowledged(acknowledgement(ATTEMPT, CheckpointId(1), subtask)));
    }
    assert!(matches!(last[..], [Action::WriteMetadata { .. }]), "{last:?}");
}
