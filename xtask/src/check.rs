//! `cargo xtask check`: format, lints, documentation, tidiness and contract, with warnings denied. Never writes a source file.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo::{cargo, run};
use crate::stages::Stages;
use crate::{Command, contract, tidy};

/// Check format, lints, documentation, tidiness and the contract; write nothing
#[derive(clap::Args)]
pub(crate) struct Check {}

impl Command for Check {
    fn run(self) -> Result<ExitCode> {
        let mut stages = Stages::new();
        check(&mut stages);
        print!("{stages}");
        Ok(stages.exit_code())
    }
}

/// The stages of a check, cheap ones first. `--locked`: a lock file that does not fit is a finding, not repaired here.
pub(crate) fn check(stages: &mut Stages) {
    stages.run("fmt", || run(&mut cargo(&["fmt", "--all", "--", "--check"])));
    stages.run("tidy", tidy::tidy);
    stages.run("contract", contract::contract);
    stages.run("clippy", || {
        run(&mut cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    stages
        .run("doc", || run(cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")));
}
