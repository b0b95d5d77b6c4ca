//! The flights job on a state backend of your own: everything about the backend is in `backend.rs`.
//!
//! ```text
//! cargo run --release --example custom_backend
//! ```
//!
//! The job, its options and its progress are those of the `flights` example, unchanged; checkpoints are files. Killed
//! and run again, also with another `--parallelism`, it goes on where its last checkpoint is.

#![allow(clippy::print_stdout, reason = "the summary is for the person who ran it")]

mod backend;
#[path = "../flights/job.rs"]
mod job;
#[path = "../flights/options.rs"]
mod options;
#[path = "../flights/progress.rs"]
mod progress;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use backend::BTreeStateBackend;
use clap::{CommandFactory, FromArgMatches};
use highwater::FileSystemCheckpointStorage;
use highwater::prelude::*;
use options::{Backend, Options};

fn main() -> ExitCode {
    match parse().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the flights job, with directories of its own.
fn parse() -> Result<Options> {
    let command = Options::command()
        .name("custom_backend")
        .mut_arg("output", |output| output.default_value("target/custom_backend/output"))
        .mut_arg("checkpoints", |checkpoints| checkpoints.default_value("target/custom_backend/checkpoints"));
    Ok(Options::from_arg_matches(&command.get_matches())?)
}

fn run(options: &Options) -> Result<()> {
    if options.backend == Backend::Memory {
        bail!("this example brings its own backend and keeps checkpoints in files: leave `--backend` out");
    }
    options.start_trace()?;
    let env = StreamExecutionEnvironment::new("flights");
    env.set_keyed_state_backend(BTreeStateBackend)
        .set_checkpoint_storage(Arc::new(FileSystemCheckpointStorage::new(&options.checkpoints)?))
        // Only so that a month of flights reaches the backend: with the default most of it would stay in the cache
        // until a checkpoint is taken.
        .set_cached_rows_max(64);
    options.configure(&env);
    job::describe(&env, options)?;

    let result = progress::watch(env.execute_async()?)?;
    if result.outcome == JobOutcome::AlreadyFinished {
        println!("The job has finished already; its results are in {}. Nothing was changed.", options.output.display());
    } else {
        progress::print_summary(&result.status, &options.output);
    }
    Ok(())
}
