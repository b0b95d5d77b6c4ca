//! The retrying storage keeps the contract of a storage, and asks again where it helps and nowhere else.

use std::sync::Mutex;

use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, Recording, RecordingStorage, When};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

/// So many tries, without waiting.
#[derive(Debug)]
struct Tries(u32, Mutex<Vec<u32>>);

impl Tries {
    fn new(tries: u32) -> Arc<Self> {
        Arc::new(Self(tries, Mutex::default()))
    }
}

#[async_trait]
impl Patience for Tries {
    fn is_over(&self) -> bool {
        self.0 == 0
    }

    async fn wait(&self, tries: u32) -> bool {
        self.1.lock().unwrap().push(tries);
        tries < self.0
    }
}

mod suite {
    use highwater_conformance::storage::StorageUnderTest;
    use highwater_conformance::{Faults, FaultyStorage, ReferenceDisk, ReferenceStorage, storage_conformance};

    use super::*;

    storage_conformance!(|| {
        let (faults, disk) = (Faults::default(), ReferenceDisk::default());
        let shared = faults.clone();
        let open = move || {
            let inner = FaultyStorage::new(Arc::new(ReferenceStorage::on(&disk)), shared.clone());
            RetryingStorage::new(Arc::new(inner), Tries::new(3))
        };
        StorageUnderTest::reopened_by(open).with_outage(move |lasts| faults.set_outage(lasts))
    });
}

struct Setup {
    faults: Faults,
    recording: Recording,
    inner: Arc<dyn CheckpointStorage>,
    storage: RetryingStorage,
    patience: Arc<Tries>,
}

fn setup(tries: u32) -> Setup {
    let (faults, recording, patience) = (Faults::default(), Recording::default(), Tries::new(tries));
    let inner: Arc<dyn CheckpointStorage> = Arc::new(MemoryCheckpointStorage::new());
    let recorded = Arc::new(RecordingStorage::new(inner.clone(), recording.clone()));
    let storage = RetryingStorage::new(Arc::new(FaultyStorage::new(recorded, faults.clone())), patience.clone());
    Setup { faults, recording, inner, storage, patience }
}

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).unwrap()
}

fn upload(storage: &dyn CheckpointStorage, path: &ObjectPath, pieces: &[&[u8]]) -> Result<StateHandle, StorageError> {
    block_on(async {
        let mut upload = storage.create(path).await?;
        for piece in pieces {
            upload.write(Bytes::copy_from_slice(piece)).await?;
        }
        upload.finish().await
    })
}

const FAULTS: [Fault; 2] = [Fault::FailBefore, Fault::FailAfter];

/// Field case: R103.
#[test]
fn a_put_that_fails_three_times_works_the_fourth_time() {
    for fault in FAULTS {
        for operation in [Operation::Create, Operation::Write, Operation::Finish] {
            let Setup { faults, inner, storage, patience, .. } = setup(10);
            (1..=3).for_each(|nth| faults.arm(When::nth(operation, nth), fault.clone()));
            let path = path("job/chk-1-1/sum-0");
            let handle = upload(&storage, &path, &[b"one ", b"and ", b"two"]).unwrap();
            let object = StateHandle::Object { path: path.clone(), length: 11, checksum: Checksum::of(b"one and two") };
            assert_eq!(handle, object, "{operation} {fault:?}");
            assert_eq!(block_on(inner.read(&path)).unwrap(), "one and two");
            assert!(!patience.1.lock().unwrap().is_empty(), "{operation} {fault:?} was not felt");
        }
    }
}

#[test]
fn a_finish_that_has_happened_is_not_repeated() {
    let Setup { faults, recording, storage, .. } = setup(3);
    faults.arm(When::next(Operation::Finish), Fault::FailAfter);
    upload(&storage, &path("job/chk-1-1/sum-0"), &[b"state"]).unwrap();
    let finished = recording.calls().into_iter().filter(|call| call.operation == Operation::Finish).count();
    assert_eq!(finished, 1);
}

#[test]
fn an_object_of_somebody_else_is_not_taken_for_the_own() {
    for (fault, other) in [(Fault::FailBefore, "other"), (Fault::FailBefore, "stat"), (Fault::FailBefore, "state!")] {
        let Setup { faults, inner, storage, .. } = setup(3);
        let path = path("job/chk-1-1/sum-0");
        let taken = block_on(async {
            let mut upload = storage.create(&path).await.unwrap();
            upload.write(Bytes::from_static(b"state")).await.unwrap();
            faults.arm(When::next(Operation::Finish), fault);
            inner.create_if_absent(&path, Bytes::from_static(other.as_bytes())).await.unwrap();
            upload.finish().await
        });
        assert!(matches!(taken, Err(StorageError::AlreadyExists { .. })), "{taken:?}");
        assert_eq!(block_on(inner.read(&path)).unwrap(), other);
    }
}

