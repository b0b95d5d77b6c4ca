//! "From the latest record on" is decided once, as positions: what was found at the first start is in every checkpoint, be a
//! partition empty or not, handed to a reader or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::connectors::{CollectedRecords, SplitQueue};
use highwater::prelude::*;
use highwater::state::CheckpointId;
use highwater::stream::{BoxedError, PollContext, Polled, SourceReader};
use serde::{Deserialize, Serialize};

use crate::support::{environment, storage, wait_until};

/// A partition and the position of the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Position {
    partition: char,
    next: usize,
}

/// Partitions that records are appended to.
#[derive(Clone, Default)]
struct Log {
    partitions: Arc<Mutex<BTreeMap<char, Vec<String>>>>,
    /// The positions that readers were given, in this run.
    given: Arc<Mutex<Vec<Position>>>,
}

impl Log {
    fn with(lengths: &[(char, usize)]) -> Self {
        let log = Self::default();
        lengths.iter().for_each(|(partition, length)| log.append(*partition, *length));
        log
    }

    /// Appends records that are named by partition and position.
    fn append(&self, partition: char, records: usize) {
        let mut partitions = self.partitions.lock().unwrap();
        let content = partitions.entry(partition).or_default();
        let next = content.len();
        content.extend((next..next + records).map(|position| format!("{partition}{position}")));
    }
}

/// Reads a log from its end on.
#[derive(Clone)]
struct FromLatest(Log);

struct Reader {
    log: Log,
    at: Vec<Position>,
}

impl Source for FromLatest {
    type Out = String;
    type Split = Position;
    type Enumerator = SplitQueue<Position>;
    type Reader = Reader;

    fn create_enumerator(&self) -> Result<Self::Enumerator, BoxedError> {
        let partitions = self.0.partitions.lock().unwrap();
        let latest =
            partitions.iter().map(|(partition, content)| Position { partition: *partition, next: content.len() });
        Ok(SplitQueue::new(latest))
    }

    fn restore_enumerator(&self, state: &[u8]) -> Result<Self::Enumerator, BoxedError> {
        Ok(SplitQueue::restore(state)?)
    }

    fn create_reader(&self, _: u32) -> Result<Reader, BoxedError> {
        Ok(Reader { log: self.0.clone(), at: Vec::new() })
    }
}

impl SourceReader for Reader {
    type Out = String;
    type Split = Position;

    fn add_split(&mut self, split: Position) -> Result<(), BoxedError> {
        self.log.given.lock().unwrap().push(split);
        self.at.push(split);
        Ok(())
    }

    fn poll(&mut self, cx: &PollContext<'_>, out: &mut Collector<String>) -> Result<Polled, BoxedError> {
        let partitions = self.log.partitions.lock().unwrap();
        for position in &mut self.at {
            let new = partitions[&position.partition].iter().skip(position.next).take(cx.records_max);
            let before = out.len();
            new.for_each(|record| out.collect(record.clone()));
            position.next += out.len() - before;
        }
        Ok(Polled::Idle(Some(cx.now + Duration::from_millis(1))))
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<Position>, BoxedError> {
        Ok(self.at.clone())
    }
}

/// Runs the job and gives the positions that its readers were given.
fn run(
    env: &StreamExecutionEnvironment,
    log: &Log,
    records: &CollectedRecords<String>,
    is_enough: impl Fn(&JobHandle) -> bool,
) -> Vec<Position> {
    log.given.lock().unwrap().clear();
    env.from_source(FromLatest(log.clone())).sink_to(CollectSink::new(records.clone()));
    let handle = env.execute_async().unwrap();
    wait_until("the job has come far enough", || is_enough(&handle));
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    let mut given = log.given.lock().unwrap().clone();
    given.sort_unstable();
    given
}

fn at(partition: char, next: usize) -> Position {
    Position { partition, next }
}

/// Takes a checkpoint without any record at one parallelism, appends, and goes on at another.
fn goes_on(lengths: &[(char, usize)], parallelism: [u32; 2], appended: usize, first_given: &[Position]) {
    let (storage, log, records) = (storage(), Log::with(lengths), CollectedRecords::default());
    let env = environment("latest", storage.clone());
    env.set_parallelism(parallelism[0]);
    let given = run(&env, &log, &records, |handle| {
        handle.status().checkpoints_completed > 0 && log.given.lock().unwrap().len() == first_given.len()
    });
    assert_eq!(given, first_given);

    lengths.iter().for_each(|(partition, _)| log.append(*partition, appended));
    let env = environment("latest", storage);
    env.set_parallelism(parallelism[1]);
    let expected = lengths.len() * appended;
    let given = run(&env, &log, &records, |_| records.to_vec().len() >= expected);
    // What is in the checkpoint is a position, for every partition.
    assert_eq!(given, lengths.iter().map(|(partition, length)| at(*partition, *length)).collect::<Vec<_>>());
    let mut found = records.to_vec();
    found.sort();
    let new = |(partition, length): &(char, usize)| {
        (*length..length + appended).map(|position| format!("{partition}{position}")).collect::<Vec<_>>()
    };
    assert_eq!(found, lengths.iter().flat_map(new).collect::<Vec<_>>());
}

/// Contract: R321.
/// Field case: R91.
#[test]
fn also_of_a_partition_that_was_empty() {
    goes_on(&[('C', 0), ('D', 7)], [2, 2], 1, &[at('C', 0), at('D', 7)]);
}

/// Contract: R321.
/// Field case: R93.
#[test]
fn also_of_partitions_that_nobody_read() {
    goes_on(&[('P', 10), ('Q', 20), ('R', 30)], [1, 3], 5, &[at('P', 10)]);
}
