//! Workload B, keyed count: source, exchange by key, a counter for each key, and a sink that adds up what it sees.
//!
//! A record is its own key. The sum of all counts does not depend on the order of the records, so every program must
//! come to the same.

mod bare;
mod job;
mod timely_peer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::measure::{Moment, Spread, Took};

/// Records and keys of the standard size, and the sum of the counts that they give.
const STANDARD: (u64, u64, u64) = (10_000_000, 1_000_000, 60_000_482);

/// What is to be measured.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) events: u64,
    pub(crate) keys: u64,
    /// Subtasks of each task of a job, workers of timely.
    pub(crate) parallelism: Vec<u32>,
    pub(crate) checkpoint_interval_ms: u64,
    /// Measured runs of every program, in turn, after one to warm up.
    pub(crate) rounds: usize,
    /// Only programs whose names contain this.
    pub(crate) only: String,
}

/// The stream that a program counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) events: u64,
    pub(crate) keys: u64,
}

/// What a program's sinks have seen, and when the first record was made and the last one seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    records: AtomicU64,
    checksum: AtomicU64,
    moments: Mutex<(Option<Moment>, Option<Moment>)>,
}

impl Tally {
    /// A record is about to be made.
    pub(crate) fn start(&self) -> Result<()> {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        if moments.0.is_none() {
            moments.0 = Some(Moment::now()?);
        }
        Ok(())
    }

    /// A sink has seen these; with the last record the time ends.
    pub(crate) fn add(&self, records: u64, checksum: u64, size: Size) -> Result<()> {
        self.checksum.fetch_add(checksum, Ordering::Relaxed);
        if self.records.fetch_add(records, Ordering::AcqRel) + records == size.events {
            self.moments.lock().unwrap_or_else(PoisonError::into_inner).1.get_or_insert(Moment::now()?);
        }
        Ok(())
    }

    fn took(&self, expected: u64, size: Size) -> Result<Took> {
        let (records, checksum) = (self.records.load(Ordering::Acquire), self.checksum.load(Ordering::Relaxed));
        ensure!(records == size.events, "{records} records came to the sink, not {}", size.events);
        ensure!(checksum == expected, "the checksum is {checksum}, not {expected}");
        let moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (moments.0.context("it never started")?, moments.1.context("it never ended")?);
        Ok(start.until(&end))
    }
}

/// Runs a program once; returns a remark.
type Run = Box<dyn Fn(&Arc<Tally>) -> Result<String>>;

/// A program with its name and what was measured.
struct Entrant {
    name: String,
    run: Run,
    took: Vec<Took>,
    remark: String,
}

/// Measures and prints a table.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let size = Size { events: plan.events, keys: plan.keys };
    let mut entrants = entrants(plan, size);
    entrants.retain(|entrant| entrant.name.contains(&plan.only));
    let expected = bare::checksum(size);
    if (plan.events, plan.keys) == (STANDARD.0, STANDARD.1) {
        ensure!(expected == STANDARD.2, "the key stream is another: the checksum is {expected}");
    }
    for round in 0..=plan.rounds {
        for turn in 0..entrants.len() {
            let at = (turn + round) % entrants.len();
            let entrant = &mut entrants[at];
            let tally = Arc::new(Tally::default());
            entrant.remark = (entrant.run)(&tally).with_context(|| entrant.name.clone())?;
            let took = tally.took(expected, size).with_context(|| entrant.name.clone())?;
            if round > 0 {
                entrant.took.push(took);
            }
        }
    }
    print(plan, expected, &entrants);
    Ok(())
}

fn entrants(plan: &Plan, size: Size) -> Vec<Entrant> {
    let mut entrants = Vec::new();
    let mut enter = |name: String, run: Run| {
        entrants.push(Entrant { name, run, took: Vec::new(), remark: String::new() });
    };
    enter("bare loop".to_owned(), Box::new(move |tally| bare::run(size, tally).map(|()| String::new())));
    for &parallelism in &plan.parallelism {
        let peer = move |tally: &_| timely_peer::run(size, parallelism, tally).map(|()| String::new());
        enter(format!("timely, p = {parallelism}"), Box::new(peer));
        let without = move |tally: &_| job::run(size, parallelism, None, tally);
        enter(format!("highwater, p = {parallelism}, no checkpoints"), Box::new(without));
        let interval = plan.checkpoint_interval_ms;
        let with = move |tally: &_| job::run(size, parallelism, Some(interval), tally);
        enter(format!("highwater, p = {parallelism}, every {interval} ms"), Box::new(with));
    }
    entrants
}

fn print(plan: &Plan, expected: u64, entrants: &[Entrant]) {
    let Plan { events, keys, rounds, .. } = plan;
    println!("\n### B. keyed count: {events} records over {keys} keys, {rounds} rounds\n");
    println!("Every program has {events} records at its sink and the checksum {expected}.\n");
    println!(
        "| program | M events/s | CPU ns an event | CPU seconds | events/s, of timely | CPU, of timely | CPU, of bare loop | others' processors | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let ratio = |own: &Entrant, other: Option<&Entrant>, of: &dyn Fn(&Took) -> f64| {
        let other = other.into_iter().flat_map(|other| &other.took);
        own.took.iter().zip(other).map(|(own, other)| of(own) / of(other)).collect::<Spread>()
    };
    for entrant in entrants {
        let spread = |of: &dyn Fn(&Took) -> f64| entrant.took.iter().map(of).collect::<Spread>();
        let throughput = spread(&|took| *events as f64 / took.wall / 1e6);
        let nanoseconds = spread(&|took| took.cpu * 1e9 / *events as f64);
        let peer = entrants.iter().find(|peer| {
            peer.name.strip_prefix("timely, ").is_some_and(|p| entrant.name.contains(p) || entrant.name == "bare loop")
        });
        let bare = entrants.iter().find(|bare| bare.name == "bare loop");
        let faster = ratio(entrant, peer, &|took| 1.0 / took.wall);
        let cpu = ratio(entrant, peer, &|took| took.cpu);
        let of_bare = ratio(entrant, bare, &|took| took.cpu);
        let seconds = spread(&|took| took.cpu);
        let others = spread(&|took| took.others);
        let Entrant { name, remark, .. } = entrant;
        println!(
            "| {name} | {throughput} | {nanoseconds} | {seconds} | {faster} | {cpu} | {of_bare} | {others} | {remark} |"
        );
    }
}
