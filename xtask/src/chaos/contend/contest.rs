//! A round: two processes contend for one job until it is finished, and whoever runs it is killed or stopped now and then.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::effects::{Checked, Evidence};
use super::plan::{Disturbance, RoundPlan};
use super::{Contenders, Happened};
use crate::cargo::{root, run};
use crate::chaos::golden::Committed;
use crate::chaos::process::Process;
use crate::chaos::trace::Moment;

/// How often the processes are looked at.
const POLL: Duration = Duration::from_millis(1);
/// How long a round may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long the failpoint holds a thread: within that time the whole process is stopped from outside.
const FAILPOINT_MS: u64 = 150;
/// What a process says that was fenced.
const FENCED: &str = "another attempt has claimed the job";

/// A process, and until when it stands still.
struct Contender {
    process: Process,
    stopped_until: Option<Instant>,
    running_since: Option<Instant>,
}

/// The round while it is carried out.
pub(crate) struct Contest<'a> {
    contenders: &'a Contenders,
    plan: RoundPlan,
    directory: PathBuf,
    processes: u64,
    started: Instant,
    committed: Committed,
    pub(crate) happened: Happened,
}

impl<'a> Contest<'a> {
    pub(crate) fn begin(contenders: &'a Contenders, plan: RoundPlan, directory: PathBuf) -> Result<Self> {
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        Ok(Self {
            contenders,
            plan,
            directory,
            processes: 0,
            started: Instant::now(),
            committed: Committed::new(),
            happened: Happened::default(),
        })
    }

    /// Lets both contend until the job is finished, and judges what they did.
    pub(crate) fn run(&mut self) -> Result<Checked> {
        let mut pair = vec![self.start()?, self.start()?];
        let mut disturbances: VecDeque<Disturbance> = self.plan.disturbances.clone().into();
        let mut is_finished = false;
        while !pair.is_empty() {
            ensure!(self.started.elapsed() < PATIENCE, "the job has not finished within {} s", PATIENCE.as_secs());
            let mut index = 0;
            while index < pair.len() {
                match self.look_after(&mut pair[index])? {
                    Look::Goes => index += 1,
                    Look::Finished => {
                        is_finished = true;
                        pair.swap_remove(index);
                    }
                    Look::Fenced => {
                        self.happened.fenced += 1;
                        pair.swap_remove(index);
                    }
                }
            }
            if is_finished {
                // The other one finds out.
            } else if pair.len() < 2 {
                let another = self.start()?;
                pair.push(another);
            } else if let Some(next) = disturbances.front().copied()
                && let Some(holder) = holder(&mut pair)?
                && self.disturb(&mut pair[holder], next)?
            {
                disturbances.pop_front();
                if matches!(next, Disturbance::Kill { .. }) {
                    pair.swap_remove(holder);
                }
                let output = self.directory.join("output");
                self.committed = self.contenders.golden.check_committed(&output, &self.committed)?;
            }
            sleep(POLL);
        }
        self.happened.missed += disturbances.len() as u32;
        self.judge()
    }

    /// Lets a process go on whose time has come, and says how it stands.
    fn look_after(&mut self, contender: &mut Contender) -> Result<Look> {
        if contender.stopped_until.is_some_and(|until| until <= Instant::now()) {
            signal(&contender.process, "-CONT")?;
            contender.stopped_until = None;
        }
        match contender.process.try_wait()? {
            None => Ok(Look::Goes),
            Some(status) if status.success() => Ok(Look::Finished),
            Some(_) if contender.process.printed().contains(FENCED) => Ok(Look::Fenced),
            Some(status) => {
                bail!("a process ended by itself with {status}: {}", contender.process.printed().trim_end())
            }
        }
    }

