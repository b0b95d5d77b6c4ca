//! The state backend of the memory preset passes the suite, with asynchronous and with synchronous snapshots.

use highwater_conformance::backend_conformance;
use highwater_conformance::keyed::BackendUnderTest;
use highwater_state_api::BackendPairing;
use highwater_state_backend_memory::MemoryStateBackend;

backend_conformance!(|| BackendUnderTest::of(MemoryStateBackend::new()));

mod synchronous {
    use super::*;

    backend_conformance!(|| BackendUnderTest::of(MemoryStateBackend::new().with_asynchronous_snapshots(false)));
}

#[test]
fn the_preset_is_heap_state_and_memory() {
    let pairing = BackendPairing::from(MemoryStateBackend::new());
    assert_eq!(pairing.state_backend.name(), "hashmap");
    assert!(!pairing.checkpoint_storage.is_durable());
}
