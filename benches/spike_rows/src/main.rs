//! The experiment: `compare`, `variants`, `freeze`, `groups`, or `memory <design> <types>`; see README.md.
#![expect(clippy::print_stdout, reason = "a benchmark program prints its results")]

mod bare;
mod beside;
mod index;
mod lines;
mod measure;
mod pages;
mod rows;
mod tables;
mod workload;

use std::error::Error;
use std::time::Instant;

use bare::Bare;
use beside::Beside;
use index::Index;
use lines::Lines;
use measure::{Entrant, Plan, Spread, compare, compare_with_snapshot, fill, resident_bytes};
use rows::{Hashed, Plain, Rows, Sweeps};
use tables::Tables;
use workload::{Contender, Key, Value};

const PLAN: Plan = Plan { keys: 1_000_000, batches: 1953, passes: 7 };

type Standard<K, V> = Rows<K, V, Option<K>, Index, 64>;
type InLines<K, V> = Rows<K, V, Option<K>, Lines, 64>;

fn standard<K: Key, V: Value>() -> Standard<K, V> {
    Rows::new(75, Sweeps::Split)
}

/// The two designs and the peer.
fn designs<K: Key, V: Value>(title: &str) {
    let mut entrants = [
        Entrant::new("B bare map", Bare::<K, V>::new()),
        Entrant::new("R rows", standard::<K, V>()),
        Entrant::new("R rows, index in lines", InLines::<K, V>::new(75, Sweeps::Split)),
        Entrant::new("T tables", Tables::<K, V>::new()),
    ];
    let offset = compare(title, &mut entrants, PLAN);
    compare_with_snapshot(&mut entrants, PLAN, offset);
}

/// Page size, key cell and way of resolving, for (R) alone.
fn variants<K: Key, V: Value>(title: &str) {
    let mut entrants = [
        Entrant::new("page 64, Option<key>", standard::<K, V>()),
        Entrant::new("page 64, value beside key", Beside::<K, V>::new()),
        Entrant::new("page 256, Option<key>", Rows::<K, V, Option<K>, Index, 256>::new(75, Sweeps::Split)),
        Entrant::new("page 64, key alone", Rows::<K, V, Plain<K>, Index, 64>::new(75, Sweeps::Split)),
        Entrant::new("page 64, hash beside key", Rows::<K, V, Hashed<K>, Index, 64>::new(75, Sweeps::Split)),
        Entrant::new("page 64, no sweeps", Standard::<K, V>::new(75, Sweeps::Joined)),
        Entrant::new("index in lines", InLines::<K, V>::new(75, Sweeps::Split)),
        Entrant::new("index in lines, no sweeps", InLines::<K, V>::new(75, Sweeps::Joined)),
        Entrant::new("index in lines, key alone", Rows::<K, V, Plain<K>, Lines, 64>::new(75, Sweeps::Split)),
    ];
    let offset = compare(title, &mut entrants, PLAN);
    compare_with_snapshot(&mut entrants[..3], PLAN, offset);
}

/// The same keys at two loads of the index; 780,000 keys sit just under the limit of 2^20 slots at 0.75.
fn loads<K: Key, V: Value>(title: &str) {
    let mut entrants = [
        Entrant::new("limit 0.75", standard::<K, V>()),
        Entrant::new("limit 0.50", Rows::<K, V, Option<K>, Index, 64>::new(50, Sweeps::Split)),
        Entrant::new("limit 0.875", Standard::<K, V>::new(87, Sweeps::Split)),
        Entrant::new("lines, limit 0.875", InLines::<K, V>::new(87, Sweeps::Split)),
        Entrant::new("bare map", Bare::<K, V>::new()),
    ];
    compare(title, &mut entrants, Plan { keys: 780_000, ..PLAN });
    let mut fuller = [
        Entrant::new("limit 0.75", standard::<K, V>()),
        Entrant::new("limit 0.875", Standard::<K, V>::new(87, Sweeps::Split)),
        Entrant::new("lines, limit 0.875", InLines::<K, V>::new(87, Sweeps::Split)),
        Entrant::new("bare map", Bare::<K, V>::new()),
    ];
    compare(title, &mut fuller, Plan { keys: 900_000, ..PLAN });
}