    /// Does this to the process that runs the job, if its moment has come. Whether it has.
    fn disturb(&mut self, holder: &mut Contender, disturbance: Disturbance) -> Result<bool> {
        if holder.stopped_until.is_some() {
            return Ok(false);
        }
        let standing = holder.process.standing()?;
        if standing.is_running {
            holder.running_since.get_or_insert_with(Instant::now);
        }
        let has_run = |after| holder.running_since.is_some_and(|since| since.elapsed() >= after);
        match disturbance {
            Disturbance::Kill { after } if has_run(after) => {
                holder.process.kill()?;
                self.happened.kills += 1;
                Ok(true)
            }
            Disturbance::Stop { after, lasts } if has_run(after) => {
                self.stop(holder, lasts)?;
                self.happened.stops += 1;
                Ok(true)
            }
            Disturbance::StopBeforeCommit { lasts }
                if standing.moment() == Moment::Commit && standing.asked_to_commit < standing.commits_begun =>
            {
                self.stop(holder, lasts)?;
                // Only if it still stands before the commit, now that it does not move any more.
                let standing = holder.process.standing()?;
                let is_before = standing.asked_to_commit < standing.commits_begun;
                self.happened.stops_before_commit += u32::from(is_before);
                self.happened.stops += u32::from(!is_before);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn stop(&self, holder: &mut Contender, lasts: Duration) -> Result<()> {
        signal(&holder.process, "-STOP")?;
        holder.stopped_until = Some(Instant::now() + lasts);
        Ok(())
    }

    fn start(&mut self) -> Result<Contender> {
        self.processes += 1;
        let name = format!("process-{:03}", self.processes);
        let mut command = self.command();
        let mut failpoints = Vec::new();
        if self.plan.stops_before_commit() {
            failpoints.push(format!("during-commit={}*off->1*sleep({FAILPOINT_MS})", self.plan.commits_before));
        }
        if self.contenders.plants_defect {
            failpoints.push("ignore-fence=return".to_owned());
        }
        command.env("FAILPOINTS", failpoints.join(";"));
        let process = Process::start(&mut command, &self.directory, &name, PATIENCE)?;
        Ok(Contender { process, stopped_until: None, running_since: None })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.contenders.program);
        command
            .current_dir(root())
            .arg("--input")
            .arg(&self.contenders.input)
            .arg("--output")
            .arg(self.directory.join("output"))
            .arg("--checkpoints")
            .arg(self.directory.join("checkpoints"))
            .args(["--backend", "fs", "--restarts", "0"])
            .args(["--parallelism", &self.plan.parallelism(self.processes).to_string()])
            .args(["--interval-ms", &self.contenders.interval_ms.to_string()])
            .args(["--throttle", &self.contenders.throttle.to_string()])
            .args(["--standby-lease-ms", &self.contenders.lease.as_millis().to_string()])
            .env_remove("FAILPOINTS");
        command
    }

    /// All processes are gone: exactly the golden rows, nothing done by an attempt that was fenced, and nothing left behind
    /// once the job is started again.
    fn judge(&mut self) -> Result<Checked> {
        self.contenders.golden.check_complete(&self.directory.join("output"), &self.committed)?;
        let mut evidence = Evidence::default();
        for number in 1..=self.processes {
            let path = self.directory.join(format!("process-{number:03}.trace"));
            match std::fs::read_to_string(&path) {
                Ok(text) => evidence.read_trace(&text).with_context(|| path.display().to_string())?,
                // It was killed before it wrote anything.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        evidence.read_log(&self.directory.join("checkpoints/flights/log"))?;
        let checked = evidence.judge().map_err(Wrong)?;
        let mut again = self.command();
        Process::start(&mut again, &self.directory, "again", PATIENCE)?.finish()?;
        check_remains(&self.directory.join("checkpoints/flights"))?;
        Ok(checked)
    }
}

/// What the checker has found.
#[derive(Debug)]
pub(crate) struct Wrong(Vec<String>);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Wrong {}

enum Look {
    Goes,
    Finished,
    Fenced,
}

/// Which of the processes has claimed the job last.
fn holder(pair: &mut [Contender]) -> Result<Option<usize>> {
    let mut last = None;
    for (index, contender) in pair.iter_mut().enumerate() {
        last = last.max(contender.process.standing()?.claimed.map(|attempt| (attempt, index)));
    }
    Ok(last.map(|(_, index)| index))
}

fn signal(process: &Process, signal: &str) -> Result<()> {
    run(Command::new("kill").args([signal, &process.id().to_string()]))
}

/// The names of the objects in a folder. What a killed writer left is none, and is removed by the next one.
fn objects(folder: &Path) -> Result<Vec<String>> {
    let names: std::io::Result<Vec<String>> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect();
    Ok(names?.into_iter().filter(|name| !name.starts_with(".tmp-")).collect())
}

/// Nothing but the log: a finished job keeps no checkpoint, and nobody has a lease on it.
fn check_remains(job: &Path) -> Result<()> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(job).with_context(|| job.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            "log" => {}
            "lease" => left.extend(objects(&entry.path())?),
            _ => left.push(name),
        }
    }
    ensure!(left.is_empty(), "the job has finished, and these are left: {}", left.join(", "));
    Ok(())
}
