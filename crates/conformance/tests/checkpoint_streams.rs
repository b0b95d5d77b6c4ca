//! Streams into a storage: what becomes an object and what does not, and what is left when something goes wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use highwater_conformance::{
    Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, ReferenceDisk, ReferenceStorage, When,
};
use highwater_state_api::{
    BincodeSerializer, CheckpointStorage, CheckpointStreamFactory, INLINE_BYTES_MAX_LIMIT, InlineThresholdError,
    ListStateDescriptor, ObjectPath, OperatorState, OperatorStateStore, Schema, SchemaError, Serializer,
    SerializerError, StateError, StateHandle, StorageError, read_state,
};
use pollster::block_on;

const INLINE_MAX: u64 = 1_000;

fn folder() -> ObjectPath {
    ObjectPath::new(["job", "chk-1-1"])
}

fn recorded() -> (RecordingStorage, Recording) {
    let recording = Recording::default();
    (RecordingStorage::new(Arc::new(ReferenceStorage::on(&ReferenceDisk::default())), recording.clone()), recording)
}

/// Writes pieces of these sizes; what the stream became, and the bytes.
fn write(storage: &dyn CheckpointStorage, pieces: &[usize]) -> Result<(Option<StateHandle>, Vec<u8>), StorageError> {
    let factory = CheckpointStreamFactory::new(storage, folder(), INLINE_MAX).unwrap();
    let mut stream = factory.create_checkpoint_state_output_stream("state-0");
    let mut written = Vec::new();
    block_on(async {
        for (number, size) in pieces.iter().enumerate() {
            let piece = vec![number as u8; *size];
            written.extend_from_slice(&piece);
            stream.write(Bytes::from(piece)).await?;
            assert_eq!(stream.position(), written.len() as u64);
        }
        Ok((stream.close_and_get_handle().await?, written))
    })
}

#[test]
fn nothing_written_is_no_state() {
    let (storage, recording) = recorded();
    assert_eq!(write(&storage, &[]).unwrap().0, None);
    assert_eq!(write(&storage, &[0, 0]).unwrap().0, None);
    assert!(recording.calls().is_empty());
}

#[test]
fn up_to_the_threshold_the_handle_holds_the_bytes() {
    let (storage, recording) = recorded();
    for pieces in [&[1][..], &[400, 0, 600], &[1_000]] {
        let (handle, written) = write(&storage, pieces).unwrap();
        assert_eq!(handle, Some(StateHandle::Inline(Bytes::from(written))));
    }
    assert!(recording.calls().is_empty());
}

#[test]
fn above_the_threshold_there_is_an_object() {
    for pieces in [&[1_001][..], &[400, 601], &[100_000], &[10, 100_000, 10], &[40_000, 40_000, 40_000]] {
        let (storage, recording) = recorded();
        let (handle, written) = write(&storage, pieces).unwrap();
        let handle = handle.unwrap();
        let StateHandle::Object { path, length, .. } = &handle else { panic!("{handle:?}") };
        assert_eq!((path.as_str(), *length), ("job/chk-1-1/state-0", written.len() as u64));
        assert_eq!(block_on(read_state(&storage, &handle)).unwrap(), written);
        let writes = recording.calls().iter().filter(|call| call.operation == Operation::Write).count();
        assert!(writes <= pieces.len(), "{:?}", recording.lines());
    }
}

#[test]
fn a_threshold_of_zero_makes_an_object_of_every_byte() {
    let (storage, _) = recorded();
    let factory = CheckpointStreamFactory::new(&storage, folder(), 0).unwrap();
    let mut stream = factory.create_checkpoint_state_output_stream("state-0");
    block_on(stream.write(Bytes::from_static(b"x"))).unwrap();
    let handle = block_on(stream.close_and_get_handle()).unwrap();
    assert!(matches!(handle, Some(StateHandle::Object { length: 1, .. })), "{handle:?}");
}

#[test]
fn a_threshold_above_the_limit_is_refused() {
    let (storage, _) = recorded();
    assert!(CheckpointStreamFactory::new(&storage, folder(), INLINE_BYTES_MAX_LIMIT).is_ok());
    let error = CheckpointStreamFactory::new(&storage, folder(), INLINE_BYTES_MAX_LIMIT + 1).unwrap_err();
    assert_eq!(error, InlineThresholdError { requested: 1_048_577 });
    let text = "state of up to 1048577 bytes cannot be kept in the metadata: at most 1048576 bytes can";
    assert_eq!(error.to_string(), text);
}

/// Contract: B44, B45.
#[test]
fn a_stream_that_is_dropped_leaves_nothing() {
    let (storage, _) = recorded();
    let factory = CheckpointStreamFactory::new(&storage, folder(), INLINE_MAX).unwrap();
    let mut stream = factory.create_checkpoint_state_output_stream("state-0");
    block_on(stream.write(Bytes::from(vec![7; 200_000]))).unwrap();
    drop(stream);
    assert_eq!(block_on(storage.list(&folder())).unwrap(), []);
    // Its name is free again.
    assert!(write(&storage, &[200_000]).unwrap().0.is_some());
}

