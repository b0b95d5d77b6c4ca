//! The trace of a run: one line for each thing that happened, and a hash of them all.

use std::collections::VecDeque;
use std::fmt;

use highwater_state_api::{Checksum, RunningChecksum};

/// How many lines are kept unless all are.
const KEPT_LINES: usize = 60;

/// Where what happens is written down.
pub struct Trace {
    lines: VecDeque<String>,
    keeps_all: bool,
    written: u64,
    hash: RunningChecksum,
}

impl Trace {
    /// A trace that keeps all lines, or only the last ones.
    pub fn new(keeps_all: bool) -> Self {
        Self { lines: VecDeque::new(), keeps_all, written: 0, hash: RunningChecksum::default() }
    }

    /// Writes a line: when, who, what.
    pub fn write(&mut self, now_ms: u64, actor: impl fmt::Display, what: impl fmt::Display) {
        let actor = actor.to_string();
        let line = format!("{now_ms:>6} ms  {actor:<12}  {what}");
        self.hash.update(line.as_bytes());
        self.written += 1;
        if !self.keeps_all && self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The lines that were kept, in order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// How many lines were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Of every line that was written: equal runs have equal hashes.
    pub fn hash(&self) -> Checksum {
        self.hash.finish()
    }
}
