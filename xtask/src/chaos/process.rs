//! One process of the job: started, watched through its trace, and killed at the moment that was aimed at.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::plan::Aim;
use super::trace::{Moment, Standing, Trace};

/// How often a process is looked at.
const POLL: Duration = Duration::from_micros(500);
/// A process that stays at a moment for so long has been stopped there by a failpoint, or lingers there by itself.
const STOPPED_AFTER: Duration = Duration::from_millis(60);
/// How long it may take to come to the moment that is aimed at, beyond what the input takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Killed,
    /// It came to the end of the job first.
    Finished,
}

/// A process of the job. Does not outlive this value.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    trace: Trace,
    started: Instant,
    patience: Duration,
}

impl Process {
    /// Starts `command`, with its trace and what it prints in `NAME.trace` and `NAME.log`. `input_takes` is how long the
    /// job is busy with its input at least.
    pub(crate) fn start(command: &mut Command, directory: &Path, name: &str, input_takes: Duration) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let trace = directory.join(format!("{name}.trace"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        command.arg("--trace").arg(&trace).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let started = Instant::now();
        let child = command.spawn().with_context(|| crate::cargo::describe(command))?;
        Ok(Self { child, log, trace: Trace::new(trace), started, patience: input_takes + PATIENCE })
    }

    /// How long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its id, for signals.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(crate) fn try_wait(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Kills it, wherever it is. SIGKILL on Unix.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// What it has printed.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it stands.
    pub(crate) fn standing(&mut self) -> Result<&Standing> {
        self.trace.standing()
    }

    /// Kills it at the moment that is aimed at.
    pub(crate) fn kill_at(&mut self, aim: Aim) -> Result<Ended> {
        let mut reached: Option<Instant> = None;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return self.ended(status);
            }
            let is_there = match aim {
                Aim::Early { .. } => true,
                Aim::Running { .. } => self.standing()?.is_running,
                Aim::Pending { nth, .. } => self.standing()?.triggered >= nth,
                Aim::Ending { .. } => self.standing()?.operators_with_commits.contains("per-carrier-files"),
                Aim::BeforeLogAppend { .. } => self.standing()?.moment() == Moment::BeforeLogAppend,
                Aim::Recovery => self.standing()?.moment() == Moment::Recovery,
                Aim::Commit { .. } => self.standing()?.moment() == Moment::Commit,
            };
            let after = match aim {
                Aim::Early { after } | Aim::Running { after } | Aim::Pending { after, .. } | Aim::Ending { after } => {
                    after
                }
                Aim::BeforeLogAppend { .. } | Aim::Recovery | Aim::Commit { .. } => STOPPED_AFTER,
            };
            reached = if is_there { reached.or(Some(Instant::now())) } else { None };
            if reached.is_some_and(|reached| reached.elapsed() >= after) {
                // SIGKILL on Unix: the process cannot do anything about it.
                self.child.kill()?;
                let status = self.child.wait()?;
                return if status.code().is_none() { Ok(Ended::Killed) } else { self.ended(status) };
            }
            self.check_patience(&format!("has not come to the moment that was aimed at ({aim})"))?;
            sleep(POLL);
        }
    }

    /// Lets it come to its end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return self.ended(status).map(|_| ());
            }
            self.check_patience("has not finished")?;
            sleep(POLL);
        }
    }

    fn ended(&self, status: std::process::ExitStatus) -> Result<Ended> {
        if status.success() {
            return Ok(Ended::Finished);
        }
        bail!("a process ended by itself with {status}: {}", self.printed().trim_end());
    }

    fn check_patience(&self, what: &str) -> Result<()> {
        if self.age() > self.patience {
            bail!("after {} s a process {what}; see {}", self.age().as_secs(), self.log.display());
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
