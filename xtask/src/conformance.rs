//! `cargo xtask conformance`: which backend, storage and sink keeps which part of the contract, and which wrong ones
//! are caught; with `--packaged`, that the suites can be used from outside the workspace.

mod packaged;

use std::process::ExitCode;

use anyhow::Result;

use crate::Command;
use crate::cargo::{announce, cargo, run};

/// Run the conformance suites on every backend, storage and sink, and on the wrong ones, and print what holds
#[derive(clap::Args)]
pub(crate) struct Conformance {
    /// Only built for development, not for release too
    #[arg(long)]
    dev: bool,
    /// Instead: copy the crates as they would be packaged, and run the suites from a crate outside the workspace
    #[arg(long, conflicts_with = "dev")]
    packaged: bool,
}

impl Command for Conformance {
    fn run(self) -> Result<ExitCode> {
        if self.packaged {
            packaged::check()?;
            return Ok(ExitCode::SUCCESS);
        }
        let example = ["run", "--quiet", "--locked", "--example", "conformance"];
        announce("the example conformance");
        run(&mut cargo(&example))?;
        if !self.dev {
            println!();
            announce("the example conformance for release");
            run(&mut cargo(&[&example[..], &["--release"]].concat()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
