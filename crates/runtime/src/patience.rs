//! How long the storage is asked again: for a checkpoint as long as it may still complete, for a start a few times.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use highwater_checkpoint::retry_wait_ms;
use highwater_state_api::CheckpointId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::job::until_cancelled;
use crate::retrying_storage::Patience;

/// How often a start asks before it fails; then the restart strategy says when there is another one.
const START_TRIES_MAX: u32 = 5;
/// How many checkpoints that are over are remembered. Nobody writes for one that is older than so many others.
const OVER_MAX: usize = 64;

/// The patience of a start, and of the end of a job: a second and a half, or until the job is cancelled or nobody waits any longer.
#[derive(Debug, Clone)]
pub(crate) struct StartPatience {
    is_over: watch::Receiver<bool>,
}

impl StartPatience {
    /// Ends when the job is cancelled.
    pub(crate) fn until(cancelled: watch::Receiver<bool>) -> Self {
        Self { is_over: cancelled }
    }

    /// For work at the end of a job, and what ends it.
    pub(crate) fn of_end() -> (Self, EndOfPatience) {
        let (end, is_over) = watch::channel(false);
        (Self { is_over }, EndOfPatience(end))
    }
}

/// Ends the patience of work at the end of a job.
pub(crate) struct EndOfPatience(watch::Sender<bool>);

/// How long work may take to notice that nobody waits for it any longer.
const NOTICE_DEADLINE: Duration = Duration::from_millis(200);

impl EndOfPatience {
    /// Nobody waits any longer. The work ends, unless a call of the storage hangs; otherwise it would sleep until it may ask again,
    /// beyond the end of the runtime that wakes it.
    pub(crate) async fn end<T>(self, work: JoinHandle<T>) {
        self.0.send_replace(true);
        // If a call hangs nobody can end it.
        let _ = timeout(NOTICE_DEADLINE, work).await;
    }
}

#[async_trait]
impl Patience for StartPatience {
    fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    async fn wait(&self, tries: u32) -> bool {
        if tries >= START_TRIES_MAX {
            return false;
        }
        let mut is_over = self.is_over.clone();
        tokio::select! {
            biased;
            () = until_cancelled(&mut is_over) => false,
            () = tokio::time::sleep(Duration::from_millis(retry_wait_ms(tries))) => true,
        }
    }
}

/// Which checkpoints of an attempt nobody waits for any more. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OverCheckpoints(watch::Sender<Over>);

#[derive(Debug, Default)]
struct Over {
    checkpoints: BTreeSet<CheckpointId>,
    is_ended: bool,
}

impl Over {
    fn has(&self, checkpoint: CheckpointId) -> bool {
        self.is_ended || self.checkpoints.contains(&checkpoint)
    }
}

impl OverCheckpoints {
    /// A checkpoint has failed or is complete.
    pub(crate) fn add(&self, checkpoint: CheckpointId) {
        self.0.send_modify(|over| {
            over.checkpoints.insert(checkpoint);
            if over.checkpoints.len() > OVER_MAX {
                over.checkpoints.pop_first();
            }
        });
    }

    /// The attempt is over, and with it every checkpoint.
    pub(crate) fn end(&self) {
        self.0.send_modify(|over| over.is_ended = true);
    }

    /// Patience for what is written for a checkpoint from now on, which may take `timeout` at most.
    pub(crate) fn patience(
        &self,
        checkpoint: CheckpointId,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Arc<dyn Patience> {
        let deadline = clock.monotonic().saturating_add(timeout);
        Arc::new(CheckpointPatience { over: self.clone(), checkpoint, clock, deadline })
    }
}

/// The patience of a checkpoint: until its deadline, and no longer than anybody waits for it.
struct CheckpointPatience {
    over: OverCheckpoints,
    checkpoint: CheckpointId,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

impl fmt::Debug for CheckpointPatience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patience for checkpoint {}", self.checkpoint)
    }
}

#[async_trait]
impl Patience for CheckpointPatience {
    fn is_over(&self) -> bool {
        self.over.0.borrow().has(self.checkpoint)
    }

    async fn wait(&self, tries: u32) -> bool {
        let wait = Duration::from_millis(retry_wait_ms(tries));
        // Rather say now what is wrong than be found late.
        if self.clock.monotonic().saturating_add(wait) >= self.deadline {
            return false;
        }
        let mut over = self.over.0.subscribe();
        tokio::select! {
            biased;
            _ = over.wait_for(|over| over.has(self.checkpoint)) => false,
            () = tokio::time::sleep(wait) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands still.
    struct Stopped(Duration);

    impl Clock for Stopped {
        fn monotonic(&self) -> Duration {
            self.0
        }

        fn wall_clock_ms(&self) -> u64 {
            0
        }
    }

    fn wait(patience: &dyn Patience, tries: u32) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(patience.wait(tries))
    }

    #[test]
    fn a_checkpoint_is_not_waited_for_beyond_its_deadline() {
        let clock = Arc::new(Stopped(Duration::from_secs(5)));
        let patience = OverCheckpoints::default().patience(CheckpointId(1), clock, Duration::from_millis(150));
        assert!(wait(&*patience, 1), "100 ms are within the deadline");
        assert!(!wait(&*patience, 2), "200 ms are not, and are not waited for");
    }

    #[test]
    fn a_checkpoint_that_is_over_is_not_waited_for() {
        let clock = Arc::new(Stopped(Duration::ZERO));
        let over = OverCheckpoints::default();
        let patience = |checkpoint| over.patience(CheckpointId(checkpoint), clock.clone(), Duration::from_secs(3_600));
        over.add(CheckpointId(7));
        assert!(patience(7).is_over() && !wait(&*patience(7), 1));
        assert!(wait(&*patience(8), 1));
        over.end();
        assert!(!wait(&*patience(8), 1));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let over = OverCheckpoints::default();
        (1..=1_000).for_each(|checkpoint| over.add(CheckpointId(checkpoint)));
        assert_eq!(over.0.borrow().checkpoints.len(), OVER_MAX);
        assert!(over.0.borrow().has(CheckpointId(1_000)));
    }

    /// Contract: O287.
    #[test]
    fn a_start_asks_a_few_times() {
        let (patience, end) = StartPatience::of_end();
        assert!(wait(&patience, START_TRIES_MAX - 1));
        assert!(!wait(&patience, START_TRIES_MAX));
        assert!(!patience.is_over());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { end.end(tokio::spawn(async {})).await });
        assert!(patience.is_over() && !wait(&patience, 1));
    }
}
