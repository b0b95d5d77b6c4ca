//! The plan of a round in which two processes contend: what happens to whoever runs the job, drawn from a seed.

use std::time::Duration;

use crate::random::Random;

/// The parallelisms that starts choose among.
const PARALLELISM_MAX: u64 = 3;

/// What happens to the process that runs the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// It is killed this long after its subtasks were running.
    Kill { after: Duration },
    /// It is stopped this long after its subtasks were running, and goes on again.
    Stop { after: Duration, lasts: Duration },
    /// It is stopped by a failpoint between the record of a checkpoint and the commit of one of its transactions, and goes
    /// on again.
    StopBeforeCommit { lasts: Duration },
}

/// What happens in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoundPlan {
    pub(crate) disturbances: Vec<Disturbance>,
    /// How many transactions of each process are committed before the failpoint.
    pub(crate) commits_before: u64,
    seed: u64,
}

impl RoundPlan {
    /// The plan of round `number`. A round in three stops a process before a commit.
    pub(crate) fn draw(seed: u64, number: u32, lease: Duration) -> Self {
        let mut random = Random(seed ^ (u64::from(number) << 32));
        let lease_ms = lease.as_millis() as u64;
        let after = |random: &mut Random| Duration::from_millis(random.between(20, 500));
        let longer = |random: &mut Random| Duration::from_millis(random.between(lease_ms + lease_ms / 2, lease_ms * 3));
        let mut disturbances = Vec::new();
        if number.is_multiple_of(3) || random.below(10) == 0 {
            disturbances.push(Disturbance::StopBeforeCommit { lasts: longer(&mut random) });
        }
        for _ in 0..random.between(1, 2) {
            disturbances.push(match random.below(10) {
                0..4 => Disturbance::Kill { after: after(&mut random) },
                4..6 => {
                    let lasts = Duration::from_millis(random.between(lease_ms / 6, lease_ms));
                    Disturbance::Stop { after: after(&mut random), lasts }
                }
                _ => Disturbance::Stop { after: after(&mut random), lasts: longer(&mut random) },
            });
        }
        Self { disturbances, commits_before: random.below(8), seed: random.next() }
    }

    /// The parallelism of the round's process `number`.
    pub(crate) fn parallelism(&self, number: u64) -> u64 {
        Random(self.seed.wrapping_add(number)).between(1, PARALLELISM_MAX)
    }

    /// Whether a process is to be stopped before a commit.
    pub(crate) fn stops_before_commit(&self) -> bool {
        self.disturbances.iter().any(|disturbance| matches!(disturbance, Disturbance::StopBeforeCommit { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(300);

    #[test]
    fn the_same_seed_gives_the_same_rounds_and_another_seed_others() {
        let rounds = |seed| -> Vec<RoundPlan> { (1..=20).map(|number| RoundPlan::draw(seed, number, LEASE)).collect() };
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        assert_ne!(rounds(7)[0], rounds(7)[1]);
    }

    #[test]
    fn more_than_a_quarter_of_the_rounds_stop_before_a_commit_for_longer_than_the_lease() {
        for seed in 0..20 {
            let rounds: Vec<RoundPlan> = (1..=200).map(|number| RoundPlan::draw(seed, number, LEASE)).collect();
            assert!(rounds.iter().filter(|round| round.stops_before_commit()).count() > 60);
            for disturbance in rounds.iter().flat_map(|round| &round.disturbances) {
                if let Disturbance::StopBeforeCommit { lasts } = disturbance {
                    assert!(*lasts > LEASE);
                }
            }
        }
    }
}
