//! The metadata of a checkpoint as a file. Defined in `docs/format/checkpoint.md`.
//!
//! Decoding checks more than the form: ranges, lengths and names in good metadata fit together, so that what restores
//! from it need not ask again.

use std::collections::BTreeSet;

use highwater_state_api::{KeyedStateHandle, MaxParallelism};

use crate::envelope::{self, FileKind, FormatError};
use crate::log_format::check_handle;
use crate::{CheckpointMetadata, OperatorState};

/// The bytes of a checkpoint's metadata.
pub fn encode_metadata(metadata: &CheckpointMetadata) -> Result<Vec<u8>, FormatError> {
    check(metadata)?;
    envelope::encode(FileKind::Metadata, metadata)
}

/// The metadata in these bytes, all of which must belong to it.
pub fn decode_metadata(file: &[u8]) -> Result<CheckpointMetadata, FormatError> {
    let metadata = envelope::decode(FileKind::Metadata, file)?;
    check(&metadata)?;
    Ok(metadata)
}

fn check(metadata: &CheckpointMetadata) -> Result<(), FormatError> {
    let invalid = |reason| FormatError::Invalid { kind: FileKind::Metadata, reason };
    let mut uids = BTreeSet::new();
    for operator in &metadata.operators {
        let uid = &operator.uid;
        if !uids.insert(uid) {
            return Err(invalid(format!("two operators have the uid {uid}")));
        }
        check_operator(operator).map_err(|reason| invalid(format!("operator {uid}: {reason}")))?;
    }
    Ok(())
}

fn check_operator(operator: &OperatorState) -> Result<(), String> {
    let parallelism = u32::try_from(operator.subtasks.len()).map_err(|error| error.to_string())?;
    let groups = MaxParallelism::new(operator.max_parallelism.get()).map_err(|error| error.to_string())?;
    groups.check(parallelism).map_err(|error| error.to_string())?;
    for (index, snapshot) in (0..).zip(&operator.subtasks) {
        let Some(keyed) = &snapshot.keyed else { continue };
        let expected = groups.range_of(index, parallelism);
        if keyed.range != expected {
            return Err(format!(
                "subtask {index} of {parallelism}: expected key groups {expected} of {}, found {}",
                groups.get(),
                keyed.range
            ));
        }
        check_keyed(keyed).map_err(|reason| format!("subtask {index} of {parallelism}: {reason}"))?;
    }
    Ok(())
}

fn check_keyed(keyed: &KeyedStateHandle) -> Result<(), String> {
    check_handle(&keyed.state)?;
    let length = keyed.state.length();
    let mut previous = None;
    for part in &keyed.parts {
        let group = part.group;
        if !keyed.range.contains(group) {
            return Err(format!("key group {group} is outside {}", keyed.range));
        }
        if previous.is_some_and(|previous| previous >= group) {
            return Err(format!("key group {group} is out of order"));
        }
        if part.offset.checked_add(part.length).is_none_or(|end| end > length) {
            let (offset, part) = (part.offset, part.length);
            return Err(format!("key group {group} has {part} bytes at {offset} of a state of {length} bytes"));
        }
        previous = Some(group);
    }
    Ok(())
}
