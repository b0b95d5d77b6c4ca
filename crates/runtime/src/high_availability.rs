//! How the processes of a job share it: what was set, what the configuration asks for, or the defaults.

use std::time::Duration;

use highwater_state_api::{ConfigError, ConfigNotices, Configuration};

use crate::options::high_availability::*;
use crate::plan::JobConfig;
use crate::{JobError, options, standby};

/// What code has set; `None` where it has not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HighAvailabilitySettings {
    pub(crate) standby: Option<bool>,
    pub(crate) lease: Option<Duration>,
}

/// What a job runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HighAvailability {
    /// Whether it waits for whoever runs the job, and renews its lease while it runs it.
    pub(crate) standby: bool,
    pub(crate) lease: Duration,
}

impl HighAvailability {
    /// How long it may take until a standby takes over; nothing where none does.
    pub(crate) fn takeover_max(&self) -> Duration {
        if self.standby { standby::takeover_max(self.lease) } else { Duration::ZERO }
    }
}

/// Chooses, and logs what somebody should change in the configuration.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default.
pub(crate) fn choose(config: &JobConfig) -> Result<HighAvailability, JobError> {
    let mut notices = ConfigNotices::default();
    let chosen = choose_with(&config.high_availability, &config.layered_configuration(), &mut notices);
    options::log_notices(&config.name, &notices);
    Ok(chosen?)
}

pub(crate) fn choose_with(
    set: &HighAvailabilitySettings,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<HighAvailability, ConfigError> {
    let standby = match set.standby {
        Some(standby) => Some(standby),
        None => configuration.get(&STANDBY, notices)?,
    };
    let lease = match set.lease {
        Some(lease) => Some(LEASE_DURATION.check(lease, &format!("{lease:?}"))?),
        None => configuration.get(&LEASE_DURATION, notices)?,
    };
    Ok(HighAvailability {
        standby: standby.unwrap_or_default(),
        lease: lease.expect("the option has a default, which is valid"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(set: HighAvailabilitySettings, keys: &[(&str, &str)]) -> Result<HighAvailability, String> {
        let configuration: Configuration =
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        choose_with(&set, &configuration, &mut ConfigNotices::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_job_does_not_stand_by_unless_it_is_asked_to() {
        let nothing = HighAvailabilitySettings::default();
        let default = HighAvailability { standby: false, lease: Duration::from_secs(15) };
        assert_eq!(chosen(nothing, &[]), Ok(default));
        let keys = [("high-availability.standby", "true"), ("high-availability.lease-duration", "30 s")];
        let configured = HighAvailability { standby: true, lease: Duration::from_secs(30) };
        assert_eq!(chosen(nothing, &keys), Ok(configured));
        let by_code = HighAvailabilitySettings { standby: Some(false), lease: Some(Duration::from_secs(1)) };
        assert_eq!(chosen(by_code, &keys), Ok(HighAvailability { standby: false, lease: Duration::from_secs(1) }));
    }

    #[test]
    fn a_lease_that_is_too_short_to_be_renewed_is_refused() {
        let by_code = HighAvailabilitySettings { standby: None, lease: Some(Duration::from_millis(99)) };
        assert!(chosen(by_code, &[]).unwrap_err().contains("expected a duration from 100 ms"));
        let configured = chosen(HighAvailabilitySettings::default(), &[("high-availability.lease-duration", "2 d")]);
        assert!(configured.unwrap_err().starts_with("high-availability.lease-duration: \"2 d\" is not valid"));
    }
}
