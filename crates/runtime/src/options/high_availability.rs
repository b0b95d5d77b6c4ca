//! The options that concern several processes of one job: who waits for whom, and for how long.

use std::time::Duration;

use highwater_state_api::{ConfigOption, OptionDescription};

/// Whether a process waits while another one holds the job.
pub const STANDBY: ConfigOption<bool> = ConfigOption::new(
    "high-availability.standby",
    "Whether a process waits while another one runs the job, and takes over when that one's lease has run out; while it \
     runs the job itself it renews its lease. To be set in all processes of the job. Otherwise a start fences whoever runs \
     the job.",
)
.with_default("false");

/// How long a lease is.
pub const LEASE_DURATION: ConfigOption<Duration> = ConfigOption::new(
    "high-availability.lease-duration",
    "For how long a process that runs a job may show no sign of life before a standby takes over, and may act without \
     having looked into the job log whether one has. A lease is renewed three times as often.",
)
.with_default("15 s")
.with_check("a duration from 100 ms to 1 d, such as 15 s or 500 (milliseconds)", |lease| {
    (Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(lease)
});

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    vec![STANDBY.describe(), LEASE_DURATION.describe()]
}
