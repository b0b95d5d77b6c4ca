//! What is said when a job goes back behind a checkpoint.

use highwater_checkpoint::{Assignment, decode_log_record, paths};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;
use crate::log_test::log_of;
use crate::restore::{Begun, Claimant, JobClaim, Over, RestoreOptions, begin_attempt};

/// Contract: M246.
#[test]
fn it_is_a_warning_that_names_both_checkpoints_and_a_record_of_the_log() {
    let (storage, job) = (MemoryCheckpointStorage::new(), JobName::new("job").unwrap());
    let options = RestoreOptions { retain: 3, falls_back: true, ignores_unclaimed: false };
    let claimant = Claimant { nonce: 7, over: Over::Anyone };
    let begun = block_on(begin_attempt(&storage, JobClaim::new(&job, &[], options, claimant)));
    let Begun::Claimed(mut claimed) = begun.unwrap() else { panic!("nobody else is there") };
    let say = |claimed: &mut ClaimedJob| {
        log_of(|| block_on(say_dropped(&storage, &job, &Fence::default(), claimed)).unwrap())
    };
    claimed.restored = Some((CheckpointId(5), Assignment { operators: Default::default() }));
    assert_eq!(say(&mut claimed), "", "nothing is damaged");
    claimed.damaged = vec![DamagedCheckpoint { checkpoint: CheckpointId(6), cause: "a part is missing".to_owned() }];
    let log = say(&mut claimed);
    for text in ["WARN", "checkpoint=6", "a part is missing", "goes back to checkpoint 5"] {
        assert!(log.contains(text), "{log} does not say {text}");
    }
    let record = block_on(storage.read(&paths::log_record(&job, 2))).unwrap();
    let expected = LogRecord::Dropped { attempt: claimed.start.attempt, newest: Some(CheckpointId(5)) };
    assert_eq!(decode_log_record(&record).unwrap(), expected);
    assert_eq!(claimed.start.next_sequence, 3);
}
