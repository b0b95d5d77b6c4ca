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
            let interval_ms = self.interval_ms.filter(|_| !self.is_stopped);
            self.periodic_at_ms = interval_ms.map(|interval_ms| now_ms.saturating_add(interval_ms));
        }
    }

    /// Whether periodic checkpoints are taken, now or once every subtask runs.
    pub(crate) fn is_periodic(&self) -> bool {
        self.interval_ms.is_some() && !self.is_stopped
    }

    /// Takes periodic checkpoints again; the first one once the pause is over.
    pub(crate) fn start_periodic(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.is_stopped) && self.is_running {
            self.periodic_at_ms = self.interval_ms.map(|_| now_ms.saturating_add(self.min_pause_ms));
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
                let next = self.periodic_at_ms.zip(self.interval_ms).map(|(at_ms, interval_ms)| {
                    let next_ms = at_ms.saturating_add(interval_ms);
                    if next_ms > now_ms { next_ms } else { now_ms.saturating_add(interval_ms) }
                });
                self.periodic_at_ms = next;
            }
        }
    }
}
