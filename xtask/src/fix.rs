//! `cargo xtask fix`: what a machine can put right. The counterpart of `check`, which never writes.

use std::process::ExitCode;

use anyhow::Result;

use crate::Command;
use crate::cargo::{cargo, run};

/// Let clippy and rustfmt put right what they can
#[derive(clap::Args)]
pub(crate) struct Fix {}

impl Command for Fix {
    fn run(self) -> Result<ExitCode> {
        run(&mut cargo(&["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"]))?;
        // Last, since a fix may leave a line that rustfmt would break.
        run(&mut cargo(&["fmt", "--all"]))?;
        Ok(ExitCode::SUCCESS)
    }
}