/// The time of a freeze alone, with the state owned (no older reader).
fn freezes<K: Key, V: Value>(title: &str) {
    for keys in [100_000, 1_000_000] {
        let mut entrants =
            [Entrant::new("R rows", standard::<K, V>()), Entrant::new("T tables", Tables::<K, V>::new())];
        for entrant in &mut entrants {
            fill(entrant.contender.as_mut(), keys);
            let mut owned = Spread::default();
            for round in 0..21 {
                let start = Instant::now();
                let reader = entrant.contender.freeze();
                owned.add(start.elapsed().as_nanos() as f64 / 1e3);
                drop(reader);
                // So many updates that every page and every table is owned again.
                measure::update(entrant.contender.as_mut(), keys, round, 200, measure::Mode::Batch);
            }
            println!("| {title} | {} | {keys} | {owned} |", entrant.name);
        }
    }
}

/// The pass that sorts rows by key group before a snapshot is written: hash computed or read.
fn groups<K: Key>(title: &str) {
    let mut computed = Rows::<K, u64, Option<K>, Index, 64>::new(75, Sweeps::Split);
    let mut stored = Rows::<K, u64, Hashed<K>, Index, 64>::new(75, Sweeps::Split);
    fill(&mut computed, PLAN.keys);
    fill(&mut stored, PLAN.keys);
    let (mut of_computed, mut of_stored) = (Spread::default(), Spread::default());
    for _ in 0..PLAN.passes {
        let start = Instant::now();
        let first = computed.count_key_groups();
        of_computed.add(start.elapsed().as_nanos() as f64 / PLAN.keys as f64);
        let start = Instant::now();
        let second = stored.count_key_groups();
        of_stored.add(start.elapsed().as_nanos() as f64 / PLAN.keys as f64);
        assert_eq!(first, second);
    }
    println!("| {title} | {of_computed} | {of_stored} |");
}

/// Resident bytes a key of one design; one design a process, since freed memory is not given back.
fn memory<K: Key, V: Value>(design: &str) -> Result<(), Box<dyn Error>> {
    let before = resident_bytes()?;
    let mut contender: Box<dyn Contender<K, V>> = match design {
        "bare" => Box::new(Bare::new()),
        "rows" => Box::new(standard()),
        "rows-key-alone" => Box::new(Rows::<K, V, Plain<K>, Index, 64>::new(75, Sweeps::Split)),
        "rows-hash" => Box::new(Rows::<K, V, Hashed<K>, Index, 64>::new(75, Sweeps::Split)),
        "tables" => Box::new(Tables::new()),
        other => return Err(format!("no design is called {other}").into()),
    };
    fill(contender.as_mut(), PLAN.keys);
    let per_key = |now: u64| (now - before) as f64 / PLAN.keys as f64;
    let filled = per_key(resident_bytes()?);
    let reader = contender.freeze();
    measure::update(contender.as_mut(), PLAN.keys, 0, 4 * PLAN.batches, measure::Mode::Batch);
    let copied = per_key(resident_bytes()?);
    drop(reader);
    println!("| {design} | {filled:.1} | {copied:.1} | {} |", contender.describe());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["compare"] => {
            designs::<u64, u64>("u64 to u64");
            designs::<String, u64>("String to u64");
            designs::<u64, String>("u64 to String");
        }
        ["variants"] => {
            variants::<u64, u64>("u64 to u64");
            variants::<String, u64>("String to u64");
            variants::<u64, String>("u64 to String");
        }
        ["loads"] => loads::<u64, u64>("u64 to u64"),
        ["freeze"] => {
            println!("| types | design | keys | freeze us |\n|---|---|---|---|");
            freezes::<u64, u64>("u64 to u64");
            freezes::<u64, String>("u64 to String");
        }
        ["groups"] => {
            println!("| key | hash computed, ns a row | hash stored, ns a row |\n|---|---|---|");
            groups::<u64>("u64");
            groups::<String>("String");
        }
        ["memory", design, "u64-u64"] => memory::<u64, u64>(design)?,
        ["memory", design, "String-u64"] => memory::<String, u64>(design)?,
        ["memory", design, "u64-String"] => memory::<u64, String>(design)?,
        _ => return Err("one of: compare, variants, loads, freeze, groups, memory <design> <types>".into()),
    }
    Ok(())
}
