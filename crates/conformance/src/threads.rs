//! Threads for the cases that are about races.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;

use crate::trial;

/// Runs `work` with the numbers below `count`, each on a thread of its own, all let go at once; the results by number.
///
/// # Panics
/// When one of them panics, with its panic.
pub(crate) fn race<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    let on_trial = trial::is_on();
    thread::scope(|scope| {
        let run = |number| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                trial::on_another_thread(on_trial, || work(number))
            })
        };
        let running: Vec<_> = (0..count).map(run).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Runs `there` on another thread while `here` runs on this one.
///
/// # Panics
/// When one of them panics, with its panic.
pub(crate) fn beside<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let on_trial = trial::is_on();
    thread::scope(|scope| {
        let there = scope.spawn(move || trial::on_another_thread(on_trial, there));
        let here = here();
        (there.join().unwrap_or_else(|panic| resume_unwind(panic)), here)
    })
}
