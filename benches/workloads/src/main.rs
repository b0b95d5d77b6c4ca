//! The first numbers of Highwater: workloads A `value_rmw` and B keyed count, beside what else could be used for them.
//!
//! ```text
//! cargo run --release -p highwater-workloads
//! cargo run --release -p highwater-workloads -- value_rmw passes=9
//! cargo run --release -p highwater-workloads -- keyed_count events=2000000 parallelism=1 rounds=7 only=highwater
//! ```
//!
//! Contenders take turns in one process; what is printed is the median of their runs, with the smallest and the
//! largest behind it.

#![allow(clippy::print_stdout, reason = "the tables are what the program is for")]

mod keyed_count;
mod measure;
mod stream;
mod value_rmw;

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let mut options = Options::parse(std::env::args().skip(1))?;
    let workload = std::mem::take(&mut options.workload);
    if workload.is_empty() || workload == "value_rmw" {
        let plan = value_rmw::Plan {
            keys: options.take("keys", 1_000_000)?,
            operations: options.take("operations", 4_000_000)?,
            passes: options.take("passes", 5)?,
            only: options.take("only", String::new())?,
        };
        if !workload.is_empty() {
            options.check()?;
        }
        value_rmw::run(&plan)?;
    }
    if workload.is_empty() || workload == "keyed_count" {
        let both = options.take("parallelism", 0)?;
        let plan = keyed_count::Plan {
            events: options.take("events", 10_000_000)?,
            keys: options.take("keys", 1_000_000)?,
            parallelism: if both == 0 { vec![1, 2] } else { vec![both] },
            checkpoint_interval_ms: options.take("interval_ms", 1_000)?,
            rounds: options.take("rounds", 5)?,
            only: options.take("only", String::new())?,
        };
        options.check()?;
        keyed_count::run(&plan)?;
    }
    if !["", "value_rmw", "keyed_count"].contains(&workload.as_str()) {
        bail!("{workload:?} is no workload: there are `value_rmw` and `keyed_count`");
    }
    Ok(())
}

/// A workload, and options of the form `name=value`.
struct Options {
    workload: String,
    values: BTreeMap<String, String>,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { workload: String::new(), values: BTreeMap::new() };
        for argument in arguments {
            match argument.split_once('=') {
                Some((name, value)) => drop(options.values.insert(name.to_owned(), value.to_owned())),
                None if options.workload.is_empty() => options.workload = argument,
                None => bail!("{argument:?} is not of the form name=value"),
            }
        }
        Ok(options)
    }

    fn take<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(&mut self, name: &str, or: T) -> Result<T> {
        match self.values.remove(name) {
            Some(value) => value.parse().with_context(|| format!("{name}={value}")),
            None => Ok(or),
        }
    }

    /// Every option must have been taken.
    fn check(&self) -> Result<()> {
        match self.values.keys().next() {
            Some(name) => bail!("there is no option {name:?} here"),
            None => Ok(()),
        }
    }
}
