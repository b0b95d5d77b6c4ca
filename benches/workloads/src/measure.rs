//! Clocks and spreads: wall time, processor time as the kernel counts it, and what to print of several runs.

use std::fmt;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

/// Clock ticks a second in `/proc`, the same on every Linux that this is likely to meet.
const TICKS_PER_SECOND: f64 = 100.0;

/// A moment of this process and of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    wall: Instant,
    /// Processor seconds of this process, all threads, also those that have ended; in steps of 10 ms.
    process: f64,
    /// Processor seconds of the whole machine, as far as it was not idle.
    machine: f64,
}

/// What lies between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// Seconds on the wall.
    pub(crate) wall: f64,
    /// Processor seconds of this process.
    pub(crate) cpu: f64,
    /// Processors that others kept busy, on average.
    pub(crate) others: f64,
}

impl Moment {
    pub(crate) fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // The name of the command may hold anything, so count from the parenthesis after it.
        let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no parenthesis")?;
        // The state, a letter, is no number: then ppid is the first, utime the 11th, stime the 12th.
        let ticks: f64 = numbers(fields).skip(10).take(2).sum();
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let times: Vec<f64> = numbers(line).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already.
        let busy: f64 = times.iter().take(8).enumerate().filter(|(at, _)| !(3..=4).contains(at)).map(|(_, t)| t).sum();
        Ok(Self { wall: Instant::now(), process: ticks / TICKS_PER_SECOND, machine: busy / TICKS_PER_SECOND })
    }

    pub(crate) fn until(&self, end: &Self) -> Took {
        let wall = end.wall.duration_since(self.wall).as_secs_f64();
        let cpu = end.process - self.process;
        Took { wall, cpu, others: (end.machine - self.machine - cpu).max(0.0) / wall }
    }
}

/// The numbers in a line, without the words.
fn numbers(line: &str) -> impl Iterator<Item = f64> {
    line.split_whitespace().filter_map(|word| word.parse().ok())
}

/// Nanoseconds that this thread was on a processor.
pub(crate) fn thread_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().context("schedstat is empty")?;
    Ok(first.parse()?)
}

/// Several measurements of the same thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn add(&mut self, measured: f64) {
        let at = self.0.partition_point(|other| *other < measured);
        self.0.insert(at, measured);
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() {
            0 => f64::NAN,
            length if length % 2 == 1 => self.0[middle],
            _ => f64::midpoint(self.0[middle - 1], self.0[middle]),
        }
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(measured: I) -> Self {
        let mut spread = Self::default();
        measured.into_iter().for_each(|measured| spread.add(measured));
        spread
    }
}

/// The median, with the smallest and the largest behind it.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = self.median();
        let digits = if median < 10.0 { 2 } else { usize::from(median < 100.0) };
        let [first, last] = [self.0.first(), self.0.last()].map(|end| end.copied().unwrap_or(f64::NAN));
        write!(f, "{median:.digits$} ({first:.digits$}–{last:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_shows_its_median_and_its_ends() {
        let spread: Spread = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!(spread.to_string(), "2.00 (1.00–3.00)");
        let spread: Spread = [150.0, 100.0].into_iter().collect();
        assert_eq!(spread.to_string(), "125 (100–150)");
    }

    #[test]
    fn the_process_has_used_its_processor() {
        let start = Moment::now().unwrap();
        let mut sum = 0u64;
        while start.wall.elapsed().as_millis() < 60 {
            sum = sum.wrapping_add(std::hint::black_box(sum));
        }
        let took = start.until(&Moment::now().unwrap());
        assert!(took.wall >= 0.06 && took.cpu > 0.0 && took.cpu < took.wall * 8.0, "{took:?}");
    }
}
