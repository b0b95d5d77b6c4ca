//! The plan of a chaos run: which moments to kill at, drawn from a seed. The same seed gives the same plan.

use crate::random::Random;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The parallelisms that starts choose among.
const PARALLELISM_MAX: u32 = 4;
/// When to kill instead if the end of the job came sooner than the kill.
const INSTEAD_OF_ENDING: Duration = Duration::from_millis(300);

/// The moment at which a process is to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// This long after its start: perhaps before it has claimed the job.
    Early { after: Duration },
    /// This long after all of its subtasks were running.
    Running { after: Duration },
    /// Soon after it has triggered its `nth` checkpoint.
    Pending { nth: u64, after: Duration },
    /// Between the metadata and the log record of a checkpoint; `skip` of its checkpoints go through before.
    BeforeLogAppend { skip: u64 },
    /// When it has read the checkpoint that it goes on from, and no subtask runs yet.
    Recovery,
    /// When a transaction is about to be committed; `skip` of its transactions go through before.
    Commit { skip: u64 },
    /// Soon after the input has ended and the last transactions are being committed.
    Ending { after: Duration },
}

impl Aim {
    /// The failpoint that stops the process at the moment, in the syntax of `FAILPOINTS`.
    pub(crate) fn failpoint(self) -> Option<String> {
        match self {
            Aim::BeforeLogAppend { skip } => Some(format!("before-log-append={skip}*off->sleep(600000)")),
            Aim::Recovery => Some("during-recovery=sleep(600000)".to_owned()),
            Aim::Commit { skip } => Some(format!("during-commit={skip}*off->sleep(600000)")),
            Aim::Early { .. } | Aim::Running { .. } | Aim::Pending { .. } | Aim::Ending { .. } => None,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aim::Early { after } => write!(f, "{} ms after the start", after.as_millis()),
            Aim::Running { after } => write!(f, "running for {} ms", after.as_millis()),
            Aim::Pending { nth, after } => write!(f, "trigger {nth} + {} us", after.as_micros()),
            Aim::BeforeLogAppend { skip } => write!(f, "before log append {}", skip + 1),
            Aim::Recovery => f.write_str("during recovery"),
            Aim::Commit { skip } => write!(f, "during commit {}", skip + 1),
            Aim::Ending { after } => write!(f, "last commits + {} us", after.as_micros()),
        }
    }
}

/// A process that is to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) aim: Aim,
    pub(crate) parallelism: u32,
}

/// The kills to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    kills: VecDeque<Kill>,
    /// The parallelism of the process that finishes the job after the last kill.
    pub(crate) last_parallelism: u32,
}

impl Plan {
    /// Of `kills` kills, more than enough aim at each kind of moment that is wanted; the order is drawn.
    pub(crate) fn new(seed: u64, kills: u32) -> Self {
        let mut random = Random(seed);
        let share = |percent: u32| (kills * percent).div_ceil(100);
        let mut aims = Vec::new();
        let ms = |random: &mut Random, from, to| Duration::from_millis(random.between(from, to));
        let us = |random: &mut Random, to| Duration::from_micros(random.between(0, to));
        for _ in 0..share(14) {
            aims.push(Aim::BeforeLogAppend { skip: random.between(0, 4) });
        }
        aims.extend((0..share(14)).map(|_| Aim::Recovery));
        for _ in 0..share(10) {
            aims.push(Aim::Commit { skip: random.between(0, 12) });
        }
        // These may miss, so that twice as many are wanted.
        for _ in 0..share(40).min(kills - aims.len() as u32) {
            aims.push(Aim::Pending { nth: random.between(1, 6), after: us(&mut random, 2_000) });
        }
        for _ in 0..kills * 4 / 100 {
            aims.push(Aim::Ending { after: us(&mut random, 500) });
        }
        for _ in 0..kills * 6 / 100 {
            aims.push(Aim::Early { after: ms(&mut random, 0, 120) });
        }
        while aims.len() < kills as usize {
            aims.push(Aim::Running { after: ms(&mut random, 60, 600) });
        }
        random.shuffle(&mut aims);
        // So that there is always another one to begin a round with.
        if let Some(other) = aims.iter().rposition(|aim| *aim != Aim::Recovery) {
            let last = aims.len() - 1;
            aims.swap(other, last);
        }
        let mut parallelism = 0;
        let mut next_parallelism = || {
            let others: Vec<u32> = (1..=PARALLELISM_MAX).filter(|other| *other != parallelism).collect();
            parallelism = others[random.below(others.len() as u64) as usize];
            parallelism
        };
        let kills = aims.into_iter().map(|aim| Kill { aim, parallelism: next_parallelism() }).collect();
        Self { kills, last_parallelism: next_parallelism() }
    }

    /// The next kill; it stays the next one until it is [`Plan::done`]. A round that is just beginning has no checkpoint
    /// to recover from, so that it begins with something else.
    pub(crate) fn next(&mut self, round_begins: bool) -> Option<Kill> {
        if round_begins && self.kills.front()?.aim == Aim::Recovery {
            let other = self.kills.iter().position(|kill| kill.aim != Aim::Recovery);
            self.kills.swap(0, other.unwrap_or(0));
        }
        self.kills.front().copied()
    }

    /// The job had finished before the next kill could happen. That can be, again and again, only to one that aims at the
    /// end: it becomes another one.
    pub(crate) fn missed(&mut self) {
        if let Some(Kill { aim: aim @ Aim::Ending { .. }, .. }) = self.kills.front_mut() {
            *aim = Aim::Running { after: INSTEAD_OF_ENDING };
        }
    }

    /// The next kill has happened.
    pub(crate) fn done(&mut self) {
        self.kills.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_seed_another() {
        assert_eq!(Plan::new(7, 50), Plan::new(7, 50));
        assert_ne!(Plan::new(7, 50), Plan::new(8, 50));
    }

    #[test]
    fn as_many_kills_are_planned_as_were_asked_for() {
        for kills in 5..60 {
            assert_eq!(Plan::new(1, kills).kills.len(), kills as usize);
        }
    }

    #[test]
    fn every_restart_has_another_parallelism() {
        for seed in 0..20 {
            let plan = Plan::new(seed, 50);
            let parallelism: Vec<u32> = plan.kills.iter().map(|kill| kill.parallelism).collect();
            assert!(parallelism.windows(2).all(|pair| pair[0] != pair[1]), "{parallelism:?}");
            assert!((1..=4).all(|each| parallelism.contains(&each)), "{parallelism:?}");
        }
    }

    #[test]
    fn no_round_begins_with_a_recovery() {
        for seed in 0..100 {
            let mut plan = Plan::new(seed, 20);
            while let Some(kill) = plan.next(true) {
                assert!(kill.aim != Aim::Recovery || plan.kills.iter().all(|kill| kill.aim == Aim::Recovery));
                plan.done();
                // The round goes on: what comes next may be a recovery.
                if plan.next(false).is_some() {
                    plan.done();
                }
            }
        }
    }
}
