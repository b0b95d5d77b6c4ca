//! Workload A, `value_rmw`: read a counter, add one, write it back, under uniformly random keys; one thread, no job.
//!
//! An operation is: compute the key, hash it for its key group (not in a bare map), make it current, the state calls.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use hashbrown::HashMap;
use highwater::MemoryStateBackend;
use highwater::state::{
    BackendPairing, BincodeSerializer, JobName, KeyHash, KeyHasher, KeyedBackendParameters, KeyedState,
    KeyedStateStore, MaxParallelism, OperatorUid, RowSettings, ValueState, ValueStateDescriptor,
};

use crate::measure::{Spread, thread_ns};
use crate::stream::{event, key};

/// Records that are resolved together: what a batch of the data plane holds.
const BATCH: u64 = 1024;

/// What is to be measured.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) keys: u64,
    /// Operations in a pass.
    pub(crate) operations: u64,
    /// Measured passes of every contender, in turn, after one to warm up.
    pub(crate) passes: u64,
    /// Only contenders whose names contain this.
    pub(crate) only: String,
}

/// Something that counts.
trait Contender {
    /// Does the operations with these numbers.
    fn pass(&mut self, operations: std::ops::Range<u64>, keys: u64) -> Result<()>;

    /// The sum of all counters; `None` when it has none.
    fn sum(&mut self, keys: u64) -> Result<Option<u64>>;
}

/// Measures and prints a table.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let &Plan { keys, operations, passes, .. } = plan;
    let mut contenders: Vec<(&str, Box<dyn Contender>)> = vec![
        ("hashbrown, one call", Box::new(Bare::new(keys, false))),
        ("hashbrown, batches", Box::new(Bare::new(keys, true))),
        ("keyed state, one call, `value` + `update`", Box::new(Keyed::new(keys, Calls::One, Access::ValueUpdate)?)),
        ("keyed state, one call, `modify`", Box::new(Keyed::new(keys, Calls::One, Access::Modify)?)),
        ("keyed state, batches, `value` + `update`", Box::new(Keyed::new(keys, Calls::Batch, Access::ValueUpdate)?)),
        ("keyed state, batches, `modify`", Box::new(Keyed::new(keys, Calls::Batch, Access::Modify)?)),
        ("no state: keys and their hashes only", Box::new(KeysOnly::default())),
    ];
    contenders.retain(|(name, _)| name.contains(&plan.only));
    // Of each contender, processor and wall nanoseconds an operation, pass by pass.
    let mut measured = vec![(Vec::new(), Vec::new()); contenders.len()];
    for pass in 0..=passes {
        for turn in 0..contenders.len() {
            // Every pass begins with another contender, so that none always follows the same one.
            let at = (turn + pass as usize) % contenders.len();
            let (cpu, wall) = (thread_ns()?, Instant::now());
            contenders[at].1.pass(pass * operations..(pass + 1) * operations, keys)?;
            let (cpu, wall) = (thread_ns()? - cpu, wall.elapsed());
            if pass > 0 {
                measured[at].0.push(cpu as f64 / operations as f64);
                measured[at].1.push(wall.as_nanos() as f64 / operations as f64);
            }
        }
    }
    let expected = keys * (keys - 1) / 2 + (passes + 1) * operations;
    for (name, contender) in &mut contenders {
        let sum = contender.sum(keys)?;
        ensure!(sum.is_none_or(|sum| sum == expected), "{name}: the counters add up to {sum:?}, not to {expected}");
    }

    println!("\n### A. value_rmw: {keys} keys, {operations} operations a pass, {passes} passes\n");
    println!("Every contender's counters add up to {expected}.\n");
    println!("| contender | CPU ns an operation | wall ns an operation | CPU, of hashbrown one call |");
    println!("|---|---|---|---|");
    for ((name, _), (cpu, wall)) in contenders.iter().zip(&measured) {
        let ratio: Spread = cpu.iter().zip(&measured[0].0).map(|(own, bare)| own / bare).collect();
        let (cpu, wall): (Spread, Spread) = (cpu.iter().copied().collect(), wall.iter().copied().collect());
        println!("| {name} | {cpu} | {wall} | {ratio} |");
    }
    Ok(())
}

/// A hash map and nothing else.
struct Bare {
    counters: HashMap<u64, u64>,
    is_batched: bool,
    batch: Vec<u64>,
}

impl Bare {
    fn new(keys: u64, is_batched: bool) -> Self {
        Self { counters: (0..keys).map(|id| (key(id), id)).collect(), is_batched, batch: Vec::new() }
    }
}

