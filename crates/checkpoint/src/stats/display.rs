//! The statistics of checkpoints as a text that can be read at night.

use std::fmt;
use std::time::Duration;

use highwater_state_api::SubtaskId;
use jiff::Timestamp;

use super::{
    CheckpointStats, CheckpointStatsCounts, CheckpointStatsSnapshot, CheckpointStatsStatus, SubtaskStateStats,
};

/// How many subtasks are listed at most where there may be thousands.
const LISTED_MAX: usize = 8;

/// First how it ended and why, then who was late, then what took so long, then how much state there is.
impl fmt::Display for CheckpointStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "checkpoint {} of attempt {}, triggered {}",
            self.checkpoint,
            self.attempt,
            time(self.triggered_at_ms)
        )?;
        let after = duration(self.ended_after.unwrap_or_default());
        match &self.status {
            CheckpointStatsStatus::InProgress => writeln!(f, ": IN PROGRESS")?,
            CheckpointStatsStatus::Completed => writeln!(f, ": COMPLETED after {after}")?,
            CheckpointStatsStatus::Failed(failure) => {
                writeln!(f, ": FAILED after {after}")?;
                writeln!(f, "  because       {} - {failure}", failure.reason.name())?;
            }
        }
        self.fmt_late(f)?;
        if self.acknowledged().next().is_none() {
            return Ok(());
        }
        self.fmt_slowest(
            f,
            "alignment",
            |it| it.metrics.alignment_duration,
            |it| format!(", {} processed meanwhile", bytes(it.metrics.bytes_processed_during_alignment)),
        )?;
        self.fmt_slowest(f, "start delay", SubtaskStateStats::start_delay, |_| String::new())?;
        self.fmt_slowest(f, "sync part", |it| it.metrics.sync_duration, |_| String::new())?;
        self.fmt_slowest(f, "async part", |it| it.metrics.async_duration, |_| String::new())?;
        self.fmt_state(f)
    }
}

impl CheckpointStats {
    fn fmt_late(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_begun {
            return writeln!(f, "  acknowledged  by nobody: no subtask was asked");
        }
        let late: Vec<SubtaskId> = self.not_acknowledged().collect();
        if !late.is_empty() {
            let names: Vec<String> = late.iter().take(LISTED_MAX).map(|subtask| self.name_of(*subtask)).collect();
            write!(f, "  missing       {}", names.join(", "))?;
            match late.len() - names.len() {
                0 => writeln!(f)?,
                others => writeln!(f, " and {others} more")?,
            }
        }
        let of = self.acknowledged().count();
        write!(f, "  acknowledged  by {of} of {}", of + late.len())?;
        match self.latest_acknowledgement() {
            Some((subtask, it)) => {
                writeln!(f, ", the last was {} after {}", self.name_of(subtask), duration(it.acknowledged_after))
            }
            None => writeln!(f),
        }
    }

    fn fmt_slowest(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        of: impl Fn(&SubtaskStateStats) -> Duration,
        more: impl Fn(&SubtaskStateStats) -> String,
    ) -> fmt::Result {
        match self.acknowledged().max_by_key(|(_, it)| of(it)).filter(|(_, it)| of(it) > Duration::ZERO) {
            Some((subtask, it)) => {
                let (longest, name, more) = (duration(of(it)), self.name_of(subtask), more(it));
                writeln!(f, "  {what:<13} up to {longest}, at {name}{more}")
            }
            None => Ok(()),
        }
    }

    fn fmt_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, new) = (bytes(self.state_size()), bytes(self.checkpointed_size()));
        writeln!(f, "  state         {all}, of it new: {new}")?;
        for operator in self.tasks.iter().flat_map(|task| &task.operators) {
            let mut sizes = self.operator_state_bytes(operator);
            let sum: u64 = sizes.iter().map(|(_, size)| size).sum();
            if sum == 0 {
                continue;
            }
            // The largest first: a key that has too much state shows here.
            sizes.sort_by_key(|(subtask, size)| (std::cmp::Reverse(*size), *subtask));
            let listed = sizes.iter().take(LISTED_MAX).map(|(it, size)| format!("{} at {}", bytes(*size), it.subtask));
            let listed = listed.collect::<Vec<_>>().join(", ");
            write!(f, "    {operator}: {} - {listed}", bytes(sum))?;
            match sizes.len().saturating_sub(LISTED_MAX) {
                0 => writeln!(f)?,
                others => writeln!(f, " and less at {others} more")?,
            }
        }
        Ok(())
    }
}

/// One line with all numbers.
impl fmt::Display for CheckpointStatsCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { restored, in_progress, completed, failed } = self;
        write!(f, "{completed} completed, {failed} failed, {in_progress} in progress, {restored} restored")
    }
}

/// The numbers, what is pending, then what has ended, newest first.
impl fmt::Display for CheckpointStatsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "checkpoints: {}", self.counts)?;
        if let Some(restored) = self.restored {
            writeln!(f, "the last attempt went on from checkpoint {restored}")?;
        }
        let is_older = |latest: &&std::sync::Arc<CheckpointStats>| !self.history.contains(latest);
        let older = [&self.latest_completed, &self.latest_failed].into_iter().flatten().filter(is_older);
        let ended = self.history.iter().chain(older).map(|stats| &**stats);
        self.pending.iter().rev().chain(ended).try_for_each(|stats| write!(f, "{stats}"))
    }
}

/// A duration as people read it: what is measured is never as exact as nanoseconds.
fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}.{} ms", duration.as_millis(), duration.subsec_micros() / 100 % 10),
        seconds @ 1..120 => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn time(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms).ok().and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok());
    timestamp.map_or_else(|| format!("at {at_ms} ms"), |timestamp| timestamp.to_string())
}

/// A size as people read it; a `kb` of the configuration is a KiB.
fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 1_024 {
        return format!("{size} B");
    }
    let mut scaled = size as f64 / 1_024.0;
    let mut unit = 0;
    while scaled >= 1_023.95 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_decimal_at_most() {
        for (nanoseconds, text) in [
            (0, "0.0 ms"),
            (1_234_567, "1.2 ms"),
            (400_000_000, "400.0 ms"),
            (1_999_999_999, "1.9 s"),
            (73_400_000_000, "73.4 s"),
            (600_200_000_000, "10 min 0 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanoseconds)), text);
        }
    }
}
