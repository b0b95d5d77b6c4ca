//! Inputs whose upstream has finished: what their end means to a checkpoint, and a checkpoint that comes without barriers.

use highwater_state_api::CheckpointId;

use crate::{AbandonReason, AlignerAction, AlignerEvent, BarrierHandler, CheckpointFailureReason, CheckpointingMode};

const MODES: [CheckpointingMode; 2] = [CheckpointingMode::ExactlyOnce, CheckpointingMode::AtLeastOnce];

fn barrier(channel: usize, id: u64) -> AlignerEvent {
    AlignerEvent::Barrier { channel, checkpoint: CheckpointId(id) }
}

fn triggered(id: u64) -> AlignerEvent {
    AlignerEvent::Triggered { checkpoint: CheckpointId(id) }
}

fn aligned(id: u64) -> AlignerAction {
    AlignerAction::Aligned { checkpoint: CheckpointId(id) }
}

fn abandon(id: u64, reason: AbandonReason) -> AlignerAction {
    AlignerAction::Abandon { checkpoint: CheckpointId(id), reason }
}

/// Contract: G138.
#[test]
fn turned_off_the_end_of_a_channel_gives_up_what_is_being_aligned() {
    for mode in MODES {
        let mut barriers = BarrierHandler::new(mode, 3).with_checkpoints_after_tasks_finish(false);
        barriers.on_event(barrier(0, 1));
        barriers.on_event(barrier(1, 1));
        let mut actions = barriers.on_event(AlignerEvent::ChannelEnded { channel: 2 });
        if mode == CheckpointingMode::ExactlyOnce {
            assert_eq!(actions.pop(), Some(AlignerAction::Unblock { channels: vec![0, 1] }));
        }
        assert_eq!(actions, [abandon(1, AbandonReason::InputEnded)], "{mode:?}");
        assert_eq!(
            AbandonReason::InputEnded.failure().map(|failure| failure.reason),
            Some(CheckpointFailureReason::DeclinedInputEndOfStream)
        );
        assert_eq!(
            barriers.on_event(AlignerEvent::ChannelEnded { channel: 1 }),
            [],
            "{mode:?}: nothing is being aligned"
        );
        // The checkpoint that ends the job: only those that are open have to bring its barrier.
        assert_eq!(barriers.on_event(barrier(0, 2)), [aligned(2)], "{mode:?}");
    }
}

/// Contract: G151.
#[test]
fn a_trigger_of_the_coordinator_stands_for_the_barriers_of_all_channels_and_blocks_none() {
    for mode in MODES {
        for ended in 0..=2 {
            let mut barriers = BarrierHandler::new(mode, 2);
            for channel in 0..ended {
                assert_eq!(barriers.on_event(AlignerEvent::ChannelEnded { channel }), []);
            }
            assert_eq!(barriers.on_event(triggered(4)), [aligned(4)], "{mode:?}, {ended} have ended");
            assert_eq!(barriers.on_event(triggered(4)), [], "once");
            assert_eq!(barriers.on_event(triggered(3)), [], "late");
            assert_eq!(barriers.on_event(triggered(5)), [aligned(5)]);
        }
    }
}

/// Contract: G151.
#[test]
fn a_trigger_of_the_coordinator_takes_the_place_of_what_is_being_aligned() {
    for mode in MODES {
        let mut barriers = BarrierHandler::new(mode, 2);
        barriers.on_event(barrier(1, 1));
        let actions = barriers.on_event(triggered(2));
        let subsumed = abandon(1, AbandonReason::Subsumed);
        match mode {
            CheckpointingMode::ExactlyOnce => {
                assert_eq!(actions, [subsumed, AlignerAction::Unblock { channels: vec![1] }, aligned(2)]);
            }
            CheckpointingMode::AtLeastOnce => assert_eq!(actions, [subsumed, aligned(2)]),
        }
        assert_eq!(barriers.on_event(barrier(0, 1)), [], "late");
        barriers.on_event(AlignerEvent::Aborted { checkpoint: CheckpointId(3) });
        assert_eq!(barriers.on_event(triggered(3)), [abandon(3, AbandonReason::Aborted)], "{mode:?}");
    }
}

/// A trigger for a checkpoint whose barriers have begun to come completes it.
#[test]
fn a_trigger_of_the_coordinator_makes_up_for_the_barriers_that_are_missing() {
    let mut barriers = BarrierHandler::new(CheckpointingMode::ExactlyOnce, 2);
    barriers.on_event(barrier(1, 1));
    assert_eq!(barriers.on_event(triggered(1)), [aligned(1), AlignerAction::Unblock { channels: vec![1] }]);
}
