//! `cargo xtask contract`: which of the promises in `docs/contract` are shown by a test, and by which.

mod claims;
mod document;
mod verdict;

use std::fs;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::Command;
use crate::cargo::root;
use crate::finding::{self, Finding};
use crate::tidy::files;
use claims::{Claim, Suites};
use document::Contract;
use verdict::Verdict;

/// List the promises of docs/contract with the tests that show them
#[derive(clap::Args)]
pub(crate) struct ContractCommand {
    /// The letters of the groups whose numbers are listed; all of them if none is named
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,

    /// Draws so many of the covered numbers of these groups instead of listing all: for whoever breaks the library in one
    /// line, and sees whether exactly the tests of a number fail
    #[arg(long, value_name = "NUMBERS")]
    draw: Option<usize>,

    /// What is drawn depends on it, and on nothing else but the contract
    #[arg(long, default_value_t = 1, requires = "draw")]
    seed: u64,
}

/// What the words of the listing mean.
const LEGEND: &str = "
covered: a test shows it; uncovered: promised, and no test shows it so far; planned: comes with a later capability;
not applicable: there is nothing to promise. In a finished group an uncovered one is a mistake, in an open one it is not.
";

impl Command for ContractCommand {
    fn run(self) -> Result<ExitCode> {
        let read = Read::all()?;
        let verdict = Verdict::new(&read.contract, &read.claims);
        let groups = &read.contract.groups;
        for name in &self.groups {
            if !groups.iter().any(|group| is_called(group.letter, name)) {
                bail!("there is no group {name}; {} lists them", document::FOLDER);
            }
        }
        if let Some(count) = self.draw {
            let is_asked = |letter| self.groups.is_empty() || self.groups.iter().any(|name| is_called(letter, name));
            let drawn = verdict.draw(count, self.seed, is_asked);
            std::io::stdout().write_all(format!("seed {}\n{drawn}", self.seed).as_bytes())?;
            read.report()?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut listing = verdict.summary() + LEGEND;
        for group in groups {
            if self.groups.is_empty() || self.groups.iter().any(|name| is_called(group.letter, name)) {
                let state = if group.finished { "finished" } else { "open" };
                listing.push_str(&format!("\n{} {}, {state}\n{}", group.letter, group.title, verdict.numbers(group)));
            }
        }
        // Not `print!`: whoever reads the first lines only closes the pipe, and that is no reason to panic.
        std::io::stdout().write_all(listing.as_bytes())?;
        read.report()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn is_called(letter: char, name: &str) -> bool {
    name.eq_ignore_ascii_case(&letter.to_string())
}

/// Prints the counts and every finding, and fails if there is one.
pub(crate) fn contract() -> Result<()> {
    let read = Read::all()?;
    print!("{}", Verdict::new(&read.contract, &read.claims).summary());
    read.report()
}

/// What docs and tests say, and what is wrong with either alone.
struct Read {
    contract: Contract,
    claims: Vec<Claim>,
    findings: Vec<Finding>,
}

impl Read {
    fn all() -> Result<Self> {
        let root = root();
        let mut findings = Vec::new();
        let contract = Contract::read(|path| fs::read_to_string(root.join(path)).ok(), &mut findings);
        let mut suites = Suites::default();
        let mut sources = Vec::new();
        for path in files(&root)?.into_iter().filter(|path| path.ends_with(".rs")) {
            if !root.join(&path).exists() {
                continue; // deleted, but not yet in the index
            }
            let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            suites.add(&path, &text);
            sources.push((path, text));
        }
        let sources = sources.iter();
        let claims = sources.flat_map(|(path, text)| claims::claims(path, text, &suites, &mut findings)).collect();
        Ok(Self { contract, claims, findings })
    }

    fn report(self) -> Result<()> {
        let mut findings = self.findings;
        findings.extend(Verdict::new(&self.contract, &self.claims).findings());
        finding::report(findings)
    }
}
