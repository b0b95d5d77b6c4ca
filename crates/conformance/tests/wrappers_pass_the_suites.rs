//! The references keep the contracts, and so do the wrappers as long as they are not told to fail.

use std::sync::Arc;

use highwater_conformance::keyed::BackendUnderTest;
use highwater_conformance::storage::StorageUnderTest;
use highwater_conformance::{
    Faults, FaultyStorage, Recording, RecordingStorage, ReferenceBackend, ReferenceDisk, ReferenceStorage,
    backend_conformance, storage_conformance,
};

mod reference_backend {
    use super::*;
    backend_conformance!(ReferenceBackend::default);
}

mod faulty_backend {
    use super::*;
    backend_conformance!(|| BackendUnderTest::behind_faults(ReferenceBackend));
}

/// Opens instances on a disk of its own.
fn reference() -> impl Fn() -> ReferenceStorage {
    let disk = ReferenceDisk::default();
    move || ReferenceStorage::on(&disk)
}

mod reference_storage {
    use super::*;
    storage_conformance!(|| StorageUnderTest::reopened_by(reference()));
}

mod faulty_storage {
    use super::*;
    storage_conformance!(|| {
        let (open, faults) = (reference(), Faults::default());
        let set_outage = faults.clone();
        StorageUnderTest::reopened_by(move || FaultyStorage::new(Arc::new(open()), faults.clone()))
            .with_outage(move |lasts| set_outage.set_outage(lasts))
    });
}

mod recording_storage {
    use super::*;
    storage_conformance!(|| {
        let open = reference();
        StorageUnderTest::reopened_by(move || RecordingStorage::new(Arc::new(open()), Recording::default()))
    });
}
