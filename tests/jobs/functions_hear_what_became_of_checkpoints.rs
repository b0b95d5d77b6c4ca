//! Notifications: complete, aborted, subsumed.

use std::collections::BTreeSet;

use highwater::prelude::*;

use crate::support::{Notes, endless, environment, storage, wait_for_checkpoints};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Snapshot(u64, u64),
    Complete(u64),
    Aborted(u64),
    Subsumed(u64),
}

/// Notes what it hears. The snapshot of every third checkpoint fails in one of two functions.
#[derive(Clone)]
struct Listening {
    fails: bool,
    heard: Notes<Heard>,
}

impl Listening {
    fn snapshot(&self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        if self.fails && cx.checkpoint().0.is_multiple_of(3) {
            return Err("not this one".into());
        }
        self.heard.note(Heard::Snapshot(cx.checkpoint().0, cx.checkpoint_timestamp_ms()));
        Ok(())
    }
}

impl ProcessFunction<u64> for Listening {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        self.snapshot(cx)
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Complete(checkpoint.0));
        Ok(())
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Aborted(checkpoint.0));
        Ok(())
    }

    fn notify_checkpoint_subsumed(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Subsumed(checkpoint.0));
        Ok(())
    }
}

impl KeyedProcessFunction<u64, u64> for Listening {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        self.snapshot(cx)
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Complete(checkpoint.0));
        Ok(())
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Aborted(checkpoint.0));
        Ok(())
    }

    fn notify_checkpoint_subsumed(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.heard.note(Heard::Subsumed(checkpoint.0));
        Ok(())
    }
}

/// Contract: L235.
#[test]
fn with_a_key_and_without() {
    let (with_key, without) = (Notes::new(), Notes::new());
    let env = environment("listening", storage());
    env.set_max_retained_checkpoints(2).set_tolerable_checkpoint_failures(u32::MAX);
    let first = Listening { fails: false, heard: without.clone() };
    let second = Listening { fails: true, heard: with_key.clone() };
    env.from_source(endless(1))
        .process(move || first.clone())
        .uid("without-key")
        .key_by(|number| number)
        .process(move || second.clone())
        .uid("with-key")
        .sink_to(CollectSink::default());
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 8);
    handle.cancel();
    assert!(handle.wait().is_err());

    for heard in [without.take(), with_key.take()] {
        let ids = |of: &dyn Fn(&Heard) -> Option<u64>| heard.iter().filter_map(of).collect::<Vec<u64>>();
        let complete = ids(&|heard| if let Heard::Complete(id) = heard { Some(*id) } else { None });
        let subsumed = ids(&|heard| if let Heard::Subsumed(id) = heard { Some(*id) } else { None });
        let aborted = ids(&|heard| if let Heard::Aborted(id) = heard { Some(*id) } else { None });
        assert!(complete.is_sorted() && complete.iter().all(|id| id % 3 != 0), "{complete:?}");
        assert!(complete.starts_with(&[1, 2, 4, 5]), "{complete:?}");
        // Two are kept: what is subsumed was complete, and two complete ones are newer.
        assert!(subsumed.starts_with(&[1, 2, 4]) && subsumed.len() + 2 <= complete.len() + 1, "{subsumed:?}");
        let place = |wanted: Heard| heard.iter().position(|heard| *heard == wanted);
        assert!(place(Heard::Complete(4)) < place(Heard::Subsumed(1)), "{heard:?}");
        // Who has declined it hears of its end as those do that have a snapshot.
        assert!(aborted.starts_with(&[3, 6]), "{aborted:?}");
        // All have the same time of a checkpoint, and time goes on.
        let times: Vec<(u64, u64)> = heard
            .iter()
            .filter_map(|heard| if let Heard::Snapshot(id, time) = heard { Some((*id, *time)) } else { None })
            .collect();
        assert!(times.iter().all(|(_, time)| *time > 1_600_000_000_000) && times.is_sorted(), "{times:?}");
        let distinct: BTreeSet<u64> = times.iter().map(|(id, _)| *id).collect();
        assert_eq!(distinct.len(), times.len(), "one snapshot a checkpoint");
    }
}
