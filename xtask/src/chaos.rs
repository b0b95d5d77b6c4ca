//! `cargo xtask chaos`: kills and stops processes of a job again and again, and wants exactly the golden rows.

mod contend;
mod golden;
mod plan;
mod process;
mod report;
mod round;
mod trace;

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::Command;
use crate::cargo::{cargo, root, run};
use golden::Golden;
use plan::Plan;
use process::Ended;
use report::{HEADING, Killed, Table};
use round::{Round, Settings};

const KILL_THROTTLE: NonZeroU64 = NonZeroU64::new(6_000).expect("not zero");
const CONTEND_THROTTLE: NonZeroU64 = NonZeroU64::new(20_000).expect("not zero");

/// Rounds that may end without a kill: the job has come to its end before the moment that was aimed at.
const ROUNDS_WITHOUT_KILL_MAX: u32 = 10;

/// What is done to the example `flights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// One process is killed and started again.
    Flights,
    /// Two processes contend for the job; whoever runs it is killed, or stopped for a while.
    Contend,
}

/// Kill or stop processes of a job again and again, and compare what it puts out with the golden files
#[derive(clap::Args)]
pub(crate) struct Chaos {
    /// What to do
    #[arg(value_enum)]
    mode: Mode,
    /// How often to kill it
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    kills: u32,
    /// What the moments and the parallelisms are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The flights; the golden files lie beside them [default: the month in data]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Read no more than this many flights a second, so that there is time to kill [default: 6000, contending 20000]
    #[arg(long, value_name = "RECORDS_PER_SECOND")]
    throttle: Option<NonZeroU64>,
    /// How many jobs two processes contend for, one after the other
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// The lease of contending processes, in milliseconds
    #[arg(long, default_value_t = 300)]
    lease_ms: u64,
    /// The profile that the job is built with
    #[arg(long, default_value = "release")]
    profile: String,
    /// Let contending processes ignore that they are fenced, and demand that it is found
    #[arg(long)]
    planted: bool,
    /// Time between checkpoints, in milliseconds
    #[arg(long, default_value_t = 25)]
    interval_ms: u64,
}

impl Command for Chaos {
    fn run(self) -> Result<ExitCode> {
        let input = match &self.input {
            Some(input) => std::path::absolute(input)?,
            None => root().join("data/flights-2013-01.csv.gz"),
        };
        let golden = Golden::of_input(&input)?;
        let target = target_directory()?;
        let profile = ["--profile", &self.profile];
        let build = ["build", "--locked", "--example", "flights", "--features", "failpoints"];
        run(&mut cargo(&[&build[..], &profile].concat()))?;

        let name = match self.mode {
            Mode::Flights => "flights",
            Mode::Contend => "contend",
        };
        let directory = target.join("chaos").join(format!("{name}-{}", self.seed));
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        // A copy: whatever is built meanwhile, all processes of this run are the same program.
        let program = directory.join(format!("flights{}", std::env::consts::EXE_SUFFIX));
        let folder = if self.profile == "dev" { "debug" } else { &self.profile };
        let built = target.join(folder).join("examples").join(program.file_name().unwrap_or_default());
        fs::copy(&built, &program).with_context(|| built.display().to_string())?;

        let (outcome, too_few) = match self.mode {
            Mode::Flights => self.kill(program, input, golden, &directory),
            Mode::Contend => (self.contend(program, input, golden, &directory), Vec::new()),
        };
        outcome.with_context(|| format!("seed {}, everything is kept in {}", self.seed, directory.display()))?;
        if !too_few.is_empty() {
            bail!("too few kills fell {}", too_few.join(", and too few "));
        }
        fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Chaos {
    fn contend(&self, program: PathBuf, input: PathBuf, golden: Golden, directory: &Path) -> Result<()> {
        let contenders = contend::Contenders {
            program,
            input,
            throttle: self.throttle.unwrap_or(CONTEND_THROTTLE),
            interval_ms: self.interval_ms,
            lease: Duration::from_millis(self.lease_ms),
            golden,
            plants_defect: self.planted,
        };
        contend::contend(&contenders, self.seed, self.rounds, directory)
    }

    /// Returns the kinds of kills of which there were too few.
    fn kill(
        &self,
        program: PathBuf,
        input: PathBuf,
        golden: Golden,
        directory: &Path,
    ) -> (Result<()>, Vec<&'static str>) {
        let throttle = self.throttle.unwrap_or(KILL_THROTTLE);
        println!(
            "{} kills of flights, seed {}, {} flights a second from {}, a checkpoint every {} ms",
            self.kills,
            self.seed,
            throttle,
            input.file_name().unwrap_or_default().to_string_lossy(),
            self.interval_ms
        );
        let settings = Settings { program, input, throttle, interval_ms: self.interval_ms, golden };
        let mut kills = Vec::new();
        let started = Instant::now();
        let outcome = kill_all(Plan::new(self.seed, self.kills), &settings, directory, &mut kills);
        print!("\n{}", Table(&kills));
        println!("took {:.1} s", started.elapsed().as_secs_f64());
        (outcome, Table(&kills).too_few())
    }
}

/// Carries out the plan, round after round; a round ends when the job has finished. What has happened goes to `kills`.
fn kill_all(mut plan: Plan, settings: &Settings, directory: &Path, kills: &mut Vec<Killed>) -> Result<()> {
    println!("{HEADING}");
    let mut rounds_without_kill = 0;
    for number in 1.. {
        let mut round = Round::begin(settings, number, directory)?;
        let kills_before = kills.len();
        while let Some(kill) = plan.next(round.is_at_its_beginning()) {
            let (ended, killed) = round.kill(kill)?;
            if ended == Ended::Finished {
                plan.missed();
                break;
            }
            plan.done();
            kills.push(killed);
            println!("{:>4}  {killed}", kills.len());
        }
        let is_last = plan.next(false).is_none();
        let how = round.finish(plan.last_parallelism)?;
        println!("      round {number} finished, {how}: {} rows, as in the golden files", settings.golden.rows());
        if is_last {
            return Ok(());
        }
        rounds_without_kill = if kills.len() > kills_before { 0 } else { rounds_without_kill + 1 };
        if rounds_without_kill == ROUNDS_WITHOUT_KILL_MAX {
            bail!("{ROUNDS_WITHOUT_KILL_MAX} rounds in a row ended before there was anything to kill");
        }
    }
    unreachable!("there are always more numbers")
}

fn target_directory() -> Result<PathBuf> {
    let mut command = MetadataCommand::new();
    command
        .cargo_path(crate::cargo::program())
        .current_dir(root())
        .no_deps()
        .other_options(vec!["--locked".to_owned()]);
    Ok(command.exec().context("cargo metadata")?.target_directory.into_std_path_buf())
}
