//! `cargo xtask chaos contend`: two processes contend for one job, are killed and stopped, and none may do anything after
//! another one has claimed the job.

mod contest;
mod effects;
mod plan;

use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::golden::Golden;
use contest::{Contest, Wrong};
use effects::Checked;
use plan::RoundPlan;

/// What is the same in all rounds.
pub(crate) struct Contenders {
    pub(crate) program: PathBuf,
    pub(crate) input: PathBuf,
    pub(crate) throttle: NonZeroU64,
    pub(crate) interval_ms: u64,
    pub(crate) lease: Duration,
    pub(crate) golden: Golden,
    /// Whether the processes ignore that they are fenced: then the checker has to find it.
    pub(crate) plants_defect: bool,
}

/// What was done to the processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Happened {
    kills: u32,
    stops: u32,
    stops_before_commit: u32,
    /// Disturbances for which the job was over too early.
    missed: u32,
    /// Processes that ended because another one had the job.
    fenced: u32,
}

#[derive(Default)]
struct Summary {
    rounds: u32,
    /// Rounds in which a process was stopped before a commit.
    rounds_before_commit: u32,
    happened: Happened,
    checked: Checked,
}

/// Carries out the rounds of a seed.
pub(crate) fn contend(contenders: &Contenders, seed: u64, rounds: u32, directory: &Path) -> Result<()> {
    println!(
        "{rounds} rounds of two processes of flights, seed {seed}, a lease of {} ms, {} flights a second{}",
        contenders.lease.as_millis(),
        contenders.throttle,
        if contenders.plants_defect { ", and a defect: who is fenced goes on" } else { "" }
    );
    let started = Instant::now();
    let mut summary = Summary::default();
    println!("round  took      killed  stopped  before commit  fenced  claims  commits  deletes  overtaken");
    for number in 1..=rounds {
        let plan = RoundPlan::draw(seed, number, contenders.lease);
        let round_started = Instant::now();
        let folder = directory.join(format!("round-{number}"));
        let mut contest = Contest::begin(contenders, plan, folder.clone())?;
        let checked = match contest.run() {
            Ok(checked) => checked,
            Err(error) if contenders.plants_defect && error.is::<Wrong>() => {
                println!("found in round {number}, as it has to be:\n{error}");
                return Ok(());
            }
            Err(error) => {
                print!("\n{summary}");
                return Err(error.context(format!("round {number}")));
            }
        };
        let happened = contest.happened;
        println!(
            "{number:>5}  {:>5.1} s  {:>7}  {:>7}  {:>13}  {:>6}  {:>6}  {:>7}  {:>7}  {:>9}",
            round_started.elapsed().as_secs_f64(),
            happened.kills,
            happened.stops,
            happened.stops_before_commit,
            happened.fenced,
            checked.claims,
            checked.commits,
            checked.deletes,
            checked.overtaken_commits + checked.overtaken_deletes
        );
        summary.add(happened, checked);
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    print!("\n{summary}");
    println!("no effect was begun after a foreign claim");
    println!("took {:.1} s", started.elapsed().as_secs_f64());
    ensure!(!contenders.plants_defect, "the defect was not found in {rounds} rounds");
    let wanted = rounds / 4;
    ensure!(
        summary.rounds_before_commit >= wanted,
        "in {} rounds a process was stopped before a commit, at least {wanted} are wanted",
        summary.rounds_before_commit
    );
    Ok(())
}

impl Summary {
    fn add(&mut self, happened: Happened, checked: Checked) {
        self.rounds += 1;
        self.rounds_before_commit += u32::from(happened.stops_before_commit > 0);
        self.happened.kills += happened.kills;
        self.happened.stops += happened.stops;
        self.happened.stops_before_commit += happened.stops_before_commit;
        self.happened.missed += happened.missed;
        self.happened.fenced += happened.fenced;
        self.checked.add(checked);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, rounds_before_commit, happened, checked } = self;
        for (what, number) in [
            ("rounds that ended with exactly the golden rows", *rounds),
            ("  of them with a stop between log record and commit", *rounds_before_commit),
            ("processes killed", happened.kills),
            ("processes stopped and resumed at random", happened.stops),
            ("processes stopped between log record and commit", happened.stops_before_commit),
            ("disturbances that came too late", happened.missed),
            ("processes that ended because they were fenced", happened.fenced),
            ("claims", checked.claims),
            ("commits that had an effect", checked.commits),
            ("deletions", checked.deletes),
            ("commits overtaken by a claim, without harm", checked.overtaken_commits),
            ("deletions overtaken by a claim, without harm", checked.overtaken_deletes),
        ] {
            writeln!(f, "{what:<54}  {number:>7}")?;
        }
        Ok(())
    }
}
