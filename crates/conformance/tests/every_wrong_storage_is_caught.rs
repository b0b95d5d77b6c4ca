//! A suite that nothing fails proves nothing: every storage with a defect fails the case that is meant to catch it.

mod support;

use std::sync::Arc;

use highwater_conformance::storage::{self, StorageUnderTest};
use highwater_conformance::wrong::{StorageDefect, WrongStorage};
use highwater_conformance::{Faults, FaultyStorage, ReferenceDisk, ReferenceStorage, Verdict};
use support::on_all_cores;

#[test]
fn the_right_storage_passes_every_case_and_no_case_passes_it_by() {
    let trials = storage::run_all(&|| {
        let (disk, faults) = (ReferenceDisk::default(), Faults::default());
        let set_outage = faults.clone();
        StorageUnderTest::reopened_by(move || FaultyStorage::new(Arc::new(ReferenceStorage::on(&disk)), faults.clone()))
            .with_outage(move |lasts| set_outage.set_outage(lasts))
    });
    for trial in trials {
        assert_eq!(trial.verdict, Verdict::Passed, "{trial}");
    }
}

#[test]
fn every_wrong_storage_fails_the_case_that_is_meant_to_catch_it() {
    let passed = on_all_cores(StorageDefect::ALL, |&defect| {
        let trials = storage::run_all(&|| WrongStorage::under_test(defect));
        let failed: Vec<&str> = trials.iter().filter(|trial| trial.failed()).map(|trial| trial.case).collect();
        let case = defect.caught_by();
        (!failed.contains(&case)).then(|| format!("{defect:?} passes {case}; it fails {failed:?}"))
    });
    assert!(passed.is_empty(), "{}", passed.join("\n"));
}
