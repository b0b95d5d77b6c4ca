//! The checkpoint protocol as pure machines.
//!
//! A machine is a value: events go in, actions come out, time is an argument and a deadline is an answer. Nothing in
//! this crate reads a clock, draws a random number, waits, spawns or logs, and nothing depends on an iteration order
//! that is not fixed.

mod action;
mod event;
mod vocabulary;

pub use action::{Action, AttemptFailure};
pub use event::{Acknowledgement, Decline, Event};
pub use vocabulary::{
    CheckpointFailure, CheckpointMetadata, DeclineReason, EnumeratorState, LogRecord, Now, OperatorSnapshot,
    OperatorState, SubtaskSnapshot,
};
