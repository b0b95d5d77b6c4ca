//! The trace of one process: read while it grows, and folded into how the process stands.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};

/// What a process went on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Nothing,
    Checkpoint(u64),
}

/// A moment in the life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// It has not begun to process records, and there is nothing that it recovers.
    Starting,
    /// It goes on from a checkpoint, and not all of its subtasks are running.
    Recovery,
    /// All subtasks are running, and nothing of the below is going on.
    Running,
    /// A checkpoint is triggered and its metadata is not written.
    Pending,
    /// The metadata of a checkpoint is written; the log record that makes it count may be or not.
    BeforeLogAppend,
    /// A transaction is being committed.
    Commit,
    /// The job is finished.
    Finished,
}

#[derive(Debug, Clone, Copy)]
struct PendingCheckpoint {
    checkpoint: u64,
    metadata_written: bool,
}

/// How a process stands, as far as its trace says.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The attempt, once it has claimed the job.
    pub(crate) claimed: Option<u64>,
    /// Known once it has claimed the job and read the log.
    pub(crate) start: Option<Start>,
    pub(crate) is_running: bool,
    /// How many checkpoints it has triggered.
    pub(crate) triggered: u64,
    /// Checkpoints whose metadata it has written.
    pub(crate) metadata_written: BTreeSet<u64>,
    pub(crate) last_complete: Option<u64>,
    /// Operators that have committed, or begun to.
    pub(crate) operators_with_commits: BTreeSet<String>,
    /// Lines that a process with no other trouble than being killed does not write.
    pub(crate) warnings: Vec<String>,
    pending: Option<PendingCheckpoint>,
    /// How many commits were begun, and of how many the fence was asked.
    pub(crate) commits_begun: u64,
    pub(crate) asked_to_commit: u64,
    /// Which sinks' subtasks are committing.
    committing: BTreeSet<(String, u64)>,
    is_finished: bool,
}

impl Standing {
    pub(crate) fn moment(&self) -> Moment {
        match (self.start, self.pending) {
            _ if self.is_finished => Moment::Finished,
            _ if !self.committing.is_empty() => Moment::Commit,
            (Some(Start::Checkpoint(_)), _) if !self.is_running => Moment::Recovery,
            _ if !self.is_running => Moment::Starting,
            (_, Some(pending)) if pending.metadata_written => Moment::BeforeLogAppend,
            (_, Some(_)) => Moment::Pending,
            (_, None) => Moment::Running,
        }
    }

