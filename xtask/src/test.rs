//! `cargo xtask test`: every test of the workspace, closing with one summary over all test binaries.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::Command;
use crate::cargo::{cargo, describe};

/// The tests that are worth running a second time, optimised: arguments to `cargo test --release`, one run each.
///
/// Where the optimiser could break what holds otherwise: state in memory, its copies, and what writes it to disk.
const RELEASE: &[&[&str]] = &[&[
    "--package=highwater-state-api",
    "--package=highwater-conformance",
    "--package=highwater-state-backend-memory",
    "--package=highwater-state-backend-fs",
]];

/// Run every test and sum up over all test binaries
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Passed on to `cargo test`: a part of a name, `--package NAME`, `-- --nocapture`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Command for Test {
    fn run(self) -> Result<ExitCode> {
        let summary = test(&self.arguments)?;
        print!("{}", summary.remarks());
        println!("{summary}");
        Ok(if summary.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Runs the tests. An error means that they could not be started; failed tests are in the summary.
fn test(arguments: &[String]) -> Result<Summary> {
    let started = Instant::now();
    let mut summary = Summary::default();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Beside `--workspace`, cargo would not heed a `--package`.
    let scope: &[&str] = if names_packages(&arguments) { &[] } else { &["--workspace"] };
    run_into(&mut summary, &[&["test", "--no-fail-fast"], scope, &arguments].concat())?;
    // Somebody who asks for certain tests gets these, once.
    if arguments.is_empty() {
        for release in RELEASE {
            run_into(&mut summary, &[&["test", "--release", "--no-fail-fast"], *release].concat())?;
        }
    }
    summary.took = started.elapsed();
    Ok(summary)
}

/// Whether this line of the output of `cargo xtask test` is the first of its summary.
pub(crate) fn begins_summary(line: &str) -> bool {
    line.starts_with("all ") && line.ends_with(" test binaries:")
}

fn names_packages(arguments: &[&str]) -> bool {
    let mut for_cargo = arguments.iter().take_while(|argument| **argument != "--");
    for_cargo.any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

fn run_into(summary: &mut Summary, arguments: &[&str]) -> Result<()> {
    let mut command = cargo(arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let failed_before = summary.failed;
    if let Some(output) = child.stdout.take() {
        let mut own_output = std::io::stdout().lock();
        // Bytes, not lines of text: a test may print anything.
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            own_output.write_all(&line)?;
            own_output.write_all(b"\n")?;
            summary.read_line(&String::from_utf8_lossy(&line));
        }
        own_output.flush()?;
    }
    let status = child.wait()?;
    if !status.success() && summary.failed == failed_before {
        summary.broken.push(format!(
            "{} ended with {status} though no test failed: one did not compile, or its process died",
            describe(&command)
        ));
    }
    Ok(())
}

/// What the test binaries reported, summed up.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    binaries: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
    measured: u64,
    filtered_out: u64,
    took: Duration,
    failed_tests: Vec<String>,
    ignored_tests: Vec<String>,
    ignored_without_reason: Vec<String>,
    /// Runs that went wrong in another way than by a failed test.
    broken: Vec<String>,
}

impl Summary {
    fn is_ok(&self) -> bool {
        self.failed == 0 && self.ignored_without_reason.is_empty() && self.broken.is_empty()
    }

    /// Takes from a line of output what it says about tests.
    fn read_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.binaries += 1;
            // "ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s"
            let (_, counts) = result.split_once(". ").unwrap_or_default();
            for count in counts.split("; ") {
                let Some((number, what)) = count.split_once(' ') else {
                    continue;
                };
                let Ok(number) = number.parse::<u64>() else { continue };
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    "measured" => self.measured += number,
                    "filtered out" => self.filtered_out += number,
                    _ => {}
                }
            }
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")) {
            match outcome.split_once(", ") {
                _ if outcome == "FAILED" => self.failed_tests.push(name.to_owned()),
                _ if outcome == "ignored" => self.ignored_without_reason.push(name.to_owned()),
                Some(("ignored", reason)) => self.ignored_tests.push(format!("{name}: {reason}")),
                _ => {}
            }
        }
    }

    /// What stands above the summary: everything that a reader would otherwise search for in the output.
    fn remarks(&self) -> String {
        let mut remarks = format!("\nall {} test binaries:\n", self.binaries);
        let lists = [
            ("ignored", &self.ignored_tests),
            (
                "ignored without a reason, write #[ignore = \"why\"] (in documentation: no_run or text)",
                &self.ignored_without_reason,
            ),
            ("failed", &self.failed_tests),
            ("broken", &self.broken),
        ];
        for (what, entries) in lists {
            for entry in entries {
                remarks.push_str(&format!("  {what}: {entry}\n"));
            }
        }
        remarks
    }
}

/// The line with which the runner closes each binary, for all of them.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, measured, filtered_out, took, .. } = self;
        let result = if self.is_ok() { "ok" } else { "FAILED" };
        let seconds = took.as_secs_f64();
        write!(f, "test result: {result}. {passed} passed; {failed} failed; {ignored} ignored; {measured} measured; ")?;
        write!(f, "{filtered_out} filtered out; finished in {seconds:.2}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(output: &str) -> Summary {
        let mut summary = Summary::default();
        output.lines().for_each(|line| summary.read_line(line));
        summary
    }

    #[test]
    fn binaries_are_summed_up_in_the_words_of_the_runner() {
        let summary = summary_of(
            "running 2 tests
             test result: not at the start of a line
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 1.50s
",
        );
        assert!(summary.is_ok());
        assert_eq!(
            summary.to_string(),
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s"
        );
    }

    #[test]
    fn packages_that_are_named_replace_the_workspace() {
        assert!(names_packages(&["-p", "highwater-sim"]) && names_packages(&["--package=highwater-sim"]));
        assert!(!names_packages(&["late", "--", "--package"]));
    }

    #[test]
    fn a_failed_test_fails_the_whole_and_is_named() {
        let summary = summary_of(
            "test protocol::late ... FAILED
test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        assert!(!summary.is_ok());
        assert!(summary.to_string().starts_with("test result: FAILED. 2 passed; 1 failed;"), "{summary}");
        assert!(summary.remarks().contains("failed: protocol::late"));
    }

    #[test]
    fn an_ignored_test_needs_a_reason() {
        assert!(summary_of("test slow ... ignored, takes an hour").is_ok());
        let summary = summary_of("test slow ... ignored");
        assert!(!summary.is_ok());
        assert!(summary.remarks().contains("without a reason"), "{}", summary.remarks());
    }

    #[test]
    fn a_binary_that_died_fails_the_whole_without_a_failed_test() {
        let mut summary = summary_of("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        summary.broken.push("signal: 11".to_owned());
        assert!(summary.to_string().starts_with("test result: FAILED. 2 passed; 0 failed"), "{summary}");
    }
}
