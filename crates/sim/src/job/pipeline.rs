//! The pipelines of the simulated job. No record goes from one to the other: each is a region that is restarted alone.

use std::ops::Range;
use std::sync::Arc;

use super::Outside;
use crate::record::Input;
use crate::scenario::Topology;

/// Sources that end at different times, a counter and a sink, with what they read and where they write.
#[derive(Clone)]
pub(crate) struct Pipeline {
    /// What its operators are called.
    pub uids: &'static Uids,
    /// What is read.
    pub input: Arc<Input>,
    /// Where is written to.
    pub outside: Outside,
}

/// What the operators of a pipeline are called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Uids {
    /// The sources.
    pub sources: &'static [&'static str],
    /// The counter.
    pub counter: &'static str,
    /// The sink.
    pub sink: &'static str,
}

/// Of the pipelines, the one that every job has first.
pub(crate) const PIPELINES: [Uids; 2] = [
    Uids { sources: &["source", "second-source"], counter: "counter", sink: "sink" },
    Uids { sources: &["other-source"], counter: "other-counter", sink: "other-sink" },
];

impl Uids {
    /// Whether this is an operator of the pipeline that there is a probe around.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.sources.contains(&uid) || self.counter == uid || self.sink == uid
    }
}

impl Pipeline {
    /// The splits of each of its sources.
    pub(super) fn splits(&self) -> Vec<Range<u32>> {
        match self.uids.sources {
            [_] => std::iter::once(0..self.input.splits()).collect(),
            _ => self.input.sources().into(),
        }
    }

    /// How many subtasks its tasks have in a process.
    pub(super) fn topology(&self, process: Topology) -> Topology {
        match self.uids.sources {
            [_] => Topology { sources: 1, counters: process.counters.min(2), sinks: 1 },
            _ => process,
        }
    }
}