#[test]
fn a_record_that_was_created_by_a_failed_try_is_the_own() {
    for fault in FAULTS {
        let Setup { faults, inner, storage, .. } = setup(3);
        faults.arm(When::next(Operation::CreateIfAbsent), fault);
        let path = path("job/log/00000000000000000001");
        block_on(storage.create_if_absent(&path, Bytes::from_static(b"claim"))).unwrap();
        assert_eq!(block_on(inner.read(&path)).unwrap(), "claim");
        let again = block_on(storage.create_if_absent(&path, Bytes::from_static(b"claim")));
        assert!(matches!(again, Err(StorageError::AlreadyExists { .. })), "the first try tells: {again:?}");
    }
}

/// Field case: R103.
#[test]
fn reads_that_fail_three_times_work_the_fourth_time() {
    let Setup { faults, storage, .. } = setup(10);
    let path = path("job/chk-1-1/sum-0");
    upload(&storage, &path, &[b"state"]).unwrap();
    for operation in [Operation::Read, Operation::ReadRange, Operation::List, Operation::ListFolders] {
        (1..=3).for_each(|nth| faults.arm(When::nth(operation, nth), Fault::FailBefore));
    }
    assert_eq!(block_on(storage.read(&path)).unwrap(), "state");
    assert_eq!(block_on(storage.read_range(&path, 1, 3)).unwrap(), "tat");
    assert_eq!(block_on(storage.list(&self::path("job"))).unwrap(), [path]);
    assert_eq!(block_on(storage.list_folders(&self::path("job"))).unwrap(), [self::path("job/chk-1-1")]);
    assert_eq!(faults.remaining(), 0);
}

/// Field case: R103.
#[test]
fn the_error_of_the_last_try_says_how_many_there_were_and_why() {
    let Setup { faults, storage, patience, .. } = setup(4);
    faults.set_outage(true);
    let text = |error: &StorageError| format!("{error}: {}", std::error::Error::source(error).unwrap());
    let path = path("job/chk-1-1/sum-0");
    let error = upload(&storage, &path, &[b"state"]).unwrap_err();
    assert_eq!(
        text(&error),
        "the checkpoint storage could not create job/chk-1-1/sum-0: 4 tries have failed, the last one with: injected fault \
         before it happened"
    );
    assert!(error.is_transient());
    assert_eq!(*patience.1.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn what_is_final_is_not_tried_again() {
    let Setup { storage, patience, .. } = setup(4);
    let path = path("job/chk-1-1/sum-0");
    assert!(matches!(block_on(storage.read(&path)), Err(StorageError::NotFound { .. })));
    upload(&storage, &path, &[b"state"]).unwrap();
    assert!(matches!(upload(&storage, &path, &[b"state"]), Err(StorageError::AlreadyExists { .. })));
    assert!(matches!(block_on(storage.read_range(&path, 0, 99)), Err(StorageError::Corrupt { .. })));
    let record = block_on(storage.create_if_absent(&path, Bytes::new()));
    assert!(matches!(record, Err(StorageError::AlreadyExists { .. })));
    assert_eq!(*patience.1.lock().unwrap(), [0; 0]);
}

#[test]
fn of_an_upload_that_is_too_large_to_be_kept_a_refused_write_is_repeated_and_a_finish_is_not() {
    let piece = Bytes::from(vec![7; REPEATABLE_BYTES_MAX]);
    let Setup { faults, storage, .. } = setup(10);
    let path = path("job/chk-1-1/sum-0");
    let finished = block_on(async {
        let mut upload = storage.create(&path).await.unwrap();
        upload.write(piece.clone()).await.unwrap();
        upload.write(Bytes::from_static(b"more")).await.unwrap();
        faults.arm(When::next(Operation::Write), Fault::FailBefore);
        upload.write(Bytes::from_static(b"and more")).await.unwrap();
        faults.arm(When::next(Operation::Finish), Fault::FailBefore);
        upload.finish().await
    });
    assert!(finished.unwrap_err().is_transient());
}

#[test]
fn when_nobody_waits_nothing_is_begun() {
    let Setup { recording, storage, .. } = setup(0);
    let path = path("job/chk-1-1/sum-0");
    assert!(upload(&storage, &path, &[b"state"]).unwrap_err().is_transient());
    assert!(block_on(storage.create_if_absent(&path, Bytes::new())).unwrap_err().is_transient());
    assert!(block_on(storage.read(&path)).unwrap_err().is_transient());
    assert!(block_on(storage.list(&path)).unwrap_err().is_transient());
    assert!(block_on(storage.delete_folder(&path)).unwrap_err().is_transient());
    assert_eq!(recording.calls(), []);
}
