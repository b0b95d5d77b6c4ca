//! The one place where the runtime asks what time it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use highwater_checkpoint::Now;

/// Tells the time; one value, held by the job.
pub(crate) trait Clock: Send + Sync {
    /// Time since a fixed instant; never goes backwards.
    fn monotonic(&self) -> Duration;

    /// Milliseconds since the epoch on the wall clock. For people: nothing is decided by it.
    fn wall_clock_ms(&self) -> u64;

    /// Both, as machines are told.
    fn now(&self) -> Now {
        Now { monotonic_ms: self.monotonic().as_millis() as u64, wall_clock_ms: self.wall_clock_ms() }
    }
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn wall_clock_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        since_epoch.map_or(0, |duration| duration.as_millis() as u64)
    }
}
