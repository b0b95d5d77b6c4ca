//! Deliberately wrong backends and storages: a suite that nothing fails proves nothing.
//!
//! Each is a right one with one named defect, and each defect names the case that is meant to catch it. The tests of
//! this crate run every case on every one of them. When you find a mistake that the suite lets pass, add it here first.

mod backend;
mod frozen;
mod storage;
mod tables;
mod upload;

pub use backend::{BackendDefect, WrongBackend};
pub use storage::{StorageDefect, WrongStorage};

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
