//! Threads for the cases that are about races.

use std::sync::Barrier;
use std::thread;

/// Runs `work` with the numbers below `count`, each on a thread of its own, all let go at once; the results by number.
///
/// # Panics
/// When one of them panics.
pub(crate) fn race<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    thread::scope(|scope| {
        let run = |number| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..count).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("a racing thread panicked")).collect()
    })
}

/// Runs `there` on another thread while `here` runs on this one.
///
/// # Panics
/// When one of them panics.
pub(crate) fn beside<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let there = scope.spawn(there);
        let here = here();
        (there.join().expect("the other thread panicked"), here)
    })
}
