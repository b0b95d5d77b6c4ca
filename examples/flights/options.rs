//! The options of the flights job.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use highwater::prelude::*;

/// Where state and checkpoints are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// On the heap, checkpoints in memory: gone with the process.
    Memory,
    /// On the heap, checkpoints in files.
    Fs,
}

/// Totals of the flights that left New York City, per carrier and per origin and hour.
#[derive(Debug, Clone, Parser)]
#[command(name = "flights")]
pub(crate) struct Options {
    /// The flights: a CSV file, plain or compressed with gzip, or a pattern such as `flights/*.csv`.
    #[arg(long, default_value = "data/flights-2013-01.csv.gz")]
    pub(crate) input: PathBuf,
    /// The names of the carriers, a CSV file.
    #[arg(long, default_value = "data/airlines.csv")]
    pub(crate) airlines: PathBuf,
    /// Where the results go, into `per_carrier` and `hourly_by_origin`.
    #[arg(long, default_value = "target/flights/output")]
    pub(crate) output: PathBuf,
    /// Where checkpoints are kept with `--backend fs`.
    #[arg(long, default_value = "target/flights/checkpoints")]
    pub(crate) checkpoints: PathBuf,
    /// Where state and checkpoints are kept.
    #[arg(long, value_enum, default_value = "fs")]
    pub(crate) backend: Backend,
    /// Number of parallel subtasks of each task; may differ from run to run.
    #[arg(long, default_value_t = 2)]
    pub(crate) parallelism: u32,
    /// Time between checkpoints, in milliseconds.
    #[arg(long, default_value_t = 200)]
    pub(crate) interval_ms: u64,
    /// Read no more than this many flights a second.
    #[arg(long, value_name = "RECORDS_PER_SECOND")]
    pub(crate) throttle: Option<NonZeroU64>,
    /// How many hours of event time flights may come later than later ones.
    #[arg(long, value_name = "HOURS", default_value_t = 0)]
    pub(crate) out_of_orderness: u64,
    /// How many restarts there are when a task fails.
    #[arg(long, default_value_t = 3)]
    pub(crate) restarts: u32,
    /// Wait while another process runs the job, and take over when its lease of so many milliseconds has run out.
    #[arg(long, value_name = "LEASE_MS")]
    pub(crate) standby_lease_ms: Option<u64>,
    /// Append what happens to the job and its checkpoints to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

impl Options {
    /// Applies the options that are the same for every backend.
    pub(crate) fn configure(&self, env: &StreamExecutionEnvironment) {
        env.enable_checkpointing(Duration::from_millis(self.interval_ms))
            .set_parallelism(self.parallelism)
            .set_restart_strategy(RestartStrategy::FixedDelay { attempts: self.restarts, delay_ms: 100 });
        if let Some(lease_ms) = self.standby_lease_ms {
            env.set_standby(true).set_lease_duration(Duration::from_millis(lease_ms));
        }
    }

    /// Starts to append to the trace file, if one was asked for.
    pub(crate) fn start_trace(&self) -> Result<()> {
        let Some(path) = &self.trace else { return Ok(()) };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open the trace file {}", path.display()))?;
        tracing_subscriber::fmt()
            .with_env_filter("highwater=debug")
            .with_ansi(false)
            .with_thread_ids(true)
            .with_writer(Mutex::new(file))
            .init();
        Ok(())
    }
}
