//! Timing: passes of batches, alternated between the designs, and the tables that come out.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::workload::{BATCH, Contender, Key, SEED_PICK, Value, pick};

/// One call a record, or one call a batch.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Each,
    Batch,
}

/// What one pass took.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) ns_per_record: f64,
    pub(crate) longest_batch_ms: f64,
}

/// Smallest, median and largest of several measurements.
#[derive(Clone, Default)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn add(&mut self, measured: f64) {
        let at = self.0.partition_point(|other| *other < measured);
        self.0.insert(at, measured);
    }

    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median() < 10.0 { 2 } else { 1 };
        let [first, last] = [self.0.first(), self.0.last()].map(|end| end.copied().unwrap_or(f64::NAN));
        write!(out, "{first:.digits$} / {:.digits$} / {last:.digits$}", self.median())
    }
}

/// A design with its name and what was measured of it.
pub(crate) struct Entrant<K, V> {
    pub(crate) name: &'static str,
    pub(crate) contender: Box<dyn Contender<K, V>>,
    pub(crate) each: Spread,
    pub(crate) batch: Spread,
}

impl<K, V> Entrant<K, V> {
    pub(crate) fn new(name: &'static str, contender: impl Contender<K, V> + 'static) -> Self {
        Self { name, contender: Box::new(contender), each: Spread::default(), batch: Spread::default() }
    }
}

/// Inserts the keys of ids `0..n`, in batches.
pub(crate) fn fill<K: Key, V: Value>(contender: &mut dyn Contender<K, V>, n: u64) -> Pass {
    let mut keys = vec![K::default(); BATCH];
    timed(n.div_ceil(BATCH as u64), |batch| {
        let first = batch * BATCH as u64;
        let count = (n - first).min(BATCH as u64) as usize;
        for (j, key) in (first..).zip(&mut keys[..count]) {
            key.set(j);
        }
        let start = Instant::now();
        contender.fill(&keys[..count], first);
        (start.elapsed().as_nanos() as u64, count as u64)
    })
}

/// Updates `batches` batches of uniformly chosen keys, beginning at operation `offset` of the stream.
/// Making the keys is not in the time.
pub(crate) fn update<K: Key, V: Value>(
    contender: &mut dyn Contender<K, V>,
    n: u64,
    offset: u64,
    batches: u64,
    mode: Mode,
) -> Pass {
    let mut keys = vec![K::default(); BATCH];
    timed(batches, |batch| {
        let first = offset + batch * BATCH as u64;
        for (i, key) in (first..).zip(&mut keys) {
            key.set(pick(SEED_PICK, i, n));
        }
        let start = Instant::now();
        match mode {
            Mode::Each => contender.each(&keys),
            Mode::Batch => contender.batch(&keys),
        }
        (start.elapsed().as_nanos() as u64, BATCH as u64)
    })
}

fn timed(batches: u64, mut batch: impl FnMut(u64) -> (u64, u64)) -> Pass {
    let waits = Waits::new();
    let (mut total, mut longest, mut records) = (0, 0, 0);
    let mut waited = waits.ns();
    for at in 0..batches {
        let (ns, count) = batch(at);
        let now = waits.ns();
        let ns = ns.saturating_sub(now - waited);
        waited = now;
        total += ns;
        longest = longest.max(ns);
        records += count;
    }
    Pass { ns_per_record: total as f64 / records as f64, longest_batch_ms: longest as f64 / 1e6 }
}

/// How long this thread was ready to run but had no processor, as the kernel counts it.
///
/// Taken off the time of a batch, since other programs run on the same machine.
struct Waits(Option<File>);

impl Waits {
    fn new() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    fn ns(&self) -> u64 {
        let mut text = [0; 64];
        let Some(length) = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()) else { return 0 };
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
    }
}

/// What a comparison is made of.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) keys: u64,
    pub(crate) batches: u64,
    pub(crate) passes: u64,
}

