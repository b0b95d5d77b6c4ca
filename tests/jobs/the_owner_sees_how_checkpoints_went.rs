//! The statistics of checkpoints as the owner of a job gets them: of this attempt and of those before, also after the end.

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::CheckpointStatsStatus;
use highwater::state::OperatorUid;

use crate::pace::{Grants, Pace};
use crate::support::{assert_counted, count, environment, storage, wait_until};

const NUMBERS: u64 = 400;

#[test]
fn of_every_operator_and_subtask() {
    let records = CollectedRecords::default();
    let grants = Grants::new(NUMBERS / 2);
    let env = environment("statistics", storage());
    env.enable_checkpointing(std::time::Duration::from_secs(3_600)).set_parallelism(2);
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    let has_counted = || {
        let subtasks = handle.status().subtasks;
        subtasks.iter().any(|subtask| subtask.operator.as_str() == "counter" && subtask.records_in > 0)
    };
    wait_until("there is state", has_counted);
    assert_eq!(handle.trigger_checkpoint().wait().unwrap(), CheckpointId(1));
    let snapshot = handle.checkpoint_stats();
    assert_eq!((snapshot.counts.completed, snapshot.counts.failed), (1, 0));
    let first = snapshot.latest_completed.as_ref().unwrap();
    assert_eq!((first.checkpoint, &first.status), (CheckpointId(1), &CheckpointStatsStatus::Completed));
    assert_eq!(first.not_acknowledged().count(), 0);
    let counter = OperatorUid::new("counter").unwrap();
    let sizes = first.operator_state_bytes(&counter);
    assert_eq!(sizes.len(), 2, "{first}");
    assert!(sizes.iter().map(|(_, bytes)| bytes).sum::<u64>() > 0, "{first}");
    let of_operators: u64 = first
        .tasks
        .iter()
        .flat_map(|task| &task.operators)
        .flat_map(|operator| first.operator_state_bytes(operator))
        .map(|(_, bytes)| bytes)
        .sum();
    assert_eq!(first.state_size(), of_operators);
    assert_eq!(first.checkpointed_size(), of_operators, "every snapshot is whole");
    assert!(first.end_to_end_duration() <= first.ended_after, "{first}");
    let text = snapshot.to_string();
    assert!(text.starts_with("checkpoints: 1 completed, 0 failed, 0 in progress, 0 restored\ncheckpoint 1"), "{text}");
    assert!(text.contains("acknowledged  by "), "{text}");

    let monitor = handle.monitor();
    grants.add_all();
    handle.wait().unwrap();
    assert_counted(&records, NUMBERS);
    assert_eq!(monitor.checkpoint_stats().counts.completed, 2, "the last one is there after the job");
}
