//! The tables: cases by implementation, and defects by the case that caught them.

use std::collections::BTreeSet;
use std::fmt;

use highwater_conformance::wrong::Hunt;
use highwater_conformance::{Trial, Verdict};

/// One implementation and how it fared.
pub(crate) struct Column {
    name: &'static str,
    trials: Vec<Trial>,
}

impl Column {
    pub(crate) fn of(name: &'static str, trials: Vec<Trial>) -> Self {
        Self { name, trials }
    }

    fn count(&self, counted: impl Fn(&Verdict) -> bool) -> usize {
        self.trials.iter().filter(|trial| counted(&trial.verdict)).count()
    }
}

/// Right implementations, a column each, by the cases of their suite.
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<Column>,
}

impl Table {
    pub(crate) fn is_ok(&self) -> bool {
        self.columns.iter().all(|column| !column.trials.is_empty() && !column.trials.iter().any(Trial::failed))
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, cell: impl Fn(&Column) -> String) -> fmt::Result {
        write!(f, "{name:<76}")?;
        self.columns.iter().try_for_each(|column| write!(f, "{:>15}", cell(column)))?;
        writeln!(f)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row(f, self.title, |column| column.name.to_owned())?;
        let cases = self.columns.first().map_or(&[][..], |column| &column.trials);
        for (number, case) in cases.iter().enumerate() {
            self.row(f, &format!("  {}", case.case), |column| {
                match column.trials[number].verdict {
                    Verdict::Passed => "✓",
                    Verdict::PassedBy => "·",
                    Verdict::Failed(_) => "FAILED",
                }
                .to_owned()
            })?;
        }
        self.row(f, "✓ passed", |column| column.count(|it| *it == Verdict::Passed).to_string())?;
        self.row(f, "· passed by: about something that it does not have", |column| {
            column.count(|it| *it == Verdict::PassedBy).to_string()
        })?;
        for column in &self.columns {
            for trial in column.trials.iter().filter(|trial| trial.failed()) {
                writeln!(f, "{}: {trial}", column.name)?;
            }
        }
        Ok(())
    }
}

/// Wrong implementations and what caught them.
pub(crate) struct Hunts {
    pub(crate) title: &'static str,
    pub(crate) hunts: Vec<Hunt>,
}

impl Hunts {
    pub(crate) fn is_ok(&self) -> bool {
        !self.hunts.is_empty() && self.hunts.iter().all(Hunt::is_caught)
    }
}

impl fmt::Display for Hunts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<37}{:<69}{:>7}  what is wrong", self.title, "case that is meant to catch it", "failed")?;
        for hunt in &self.hunts {
            let case = format!("{} {}", if hunt.is_caught() { "✓" } else { "PASSED" }, hunt.caught_by);
            let Hunt { defect, sentence, .. } = hunt;
            writeln!(f, "  {defect:<35}{case:<69}{:>7}  {sentence}", hunt.failed().count())?;
        }
        let caught = self.hunts.iter().filter(|hunt| hunt.is_caught()).count();
        writeln!(f, "{caught} of {} are caught by the case that is meant to", self.hunts.len())?;
        let useful: BTreeSet<&str> = self.hunts.iter().flat_map(Hunt::failed).collect();
        let cases = self.hunts.first().map_or(&[][..], |hunt| &hunt.trials);
        let unproven: Vec<&str> = cases.iter().map(|trial| trial.case).filter(|case| !useful.contains(case)).collect();
        write!(f, "{} of {} cases have caught something", cases.len() - unproven.len(), cases.len())?;
        writeln!(f, "{}", if unproven.is_empty() { "" } else { "; not these:" })?;
        unproven.iter().try_for_each(|case| writeln!(f, "  {case}"))
    }
}