/// Fills every design, then measures updates without a snapshot, the designs alternating pass by pass.
pub(crate) fn compare<K: Key, V: Value>(title: &str, entrants: &mut [Entrant<K, V>], plan: Plan) -> u64 {
    println!("\n### {title}, {} keys\n", plan.keys);
    println!("| design | fill ns | longest batch of the fill ms | |\n|---|---|---|---|");
    for entrant in entrants.iter_mut() {
        let pass = fill(entrant.contender.as_mut(), plan.keys);
        let about = entrant.contender.describe();
        println!("| {} | {:.1} | {:.2} | {about} |", entrant.name, pass.ns_per_record, pass.longest_batch_ms);
    }
    let mut offset = 0;
    for pass in 0..=plan.passes {
        for mode in [Mode::Each, Mode::Batch] {
            // Each pass begins with another design, so that none always follows the same one.
            for turn in 0..entrants.len() {
                let at = (turn + pass as usize) % entrants.len();
                let entrant = &mut entrants[at];
                let took = update(entrant.contender.as_mut(), plan.keys, offset, plan.batches, mode);
                match mode {
                    _ if pass == 0 => (), // warm-up
                    Mode::Each => entrant.each.add(took.ns_per_record),
                    Mode::Batch => entrant.batch.add(took.ns_per_record),
                }
            }
            offset += plan.batches * BATCH as u64;
        }
    }
    check_sums(entrants);
    let [each, batch] = [entrants[0].each.median(), entrants[0].batch.median()];
    println!(
        "\n| design | one call ns (min / median / max) | of the first | batch ns | of the first |\n|---|---|---|---|---|"
    );
    for Entrant { name, each: own_each, batch: own_batch, .. } in entrants.iter() {
        let (of_each, of_batch) = (own_each.median() / each, own_batch.median() / batch);
        println!("| {name} | {own_each} | {of_each:.2} | {own_batch} | {of_batch:.2} |");
    }
    offset
}

/// Measures updates while a reader of a snapshot is held, and just after it is gone.
pub(crate) fn compare_with_snapshot<K: Key, V: Value>(entrants: &mut [Entrant<K, V>], plan: Plan, mut offset: u64) {
    println!(
        "\n| design | call | freeze us | first pass ns | extra ms | longest batch ms | second pass ns | longest batch after the reader ms | reader's drop ms |\n|---|---|---|---|---|---|---|---|---|"
    );
    for mode in [Mode::Each, Mode::Batch] {
        let mut measured = vec![vec![Spread::default(); 7]; entrants.len()];
        for _ in 0..plan.passes {
            for (entrant, columns) in entrants.iter_mut().zip(&mut measured) {
                let contender = entrant.contender.as_mut();
                let before = contender.sum();
                let waits = Waits::new();
                let waited = waits.ns();
                let start = Instant::now();
                let reader = contender.freeze();
                let freeze = start.elapsed().as_nanos() as u64;
                let freeze = freeze.saturating_sub(waits.ns() - waited);
                let first = update(contender, plan.keys, offset, plan.batches, mode);
                let second = update(contender, plan.keys, offset, plan.batches, mode);
                if let Some(reader) = &reader {
                    assert_eq!(reader.sum(), before, "{}: the reader saw later updates", entrant.name);
                }
                let start = Instant::now();
                drop(reader);
                let drop = start.elapsed();
                let after = update(contender, plan.keys, offset, plan.batches, mode);
                let quiet = if mode == Mode::Each { entrant.each.median() } else { entrant.batch.median() };
                let extra = (first.ns_per_record - quiet) * (plan.batches * BATCH as u64) as f64 / 1e6;
                columns[0].add(freeze as f64 / 1e3);
                columns[1].add(first.ns_per_record);
                columns[2].add(extra);
                columns[3].add(first.longest_batch_ms);
                columns[4].add(second.ns_per_record);
                columns[5].add(after.longest_batch_ms);
                columns[6].add(drop.as_nanos() as f64 / 1e6);
            }
            offset += plan.batches * BATCH as u64;
        }
        let call = if mode == Mode::Each { "one" } else { "batch" };
        for (entrant, columns) in entrants.iter().zip(&measured) {
            let cells: Vec<String> = columns.iter().map(Spread::to_string).collect();
            println!("| {} | {call} | {} |", entrant.name, cells.join(" | "));
        }
        check_sums(entrants);
    }
}

/// Every design has seen the same updates, so every design must hold the same values.
fn check_sums<K: Key, V: Value>(entrants: &[Entrant<K, V>]) {
    let expected = entrants[0].contender.sum();
    for entrant in entrants {
        assert_eq!(entrant.contender.sum(), expected, "{} disagrees with {}", entrant.name, entrants[0].name);
    }
    println!("\nchecksum {expected}, equal in all designs");
}

/// Resident bytes of this process, from the kernel.
pub(crate) fn resident_bytes() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    Ok(pages * 4096)
}
