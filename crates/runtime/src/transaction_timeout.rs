//! Whether the transactions of a sink live long enough: a job whose transactions would be over after a restart is not
//! started.

use std::time::Duration;

use highwater_checkpoint::RestartStrategy;
use highwater_state_api::OperatorUid;

use crate::checkpoint_config::CheckpointConfig;
use crate::graph::JobGraph;
use crate::high_availability::HighAvailability;
use crate::master::caught;
use crate::regions::Regions;
use crate::{FailoverStrategy, JobError};

/// What a restart may take besides its delay: finding the failure, reading the state, and the waits between the tries of
/// one commit, which add up to 33 s.
const MARGIN: Duration = Duration::from_secs(60);

/// Refuses the first sink whose transactions may be over before they can be committed.
///
/// A transaction is opened at a barrier. It is written into until the next one, which is an interval later, or the least
/// pause if that is longer; the checkpoint that it belongs to may take as long as its timeout; then the job may fail before
/// it has committed, and begin again after the longest delay of its restart strategy, or in a standby that has to wait first.
/// Several failures one after the other take longer: nothing that is finite would be enough for any number of them.
///
/// Where one region of the job is restarted, the writers of the others keep what they have opened and prepared for the checkpoint
/// that the failure has aborted, until the next one is complete.
pub(crate) fn check(
    graph: &JobGraph,
    checkpoints: &CheckpointConfig,
    restart: RestartStrategy,
    failover: FailoverStrategy,
    high_availability: HighAvailability,
) -> Result<(), JobError> {
    let has_regions = failover == FailoverStrategy::Region && !Regions::of(graph).is_one();
    let pause = Pauses::of(restart, has_regions, high_availability);
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

/// What may come between a transaction's opening and its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    longest: Duration,
    before: &'static str,
    /// How many checkpoints have to be waited for.
    checkpoints: u32,
}

/// The one that comes is not known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pauses {
    /// Before another attempt of the whole job: either the process goes on, or a standby does.
    whole: Pause,
    /// Before another attempt that goes on with some of the writers.
    of_region: Option<Pause>,
}

impl Pauses {
    fn of(restart: RestartStrategy, has_regions: bool, high_availability: HighAvailability) -> Self {
        let (delay, takeover) = (Duration::from_millis(restart.delay_ms_max()), high_availability.takeover_max());
        let (longest, before) =
            if takeover > delay { (takeover, "a standby takes over") } else { (delay, "a restart") };
        let of_region = Pause { longest: delay, before: "another region is restarted", checkpoints: 2 };
        let is_restarted = has_regions && restart != RestartStrategy::None;
        Self { whole: Pause { longest, before, checkpoints: 1 }, of_region: is_restarted.then_some(of_region) }
    }
}

fn check_sink(
    operator: &OperatorUid,
    timeout: Duration,
    checkpoints: &CheckpointConfig,
    pause: Pauses,
) -> Result<(), JobError> {
    let refused = |needed, explanation| {
        Err(JobError::TransactionTimeout { operator: operator.to_string(), timeout, needed, explanation })
    };
    let Some(interval) = checkpoints.interval else {
        return refused(None, "because there is no checkpoint before the end of the input".to_owned());
    };
    let between = interval.max(checkpoints.min_pause);
    let parts_of = |pause: Pause| {
        let of_checkpoints = [between, checkpoints.timeout].map(|one| one.saturating_mul(pause.checkpoints));
        [of_checkpoints[0], of_checkpoints[1], pause.longest, MARGIN]
    };
    let sum_of = |pause: &Pause| parts_of(*pause).into_iter().fold(Duration::ZERO, Duration::saturating_add);
    let pause = pause.of_region.filter(|of_region| sum_of(of_region) > sum_of(&pause.whole)).unwrap_or(pause.whole);
    let needed = sum_of(&pause);
    if timeout >= needed {
        return Ok(());
    }
    let [between, checkpoint, longest, margin] = parts_of(pause).map(|part| part.as_millis());
    let (next, it) = match pause.checkpoints {
        1 => ("the next checkpoint", "it"),
        _ => ("the next but one checkpoint", "both"),
    };
    let explanation = format!(
        "{between} ms until {next}, {checkpoint} ms for {it}, {longest} ms before {} and {margin} ms for that",
        pause.before
    );
    refused(Some(needed), explanation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(has_regions: bool, standby: bool) -> Pauses {
        let restart = RestartStrategy::FixedDelay { attempts: 1, delay_ms: 10_000 };
        Pauses::of(restart, has_regions, HighAvailability { standby, lease: Duration::from_secs(600) })
    }

    #[test]
    fn what_a_standby_waits_for_counts_where_it_is_longer_than_the_delay_of_a_restart() {
        let pause = |standby| pauses(false, standby).whole;
        assert_eq!((pause(false).longest, pause(false).before), (Duration::from_secs(10), "a restart"));
        assert_eq!((pause(true).longest, pause(true).before), (Duration::from_secs(800), "a standby takes over"));
    }

    #[test]
    fn a_region_is_restarted_by_the_process_itself_if_at_all() {
        assert_eq!(pauses(true, true).of_region.map(|pause| pause.longest), Some(Duration::from_secs(10)));
        assert_eq!(pauses(false, true).of_region, None);
        let never = Pauses::of(RestartStrategy::None, true, HighAvailability { standby: false, lease: Duration::ZERO });
        assert_eq!(never.of_region, None);
    }
}
