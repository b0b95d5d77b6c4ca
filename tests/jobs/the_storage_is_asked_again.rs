//! A storage that says "slow down" is asked again, as long as the checkpoint has time.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::CheckpointFailureReason;
use highwater::state::{CheckpointStorage, ObjectPath};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, When};
use tempfile::TempDir;

use crate::pace::{Pace, Paced};
use crate::support::{NEVER, assert_counted, count, environment, storage, take_checkpoints, wait_until};

const SUBTASKS: u32 = 64;

/// Keeps a text of a kibibyte for each key.
#[derive(Default)]
struct Texts {
    text: ValueState<String>,
}

impl KeyedProcessFunction<u64, u64> for Texts {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.text = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("text"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, _: &mut Collector<u64>) -> Result<()> {
        self.text.update(cx, format!("{number:01024}"))?;
        Ok(())
    }
}

/// A job that has read all of its input but one record, each subtask of which has about a kibibyte of state, and that takes checkpoints only
/// when it is asked.
fn many_small_states(storage: Arc<dyn CheckpointStorage>, timeout: Duration) -> JobHandle {
    let env = environment("slow", storage);
    env.enable_checkpointing(Duration::from_secs(3_600)).set_checkpoint_timeout(timeout);
    env.set_tolerable_checkpoint_failures(u32::MAX).set_max_parallelism(u32::from(u8::MAX) + 1);
    let numbers = u64::from(SUBTASKS) * 4;
    let source = SequenceSource::new(0..numbers + 1);
    env.from_source(Paced::new(source, Some(Pace::up_to(numbers))))
        .key_by_value(|number| *number)
        .process(Texts::default)
        .uid("texts")
        .set_parallelism(SUBTASKS)
        .sink_to(CollectSink::new(CollectedRecords::default()));
    let handle = env.execute_async().unwrap();
    let taken = |status: JobStatus| {
        let texts = status.subtasks.iter().filter(|subtask| subtask.operator.as_str() == "texts");
        texts.map(|subtask| subtask.records_in).sum::<u64>()
    };
    wait_until("all records are in the state", || taken(handle.status()) == numbers);
    handle
}

fn folders(storage: &dyn CheckpointStorage) -> Vec<String> {
    let folders = pollster::block_on(storage.list_folders(&ObjectPath::new(["slow"]))).unwrap();
    folders.iter().map(|path| path.name().to_owned()).filter(|name| name != "log").collect()
}

/// Field case: R103.
#[test]
fn a_checkpoint_whose_puts_fail_three_times_each_completes_and_small_states_take_no_files() {
    let (faults, recording) = (Faults::default(), Recording::default());
    let recorded = Arc::new(RecordingStorage::new(storage(), recording.clone()));
    let handle = many_small_states(Arc::new(FaultyStorage::new(recorded, faults.clone())), Duration::from_secs(600));
    recording.take();
    for operation in [Operation::Create, Operation::CreateIfAbsent] {
        (1..=3).for_each(|nth| faults.arm(When::nth(operation, nth), Fault::FailBefore));
    }
    handle.trigger_checkpoint().wait().unwrap();
    assert_eq!(faults.remaining(), 0);
    let mut puts = recording.take();
    puts.retain(|call| matches!(call.operation, Operation::Finish | Operation::CreateIfAbsent) && call.error.is_none());
    let names: Vec<&str> = puts.iter().map(|call| call.path.name()).collect();
    assert_eq!(names.len(), 2, "metadata, with the states in it, and the log record: {names:?}");
    handle.cancel();
    handle.wait().unwrap_err();
}

/// Field case: R103.
///
/// Contract: J199.
#[test]
fn a_checkpoint_whose_puts_fail_for_ever_is_declined_in_time_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let inner = Arc::new(FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap());
    let faults = Faults::default();
    let handle =
        many_small_states(Arc::new(FaultyStorage::new(inner.clone(), faults.clone())), Duration::from_secs(12));
    faults.arm(When::every(Operation::Finish), Fault::FailBefore);
    let failure = handle.trigger_checkpoint().wait().unwrap_err();
    // Not `Expired`: whoever could not write says so before the time is up.
    assert_eq!(failure.reason, CheckpointFailureReason::AsyncException, "{failure}");
    assert!(failure.message.contains("tries have failed, the last one with: injected fault"), "{failure}");
    wait_until("it is counted", || handle.status().checkpoints_failed > 0);
    wait_until("nothing is left", || folders(&*inner).is_empty());
    // It works again: so do checkpoints.
    faults.clear();
    handle.trigger_checkpoint().wait().unwrap();
    assert_eq!((handle.status().checkpoints_failed, handle.status().restarts), (1, 0));
    handle.cancel();
    handle.wait().unwrap_err();
}

/// Field case: R103.
#[test]
fn a_restore_whose_first_reads_fail_succeeds() {
    let storage: Arc<dyn CheckpointStorage> = storage();
    let records = CollectedRecords::default();
    let env = environment("slow", storage.clone());
    count(&env, 1_000, Some(Pace::up_to(500)), &records, |_| Ok(()));
    crate::support::run_and_cancel(&env, 3);
    let faults = Faults::default();
    for operation in [Operation::List, Operation::ListFolders, Operation::Read, Operation::CreateIfAbsent] {
        (1..=3).for_each(|nth| faults.arm(When::nth(operation, nth), Fault::FailBefore));
    }
    let env = environment("slow", Arc::new(FaultyStorage::new(storage, faults)));
    env.set_restart_strategy(RestartStrategy::None);
    count(&env, 1_000, None, &records, |_| Ok(()));
    let status = env.execute().unwrap().status;
    assert!(status.restored_from.is_some());
    assert_counted(&records, 1_000);
}

#[test]
fn a_job_that_is_cancelled_does_not_wait_for_the_next_try() {
    let (faults, recording) = (Faults::default(), Recording::default());
    let faulty = Arc::new(FaultyStorage::new(storage(), faults.clone()));
    let recorded = Arc::new(RecordingStorage::new(faulty, recording.clone()));
    let handle = many_small_states(recorded, Duration::from_secs(600));
    let tries = || recording.calls().into_iter().filter(|call| call.operation == Operation::Create).count();
    let before = tries();
    faults.arm(When::every(Operation::Create), Fault::FailBefore);
    let pending = handle.trigger_checkpoint();
    // The next try is more than three seconds away.
    wait_until("it was tried six times", || tries() == before + 6);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    assert!(pending.wait().is_err());
    assert_eq!(tries(), before + 6);
}

/// One call that never returns stops no checkpoint for good.
#[test]
fn a_log_that_does_not_answer_is_asked_again() {
    let (faults, records) = (Faults::default(), CollectedRecords::default());
    let env = environment("silent", Arc::new(FaultyStorage::new(storage(), faults.clone())));
    env.enable_checkpointing(NEVER).set_checkpoint_timeout(Duration::from_secs(8));
    count(&env, 1_000, Some(Pace::up_to(500)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    take_checkpoints(&handle, 1);
    let (release, released) = sync_channel::<()>(0);
    let released = Mutex::new(released);
    let hang = move || {
        let _ = released.lock().unwrap().recv();
    };
    faults.arm(When::next(Operation::CreateIfAbsent), Fault::Delay(Arc::new(hang)));
    take_checkpoints(&handle, 2);
    assert_eq!((faults.remaining(), handle.status().restarts), (0, 0));
    drop(release);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}
