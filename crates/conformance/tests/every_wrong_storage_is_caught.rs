//! A suite that nothing fails proves nothing: every storage with a defect fails the case that is meant to catch it.

use std::sync::Arc;

use highwater_conformance::storage::{self, StorageUnderTest};
use highwater_conformance::wrong::{Cases, hunt_storages};
use highwater_conformance::{Faults, FaultyStorage, ReferenceDisk, ReferenceStorage, Verdict};

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
    let hunts = hunt_storages(Cases::Named);
    assert!(!hunts.is_empty());
    for hunt in hunts {
        assert!(hunt.is_caught(), "{} passes {}", hunt.defect, hunt.caught_by);
    }
}
