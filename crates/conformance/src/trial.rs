//! Running the cases of a suite as values: how each ended, and not one line of panic on the screen.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The contract was kept.
    Passed,
    /// The case is about something that what is tested does not have, such as bytes, or an outage on command.
    PassedBy,
    /// The contract was broken; what the case says about it.
    Failed(String),
}

/// One case that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The name of the case.
    pub case: &'static str,
    /// How it ended.
    pub verdict: Verdict,
}

impl Trial {
    /// Whether the contract was broken.
    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Passed => write!(f, "{}: passed", self.case),
            Verdict::PassedBy => write!(f, "{}: passed by", self.case),
            Verdict::Failed(why) => write!(f, "{}: FAILED: {why}", self.case),
        }
    }
}

thread_local! {
    /// Whether a trial runs on this thread: then a panic is a verdict and nothing to report.
    static ON_TRIAL: Cell<bool> = const { Cell::new(false) };
    static PASSED_BY: Cell<bool> = const { Cell::new(false) };
}

/// Says that the case that is running does not apply to what it is run on.
pub(crate) fn pass_by() {
    PASSED_BY.set(true);
}

/// Whether a trial runs on this thread.
pub(crate) fn is_on() -> bool {
    ON_TRIAL.get()
}

/// Runs a part of a case on another thread, where a trial runs if `on_trial`.
pub(crate) fn on_another_thread<T>(on_trial: bool, work: impl FnOnce() -> T) -> T {
    ON_TRIAL.set(on_trial);
    work()
}

/// Runs a case and keeps its panic.
///
/// The process's panic hook is wrapped, once, in one that is silent about panics of trials and of nothing else.
pub(crate) fn run(case: &'static str, work: impl FnOnce()) -> Trial {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !ON_TRIAL.get() {
                report(panic);
            }
        }));
    });
    PASSED_BY.set(false);
    let outer = ON_TRIAL.replace(true);
    // What a failed case leaves behind is dropped with it: each makes its own backend or storage.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    ON_TRIAL.set(outer);
    let verdict = match outcome {
        Err(panic) => Verdict::Failed(message(&*panic)),
        Ok(()) if PASSED_BY.get() => Verdict::PassedBy,
        Ok(()) => Verdict::Passed,
    };
    Trial { case, verdict }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::race;

    #[test]
    fn a_trial_tells_how_its_case_ended() {
        let verdict = |work: fn()| run("case", work).verdict;
        assert_eq!(verdict(|| {}), Verdict::Passed);
        assert_eq!(verdict(pass_by), Verdict::PassedBy);
        assert_eq!(verdict(|| {}), Verdict::Passed);
        assert_eq!(verdict(|| panic!("{} of {}", 1, 2)), Verdict::Failed("1 of 2".into()));
        assert_eq!(verdict(|| panic!("plain")), Verdict::Failed("plain".into()));
        assert!(!is_on());
    }

    #[test]
    fn the_panic_of_a_thread_of_a_case_is_the_panic_of_the_case() {
        let trial = run("case", || drop(race(3, |number| assert!(is_on() && number != 2, "the last one"))));
        assert_eq!(trial.to_string(), "case: FAILED: the last one");
    }
}
