//! A deterministic world for the production tasks and machines.
//!
//! A seed decides everything: which subtask steps next and how far, which message arrives when or never, which storage
//! operation fails and whether it happened all the same, when the process is killed and with how many subtasks it comes
//! back. What runs is the production code: subtasks and their chains, the master with its coordinator, the start of an
//! attempt, the asynchronous half of snapshots, storage work. Only threads, clock, storage and sink are the world's own.
//!
//! * [`World`] is one such world, [`run`] runs that of a seed, [`search`] those of many.
//! * A [`Violation`] is what must hold and does not; each invariant has a file that says where it comes from.
//! * [`Planted`] bugs, in wrappers around the production parts, prove that a violation would be noticed.

mod coverage;
mod damage;
mod dice;
mod ending;
mod invariants;
mod job;
mod observe;
mod overlap;
mod planted;
mod preparing;
mod probe;
mod process;
mod record;
mod runner;
mod scenario;
mod schedule;
mod storage;
mod takeover;
mod trace;
mod view;
mod work;
mod world;

pub use coverage::Coverage;
pub use invariants::Violation;
pub use planted::Planted;
pub use runner::{Run, run, search};
pub use world::World;

#[cfg(test)]
mod simulation_test;