impl Contender for Bare {
    fn pass(&mut self, operations: std::ops::Range<u64>, keys: u64) -> Result<()> {
        if !self.is_batched {
            for i in operations {
                if let Some(counter) = self.counters.get_mut(&event(i, keys)) {
                    *counter += 1;
                }
            }
            return Ok(());
        }
        for batch in batches(operations) {
            self.batch.clear();
            self.batch.extend(batch.map(|i| event(i, keys)));
            // Touched first, so that the cache misses of the batch overlap.
            black_box(self.batch.iter().filter_map(|key| self.counters.get(key)).fold(0, |all, counter| all ^ counter));
            for key in &self.batch {
                if let Some(counter) = self.counters.get_mut(key) {
                    *counter += 1;
                }
            }
        }
        Ok(())
    }

    fn sum(&mut self, _: u64) -> Result<Option<u64>> {
        Ok(Some(self.counters.values().sum()))
    }
}

fn batches(operations: std::ops::Range<u64>) -> impl Iterator<Item = std::ops::Range<u64>> {
    let end = operations.end;
    operations.step_by(BATCH as usize).map(move |start| start..end.min(start + BATCH))
}

#[derive(Clone, Copy, PartialEq)]
enum Calls {
    One,
    Batch,
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    ValueUpdate,
    Modify,
}

/// The keyed state of an operator subtask that owns all key groups, on the heap backend.
struct Keyed {
    state: KeyedState,
    counter: ValueState<u64>,
    hasher: KeyHasher,
    calls: Calls,
    access: Access,
    batch: Vec<u64>,
    hashes: Vec<KeyHash>,
}

impl Keyed {
    fn new(keys: u64, calls: Calls, access: Access) -> Result<Self> {
        let max_parallelism = MaxParallelism::new(128)?;
        let parameters = KeyedBackendParameters {
            job: JobName::new("value-rmw")?,
            operator: OperatorUid::new("counter")?,
            subtask: 0,
            max_parallelism,
            range: max_parallelism.all(),
        };
        let factory = BackendPairing::from(MemoryStateBackend::new()).state_backend;
        let backend = factory.create_keyed_backend(&parameters)?;
        let settings = RowSettings { cached_rows_max: 0, hash_seed: 0x5EED };
        let mut state = KeyedState::open::<u64>(backend, &parameters, Arc::new(BincodeSerializer::traced()), settings)?;
        let store: &mut dyn KeyedStateStore = &mut state;
        let counter = store.get_state(&ValueStateDescriptor::new("counter"))?;
        let mut keyed =
            Self { state, counter, hasher: KeyHasher::default(), calls, access, batch: Vec::new(), hashes: Vec::new() };
        for id in 0..keys {
            keyed.select(key(id))?;
            keyed.counter.update(&mut keyed.state, id)?;
        }
        keyed.state.end_batch()?;
        Ok(keyed)
    }

    #[inline]
    fn select(&mut self, key: u64) -> Result<()> {
        let hash = self.hasher.hash(&key)?;
        Ok(self.state.set_current_key(&key, hash)?)
    }

    #[inline]
    fn bump(&mut self) -> Result<()> {
        match self.access {
            Access::Modify => self.counter.modify(&mut self.state, |counter| *counter.get_or_insert(0) += 1)?,
            Access::ValueUpdate => {
                let counter = self.counter.value(&mut self.state)?.unwrap_or(0);
                self.counter.update(&mut self.state, counter + 1)?;
            }
        }
        Ok(())
    }
}

impl Contender for Keyed {
    fn pass(&mut self, operations: std::ops::Range<u64>, keys: u64) -> Result<()> {
        if self.calls == Calls::One {
            for i in operations {
                self.select(event(i, keys))?;
                self.bump()?;
            }
            return Ok(());
        }
        for batch in batches(operations) {
            self.batch.clear();
            self.batch.extend(batch.map(|i| event(i, keys)));
            self.hashes.clear();
            for key in &self.batch {
                self.hashes.push(self.hasher.hash(key)?);
            }
            self.state.resolve_batch(self.batch.iter().zip(self.hashes.iter().copied()))?;
            for index in 0..self.batch.len() {
                self.state.select(index)?;
                self.bump()?;
            }
            self.state.end_batch()?;
        }
        Ok(())
    }

    fn sum(&mut self, keys: u64) -> Result<Option<u64>> {
        let mut sum = 0;
        for id in 0..keys {
            self.select(key(id))?;
            sum += self.counter.value(&mut self.state)?.unwrap_or(0);
        }
        Ok(Some(sum))
    }
}

/// What is in the time of every contender with keyed state: the keys and their stable hashes.
#[derive(Default)]
struct KeysOnly(KeyHasher);

impl Contender for KeysOnly {
    fn pass(&mut self, operations: std::ops::Range<u64>, keys: u64) -> Result<()> {
        for i in operations {
            black_box(self.0.hash(&event(i, keys))?);
        }
        Ok(())
    }

    fn sum(&mut self, _: u64) -> Result<Option<u64>> {
        Ok(None)
    }
}
