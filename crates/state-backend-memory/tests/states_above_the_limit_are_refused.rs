//! A state above the limit is refused with both numbers, and what was there stays usable.

use bytes::Bytes;
use highwater_state_api::{CheckpointStorage, ObjectPath, StateHandle, StorageError};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

fn upload(storage: &MemoryCheckpointStorage, name: &str, size: usize) -> Result<StateHandle, StorageError> {
    let content = Bytes::from(vec![b'x'; size]);
    block_on(async {
        let mut upload = storage.create(&ObjectPath::new(["job", name])).await?;
        for start in (0..size).step_by(1 << 20) {
            upload.write(content.slice(start..size.min(start + (1 << 20)))).await?;
        }
        upload.finish().await
    })
}

#[test]
fn the_default_limit_is_five_mebibytes_and_inclusive() {
    let storage = MemoryCheckpointStorage::new();
    assert_eq!(upload(&storage, "chk-1", 5_242_880).unwrap().length(), 5_242_880);
    for size in [5_242_881, 14_068_058] {
        let error = upload(&storage, "chk-2", size).unwrap_err();
        assert!(!error.is_transient());
        assert_eq!(
            error.to_string(),
            format!("job/chk-2: the state has {size} bytes, the storage takes at most 5242880 bytes a state")
        );
    }
    let path = ObjectPath::new(["job", "chk-2"]);
    let whole = block_on(storage.create_if_absent(&path, vec![0; 5_242_881].into()));
    assert!(matches!(whole, Err(StorageError::TooLarge { limit: 5_242_880, found: 5_242_881, .. })));
    let first = ObjectPath::new(["job", "chk-1"]);
    let listed = block_on(storage.list(&ObjectPath::new(["job"]))).unwrap();
    assert_eq!(listed, std::slice::from_ref(&first));
    assert_eq!(block_on(storage.read(&first)).unwrap().len(), 5_242_880);
}

#[test]
fn the_limit_can_be_raised() {
    let storage = MemoryCheckpointStorage::new().with_state_bytes_max(32 << 20);
    for (name, size) in [("chk-1", 5_242_880), ("chk-2", 5_242_881), ("chk-3", 14_068_058)] {
        upload(&storage, name, size).unwrap();
    }
}

#[test]
fn clones_share_their_objects() {
    let storage = MemoryCheckpointStorage::new();
    upload(&storage, "chk-1", 10).unwrap();
    assert_eq!(block_on(storage.clone().read(&ObjectPath::new(["job", "chk-1"]))).unwrap().len(), 10);
    assert!(!storage.is_durable());
}
