//! The memory checkpoint storage passes the storage suite, also behind the wrappers that tests use.

use std::sync::Arc;

use highwater_conformance::storage::StorageUnderTest;
use highwater_conformance::{Faults, FaultyStorage, Recording, RecordingStorage, storage_conformance};
use highwater_state_backend_memory::MemoryCheckpointStorage;

storage_conformance!(|| StorageUnderTest::new(MemoryCheckpointStorage::new()));

mod made_to_fail {
    use super::*;

    storage_conformance!(|| {
        let faults = Faults::default();
        StorageUnderTest::new(FaultyStorage::new(Arc::new(MemoryCheckpointStorage::new()), faults.clone()))
            .with_outage(move |lasts| faults.set_outage(lasts))
    });
}

mod recorded {
    use super::*;

    storage_conformance!(|| {
        let storage = Arc::new(MemoryCheckpointStorage::new());
        StorageUnderTest::new(RecordingStorage::new(storage, Recording::default()))
    });
}
