//! A round: one job from its beginning to its end, in directories of its own, over as many processes as it takes.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::golden::{Committed, Golden};
use super::plan::Kill;
use super::process::{Ended, Process};
use super::report::{Killed, describe_start};
use super::trace::Start;
use crate::cargo::root;

/// Flights in a year, and some: an upper limit of how long an input may keep a job busy.
const RECORDS_MAX: u64 = 400_000;

/// What is the same in all rounds.
pub(crate) struct Settings {
    pub(crate) program: PathBuf,
    pub(crate) input: PathBuf,
    pub(crate) throttle: NonZeroU64,
    pub(crate) interval_ms: u64,
    pub(crate) golden: Golden,
}

/// One job.
pub(crate) struct Round<'a> {
    settings: &'a Settings,
    number: u32,
    directory: PathBuf,
    processes: u32,
    /// Nobody has seen more complete than this checkpoint: a start must not go back behind it.
    last_complete: Option<u64>,
    /// Checkpoints whose metadata was written: a start can go on from these only.
    metadata_written: BTreeSet<u64>,
    committed: Committed,
}

impl<'a> Round<'a> {
    pub(crate) fn begin(settings: &'a Settings, number: u32, directory: &Path) -> Result<Self> {
        let directory = directory.join(format!("round-{number}"));
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        Ok(Self {
            settings,
            number,
            directory,
            processes: 0,
            last_complete: None,
            metadata_written: BTreeSet::new(),
            committed: Committed::new(),
        })
    }

    /// Whether there is no checkpoint to go on from.
    pub(crate) fn is_at_its_beginning(&self) -> bool {
        self.last_complete.is_none()
    }

    /// Runs a process and kills it.
    pub(crate) fn kill(&mut self, kill: Kill) -> Result<(Ended, Killed)> {
        let mut command = self.command(kill.parallelism);
        command.arg("--throttle").arg(self.settings.throttle.to_string());
        if let Some(failpoint) = kill.aim.failpoint() {
            command.env("FAILPOINTS", failpoint);
        }
        let mut process = self.start(&mut command)?;
        let ended = process.kill_at(kill.aim)?;
        let age = process.age();
        let start = self.learn(&mut process)?;
        let killed = Killed {
            round: self.number,
            kill,
            age,
            start,
            last_complete: self.last_complete,
            moment: process.standing()?.moment(),
        };
        let output = self.directory.join("output");
        self.committed = self.settings.golden.check_committed(&output, &self.committed)?;
        Ok((ended, killed))
    }

    /// Lets a last process finish the job and checks what has been put out. Says what that process began with.
    pub(crate) fn finish(mut self, parallelism: u32) -> Result<String> {
        let mut command = self.command(parallelism);
        let mut process = self.start(&mut command)?;
        process.finish()?;
        let start = self.learn(&mut process)?;
        self.settings.golden.check_finished(&self.directory.join("output"), &self.committed)?;
        // A process that was killed when it had finished leaves its last clean-up to the next start.
        let mut again = self.command(parallelism);
        self.start(&mut again)?.finish()?;
        self.check_remains()?;
        Ok(match start {
            Some(_) => format!("its last process resumed from {}", describe_start(start)),
            None => "the process before the last one had done all".to_owned(),
        })
    }

    /// Nothing but the log may be left in the end, whatever was killed while writing or deleting checkpoints: a finished job
    /// keeps none.
    fn check_remains(&self) -> Result<()> {
        let job = self.directory.join("checkpoints/flights");
        let entries = std::fs::read_dir(&job).with_context(|| job.display().to_string())?;
        let names: Result<Vec<String>, _> =
            entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect();
        let left: Vec<String> = names?.into_iter().filter(|name| name != "log").collect();
        ensure!(left.is_empty(), "the job has finished, and these are left: {}", left.join(", "));
        Ok(())
    }

    fn start(&mut self, command: &mut Command) -> Result<Process> {
        self.processes += 1;
        let input_takes = Duration::from_secs(RECORDS_MAX / self.settings.throttle);
        Process::start(command, &self.directory, &format!("process-{:03}", self.processes), input_takes)
    }

    fn command(&self, parallelism: u32) -> Command {
        let mut command = Command::new(&self.settings.program);
        command
            .current_dir(root())
            .arg("--input")
            .arg(&self.settings.input)
            .arg("--output")
            .arg(self.directory.join("output"))
            .arg("--checkpoints")
            .arg(self.directory.join("checkpoints"))
            .args(["--backend", "fs", "--restarts", "0"])
            .args(["--parallelism", &parallelism.to_string()])
            .args(["--interval-ms", &self.settings.interval_ms.to_string()])
            .env_remove("FAILPOINTS");
        command
    }

    /// Takes from the trace of a process that is gone what it went on from and how far it came, and holds the first
    /// against what was known before.
    fn learn(&mut self, process: &mut Process) -> Result<Option<Start>> {
        let standing = process.standing()?;
        match (standing.start, self.last_complete) {
            (Some(Start::Nothing), Some(complete)) => {
                bail!("a process started from nothing though checkpoint {complete} was complete")
            }
            (Some(Start::Checkpoint(resumed)), complete) => {
                if let Some(complete) = complete.filter(|complete| resumed < *complete) {
                    bail!("a process resumed from checkpoint {resumed} though checkpoint {complete} was complete");
                }
                ensure!(
                    self.metadata_written.contains(&resumed),
                    "a process resumed from checkpoint {resumed}, whose metadata nobody has written"
                );
                // Complete though nobody was told: the process was killed when it had just written the log record.
                self.last_complete = Some(resumed);
            }
            (Some(Start::Nothing), None) | (None, _) => {}
        }
        if let Some(warning) = standing.warnings.first() {
            bail!("a process had trouble, which a kill does not explain: {warning}");
        }
        self.metadata_written.extend(&standing.metadata_written);
        self.last_complete = self.last_complete.max(standing.last_complete);
        Ok(standing.start)
    }
}
