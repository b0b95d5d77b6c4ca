//! A storage with a limit: a larger state is declined with both numbers, and what was complete before stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater::MemoryCheckpointStorage;
use highwater::checkpoint::{AttemptFailure, CheckpointFailure, DeclineReason};
use highwater::prelude::*;

use crate::support::{Notes, endless, environment, run_and_cancel, storage};

const LIMIT: usize = 5 * 1024 * 1024;

/// Bytes around the one element: its length as a LEB128 number of four bytes, and the length that bincode writes.
const FRAME_BYTES: usize = 4 + 8;

/// Has a state of so many bytes, serialised, from its second snapshot on.
struct Large {
    bytes: Arc<AtomicUsize>,
    snapshots: usize,
    state: OperatorListState<String>,
    restored: Notes<usize>,
}

impl ProcessFunction<u64> for Large {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.state = cx.operator_state_store().get_list_state(&ListStateDescriptor::new("state"))?;
        self.restored.note(self.state.get(cx)?.first().map_or(0, String::len));
        Ok(())
    }

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        self.snapshots += 1;
        let bytes = if self.snapshots == 1 { 100 } else { self.bytes.load(Ordering::SeqCst) };
        Ok(self.state.update(cx, ["x".repeat(bytes - FRAME_BYTES)])?)
    }
}

fn large(storage: MemoryCheckpointStorage, bytes: usize, restored: &Notes<usize>) -> StreamExecutionEnvironment {
    let env = environment("large", Arc::new(storage));
    env.set_restart_strategy(RestartStrategy::None).set_tolerable_checkpoint_failures(0);
    let (bytes, restored) = (Arc::new(AtomicUsize::new(bytes)), restored.clone());
    env.from_source(endless(1))
        .process(move || Large {
            bytes: bytes.clone(),
            snapshots: 0,
            state: OperatorListState::default(),
            restored: restored.clone(),
        })
        .uid("large")
        .sink_to(CollectSink::default());
    env
}

/// Field case: R85.
#[test]
fn with_both_numbers() {
    let shared = storage();
    let storage = || (*shared).clone();
    let restored = Notes::new();
    run_and_cancel(&large(storage(), LIMIT, &restored), 3);
    assert_eq!(restored.take(), [0]);

    for bytes in [LIMIT + 1, 14_068_058] {
        let error = large(storage(), bytes, &restored).execute().unwrap_err();
        let JobError::Coordinator(AttemptFailure::TooManyFailedCheckpoints { failure, .. }) = error.cause() else {
            panic!("{error:?}");
        };
        let CheckpointFailure::Declined { reason: DeclineReason::AsyncFailed, message } = failure else {
            panic!("{failure:?}");
        };
        let expected = format!("the state has {bytes} bytes, the storage takes at most {LIMIT} bytes a state");
        assert!(message.contains(&expected), "{message}");
    }
    // The first run's last checkpoint had the large state, the second run's the small one of its first snapshot.
    assert_eq!(restored.take(), [LIMIT - FRAME_BYTES, 100 - FRAME_BYTES]);

    for bytes in [LIMIT, LIMIT + 1, 14_068_058] {
        run_and_cancel(&large(storage().with_state_bytes_max(32 << 20), bytes, &restored), 3);
    }
    let expected = [100, LIMIT, LIMIT + 1].map(|bytes| bytes - FRAME_BYTES);
    assert_eq!(restored.take(), expected);
}
