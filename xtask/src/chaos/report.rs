//! What a chaos run says: a line for each kill, then where the kills fell and whether enough fell everywhere.

use std::fmt;
use std::time::Duration;

use super::plan::Kill;
use super::trace::{Moment, Start};

/// A kill that has happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Killed {
    pub(crate) round: u32,
    pub(crate) kill: Kill,
    /// How long the process lived.
    pub(crate) age: Duration,
    /// What it had gone on from; `None` when it was killed before it had found out.
    pub(crate) start: Option<Start>,
    /// The last complete checkpoint of the round.
    pub(crate) last_complete: Option<u64>,
    pub(crate) moment: Moment,
}

/// The heading over the lines of the kills.
pub(crate) const HEADING: &str =
    "kill  round  par  resumed from   aimed at                  alive    last complete  fell";

/// What a line says about where a process began.
pub(crate) fn describe_start(start: Option<Start>) -> String {
    match start {
        Some(Start::Nothing) => "nothing".to_owned(),
        Some(Start::Checkpoint(checkpoint)) => format!("checkpoint {checkpoint}"),
        None => "-".to_owned(),
    }
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, kill, age, start, last_complete, moment } = self;
        let start = describe_start(*start);
        let aim = kill.aim.to_string();
        let last_complete = last_complete.map_or_else(|| "none".to_owned(), |checkpoint| checkpoint.to_string());
        write!(
            f,
            "{round:>5}  {:>3}  {start:<13}  {aim:<24}  {:>5} ms  {last_complete:>13}  {}",
            kill.parallelism,
            age.as_millis(),
            describe(*moment)
        )
    }
}

fn describe(moment: Moment) -> &'static str {
    match moment {
        Moment::Starting => "while starting",
        Moment::Recovery => "during recovery",
        Moment::Running => "between checkpoints",
        Moment::Pending => "while a checkpoint was pending",
        Moment::BeforeLogAppend => "between metadata written and log record",
        Moment::Commit => "during commit",
        Moment::Finished => "after the end of the job",
    }
}

/// A kind of kill of which there have to be enough.
struct Bar {
    what: &'static str,
    percent: u32,
    holds: fn(&Killed) -> bool,
}

/// Each kill counts at one moment only: one between metadata and log record is not also one while pending.
const BARS: [Bar; 5] = [
    Bar { what: "after the first complete checkpoint", percent: 80, holds: |killed| killed.last_complete.is_some() },
    Bar { what: "while a checkpoint was pending", percent: 20, holds: |killed| killed.moment == Moment::Pending },
    Bar {
        what: "between metadata written and log record",
        percent: 10,
        holds: |killed| killed.moment == Moment::BeforeLogAppend,
    },
    Bar { what: "during recovery", percent: 10, holds: |killed| killed.moment == Moment::Recovery },
    Bar { what: "during commit", percent: 6, holds: |killed| killed.moment == Moment::Commit },
];

/// Where all kills fell.
pub(crate) struct Table<'a>(pub(crate) &'a [Killed]);

impl Table<'_> {
    fn count(&self, holds: impl Fn(&Killed) -> bool) -> u32 {
        self.0.iter().filter(|killed| holds(killed)).count() as u32
    }

    fn wanted(&self, bar: &Bar) -> u32 {
        (self.0.len() as u32 * bar.percent).div_ceil(100)
    }

    /// The kinds of kills of which there were not enough.
    pub(crate) fn too_few(&self) -> Vec<&'static str> {
        let missed = BARS.iter().filter(|bar| self.count(bar.holds) < self.wanted(bar));
        missed.map(|bar| bar.what).collect()
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<44}  kills  at least", "where the kills fell")?;
        writeln!(
            f,
            "{:<44}  {:>5}",
            "before the first complete checkpoint",
            self.count(|it| it.last_complete.is_none())
        )?;
        for bar in &BARS {
            writeln!(f, "{:<44}  {:>5}  {:>8}", bar.what, self.count(bar.holds), self.wanted(bar))?;
        }
        for moment in [Moment::Starting, Moment::Running, Moment::Finished] {
            writeln!(f, "{:<44}  {:>5}", describe(moment), self.count(|killed| killed.moment == moment))?;
        }
        writeln!(f, "{:<44}  {:>5}", "all", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Aim;
    use super::*;

    fn killed(moment: Moment, last_complete: Option<u64>) -> Killed {
        let kill = Kill { aim: Aim::Recovery, parallelism: 1 };
        Killed { round: 1, kill, age: Duration::ZERO, start: None, last_complete, moment }
    }

    #[test]
    fn a_kind_of_kill_that_is_too_rare_is_named() {
        let mut kills = vec![killed(Moment::Pending, Some(1)); 10];
        kills[0] = killed(Moment::Recovery, Some(1));
        kills[1] = killed(Moment::Commit, Some(1));
        kills[2] = killed(Moment::BeforeLogAppend, Some(1));
        assert!(Table(&kills).too_few().is_empty());
        kills[1] = killed(Moment::Running, Some(1));
        assert_eq!(Table(&kills).too_few(), ["during commit"]);
        for kill in &mut kills[..3] {
            kill.last_complete = None;
        }
        assert_eq!(Table(&kills).too_few(), ["after the first complete checkpoint", "during commit"]);
    }
}
