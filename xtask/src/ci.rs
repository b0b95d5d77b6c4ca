//! `cargo xtask ci`: all that must hold, inside a time budget, with the seconds of each stage.

use std::io::{BufRead, BufReader};
use std::process::{self, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, describe, run};
use crate::stages::Stages;
use crate::{Command, check, test};

/// What a run may take, on a machine that starts cold.
const BUDGET: Duration = Duration::from_mins(80);

/// How the run sheds work when the time is short.
const SHEDDING_RULE: &str = "slices of simulation and chaos are shed when time is short, never checks or tests";

/// A part of the simulation or of chaos: short enough to be shed alone, with arguments that make it worth running alone.
struct Slice {
    name: &'static str,
    /// Arguments of `cargo xtask`, the seed among them: two slices never look at the same runs.
    arguments: &'static [&'static str],
    /// What it took on two cores, rounded up; a slice that does not fit into what is left is not started.
    minutes: u64,
}

/// In the order of their worth: what stands last is shed first.
const SLICES: &[Slice] = &[
    Slice { name: "sim 1", arguments: &["sim", "--iterations", "40000", "--seed", "1000001"], minutes: 3 },
    Slice { name: "chaos 1", arguments: &["chaos", "flights", "--kills", "10", "--seed", "2013"], minutes: 6 },
    Slice { name: "contend 1", arguments: &["chaos", "contend", "--rounds", "10", "--seed", "2013"], minutes: 3 },
];

/// Check, test, use the suites from outside, then as many slices of simulation and chaos as the time allows
#[derive(clap::Args)]
pub(crate) struct Ci {}

impl Command for Ci {
    fn run(self) -> Result<ExitCode> {
        println!("budget {} min; {SHEDDING_RULE}", BUDGET.as_secs() / 60);
        let mut stages = Stages::new();
        check::check(&mut stages);
        let mut summary = String::new();
        // The command of the README, as anybody would call it.
        stages.run("test", || run_and_keep_summary(&mut cargo(&["xtask", "test"]), &mut summary));
        stages.run("packaged", || run(&mut cargo(&["xtask", "conformance", "--packaged"])));
        for slice in SLICES {
            if stages.failed() {
                stages.shed(slice.name, "an earlier stage failed".to_owned());
            } else if let Some(why) = too_late_for(slice, stages.elapsed()) {
                stages.shed(slice.name, why);
            } else {
                // Through cargo: the tests may have replaced the file of the program that runs here.
                stages.run(slice.name, || run(&mut cargo(&[&["xtask"], slice.arguments].concat())));
            }
        }
        // The summary of the tests comes last, so that the end of a long log says how they went.
        print!("\n{stages}");
        println!("{:<10} {:>7.1} s  of {} min", "all", stages.elapsed().as_secs_f64(), BUDGET.as_secs() / 60);
        print!("\n{summary}");
        Ok(stages.exit_code())
    }
}

/// Runs the tests with our own output and keeps what they close with.
fn run_and_keep_summary(command: &mut process::Command, summary: &mut String) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("the output of the tests was not piped")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if test::begins_summary(&line) {
            summary.clear();
        }
        summary.push_str(&line);
        summary.push('\n');
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Why the slice does not fit any more, if it does not.
fn too_late_for(slice: &Slice, elapsed: Duration) -> Option<String> {
    let left = BUDGET.saturating_sub(elapsed);
    (left < Duration::from_mins(slice.minutes))
        .then(|| format!("takes {} min, {} min left of {}", slice.minutes, left.as_secs() / 60, BUDGET.as_secs() / 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_shed_only_when_it_no_longer_fits() {
        let slice = Slice { name: "sim 1", arguments: &["sim"], minutes: 10 };
        assert_eq!(too_late_for(&slice, Duration::from_mins(70)), None);
        let why = too_late_for(&slice, Duration::from_mins(75));
        assert_eq!(why.as_deref(), Some("takes 10 min, 5 min left of 80"));
        assert!(too_late_for(&slice, Duration::from_mins(500)).is_some());
    }
}
