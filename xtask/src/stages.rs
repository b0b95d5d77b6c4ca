//! A run in stages: each is timed, none is skipped because another failed, and the list at the end says which did.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How a stage ended.
pub(crate) enum Outcome {
    Ok,
    Failed(anyhow::Error),
    /// Not run, and that is no failure; why.
    Shed(String),
}

struct Stage {
    name: String,
    took: Duration,
    outcome: Outcome,
}

/// The stages so far.
pub(crate) struct Stages {
    started: Instant,
    stages: Vec<Stage>,
}

impl Stages {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), stages: Vec::new() }
    }

    /// Runs one stage; its failure is kept, not returned.
    pub(crate) fn run(&mut self, name: &str, stage: impl FnOnce() -> Result<()>) {
        println!("== {name}");
        let started = Instant::now();
        let outcome = stage().map_or_else(Outcome::Failed, |()| Outcome::Ok);
        self.stages.push(Stage { name: name.to_owned(), took: started.elapsed(), outcome });
    }

    pub(crate) fn shed(&mut self, name: &str, why: String) {
        println!("== {name}: shed, {why}");
        self.stages.push(Stage { name: name.to_owned(), took: Duration::ZERO, outcome: Outcome::Shed(why) });
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn failed(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.outcome, Outcome::Failed(_)))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Stage { name, took, outcome } in &self.stages {
            write!(f, "{name:<10} {:>7.1} s  ", took.as_secs_f64())?;
            match outcome {
                Outcome::Ok => writeln!(f, "ok")?,
                Outcome::Failed(error) => writeln!(f, "FAILED: {error:#}")?,
                Outcome::Shed(why) => writeln!(f, "shed: {why}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stage_stops_no_other_and_is_named_at_the_end() {
        let mut stages = Stages::new();
        let mut second_ran = false;
        stages.run("first", || anyhow::bail!("it broke"));
        stages.run("second", || {
            second_ran = true;
            Ok(())
        });
        assert!(second_ran && stages.failed());
        assert!(stages.to_string().contains("FAILED: it broke"), "{stages}");
    }

    #[test]
    fn shedding_is_no_failure() {
        let mut stages = Stages::new();
        stages.shed("chaos", "2 min left".to_owned());
        assert!(!stages.failed());
        assert!(stages.to_string().contains("shed: 2 min left"), "{stages}");
    }
}