#[test]
fn every_failure_of_the_storage_is_an_error_of_the_stream() {
    for operation in [Operation::Create, Operation::Write, Operation::Finish] {
        let faults = Faults::default();
        let storage = FaultyStorage::new(Arc::new(ReferenceStorage::on(&ReferenceDisk::default())), faults.clone());
        faults.arm(When::every(operation), Fault::FailBefore);
        let error = write(&storage, &[100_000, 10]).unwrap_err();
        assert!(matches!(error, StorageError::Unavailable { .. }), "{operation:?}: {error}");
        // Small state does not need the storage.
        assert!(write(&storage, &[10]).is_ok());
    }
}

/// Of two pieces the first is lost.
#[test]
fn a_stream_that_has_failed_cannot_be_closed_as_if_nothing_were_missing() {
    for operation in [Operation::Create, Operation::Write] {
        // In a large piece, in small pieces that are collected, and in a large piece behind a small one.
        for pieces in [&[100_000, 10][..], &[40_000, 40_000, 10], &[10, 100_000, 70_000], &[10, 100_000, 0]] {
            let faults = Faults::default();
            let storage = FaultyStorage::new(Arc::new(ReferenceStorage::on(&ReferenceDisk::default())), faults.clone());
            faults.arm(When::nth(operation, 1), Fault::FailBefore);
            let factory = CheckpointStreamFactory::new(&storage, folder(), INLINE_MAX).unwrap();
            let mut stream = factory.create_checkpoint_state_output_stream("state-0");
            let written: Vec<_> =
                pieces.iter().map(|size| block_on(stream.write(Bytes::from(vec![7; *size]))).is_ok()).collect();
            let first = written.iter().position(|is_ok| !is_ok).unwrap();
            assert!(written[first..].iter().all(|is_ok| !is_ok), "{operation:?}, {pieces:?}: {written:?}");
            let closed = block_on(stream.close_and_get_handle());
            assert!(matches!(closed, Err(StorageError::Unavailable { .. })), "{operation:?}, {pieces:?}: {closed:?}");
            assert_eq!(block_on(storage.list(&folder())).unwrap(), []);
        }
    }
}

/// Writes numbers as a kilobyte each, but for one that it refuses once it is told to.
#[derive(Debug, Clone)]
struct Refusing {
    number: u64,
    refuses: Arc<AtomicBool>,
}

impl Serializer<u64> for Refusing {
    fn serialize(&self, number: &u64, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        if *number == self.number && self.refuses.load(Ordering::Relaxed) {
            return Err(SerializerError { serializer: "refusing", reason: "not this one".to_owned() });
        }
        out.extend_from_slice(&number.to_le_bytes());
        out.resize(out.len() + 1_016, 0);
        Ok(())
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<u64, SerializerError> {
        BincodeSerializer::default().deserialize(&bytes[..8])
    }

    fn schema(&self) -> Result<Schema, SchemaError> {
        Ok(Schema::Opaque { name: "padded".to_owned(), version: 1 })
    }
}

/// Contract: E104.
#[test]
fn operator_state_that_is_given_up_while_it_is_written_leaves_nothing() {
    const NUMBERS: u64 = 500;
    let write = |refused: Option<u64>, fault: Option<When>| {
        let faults = Faults::default();
        let storage = FaultyStorage::new(Arc::new(ReferenceStorage::on(&ReferenceDisk::default())), faults.clone());
        let refuses = Arc::new(AtomicBool::new(false));
        let serializer = Refusing { number: refused.unwrap_or(u64::MAX), refuses: refuses.clone() };
        let mut state = OperatorState::new(1);
        let store: &mut dyn OperatorStateStore = &mut state;
        let list = store.get_list_state(&ListStateDescriptor::<u64>::new("list").with_serializer(serializer)).unwrap();
        list.add_all(&mut state, 0..NUMBERS).unwrap();
        let frozen = state.freeze().unwrap();
        refuses.store(true, Ordering::Relaxed);
        fault.into_iter().for_each(|when| faults.arm(when, Fault::FailBefore));
        let factory = CheckpointStreamFactory::new(&storage, folder(), INLINE_MAX).unwrap();
        let mut stream = factory.create_checkpoint_state_output_stream("state-0");
        let written = block_on(async {
            frozen.write(&mut stream).await?;
            Ok::<_, StateError>(stream.close_and_get_handle().await?)
        });
        (written, block_on(storage.list(&folder())).unwrap().len())
    };
    let (written, objects) = write(None, None);
    assert!(written.is_ok() && objects == 1);
    // At the first element, in the middle of a piece, behind several pieces, at the last element.
    for refused in [0, 70, 300, NUMBERS - 1] {
        let (written, objects) = write(Some(refused), None);
        assert!(matches!(written, Err(StateError::Serializer { .. })), "element {refused}: {written:?}");
        assert_eq!(objects, 0, "element {refused}");
    }
    let of_storage = [Operation::Create, Operation::Finish].map(|operation| When::nth(operation, 1));
    for fault in of_storage.into_iter().chain((1..=5).map(|nth| When::nth(Operation::Write, nth))) {
        let text = format!("{fault:?}");
        let (written, objects) = write(None, Some(fault));
        assert!(matches!(written, Err(StateError::Storage(_))), "{text}: {written:?}");
        assert_eq!(objects, 0, "{text}");
    }
}