    /// "2026-01-31T12:00:00.000000Z  INFO highwater::checkpoint: metadata written checkpoint=3"
    fn read_line(&mut self, line: &str) -> Result<()> {
        let unexpected = || format!("the trace has an unexpected line: {line}");
        let mut words = line.split_whitespace().skip(1);
        let level = words.next().with_context(unexpected)?;
        if matches!(level, "WARN" | "ERROR") {
            self.warnings.push(line.to_owned());
        }
        // Where the thread is named, it comes before the target.
        let target = words.find(|word| !word.starts_with("ThreadId(")).with_context(unexpected)?;
        let words: Vec<&str> = words.collect();
        let text = words.iter().take_while(|word| !word.contains('=')).copied().collect::<Vec<_>>().join(" ");
        let field = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number =
            |name: &str| -> Result<u64> { field(name).with_context(unexpected)?.parse().with_context(unexpected) };
        match (target, text.as_str()) {
            ("highwater::job:", "claimed") => self.claimed = Some(number("attempt")?),
            ("highwater::job:", "restoring") => self.start = Some(Start::Checkpoint(number("checkpoint")?)),
            ("highwater::job:", "starting from nothing") => self.start = Some(Start::Nothing),
            ("highwater::job:", "all subtasks are running") => self.is_running = true,
            ("highwater::job:", "finished") => self.is_finished = true,
            ("highwater::checkpoint:", "triggered") => {
                self.triggered += 1;
                self.pending = Some(PendingCheckpoint { checkpoint: number("checkpoint")?, metadata_written: false });
            }
            ("highwater::checkpoint:", "metadata written") => {
                let checkpoint = number("checkpoint")?;
                self.metadata_written.insert(checkpoint);
                self.pending = Some(PendingCheckpoint { checkpoint, metadata_written: true });
            }
            ("highwater::checkpoint:", "complete") => {
                let checkpoint = number("checkpoint")?;
                self.last_complete = self.last_complete.max(Some(checkpoint));
                self.pending = self.pending.filter(|pending| pending.checkpoint != checkpoint);
            }
            ("highwater::checkpoint:", "failed") => {
                let checkpoint = number("checkpoint")?;
                self.pending = self.pending.filter(|pending| pending.checkpoint != checkpoint);
            }
            ("highwater::commit:", "committing") => {
                let operator = field("operator").with_context(unexpected)?.to_owned();
                self.operators_with_commits.insert(operator.clone());
                self.commits_begun += 1;
                self.committing.insert((operator, number("subtask")?));
            }
            ("highwater::effect:", "about to commit") => self.asked_to_commit += 1,
            ("highwater::commit:", "committed") => {
                let operator = field("operator").with_context(unexpected)?.to_owned();
                self.committing.remove(&(operator, number("subtask")?));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The trace file of a process that may still be writing it.
pub(crate) struct Trace {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is not written.
    rest: Vec<u8>,
    standing: Standing,
}

impl Trace {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0, rest: Vec::new(), standing: Standing::default() }
    }

    /// Reads on.
    pub(crate) fn standing(&mut self) -> Result<&Standing> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // The process has not got that far.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(&self.standing),
            Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
        };
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_end(&mut self.rest)? as u64;
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.rest.split_off(end + 1);
            let lines = std::mem::replace(&mut self.rest, rest);
            for line in String::from_utf8_lossy(&lines).lines() {
                self.standing.read_line(line).with_context(|| self.path.display().to_string())?;
            }
        }
        Ok(&self.standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment after each of the lines, which stand for those of a trace.
    fn moments(lines: &str) -> Vec<Moment> {
        let mut standing = Standing::default();
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .map(|line| {
                standing.read_line(&format!("2026-01-31T12:00:00.000000Z  {line}")).unwrap();
                standing.moment()
            })
            .collect()
    }

    #[test]
    fn the_moments_of_a_checkpoint_are_told_apart() {
        let lines = "
            INFO highwater::job: claimed job=flights attempt=1
            INFO highwater::job: starting from nothing job=flights attempt=1
            INFO highwater::job: all subtasks are running job=flights
            INFO highwater::checkpoint: triggered checkpoint=1
            INFO highwater::checkpoint: metadata written checkpoint=1
            INFO highwater::checkpoint: complete checkpoint=1
            DEBUG highwater::commit: committing operator=files subtask=0 checkpoint=1
            DEBUG highwater::commit: committing operator=files subtask=1 checkpoint=1
            DEBUG highwater::commit: committed operator=files subtask=0 checkpoint=1
            INFO highwater::checkpoint: triggered checkpoint=2
            DEBUG highwater::commit: committed operator=files subtask=1 checkpoint=1
            WARN highwater::checkpoint: failed checkpoint=2 failure=it expired
            INFO highwater::job: finished job=flights";
        use Moment::*;
        let expected = [
            Starting,
            Starting,
            Running,
            Pending,
            BeforeLogAppend,
            Running,
            Commit,
            Commit,
            Commit,
            Commit,
            Pending,
            Running,
            Finished,
        ];
        assert_eq!(moments(lines), expected);
    }

    #[test]
    fn a_restored_process_recovers_until_its_subtasks_run() {
        let lines = "
            INFO highwater::job: restoring job=flights attempt=2 checkpoint=7
            DEBUG highwater::commit: committing operator=files subtask=0 checkpoint=7
            DEBUG highwater::commit: committed operator=files subtask=0 checkpoint=7
            INFO highwater::job: all subtasks are running job=flights";
        assert_eq!(moments(lines), [Moment::Recovery, Moment::Commit, Moment::Recovery, Moment::Running]);
    }

    #[test]
    fn a_line_is_read_when_its_end_is_written() {
        use std::io::Write;
        let directory = std::env::temp_dir().join(format!("highwater-xtask-trace-{}", std::process::id()));
        let mut trace = Trace::new(directory.clone());
        assert_eq!(trace.standing().unwrap().triggered, 0);
        let mut file = File::create(&directory).unwrap();
        write!(file, "t INFO highwater::checkpoint: triggered chec").unwrap();
        assert_eq!(trace.standing().unwrap().triggered, 0);
        writeln!(file, "kpoint=1").unwrap();
        assert_eq!(trace.standing().unwrap().triggered, 1);
        assert_eq!(trace.standing().unwrap().triggered, 1);
        std::fs::remove_file(directory).unwrap();
    }
}
