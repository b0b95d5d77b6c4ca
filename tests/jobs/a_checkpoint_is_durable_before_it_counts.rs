//! State first, then metadata, then the record of the log: each is durable before what refers to it is begun.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::checkpoint::paths;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::{CheckpointStorage, JobName};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, When};

use crate::pace::Pace;
use crate::support::{count, environment, wait_for_checkpoints, wait_until};

const PARALLELISM: u32 = 3;

/// That each object is flushed before it has its name, and its folder before it is reported, is shown where files are
/// written: `everything_is_flushed_before_it_is_named`. Here is the order of whole objects: a call is recorded when it
/// has returned, which a storage may do only when the object is durable.
///
/// Field case: R45.
#[test]
fn state_before_metadata_before_the_log_before_anybody_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap();
    let recording = Recording::default();
    let recorded: Arc<dyn CheckpointStorage> = Arc::new(RecordingStorage::new(Arc::new(files), recording.clone()));
    // Around the recording: what waits here is not recorded yet.
    let faults = Faults::default();
    let storage = Arc::new(FaultyStorage::new(recorded, faults.clone()));

    let env = environment("orderly", storage);
    env.enable_checkpointing(Duration::from_secs(3_600)).set_parallelism(PARALLELISM);
    // With so many key groups each of three subtasks has some of the ten keys.
    env.set_max_parallelism(64);
    count(&env, 1_000, Some(Pace::up_to(100)), &CollectedRecords::default(), |_| Ok(()));
    let handle = env.execute_async().unwrap();
    let has_input = |status: JobStatus| {
        let counters = status.subtasks.iter().filter(|subtask| subtask.operator.as_str() == "counter");
        counters.filter(|subtask| subtask.records_in > 0).count() == PARALLELISM as usize
    };
    wait_until("every subtask has state", || has_input(handle.status()));
    recording.take();

    let (reached, wait_for_it) = mpsc::sync_channel(1);
    let (let_go, may_go_on) = mpsc::sync_channel::<()>(1);
    let may_go_on = Mutex::new(may_go_on);
    let hold = move || {
        reached.send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
    };
    // The claim has the number 1.
    let record = paths::log_record(&JobName::new("orderly").unwrap(), 2);
    faults.arm(When::next(Operation::CreateIfAbsent).named(record.name()), Fault::Delay(Arc::new(hold)));
    handle.trigger_checkpoint();
    wait_for_it.recv().unwrap();
    assert_eq!(handle.status().checkpoints_completed, 0, "the checkpoint was reported without its record");
    let before_the_record = recording.take();
    let_go.send(()).unwrap();
    wait_for_checkpoints(&handle, 1);
    let after = recording.take();
    handle.cancel();
    assert!(handle.wait().is_err());

    let calls: Vec<(Operation, &str)> =
        before_the_record.iter().map(|call| (call.operation, call.path.name())).collect();
    let metadata_begins = calls.iter().position(|(_, name)| *name == "_metadata").unwrap();
    let (state, metadata) = calls.split_at(metadata_begins);
    let objects = |of: Operation| -> BTreeSet<&str> {
        state.iter().filter(|(operation, _)| *operation == of).map(|(_, name)| *name).collect()
    };
    let durable = objects(Operation::Finish);
    assert_eq!(durable, objects(Operation::Create), "{calls:?}");
    // Whether a reader has a split left that it could write is another matter.
    let expected = ["counter-0", "counter-1", "counter-2", "sink-0.operator", "sink-1.operator", "sink-2.operator"];
    assert!(expected.iter().all(|name| durable.contains(name)), "{calls:?}");
    assert!(metadata.iter().all(|(_, name)| *name == "_metadata"), "{calls:?}");
    assert_eq!(metadata.last(), Some(&(Operation::Finish, "_metadata")), "{calls:?}");
    let first = after.first().map(|call| (call.operation, call.path.clone()));
    assert_eq!(first, Some((Operation::CreateIfAbsent, record)), "{after:?}");
}
