//! The state backend of the memory preset passes the keyed suite.

use highwater_conformance::backend_conformance;
use highwater_state_api::{BackendPairing, KeyedBackendParameters, KeyedStateBackend, StateBackend, StateError};
use highwater_state_backend_memory::MemoryStateBackend;

/// The state backend as a job gets it.
#[derive(Debug)]
struct OfPreset(BackendPairing);

impl StateBackend for OfPreset {
    fn name(&self) -> &str {
        self.0.state_backend.name()
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        self.0.state_backend.create_keyed_backend(parameters)
    }
}

backend_conformance!(|| OfPreset(MemoryStateBackend::new().into()));

#[test]
fn the_preset_is_heap_state_and_memory() {
    let pairing = BackendPairing::from(MemoryStateBackend::new());
    assert_eq!(pairing.state_backend.name(), "hashmap");
    assert!(!pairing.checkpoint_storage.is_durable());
}
