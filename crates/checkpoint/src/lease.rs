//! The lease of whoever holds a job, and the patience of whoever waits for it.
//!
//! Neither decides anything about safety: that is the job log's. A lease says when the holder may believe that nobody else
//! has claimed the job without looking, and silence says when somebody else may try to. Both are measured by the clock of
//! whoever measures; no time is ever written down for others.

use crate::Now;

/// How many times a holder renews within one lease, so that one renewal that is slow or fails costs nothing.
const RENEWALS_PER_LEASE: u64 = 3;

/// For how long the holder of a job may act without looking into the job log.
///
/// It begins when the holder begins what shows that it lives: the append of a record of its own, or a renewal. Whoever waits
/// sees that at that moment at the earliest, and waits a whole lease from then on. So as long as the lease is valid, nobody
/// who waits has claimed the job.
#[derive(Debug, Clone)]
pub struct Lease {
    lease_ms: u64,
    since: Now,
}

impl Lease {
    /// The lease of an attempt whose claim was appended by what began at `begun`.
    pub fn new(lease_ms: u64, begun: Now) -> Self {
        Self { lease_ms, since: begun }
    }

    /// Whether it has not run out.
    ///
    /// The monotonic clock may stand still while the machine is suspended. So the lease has run out as soon as either clock
    /// says so: a wall clock that is put forward costs a look into the log, and one that is put back changes nothing.
    pub fn is_valid(&self, now: Now) -> bool {
        let is_before_end = |now_ms: u64, since_ms: u64| now_ms < since_ms.saturating_add(self.lease_ms);
        is_before_end(now.monotonic_ms, self.since.monotonic_ms)
            && is_before_end(now.wall_clock_ms, self.since.wall_clock_ms)
    }

    /// A record of the own was created in the log; its append began at `begun`. This makes a lease valid that had run out:
    /// whoever was about to claim the job has found the number taken and waits anew.
    pub fn appended(&mut self, begun: Now) {
        if begun.monotonic_ms >= self.since.monotonic_ms {
            self.since = begun;
        }
    }

    /// A renewal that began at `begun` is known at `now` to have been written.
    ///
    /// It does not revive a lease that has run out: somebody may have looked before it was written, and be about to claim.
    pub fn renewed(&mut self, begun: Now, now: Now) {
        if self.is_valid(now) {
            self.appended(begun);
        }
    }
}

/// Time between two renewals of a lease that is so long.
pub fn renewal_interval_ms(lease_ms: u64) -> u64 {
    (lease_ms / RENEWALS_PER_LEASE).max(1)
}

/// For how long the holder of a job has shown no sign of life, as whoever waits has seen it. `T` is all that was seen.
#[derive(Debug, Clone)]
pub struct Silence<T> {
    lease_ms: u64,
    last: Option<(T, u64)>,
}

impl<T: PartialEq> Silence<T> {
    /// Nothing was seen yet.
    pub fn new(lease_ms: u64) -> Self {
        Self { lease_ms, last: None }
    }

    /// What was seen by a look between `begun_ms` and `ended_ms`. Whether the holder has been silent for a whole lease:
    /// the same was seen by a look that had ended a lease before this one began. A look that fails is not a look, so that
    /// whoever cannot see takes nobody for dead.
    pub fn seen(&mut self, begun_ms: u64, ended_ms: u64, seen: T) -> bool {
        match &self.last {
            // Milliseconds are cut off: what differs by one more is at least as long.
            Some((last, since_ms)) if *last == seen => begun_ms.saturating_sub(*since_ms) > self.lease_ms,
            _ => {
                self.last = Some((seen, ended_ms));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { monotonic_ms: ms, wall_clock_ms: 1_000_000 + ms }
    }

    #[test]
    fn a_lease_runs_out_unless_it_is_renewed() {
        let mut lease = Lease::new(300, at(10));
        assert!(lease.is_valid(at(309)) && !lease.is_valid(at(310)));
        lease.renewed(at(110), at(130));
        assert!(lease.is_valid(at(409)) && !lease.is_valid(at(410)), "it counts from the beginning of the renewal");
        assert_eq!(renewal_interval_ms(300), 100);
    }

    #[test]
    fn a_renewal_does_not_revive_a_lease_and_an_append_does() {
        let mut lease = Lease::new(300, at(0));
        lease.renewed(at(290), at(301));
        assert!(!lease.is_valid(at(302)));
        lease.renewed(at(400), at(401));
        assert!(!lease.is_valid(at(402)));
        lease.appended(at(500));
        assert!(lease.is_valid(at(799)) && !lease.is_valid(at(800)));
        lease.appended(at(450));
        assert!(lease.is_valid(at(799)), "a late answer takes nothing away");
    }

    #[test]
    fn a_suspended_machine_is_noticed_by_the_wall_clock() {
        let lease = Lease::new(300, at(0));
        let woken = |wall_clock_ms| Now { monotonic_ms: 5, wall_clock_ms };
        assert!(!lease.is_valid(woken(1_000_300)));
        assert!(lease.is_valid(woken(900_000)), "a clock that is put back says nothing");
    }

    #[test]
    fn silence_is_a_whole_lease_between_two_looks_that_saw_the_same() {
        let mut silence = Silence::new(300);
        assert!(!silence.seen(0, 20, "a"), "the first look sees for the first time");
        assert!(!silence.seen(320, 321, "a"));
        assert!(silence.seen(321, 340, "a"));
        assert!(!silence.seen(400, 420, "b"), "anything new begins the time anew");
        assert!(!silence.seen(720, 730, "b"));
        assert!(silence.seen(721, 730, "b"));
    }

    /// A holder that renews in time is never taken for dead, however the looks of the other and its own suspensions fall.
    #[test]
    fn nobody_claims_while_a_lease_is_valid() {
        for (look_every, renewal_takes, pause_at) in [(7, 3, 100), (90, 40, 333), (250, 99, 77), (299, 1, 610)] {
            let (mut lease, mut silence) = (Lease::new(300, at(0)), Silence::new(300));
            let (mut visible, mut renewal, mut next_look) = (0, None, 0);
            for now in 0..3_000 {
                let is_paused = (pause_at..pause_at + 700).contains(&now);
                if let Some((begun, number)) = renewal.filter(|(begun, _)| now >= begun + renewal_takes && !is_paused) {
                    visible = number;
                    lease.renewed(at(begun), at(now));
                    renewal = None;
                } else if renewal.is_none() && !is_paused && now % renewal_interval_ms(300) == 0 {
                    renewal = Some((now, visible + 1));
                }
                if now >= next_look {
                    next_look = now + look_every;
                    if silence.seen(now, now, visible) {
                        assert!(
                            !lease.is_valid(at(now)),
                            "claimed at {now} ms, {look_every} {renewal_takes} {pause_at}"
                        );
                    }
                }
            }
        }
    }
}
