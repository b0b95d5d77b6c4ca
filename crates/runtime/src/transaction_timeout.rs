//! Whether the transactions of a sink live long enough: a job whose transactions would be over after a restart is not
//! started.

use std::time::Duration;

use highwater_checkpoint::RestartStrategy;
use highwater_state_api::OperatorUid;

use crate::JobError;
use crate::checkpoint_config::CheckpointConfig;
use crate::graph::JobGraph;

/// What a restart may take besides its delay: finding the failure, reading the state, and the waits between the tries of
/// one commit, which add up to 33 s.
const MARGIN: Duration = Duration::from_secs(60);

/// Refuses the first sink whose transactions may be over before they can be committed.
///
/// A transaction is opened at a barrier. It is written into until the next one, which is an interval later, or the least
/// pause if that is longer; the checkpoint that it belongs to may take as long as its timeout; then the job may fail before
/// it has committed, and begin again after the longest delay of its restart strategy. Several failures one after the other
/// take longer: nothing that is finite would be enough for any number of them.
pub(crate) fn check(
    graph: &JobGraph,
    checkpoints: &CheckpointConfig,
    restart: RestartStrategy,
) -> Result<(), JobError> {
    for operator in graph.tasks.iter().flat_map(|task| &task.operators) {
        if let Some(timeout) = operator.sink.as_ref().and_then(|sink| sink.transaction_timeout()) {
            check_sink(&operator.uid, timeout, checkpoints, restart)?;
        }
    }
    Ok(())
}

fn check_sink(
    operator: &OperatorUid,
    timeout: Duration,
    checkpoints: &CheckpointConfig,
    restart: RestartStrategy,
) -> Result<(), JobError> {
    let refused = |needed, explanation| {
        Err(JobError::TransactionTimeout { operator: operator.to_string(), timeout, needed, explanation })
    };
    let Some(interval) = checkpoints.interval else {
        return refused(None, "because there is no checkpoint before the end of the input".to_owned());
    };
    let between = interval.max(checkpoints.min_pause);
    let delay = Duration::from_millis(restart.delay_ms_max());
    let parts = [between, checkpoints.timeout, delay, MARGIN];
    let needed = parts.into_iter().fold(Duration::ZERO, Duration::saturating_add);
    if timeout >= needed {
        return Ok(());
    }
    let [between, checkpoint, delay, margin] = parts.map(|part| part.as_millis());
    let explanation = format!(
        "{between} ms until the next checkpoint, {checkpoint} ms for it, {delay} ms before a restart and {margin} ms for it"
    );
    refused(Some(needed), explanation)
}
