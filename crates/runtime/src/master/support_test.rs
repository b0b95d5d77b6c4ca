//! What the tests of the master have in common: sources that hand out numbers, a configuration of such sources, the time.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use highwater_checkpoint::{CoordinatorConfig, Now, OperatorPlan, TaskPlan};
use highwater_state_api::{BoxedError, JobName, MaxParallelism, OperatorUid};

use crate::graph::AnyEnumerator;

/// What the next snapshot of an enumerator does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Mood {
    #[default]
    Good,
    Fails,
    Panics,
}

/// Hands out numbers.
#[derive(Default)]
pub(super) struct Numbers {
    next: u8,
    pub(super) mood: Arc<Mutex<Mood>>,
    pub(super) is_behind: Arc<Mutex<bool>>,
}

impl AnyEnumerator for Numbers {
    fn next_split(&mut self, _: u32) -> Result<Option<Bytes>, BoxedError> {
        self.next += 1;
        Ok(Some(Bytes::from(vec![self.next])))
    }

    fn snapshot(&self) -> Result<Vec<u8>, BoxedError> {
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Good => Ok(vec![self.next]),
            Mood::Fails => Err("the topic is away".into()),
            Mood::Panics => panic!("boom"),
        }
    }

    fn is_processing_backlog(&self) -> bool {
        *self.is_behind.lock().unwrap()
    }
}

/// A job of these sources, each with one subtask and a group of its own.
pub(super) fn config_of_sources(uids: &[&str]) -> CoordinatorConfig {
    let task = |(group, uid): (u32, &&str)| TaskPlan {
        parallelism: 1,
        is_source: true,
        upstream: Vec::new(),
        group,
        finished: false,
        operators: vec![OperatorPlan {
            uid: OperatorUid::new(*uid).unwrap(),
            max_parallelism: MaxParallelism::new(8).unwrap(),
        }],
    };
    CoordinatorConfig {
        job: JobName::new("job").unwrap(),
        interval_ms: Some(1_000),
        timeout_ms: 600,
        min_pause_ms: 0,
        max_concurrent: 1,
        tolerable_failures: 0,
        checkpoints_after_tasks_finish: true,
        retain: 1,
        key_hash: "a-hash".to_owned(),
        tasks: (0..).zip(uids).map(task).collect(),
    }
}

/// Both clocks at once.
pub(super) fn at(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_clock_ms: ms }
}
