//! What it means to be a backend or a storage, as tests anyone can run on theirs.
//!
//! * [`storage_conformance!`] runs every case of [`storage`] on a checkpoint storage.
//! * [`backend_conformance!`] runs every case of [`keyed`] on a state backend.
//! * [`FaultyStorage`] makes a storage fail on command, [`RecordingStorage`] tells what was asked of one.
//!
//! A case is a plain function with a sentence for a name; it panics when the sentence is not true. Each suite has one
//! list of its cases, from which the macro makes one `#[test]` each.

mod faulty_backend;
mod faulty_storage;
pub mod keyed;
mod operation;
mod recording;
mod reference;
mod reference_storage;
pub mod storage;
mod threads;
mod trial;
pub mod wrong;

pub use faulty_backend::{FaultyBackend, Outage};
pub use faulty_storage::{Fault, Faults, FaultyStorage, When};
pub use operation::Operation;
pub use recording::{RecordedCall, Recording, RecordingStorage};
pub use reference::ReferenceBackend;
pub use reference_storage::{ReferenceDisk, ReferenceStorage};
pub use trial::{Trial, Verdict};
