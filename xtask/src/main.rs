//! The project's chores behind `cargo xtask`: one file a command.
//!
//! A new command takes two lines here: its `mod`, and its entry in [`COMMANDS`].
#![allow(clippy::print_stdout, reason = "a command line tool speaks on standard output")]

mod cargo;
mod chaos;
mod check;
mod ci;
mod code;
mod conformance;
mod contract;
mod finding;
mod fix;
mod random;
mod sim;
mod stages;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{ArgMatches, Args};

const COMMANDS: &[Entry] = &[
    Entry::of::<check::Check>("check"),
    Entry::of::<fix::Fix>("fix"),
    Entry::of::<test::Test>("test"),
    Entry::of::<tidy::Tidy>("tidy"),
    Entry::of::<contract::ContractCommand>("contract"),
    Entry::of::<conformance::Conformance>("conformance"),
    Entry::of::<sim::Sim>("sim"),
    Entry::of::<chaos::Chaos>("chaos"),
    Entry::of::<ci::Ci>("ci"),
];

/// A command: its options are the fields, its help is the doc comment.
trait Command: Args {
    fn run(self) -> anyhow::Result<ExitCode>;
}

/// A [`Command`] with its type erased, so that all of them fit into one list.
struct Entry {
    name: &'static str,
    describe: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches) -> anyhow::Result<ExitCode>,
}

impl Entry {
    const fn of<C: Command>(name: &'static str) -> Self {
        Self { name, describe: C::augment_args, run: |matches| C::from_arg_matches(matches)?.run() }
    }
}

fn command_line() -> clap::Command {
    let subcommands = COMMANDS.iter().map(|entry| (entry.describe)(clap::Command::new(entry.name)));
    clap::Command::new("xtask")
        .bin_name("cargo xtask")
        .about("The project's chores")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(subcommands)
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    let chosen = matches.subcommand().and_then(|(name, options)| {
        let entry = COMMANDS.iter().find(|entry| entry.name == name)?;
        Some((entry.run)(options))
    });
    match chosen {
        Some(Ok(code)) => code,
        // Without the backtrace that `main` would print: a chore that fails has said where.
        Some(Err(error)) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
        None => ExitCode::FAILURE, // clap refuses an unknown command before we see it
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_describes_itself() {
        let command_line = super::command_line();
        command_line.clone().debug_assert();
        for command in command_line.get_subcommands() {
            assert!(command.get_about().is_some(), "{} has no doc comment on its struct", command.get_name());
        }
    }
}
