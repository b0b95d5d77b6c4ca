//! Work that takes long says so: nobody else can tell a start that reads much from one whose storage, or whose
//! application, never answers, nor a standby that waits from one that sees nothing.

use std::time::Duration;

use highwater_state_api::JobName;
use tokio::time::timeout;

/// What is said of a start.
pub(crate) const START: &str =
    "the start is not over yet: it waits for the storage, reads state, or waits for code of the application";
/// What is said of the restart of a region, while the others go on.
pub(crate) const REGION: &str =
    "the region is not restarted yet: that waits for the storage, reads state, or waits for code of the application";
/// What is said of a standby that looks at the job log.
pub(crate) const LOOK: &str = "the standby cannot see the job log: the storage has not answered";

/// What is said of a deletion.
pub(crate) const CLEAN_UP: &str =
    "a deletion is not over yet: the storage has not answered. Only other deletions and the end of the job wait for it";

/// How often it is said that work is not over yet.
const REMINDER: Duration = Duration::from_secs(30);

/// Waits for work, and warns with this text for as long as it takes.
pub(crate) async fn watched<T>(job: &JobName, text: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut seconds = 0;
    loop {
        if let Ok(done) = timeout(REMINDER, &mut work).await {
            return done;
        }
        seconds += REMINDER.as_secs();
        tracing::warn!(target: "highwater::job", %job, seconds, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_test::log_of;

    #[test]
    fn a_start_that_takes_long_says_so_again_and_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let job = JobName::new("sums").unwrap();
        let log_of_start = |seconds| {
            log_of(|| {
                let work = async { tokio::time::sleep(Duration::from_secs(seconds)).await };
                runtime.block_on(watched(&job, START, work));
            })
        };
        assert_eq!(log_of_start(29), "");
        let log = log_of_start(70);
        let reminders: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
        assert_eq!(reminders.len(), 2, "{log}");
        assert!(
            reminders[0].contains(START)
                && reminders[0].contains("job=sums seconds=30")
                && reminders[1].contains("seconds=60"),
            "{log}"
        );
    }
}
