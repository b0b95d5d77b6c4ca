//! `cargo xtask sim`: builds the simulation for speed, runs it, and says how long it took.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::Command;
use crate::cargo::{announce, cargo, run};

/// Run the production tasks and machines in a simulated world, seed after seed
#[derive(clap::Args)]
pub(crate) struct Sim {
    /// What the simulation is asked to do: --iterations N (how many seeds; 1000), --seed S (the first; 1), --replay SEED (one
    /// seed with its whole trace), --planted NAME|all (a bug that must be caught); after `--`, --help says it in its own words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Command for Sim {
    fn run(self) -> Result<ExitCode> {
        let package = ["--locked", "--release", "--package", "highwater-sim"];
        announce("the simulation for release");
        run(&mut cargo(&[&["build", "--quiet"], &package[..]].concat()))?;
        let started = Instant::now();
        let mut simulation = cargo(&[&["run", "--quiet"], &package[..], &["--"]].concat());
        let status = simulation.args(&self.arguments).status().context("cannot start the simulation")?;
        println!("{:.1} s", started.elapsed().as_secs_f64());
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
