//! Running seeds: one world each, a panic anywhere in it is a finding too.

use std::panic::{AssertUnwindSafe, catch_unwind};

use highwater_state_api::Checksum;

use crate::coverage::Coverage;
use crate::invariants::Violation;
use crate::planted::Planted;
use crate::world::World;

/// How one seed went.
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What did not hold, if something did not.
    pub violation: Option<Violation>,
    /// The lines of the trace that were kept.
    pub lines: Vec<String>,
    /// Of the whole trace.
    pub trace_hash: Checksum,
    /// What happened.
    pub coverage: Coverage,
}

/// Runs the world of a seed to its end, or until something does not hold.
pub fn run(seed: u64, planted: Option<Planted>, keeps_all_lines: bool) -> Run {
    let mut world = World::new(seed, planted, keeps_all_lines);
    // Nothing of the world is used again after a panic but what it has written down.
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation::new("no panic", message_of(&*panic))),
    };
    Run {
        seed,
        violation,
        lines: world.trace().lines().map(str::to_owned).collect(),
        trace_hash: world.trace().hash(),
        coverage: world.coverage().clone(),
    }
}

/// Runs seeds in turn until one violates an invariant, and returns that one. `done` is called after each.
pub fn search(
    seeds: impl Iterator<Item = u64>,
    planted: Option<Planted>,
    coverage: &mut Coverage,
    mut done: impl FnMut(u64),
) -> Option<Run> {
    for seed in seeds {
        let run = run(seed, planted, false);
        coverage.count("runs");
        coverage.merge(&run.coverage);
        if run.violation.is_some() {
            return Some(run);
        }
        done(seed);
    }
    None
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
