//! Streams into a storage: what becomes an object and what does not, and what is left when something goes wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;

use bytes::Bytes;
use highwater_conformance::{
    Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, ReferenceDisk, ReferenceStorage, When,
};
use highwater_state_api::{
    CheckpointStorage, CheckpointStreamFactory, INLINE_BYTES_MAX_LIMIT, InlineThresholdError, ObjectPath, StateHandle,
    StorageError, read_state,
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

/// Contract: B44, B45, E104.
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
