//! The keyed count as a job: source, hash exchange, a counter for each key in heap state, and a sink that adds up.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result as AnyResult, ensure};
use highwater::connectors::SplitQueue;
use highwater::prelude::*;
use highwater::state::CheckpointId;
use highwater::stream::{CommitError, PollContext, Polled, SinkContext, SinkWriter, SourceReader};
use serde::{Deserialize, Serialize};

use super::{Size, Tally};
use crate::stream::event;

/// Runs the job; returns what there is to say of its checkpoints.
///
/// Without an interval there is one checkpoint all the same, when the input has ended. The time that is measured ends
/// as the last sink takes part in it: all records are at the sinks then, and nothing has been written.
pub(super) fn run(size: Size, parallelism: u32, interval_ms: Option<u64>, tally: &Arc<Tally>) -> AnyResult<String> {
    let directory = tempfile::tempdir()?;
    let env = StreamExecutionEnvironment::new("keyed-count");
    env.set_state_backend(FsStateBackend::new(directory.path())?)
        .set_parallelism(parallelism)
        .set_max_parallelism(128)
        .set_restart_strategy(RestartStrategy::None);
    if let Some(interval) = interval_ms {
        env.enable_checkpointing(Duration::from_millis(interval));
    }
    env.from_source(KeySource { size, splits: u64::from(parallelism), tally: tally.clone() })
        .key_by(|key| key)
        .process(Count::default)
        .uid("count")
        .sink_to(AddUp { size, tally: tally.clone() });
    let status = env.execute()?.status;
    ensure!(status.checkpoints_failed == 0, "{} checkpoints failed", status.checkpoints_failed);
    let completed = status.checkpoints_completed;
    Ok(match interval_ms {
        Some(_) => format!("{completed} checkpoints in the last run"),
        None => String::new(),
    })
}

/// Makes the records: split `s` of `p` makes those with the numbers `s`, `s + p`, `s + 2p`, …
struct KeySource {
    size: Size,
    splits: u64,
    tally: Arc<Tally>,
}

/// The number of the next record of a split, and the step to the one after it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug, Clone, Copy, Serialize, Deserialize)]
struct KeySplit {
    next: u64,
    step: u64,
}

impl Source for KeySource {
    type Out = u64;
    type Split = KeySplit;
    type Enumerator = SplitQueue<KeySplit>;
    type Reader = KeyReader;

    fn create_enumerator(&self) -> Result<Self::Enumerator> {
        Ok(SplitQueue::new((0..self.splits).map(|next| KeySplit { next, step: self.splits })))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator> {
        Ok(SplitQueue::restore(state)?)
    }

    fn create_reader(&self, _: u32) -> Result<KeyReader> {
        Ok(KeyReader { size: self.size, tally: self.tally.clone(), split: None })
    }
}

struct KeyReader {
    size: Size,
    tally: Arc<Tally>,
    split: Option<KeySplit>,
}

impl SourceReader for KeyReader {
    type Out = u64;
    type Split = KeySplit;

    fn add_split(&mut self, split: KeySplit) -> Result<()> {
        self.tally.start()?;
        self.split = Some(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<u64>) -> Result<Polled> {
        let Some(split) = &mut self.split else { return Ok(Polled::NeedSplit) };
        for _ in 0..cx.records_max {
            if split.next >= self.size.events {
                self.split = None;
                return Ok(Polled::NeedSplit);
            }
            out.collect(event(split.next, self.size.keys));
            split.next += split.step;
        }
        Ok(Polled::More)
    }

    fn snapshot(&mut self, _: highwater::state::CheckpointId) -> Result<Vec<KeySplit>> {
        Ok(self.split.into_iter().collect())
    }
}

/// Counts the records of each key.
#[derive(Default)]
struct Count {
    count: ValueState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Count {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process(&mut self, _: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        let count = self.count.value(cx)?.unwrap_or(0) + 1;
        self.count.update(cx, count)?;
        out.collect(count);
        Ok(())
    }
}

/// Adds up what comes, and says so whenever a checkpoint comes by; the last one does when the input has ended.
struct AddUp {
    size: Size,
    tally: Arc<Tally>,
}

impl Sink for AddUp {
    type In = u64;
    type Transaction = ();
    type Writer = AddUpWriter;

    fn create_writer(&self, _: &SinkContext) -> Result<AddUpWriter> {
        Ok(AddUpWriter { size: self.size, tally: self.tally.clone(), records: 0, checksum: 0 })
    }

    fn commit(&self, (): &()) -> Result<(), CommitError> {
        Ok(())
    }
}

struct AddUpWriter {
    size: Size,
    tally: Arc<Tally>,
    records: u64,
    checksum: u64,
}

impl SinkWriter for AddUpWriter {
    type In = u64;
    type Transaction = ();

    fn write(&mut self, count: u64, _: Timestamp) -> Result<()> {
        self.records += 1;
        self.checksum += count;
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Option<()>> {
        self.tally.add(std::mem::take(&mut self.records), std::mem::take(&mut self.checksum), self.size)?;
        Ok(None)
    }
}
