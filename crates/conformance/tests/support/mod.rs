//! What several tests share: work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does some work on every item, on as many threads as there are cores, and gives what it says about them.
///
/// # Panics
/// When the work panics.
pub(crate) fn on_all_cores<T: Sync>(items: &[T], work: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let said = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = work(item);
                    said.lock().unwrap_or_else(PoisonError::into_inner).extend(outcome);
                }
            });
        }
    });
    said.into_inner().unwrap_or_else(PoisonError::into_inner)
}
