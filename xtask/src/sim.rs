//! `cargo xtask sim`: builds the simulation for speed, runs it, and says how long it took.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::Command;
use crate::cargo::{cargo, run};

/// Run the production tasks and machines in a simulated world, seed after seed
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Sim {
    /// What the simulation is asked to do: --iterations N, --seed S, --replay SEED, --planted NAME|all, --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Command for Sim {
    fn run(self) -> Result<ExitCode> {
        let package = ["--locked", "--release", "--package", "highwater-sim"];
        run(&mut cargo(&[&["build", "--quiet"], &package[..]].concat()))?;
        let started = Instant::now();
        let mut simulation = cargo(&[&["run", "--quiet"], &package[..], &["--"]].concat());
        let status = simulation.args(&self.arguments).status().context("cannot start the simulation")?;
        println!("{:.1} s", started.elapsed().as_secs_f64());
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
