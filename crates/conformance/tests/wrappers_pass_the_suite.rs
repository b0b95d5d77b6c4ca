//! The wrappers keep the contract of what they wrap, as long as no fault is armed.

mod support;

use std::sync::Arc;

use highwater_conformance::storage::StorageUnderTest;
use highwater_conformance::{Faults, FaultyStorage, Recording, RecordingStorage, storage_conformance};
use support::simple_storage::SimpleStorage;

mod bare {
    use super::*;
    storage_conformance!(|| StorageUnderTest::new(SimpleStorage::default()));
}

mod faulty {
    use super::*;
    storage_conformance!(|| {
        StorageUnderTest::new(FaultyStorage::new(Arc::new(SimpleStorage::default()), Faults::default()))
    });
}

mod recording {
    use super::*;
    storage_conformance!(|| {
        StorageUnderTest::new(RecordingStorage::new(Arc::new(SimpleStorage::default()), Recording::default()))
    });
}
