//! What docs and tests say together: which behaviours are shown, and where the two disagree.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::claims::Claim;
use super::document::{Contract, Group, Id, Status};
use crate::finding::Finding;
use crate::random::Random;

/// The contract with the tests that show it.
pub(super) struct Verdict<'a> {
    contract: &'a Contract,
    tests: BTreeMap<Id, Vec<&'a Claim>>,
}

/// What is so of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Covered,
    Uncovered,
    Planned,
    NotApplicable,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Covered => "covered",
            Self::Uncovered => "uncovered",
            Self::Planned => "planned",
            Self::NotApplicable => "not applicable",
        })
    }
}

impl<'a> Verdict<'a> {
    pub(super) fn new(contract: &'a Contract, claims: &'a [Claim]) -> Self {
        let mut tests: BTreeMap<Id, Vec<&Claim>> = BTreeMap::new();
        for claim in claims {
            tests.entry(claim.id).or_default().push(claim);
        }
        Self { contract, tests }
    }

    fn mark(&self, id: Id, status: &Status) -> Mark {
        match status {
            _ if self.tests.contains_key(&id) => Mark::Covered,
            Status::Promised => Mark::Uncovered,
            Status::Planned(_) => Mark::Planned,
            Status::NotApplicable(_) => Mark::NotApplicable,
        }
    }

    /// Where docs and tests disagree, and what a finished group still lacks.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (id, claims) in &self.tests {
            let entry = self.contract.entry(*id);
            for claim in claims {
                if entry.is_none() {
                    let what = format!("{} names {id}, which the contract does not have", claim.test);
                    findings.push(Finding::new(&claim.path, claim.line, what, "see docs/contract"));
                }
            }
            let (Some((group, entry)), [claim, ..]) = (entry, &claims[..]) else { continue };
            let marked = match &entry.status {
                Status::Promised => continue,
                Status::Planned(capability) => format!("planned ({capability})"),
                Status::NotApplicable(reason) => format!("not applicable ({reason})"),
            };
            let what = format!("{id} is marked {marked}, but {} in {} shows it", claim.test, claim.path);
            findings.push(Finding::new(&group.path, entry.line, what, "remove the mark, or the number above the test"));
        }
        for group in self.contract.groups.iter().filter(|group| group.finished) {
            for (id, entry) in &group.entries {
                if self.mark(*id, &entry.status) == Mark::Uncovered {
                    let what = format!("no test shows {id}, and the group is finished");
                    let instead = format!("write `/// Contract: {id}.` above the test that does");
                    findings.push(Finding::new(&group.path, entry.line, what, instead));
                }
            }
        }
        findings
    }

    /// So many of the covered numbers of some groups, in order, each with its tests.
    pub(super) fn draw(&self, count: usize, seed: u64, is_asked: impl Fn(char) -> bool) -> String {
        let groups = self.contract.groups.iter().filter(|group| is_asked(group.letter));
        let entries = groups.flat_map(|group| &group.entries);
        let mut covered: Vec<_> =
            entries.filter(|(id, entry)| self.mark(**id, &entry.status) == Mark::Covered).collect();
        Random(seed).shuffle(&mut covered);
        covered.truncate(count);
        covered.sort_by_key(|(id, _)| **id);
        covered.into_iter().map(|(id, entry)| self.line(*id, &entry.status)).collect()
    }

    /// One line a group: how many of its numbers are in which state.
    pub(super) fn summary(&self) -> String {
        let mut lines = String::new();
        let width = self.contract.groups.iter().map(|group| group.title.len()).max().unwrap_or_default();
        let mut line = |letter: &str, title: &str, state: &str, marks: &[Mark]| {
            let count = |wanted: Mark| marks.iter().filter(|mark| **mark == wanted).count();
            let [covered, uncovered] = [Mark::Covered, Mark::Uncovered].map(count);
            let [planned, not_applicable] = [Mark::Planned, Mark::NotApplicable].map(count);
            writeln!(
                lines,
                "{letter:<3}  {title:<width$}  {state:<8}  {covered:>3} covered  {uncovered:>3} uncovered  \
                 {planned:>3} planned  {not_applicable:>3} not applicable"
            )
            .expect("writing to a string cannot fail");
        };
        let mut all = Vec::new();
        for group in &self.contract.groups {
            let marks = self.marks(group);
            let state = if group.finished { "finished" } else { "open" };
            line(&group.letter.to_string(), &group.title, state, &marks);
            all.extend(marks);
        }
        line("all", "", "", &all);
        lines
    }

    fn marks(&self, group: &Group) -> Vec<Mark> {
        group.entries.iter().map(|(id, entry)| self.mark(*id, &entry.status)).collect()
    }

    /// One line a number: its state, and the tests that show it or what it waits for.
    pub(super) fn numbers(&self, group: &Group) -> String {
        group.entries.iter().map(|(id, entry)| self.line(*id, &entry.status)).collect()
    }

    fn line(&self, id: Id, status: &Status) -> String {
        let why = match status {
            _ if self.tests.contains_key(&id) => {
                let tests = self.tests[&id].iter().map(|claim| format!("{} ({})", claim.test, claim.path));
                tests.collect::<Vec<_>>().join(", ")
            }
            Status::Promised => String::new(),
            Status::Planned(why) | Status::NotApplicable(why) => why.clone(),
        };
        let line = format!("{id:<5} {:<14}  {why}", self.mark(id, status));
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
#[path = "verdict_test.rs"]
mod verdict_test;
