//! Whether the transactions of a sink live long enough: a job whose transactions would be over after a restart is not
//! started.

use std::time::Duration;

use highwater_checkpoint::RestartStrategy;
use highwater_state_api::OperatorUid;

use crate::JobError;
use crate::checkpoint_config::CheckpointConfig;
use crate::graph::JobGraph;
use crate::high_availability::HighAvailability;
use crate::master::caught;

/// What a restart may take besides its delay: finding the failure, reading the state, and the waits between the tries of
/// one commit, which add up to 33 s.
const MARGIN: Duration = Duration::from_secs(60);

/// Refuses the first sink whose transactions may be over before they can be committed.
///
/// A transaction is opened at a barrier. It is written into until the next one, which is an interval later, or the least
/// pause if that is longer; the checkpoint that it belongs to may take as long as its timeout; then the job may fail before
/// it has committed, and begin again after the longest delay of its restart strategy, or in a standby that has to wait first.
/// Several failures one after the other take longer: nothing that is finite would be enough for any number of them.
pub(crate) fn check(
    graph: &JobGraph,
    checkpoints: &CheckpointConfig,
    restart: RestartStrategy,
    high_availability: HighAvailability,
) -> Result<(), JobError> {
    let pause = Pause::before_the_next_attempt(restart, high_availability);
    for operator in graph.tasks.iter().flat_map(|task| &task.operators) {
        let Some(sink) = &operator.sink else { continue };
        let timeout = caught(|| Ok(sink.transaction_timeout()))
            .map_err(|source| JobError::Start { operator: operator.uid.to_string(), source })?;
        if let Some(timeout) = timeout {
            check_sink(&operator.uid, timeout, checkpoints, pause)?;
        }
    }
    Ok(())
}

/// How long nobody may run the job.
#[derive(Clone, Copy)]
struct Pause {
    longest: Duration,
    before: &'static str,
}

impl Pause {
    /// Either the process goes on, or a standby does.
    fn before_the_next_attempt(restart: RestartStrategy, high_availability: HighAvailability) -> Self {
        let (delay, takeover) = (Duration::from_millis(restart.delay_ms_max()), high_availability.takeover_max());
        if takeover > delay {
            Self { longest: takeover, before: "a standby takes over" }
        } else {
            Self { longest: delay, before: "a restart" }
        }
    }
}

fn check_sink(
    operator: &OperatorUid,
    timeout: Duration,
    checkpoints: &CheckpointConfig,
    pause: Pause,
) -> Result<(), JobError> {
    let refused = |needed, explanation| {
        Err(JobError::TransactionTimeout { operator: operator.to_string(), timeout, needed, explanation })
    };
    let Some(interval) = checkpoints.interval else {
        return refused(None, "because there is no checkpoint before the end of the input".to_owned());
    };
    let between = interval.max(checkpoints.min_pause);
    let parts = [between, checkpoints.timeout, pause.longest, MARGIN];
    let needed = parts.into_iter().fold(Duration::ZERO, Duration::saturating_add);
    if timeout >= needed {
        return Ok(());
    }
    let [between, checkpoint, longest, margin] = parts.map(|part| part.as_millis());
    let explanation = format!(
        "{between} ms until the next checkpoint, {checkpoint} ms for it, {longest} ms before {} and {margin} ms for that",
        pause.before
    );
    refused(Some(needed), explanation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(standby: bool) -> Pause {
        let restart = RestartStrategy::FixedDelay { attempts: 1, delay_ms: 10_000 };
        Pause::before_the_next_attempt(restart, HighAvailability { standby, lease: Duration::from_secs(600) })
    }

    #[test]
    fn what_a_standby_waits_for_counts_where_it_is_longer_than_the_delay_of_a_restart() {
        assert_eq!((pause(false).longest, pause(false).before), (Duration::from_secs(10), "a restart"));
        assert_eq!((pause(true).longest, pause(true).before), (Duration::from_secs(800), "a standby takes over"));
    }
}
