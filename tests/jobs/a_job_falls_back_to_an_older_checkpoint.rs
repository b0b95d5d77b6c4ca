//! When the newest checkpoint is damaged, the start is refused, or goes on from the next older one if it may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::ExternalizedCheckpointRetention;
use highwater::state::CheckpointStorage;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use tempfile::TempDir;

use crate::pace::{Grants, Pace};
use crate::support::{Count, count, environment, files_below, text, wait_until};

const NUMBERS: u64 = 3_000;

fn files(folder: &TempDir) -> Arc<dyn CheckpointStorage> {
    Arc::new(FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap())
}

fn job(storage: Arc<dyn CheckpointStorage>, falls_back: bool) -> StreamExecutionEnvironment {
    let env = environment("damaged", storage);
    env.set_max_retained_checkpoints(3).set_restart_strategy(RestartStrategy::None);
    env.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    env.set_fall_back_to_older_checkpoint(falls_back);
    env
}

/// A job that was stopped with three checkpoints, between which it got on.
fn stopped() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let env = job(files(&folder), false);
    env.enable_checkpointing(Duration::from_secs(3_600));
    let grants = Grants::new(0);
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &CollectedRecords::default(), |_| Ok(()));
    let handle = env.execute_async().unwrap();
    for step in 1..=4 {
        grants.add(NUMBERS / 10);
        wait_until("the records are read", || handle.status().records_read == step * NUMBERS / 10);
        assert_eq!(handle.trigger_checkpoint().wait().unwrap().0, step);
    }
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    assert_eq!(ids(folder.path()).len(), 3);
    folder
}

/// The checkpoints that are there, oldest first.
fn ids(directory: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(directory.join("damaged")).unwrap().map(|entry| entry.unwrap().file_name());
    let id = |name: String| name.strip_prefix("chk-")?.split('-').next()?.parse().ok();
    let mut ids: Vec<u64> = entries.filter_map(|name| id(name.into_string().unwrap())).collect();
    ids.sort_unstable();
    ids
}

/// The files of the checkpoint with this id whose names begin in this way.
fn parts(directory: &Path, id: u64, prefix: &str) -> Vec<PathBuf> {
    let folder = format!("chk-{id}-");
    let is_part = |path: &PathBuf| {
        path.parent().unwrap().file_name().unwrap().to_string_lossy().starts_with(&folder)
            && path.file_name().unwrap().to_string_lossy().starts_with(prefix)
    };
    let parts: Vec<PathBuf> = files_below(&directory.join("damaged")).into_keys().filter(is_part).collect();
    assert!(!parts.is_empty(), "checkpoint {id} has no {prefix}");
    parts
}

