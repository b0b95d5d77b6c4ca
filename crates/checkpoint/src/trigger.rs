//! The trigger policy: when a checkpoint is due, and for what reason.

use crate::config::CoordinatorConfig;

/// Least wait before the final checkpoint is tried again: without it, a storage that fails at once would be asked
/// without a pause.
const FINAL_RETRY_MS_MIN: u64 = 200;

/// Why a checkpoint is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The interval has passed.
    Periodic,
    /// Somebody asked for it.
    Requested,
    /// Every subtask has ended.
    Final,
}

/// When checkpoints are due. Whether there is room for another one is not asked here.
#[derive(Debug, Clone)]
pub(crate) struct Trigger {
    interval_ms: Option<u64>,
    /// The interval while a source works through a backlog; `Some(None)`: none is taken then.
    backlog_interval_ms: Option<Option<u64>>,
    is_backlog: bool,
    /// The first periodic checkpoint does not wait for the interval.
    is_first_early: bool,
    min_pause_ms: u64,
    /// Periodic checkpoints are stopped.
    is_stopped: bool,
    /// When the next periodic checkpoint is due; `None` before every subtask runs.
    periodic_at_ms: Option<u64>,
    /// No periodic checkpoint before this time.
    pause_until_ms: u64,
    /// When the final checkpoint is due; `None` before every subtask has ended, and while one is pending.
    final_at_ms: Option<u64>,
    is_final: bool,
    is_running: bool,
}

impl Trigger {
    pub(crate) fn new(config: &CoordinatorConfig) -> Self {
        Self {
            // An interval below the pause could not be kept anyway.
            interval_ms: config.interval_ms.map(|interval_ms| interval_ms.max(config.min_pause_ms).max(1)),
            backlog_interval_ms: None,
            is_backlog: false,
            is_first_early: false,
            min_pause_ms: config.min_pause_ms,
            is_stopped: false,
            periodic_at_ms: None,
            pause_until_ms: 0,
            final_at_ms: None,
            is_final: false,
            is_running: false,
        }
    }

    /// Every subtask runs, or has ended.
    pub(crate) fn running(&mut self, now_ms: u64) {
        if !self.is_running {
            self.is_running = true;
            let interval_ms = self.current_interval_ms().filter(|_| !self.is_stopped);
            let wait_ms =
                interval_ms.map(|interval_ms| if self.is_first_early { self.min_pause_ms } else { interval_ms });
            self.periodic_at_ms = wait_ms.map(|wait_ms| now_ms.saturating_add(wait_ms));
        }
    }

    /// Sets the interval while a source works through a backlog; 0: none is taken then.
    pub(crate) fn set_backlog_interval(&mut self, interval_ms: u64) {
        let least_ms = self.min_pause_ms;
        self.backlog_interval_ms = Some((interval_ms > 0).then(|| interval_ms.max(least_ms)));
    }

    /// Has the first periodic checkpoint wait for the minimum pause alone.
    pub(crate) fn set_first_early(&mut self) {
        self.is_first_early = true;
    }

    /// A source has begun to work through a backlog, or the last one has done so. What is due within the interval that
    /// applies from now on stays due then.
    pub(crate) fn set_backlog(&mut self, now_ms: u64, is_backlog: bool) {
        if std::mem::replace(&mut self.is_backlog, is_backlog) != is_backlog && self.is_running && !self.is_stopped {
            let latest = self.current_interval_ms().map(|interval_ms| now_ms.saturating_add(interval_ms));
            self.periodic_at_ms = latest.map(|latest| self.periodic_at_ms.map_or(latest, |at_ms| at_ms.min(latest)));
        }
    }

    fn current_interval_ms(&self) -> Option<u64> {
        let backlog = self.backlog_interval_ms.filter(|_| self.is_backlog && self.interval_ms.is_some());
        backlog.unwrap_or(self.interval_ms)
    }

    /// Whether periodic checkpoints are taken, now or once every subtask runs.
    pub(crate) fn is_periodic(&self) -> bool {
        self.interval_ms.is_some() && !self.is_stopped
    }

