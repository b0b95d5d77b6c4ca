//! Flights that left New York City: totals per carrier, and per origin and scheduled hour, exact after any kill.
//!
//! ```text
//! cargo run --release --example flights -- --help
//! ```
//!
//! Killed and run again with the same directories, also with another `--parallelism`, it goes on where its last
//! checkpoint is.

#![allow(clippy::print_stdout, reason = "the summary is for the person who ran it")]

mod job;
mod options;
mod progress;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use highwater::prelude::*;
use options::{Backend, Options};

/// Written into the output directory when the job has finished.
const FINISHED_MARK: &str = "_FINISHED";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    options.start_trace()?;
    let mark = options.output.join(FINISHED_MARK);
    let env = StreamExecutionEnvironment::new("flights");
    match options.backend {
        Backend::Fs => {
            env.set_state_backend(FsStateBackend::new(&options.checkpoints)?);
        }
        Backend::Memory => {
            if mark.exists() {
                return already_finished(&options.output);
            }
            refuse_unfinished(&options.output)?;
            env.set_state_backend(MemoryStateBackend::new().with_state_bytes_max(256 << 20));
        }
    }
    options.configure(&env);
    job::describe(&env, options)?;

    let handle = env.execute_async()?;
    let result = progress::watch(handle)?;
    if result.outcome == JobOutcome::AlreadyFinished {
        return already_finished(&options.output);
    }
    std::fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))?;
    progress::print_summary(&result.status, &options.output);
    Ok(())
}

fn already_finished(output: &Path) -> Result<()> {
    println!("The job has finished already; its results are in {}. Nothing was changed.", output.display());
    Ok(())
}

/// Checkpoints in memory are gone with the process that took them, so an unfinished run cannot be continued.
fn refuse_unfinished(output: &Path) -> Result<()> {
    let is_part = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().contains("part-");
    let has_files =
        |directory: &str| std::fs::read_dir(output.join(directory)).is_ok_and(|entries| entries.flatten().any(is_part));
    if has_files(job::PER_CARRIER) || has_files(job::HOURLY_BY_ORIGIN) {
        bail!(
            "{} holds the output of a run that has not finished. With `--backend memory` its checkpoints were lost with \
             its process, so it cannot be continued, and a new run would mix its rows with the old ones. \
             Remove the directory, choose another `--output`, or use `--backend fs`.",
            output.display()
        );
    }
    Ok(())
}
