//! The simulation as a program; `cargo xtask sim` builds and runs it.
#![allow(clippy::print_stdout, reason = "a command line tool speaks on standard output")]

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use highwater_sim::{Coverage, Planted, Run, run, search};

/// Within how many seeds a planted bug must be caught.
const PLANTED_SEEDS: u64 = 5_000;

/// Run the production tasks and machines in a simulated world, seed after seed
#[derive(Parser)]
#[command(name = "highwater-sim", bin_name = "cargo xtask sim")]
struct Options {
    /// How many seeds are run
    #[arg(long, default_value_t = 1_000)]
    iterations: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this seed alone and print its whole trace
    #[arg(long, conflicts_with = "iterations")]
    replay: Option<u64>,
    /// Plant a bug, or `all` one after another, and demand that it is caught
    #[arg(long)]
    planted: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let planted = match options.planted.as_deref() {
        None => None,
        Some("all") => return plant_all(options.seed),
        Some(name) => match Planted::from_str(name, false) {
            Ok(planted) => Some(planted),
            Err(_) => {
                let names: Vec<String> = Planted::value_variants().iter().map(ToString::to_string).collect();
                eprintln!("error: no planted bug is called {name:?}; there are all, {}", names.join(", "));
                return ExitCode::FAILURE;
            }
        },
    };
    match (options.replay, planted) {
        (Some(seed), planted) => replay(seed, planted),
        (None, Some(planted)) => exit(plant(planted, options.seed)),
        (None, None) => hunt(options.seed, options.iterations),
    }
}

fn exit(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, planted: Option<Planted>) -> ExitCode {
    let run = run(seed, planted, true);
    run.lines.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}, trace {}", run.trace_hash);
    match &run.violation {
        None => println!("no violation"),
        Some(violation) => println!("violation of {violation}"),
    }
    exit(run.violation.is_none())
}

fn hunt(first: u64, iterations: u64) -> ExitCode {
    let mut coverage = Coverage::default();
    let last = first.saturating_add(iterations.saturating_sub(1));
    let every = (iterations / 10).max(1);
    let violated = search(first..=last, None, &mut coverage, |seed| {
        let done = seed - first + 1;
        if done.is_multiple_of(every) {
            println!("{done} of {iterations} seeds");
        }
    });
    print!("{coverage}");
    match violated {
        None => {
            println!("{iterations} seeds from {first}: no violation");
            ExitCode::SUCCESS
        }
        Some(run) => {
            explain(&run, None);
            ExitCode::FAILURE
        }
    }
}

fn plant_all(first: u64) -> ExitCode {
    let caught: Vec<bool> = Planted::value_variants().iter().map(|planted| plant(*planted, first)).collect();
    exit(caught.into_iter().all(|caught| caught))
}

fn plant(planted: Planted, first: u64) -> bool {
    let mut coverage = Coverage::default();
    let run = search(first..first.saturating_add(PLANTED_SEEDS), Some(planted), &mut coverage, |_| ());
    match run.as_ref().and_then(|run| Some((run.seed, run.violation.as_ref()?))) {
        Some((seed, violation)) => println!("{planted:<28}  caught by seed {seed:>4}  {violation}"),
        None => println!("{planted:<28}  NOT CAUGHT within {PLANTED_SEEDS} seeds from {first}"),
    }
    run.is_some()
}

fn explain(run: &Run, planted: Option<Planted>) {
    println!("the last lines of the trace:");
    run.lines.iter().for_each(|line| println!("{line}"));
    if let Some(violation) = &run.violation {
        println!("seed {}: violation of {violation}", run.seed);
    }
    let planted = planted.map(|planted| format!(" --planted {planted}")).unwrap_or_default();
    println!("replay it: cargo xtask sim --replay {}{planted}", run.seed);
}