    /// Takes periodic checkpoints again; the first one once the pause is over.
    pub(crate) fn start_periodic(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.is_stopped) && self.is_running {
            self.periodic_at_ms = self.current_interval_ms().map(|_| now_ms.saturating_add(self.min_pause_ms));
        }
    }

    pub(crate) fn stop_periodic(&mut self) {
        self.is_stopped = true;
        self.periodic_at_ms = None;
    }

    /// Whether every subtask has run.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether every subtask has ended.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    /// How much of the pause after the last completion is left, in milliseconds.
    pub(crate) fn pause_left_ms(&self, now_ms: u64) -> u64 {
        self.pause_until_ms.saturating_sub(now_ms)
    }

    /// Every subtask has ended: from now on, only the final checkpoint is of use.
    pub(crate) fn ended(&mut self, now_ms: u64) {
        if !self.is_final {
            self.is_final = true;
            self.final_at_ms = Some(now_ms);
        }
    }

    pub(crate) fn completed(&mut self, now_ms: u64) {
        self.pause_until_ms = now_ms.saturating_add(self.min_pause_ms);
    }

    pub(crate) fn final_failed(&mut self, now_ms: u64) {
        self.final_at_ms = Some(now_ms.saturating_add(self.min_pause_ms.max(FINAL_RETRY_MS_MIN)));
    }

    /// Whether the final checkpoint is due now.
    pub(crate) fn final_due(&self, now_ms: u64) -> Option<Reason> {
        self.final_at_ms.filter(|at_ms| *at_ms <= now_ms).map(|_| Reason::Final)
    }

    /// Whether a periodic checkpoint is due now.
    pub(crate) fn periodic_due(&self, now_ms: u64) -> Option<Reason> {
        self.periodic_deadline().filter(|at_ms| *at_ms <= now_ms).map(|_| Reason::Periodic)
    }

    /// When a checkpoint will be due if nothing else happens.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.is_final { self.final_at_ms } else { self.periodic_deadline() }
    }

    fn periodic_deadline(&self) -> Option<u64> {
        self.periodic_at_ms.map(|at_ms| at_ms.max(self.pause_until_ms))
    }

    /// A checkpoint is triggered.
    pub(crate) fn triggered(&mut self, now_ms: u64, reason: Reason) {
        match reason {
            Reason::Final => self.final_at_ms = None,
            Reason::Requested => {}
            Reason::Periodic => {
                // At a fixed rate, but what was missed is not made up for.
                let next = self.periodic_at_ms.zip(self.current_interval_ms()).map(|(at_ms, interval_ms)| {
                    let next_ms = at_ms.saturating_add(interval_ms);
                    if next_ms > now_ms { next_ms } else { now_ms.saturating_add(interval_ms) }
                });
                self.periodic_at_ms = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_test::config;

    /// A trigger with an interval of a second that runs since 0.
    fn running(backlog_interval_ms: u64) -> Trigger {
        let mut trigger = Trigger::new(&config());
        trigger.set_backlog_interval(backlog_interval_ms);
        trigger.running(0);
        trigger
    }

    /// Contract: J218.
    #[test]
    fn during_a_backlog_its_interval_applies_and_afterwards_the_next_trigger_is_at_most_one_usual_interval_away() {
        let mut trigger = running(60_000);
        trigger.set_backlog(400, true);
        assert_eq!(trigger.next_deadline(), Some(1_000), "what was due stays due");
        trigger.triggered(1_000, Reason::Periodic);
        assert_eq!(trigger.next_deadline(), Some(61_000));
        trigger.set_backlog(5_000, true);
        assert_eq!(trigger.next_deadline(), Some(61_000), "a second source changes nothing");
        trigger.set_backlog(7_000, false);
        assert_eq!(trigger.next_deadline(), Some(8_000));
        trigger.triggered(8_000, Reason::Periodic);
        assert_eq!(trigger.next_deadline(), Some(9_000));
        // What is due earlier is not moved away.
        trigger.set_backlog(8_100, true);
        trigger.set_backlog(8_300, false);
        assert_eq!(trigger.next_deadline(), Some(9_000));
    }

    /// Contract: J218.
    #[test]
    fn an_interval_of_zero_means_no_checkpoint_during_a_backlog() {
        let mut trigger = running(0);
        trigger.set_backlog(400, true);
        assert_eq!(trigger.next_deadline(), None);
        trigger.stop_periodic();
        trigger.start_periodic(500);
        assert_eq!(trigger.next_deadline(), None);
        trigger.set_backlog(7_000, false);
        assert_eq!(trigger.next_deadline(), Some(8_000));
    }

    #[test]
    fn without_a_usual_interval_there_is_none_during_a_backlog_either() {
        let mut trigger = Trigger::new(&crate::CoordinatorConfig { interval_ms: None, ..config() });
        trigger.set_backlog_interval(60_000);
        trigger.set_backlog(0, true);
        trigger.running(0);
        trigger.set_backlog(10, false);
        assert_eq!(trigger.next_deadline(), None);
    }

    #[test]
    fn an_early_first_checkpoint_waits_for_the_pause_alone() {
        let mut trigger = Trigger::new(&crate::CoordinatorConfig { min_pause_ms: 30, ..config() });
        trigger.set_first_early();
        trigger.running(100);
        assert_eq!(trigger.next_deadline(), Some(130));
        trigger.triggered(130, Reason::Periodic);
        assert_eq!(trigger.next_deadline(), Some(1_130));
    }
}
