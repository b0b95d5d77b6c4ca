//! Deliberately wrong backends, storages and sinks: a suite that nothing fails proves nothing.
//!
//! Each is a right one with one named defect, and each defect names the case that is meant to catch it. The tests of
//! this crate see to it that it does, and `cargo xtask conformance` shows what else catches it. When you find
//! a mistake that the suite lets pass, add it here first.

mod backend;
mod frozen;
mod sink;
mod storage;
mod tables;
mod upload;

pub use backend::{BackendDefect, WrongBackend};
pub use sink::{SinkDefect, WrongSink, WrongWriter};
pub use storage::{StorageDefect, WrongStorage};

use crate::threads::on_all_cores;
use crate::{Trial, keyed, sink as sink_suite, storage as storage_suite};

/// How something with a defect fared in its suite.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The name of the defect.
    pub defect: String,
    /// What is wrong, as a sentence.
    pub sentence: &'static str,
    /// The name of the case that is meant to catch it.
    pub caught_by: &'static str,
    /// How each case ended.
    pub trials: Vec<Trial>,
}

impl Hunt {
    /// Whether the case that is meant to catch the defect has caught it.
    pub fn is_caught(&self) -> bool {
        self.failed().any(|case| case == self.caught_by)
    }

    /// The names of the cases that caught the defect.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.trials.iter().filter(|trial| trial.failed()).map(|trial| trial.case)
    }
}

/// Which cases are run on something wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cases {
    /// Only the one that is meant to catch it: all that a test has to know.
    Named,
    /// All of them: what else catches it, too.
    All,
}

impl Cases {
    fn include(self, case: &str, named: &str) -> bool {
        self == Self::All || case == named
    }
}

/// Runs cases on every wrong backend, in the order of [`BackendDefect::ALL`].
pub fn hunt_backends(cases: Cases) -> Vec<Hunt> {
    on_all_cores(BackendDefect::ALL, |&defect| Hunt {
        defect: format!("{defect:?}"),
        sentence: defect.sentence(),
        caught_by: defect.caught_by(),
        trials: keyed::run(&|| WrongBackend::under_test(defect), |case| cases.include(case, defect.caught_by())),
    })
}

/// Runs cases on every wrong storage, in the order of [`StorageDefect::ALL`].
pub fn hunt_storages(cases: Cases) -> Vec<Hunt> {
    on_all_cores(StorageDefect::ALL, |&defect| Hunt {
        defect: format!("{defect:?}"),
        sentence: defect.sentence(),
        caught_by: defect.caught_by(),
        trials: storage_suite::run(&|| WrongStorage::under_test(defect), |case| {
            cases.include(case, defect.caught_by())
        }),
    })
}

/// Runs cases on every wrong sink, in the order of [`SinkDefect::ALL`].
pub fn hunt_sinks(cases: Cases) -> Vec<Hunt> {
    on_all_cores(SinkDefect::ALL, |&defect| Hunt {
        defect: format!("{defect:?}"),
        sentence: defect.sentence(),
        caught_by: defect.caught_by(),
        trials: sink_suite::run(&|| WrongSink::under_test(defect), |case| cases.include(case, defect.caught_by())),
    })
}

/// A list of defects: an enum with a sentence for each, and the case of the suite `$suite` that is meant to catch it.
macro_rules! defects {
    (
        $(#[$of_enum:meta])*
        $name:ident, caught by cases of $suite:ident: $case_type:ty;
        $(#[doc = $sentence:literal] $defect:ident => $case:ident,)*
    ) => {
        $(#[$of_enum])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = $sentence] $defect,)*
        }

        impl $name {
            /// Every defect.
            pub const ALL: &[Self] = &[$(Self::$defect),*];

            /// The name of the case that is meant to catch it.
            pub fn caught_by(self) -> &'static str {
                match self {
                    $(Self::$defect => {
                        // Here the compiler sees to it that there is such a case.
                        const _: $case_type = crate::$suite::$case;
                        stringify!($case)
                    })*
                }
            }

            /// What is wrong, as a sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$defect => $sentence.trim_ascii(),)*
                }
            }
        }
    };
}
use defects;
