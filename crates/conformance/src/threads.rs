//! Threads: for the cases that are about races, and for running the suites on many things at once.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
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

/// Does some work on every item, on as many threads as there are cores; the results in the order of the items.
///
/// # Panics
/// When the work panics.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