/// Something that happens to files.
type Damage = (&'static str, fn(&Path));

fn delete(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

fn cut(path: &Path) {
    let content = std::fs::read(path).unwrap();
    std::fs::write(path, &content[..content.len() / 2]).unwrap();
}

fn flip(path: &Path) {
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(path, content).unwrap();
}

const DAMAGES: [Damage; 3] = [("deleted", delete), ("cut", cut), ("changed", flip)];

fn start(
    storage: Arc<dyn CheckpointStorage>,
    falls_back: bool,
) -> (Result<JobResult, JobError>, CollectedRecords<Count>) {
    let records = CollectedRecords::default();
    let env = job(storage, falls_back);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    (env.execute(), records)
}

/// Each number was counted on from the state of one checkpoint: the last count of each digit is right, and none is skipped.
fn assert_counted_on(records: &CollectedRecords<Count>) {
    let mut counts = BTreeMap::<u64, Vec<u64>>::new();
    records.to_vec().into_iter().for_each(|(digit, count)| counts.entry(digit).or_default().push(count));
    for (digit, mut found) in counts {
        found.sort_unstable();
        let first = found[0];
        assert_eq!(found, (first..=NUMBERS / 10).collect::<Vec<_>>(), "digit {digit}");
    }
}

/// Contract: M246.
#[test]
fn unless_it_may_it_is_not_started_and_says_how_it_could_be() {
    for prefix in ["_metadata", "counter-"] {
        for (what, damage) in DAMAGES {
            let folder = stopped();
            let ids = ids(folder.path());
            damage(&parts(folder.path(), ids[2], prefix)[0]);
            let before = files_below(folder.path());
            let (result, records) = start(files(&folder), false);
            let error = result.unwrap_err();
            let text = text(&error);
            assert!(
                text.starts_with(&format!("checkpoint {} cannot be restored: ", ids[2])),
                "{prefix} {what}: {text}"
            );
            assert!(text.contains(&format!("checkpoint {} is kept too", ids[1])), "{prefix} {what}: {text}");
            assert!(text.contains("`execution.state-recovery.fall-back-to-older-checkpoint: true`"), "{text}");
            assert_eq!(records.len(), 0);
            let after = files_below(folder.path());
            assert!(
                before.iter().all(|(path, content)| after.get(path) == Some(content)),
                "a refused start changes nothing"
            );
        }
    }
}

/// Contract: M246.
#[test]
fn if_it_may_it_goes_on_from_the_next_older_one_and_says_so() {
    for prefix in ["_metadata", "counter-"] {
        for (what, damage) in DAMAGES {
            let folder = stopped();
            let ids = ids(folder.path());
            damage(&parts(folder.path(), ids[2], prefix)[0]);
            let (result, records) = start(files(&folder), true);
            let status = result.unwrap().status;
            assert_eq!(status.restored_from.map(|id| id.0), Some(ids[1]), "{prefix} {what}");
            let damaged: Vec<u64> = status.damaged_checkpoints.iter().map(|one| one.checkpoint.0).collect();
            assert_eq!(damaged, [ids[2]], "{prefix} {what}");
            assert!(!status.damaged_checkpoints[0].cause.is_empty());
            assert!(status.last_checkpoint.unwrap().0 > ids[2], "ids never restart");
            assert_counted_on(&records);
        }
    }
}

/// Contract: M246.
#[test]
fn over_several_that_are_damaged_each_in_its_way() {
    let folder = stopped();
    let ids = ids(folder.path());
    flip(&parts(folder.path(), ids[2], "_metadata")[0]);
    delete(&parts(folder.path(), ids[1], "counter-")[0]);
    let (result, records) = start(files(&folder), true);
    let status = result.unwrap().status;
    assert_eq!(status.restored_from.map(|id| id.0), Some(ids[0]));
    let damaged: Vec<u64> = status.damaged_checkpoints.iter().map(|one| one.checkpoint.0).collect();
    assert_eq!(damaged, [ids[2], ids[1]]);
    assert_counted_on(&records);
}

/// Contract: M246.
#[test]
fn when_all_are_damaged_it_never_begins_from_nothing() {
    for prefix in ["_metadata", "counter-"] {
        let folder = stopped();
        let ids = ids(folder.path());
        ids.iter().for_each(|id| delete(&parts(folder.path(), *id, prefix)[0]));
        let (result, records) = start(files(&folder), true);
        let error = result.unwrap_err();
        assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
        assert_eq!(records.len(), 0);
    }
}

/// Contract: M246.
#[test]
fn a_storage_that_does_not_answer_is_not_damaged() {
    for operation in [Operation::Read, Operation::ReadRange] {
        let folder = stopped();
        let newest = ids(folder.path())[2];
        let faults = Faults::default();
        let name = if operation == Operation::Read { "_metadata" } else { "counter-0" };
        faults.arm(When::every(operation).named(name), Fault::FailBefore);
        let (result, _) = start(Arc::new(FaultyStorage::new(files(&folder), faults.clone())), true);
        let error = result.unwrap_err();
        assert!(matches!(error.cause(), JobError::Storage(_)), "{operation}: {error:?}");
        // It answers again: nothing was given up meanwhile.
        let status = start(files(&folder), true).0.unwrap().status;
        assert_eq!((status.restored_from.map(|id| id.0), status.damaged_checkpoints), (Some(newest), Vec::new()));
    }
}

/// Contract: M246.
#[test]
fn what_it_fell_back_from_is_not_restored_by_a_later_start() {
    let folder = stopped();
    let ids = ids(folder.path());
    let metadata = parts(folder.path(), ids[2], "_metadata").remove(0);
    let whole = std::fs::read(&metadata).unwrap();
    flip(&metadata);
    // The attempt that falls back completes no checkpoint of its own.
    let env = job(files(&folder), true);
    env.enable_checkpointing(Duration::from_secs(3_600));
    count(&env, NUMBERS, Some(Pace::up_to(0)), &CollectedRecords::default(), |_| Ok(()));
    let handle = env.execute_async().unwrap();
    // Before its subtasks are there, the log need not say yet that it has.
    wait_until("the job has fallen back", || {
        let status = handle.status();
        !status.damaged_checkpoints.is_empty() && !status.subtasks.is_empty()
    });
    handle.cancel();
    handle.wait().unwrap_err();
    assert!(metadata.exists(), "what is damaged can be looked at while the attempt runs");
    std::fs::write(&metadata, whole).unwrap();
    let (result, records) = start(files(&folder), false);
    assert_eq!(result.unwrap().status.restored_from.map(|id| id.0), Some(ids[1]));
    assert_counted_on(&records);
}

/// Contract: M244, M246.
#[test]
fn a_start_that_is_refused_deletes_nothing_whatever_the_policy() {
    let folder = stopped();
    let ids = ids(folder.path());
    delete(&parts(folder.path(), ids[2], "counter-")[0]);
    let env = job(files(&folder), false);
    env.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention::NoExternalizedCheckpoints);
    count(&env, NUMBERS, None, &CollectedRecords::default(), |_| Ok(()));
    assert!(matches!(env.execute().unwrap_err(), JobError::Restore { .. }));
    assert_eq!(self::ids(folder.path()), ids);
    assert!(start(files(&folder), true).0.is_ok());
}
