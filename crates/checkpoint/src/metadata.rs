//! The metadata of a checkpoint as a file. Defined in `docs/format/checkpoint.md`.
//!
//! Decoding checks more than the form: ranges, lengths and names in good metadata fit together, so that what restores
//! from it need not ask again.

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::{KeyGroupPart, KeyGroupRange, MaxParallelism, OperatorStateHandle, StateHandle};

use crate::envelope::{self, FileKind, FormatError};
use crate::log_format::check_handle;
use crate::metadata_v1::MetadataV1;
use crate::metadata_v2::MetadataV2;
use crate::operator_shares::OldStates;
use crate::{CheckpointMetadata, HookState, OperatorState};

/// The bytes of a checkpoint's metadata, without hooks.
pub fn encode_metadata(metadata: &CheckpointMetadata) -> Result<Vec<u8>, FormatError> {
    encode_metadata_with_hooks(metadata, &[])
}

/// The bytes of a checkpoint's metadata with what hooks of the application have in the checkpoint, in ascending order of
/// their identifiers.
pub fn encode_metadata_with_hooks(metadata: &CheckpointMetadata, hooks: &[HookState]) -> Result<Vec<u8>, FormatError> {
    check(metadata)?;
    if hooks.is_empty() {
        return envelope::encode(FileKind::Metadata, metadata);
    }
    check_hooks(hooks)?;
    envelope::encode(FileKind::Metadata, &(metadata, hooks))
}

/// The metadata in these bytes, of this or an earlier version, all of which must belong to it.
pub fn decode_metadata(file: &[u8]) -> Result<CheckpointMetadata, FormatError> {
    decode_metadata_with_hooks(file).map(|(metadata, _)| metadata)
}

/// The metadata in these bytes, and what hooks have in the checkpoint.
pub fn decode_metadata_with_hooks(file: &[u8]) -> Result<(CheckpointMetadata, Vec<HookState>), FormatError> {
    let envelope = envelope::open(FileKind::Metadata, file)?;
    let (metadata, hooks) = match envelope.version {
        1 => (envelope.payload::<MetadataV1>()?.into(), None),
        2 => (envelope.payload::<MetadataV2>()?.into(), None),
        _ => envelope.payload_and_section()?,
    };
    check(&metadata)?;
    hooks.as_deref().map_or(Ok(()), check_hooks)?;
    Ok((metadata, hooks.unwrap_or_default()))
}

/// An empty list is not written: then there is no section.
fn check_hooks(hooks: &[HookState]) -> Result<(), FormatError> {
    let invalid = |reason| FormatError::Invalid { kind: FileKind::Metadata, reason };
    if hooks.is_empty() {
        return Err(invalid("there is a section of hooks, and no hook in it".to_owned()));
    }
    if hooks.iter().any(|hook| hook.identifier.trim().is_empty()) {
        return Err(invalid("the identifier of a hook is blank".to_owned()));
    }
    match hooks.iter().zip(&hooks[1..]).find(|(one, next)| one.identifier >= next.identifier) {
        Some((_, next)) => Err(invalid(format!("the hook {:?} is out of order", next.identifier))),
        None => Ok(()),
    }
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
    if operator.finished {
        let has_nothing = parallelism == 0 && operator.enumerator.is_none();
        return if has_nothing { Ok(()) } else { Err("it is finished and has subtasks or an enumerator".to_owned()) };
    }
    groups.check(parallelism).map_err(|error| error.to_string())?;
    for (index, snapshot) in (0..).zip(&operator.subtasks) {
        let subtask = |reason| format!("subtask {index} of {parallelism}: {reason}");
        let keyed = snapshot.keyed.as_ref().map(|keyed| (keyed.range, &keyed.parts[..], &keyed.state));
        let raw_keyed = snapshot.raw_keyed.as_ref().map(|raw| (raw.range, &raw.parts[..], &raw.state));
        for (range, parts, state) in keyed.into_iter().chain(raw_keyed) {
            let expected = groups.range_of(index, parallelism);
            if range != expected {
                let groups = groups.get();
                return Err(subtask(format!("expected key groups {expected} of {groups}, found {range}")));
            }
            check_key_groups(range, parts, state).map_err(subtask)?;
        }
        snapshot.operator.as_ref().map_or(Ok(()), check_operator_state).map_err(subtask)?;
    }
    check_agreement(operator)
}

/// What subtasks say of one state has to be the same, since a subtask may be restored with the state of several. Found out
/// by a restore it would be too late: by then the checkpoint has taken the place of earlier ones.
fn check_agreement(operator: &OperatorState) -> Result<(), String> {
    let disagree = |reason: String| format!("subtasks disagree on {reason}");
    OldStates::new(operator.subtasks.iter().map(|snapshot| snapshot.operator.as_ref()))
        .map_err(|name| disagree(format!("the redistribution or the schema of the operator state {name:?}")))?;
    let mut tables = BTreeMap::new();
    for table in operator.subtasks.iter().filter_map(|snapshot| snapshot.keyed.as_ref()).flat_map(|keyed| &keyed.tables)
    {
        let known = *tables.entry(&table.name).or_insert(table);
        let agree = known.check_usable_as(table);
        agree.map_err(|_| disagree(format!("the kind or the schema of the keyed state {:?}", table.name)))?;
    }
    Ok(())
}

fn check_key_groups(range: KeyGroupRange, parts: &[KeyGroupPart], state: &StateHandle) -> Result<(), String> {
    check_handle(state)?;
    let mut previous = None;
    let mut free_from = 0;
    for part in parts {
        let group = part.group;
        if !range.contains(group) {
            return Err(format!("key group {group} is outside {range}"));
        }
        if previous.is_some_and(|previous| previous >= group) {
            return Err(format!("key group {group} is out of order"));
        }
        free_from = check_part(part.offset, part.length, free_from, state)
            .map_err(|reason| format!("key group {group} {reason}"))?;
        previous = Some(group);
    }
    Ok(())
}

fn check_operator_state(operator: &OperatorStateHandle) -> Result<(), String> {
    check_handle(&operator.state)?;
    let mut previous = None;
    let mut free_from = 0;
    for part in &operator.parts {
        let meta = &part.meta;
        let invalid = |reason: String| format!("{} {:?} {reason}", meta.redistribution, meta.name);
        let place = (meta.is_broadcast(), &meta.name);
        if previous.is_some_and(|previous| previous >= place) {
            return Err(invalid("is out of order".to_owned()));
        }
        if meta.map_key.is_some() != meta.is_broadcast() {
            return Err(invalid("has map keys, or has none, and should not".to_owned()));
        }
        free_from = check_part(part.offset, part.length, free_from, &operator.state).map_err(invalid)?;
        if part.elements > part.length {
            return Err(invalid(format!("has {} elements in {} bytes", part.elements, part.length)));
        }
        previous = Some(place);
    }
    Ok(())
}

/// Checks where a part lies: behind the one before, whose end is `free_from`, and within the state. Returns its end.
fn check_part(offset: u64, length: u64, free_from: u64, state: &StateHandle) -> Result<u64, String> {
    let state = state.length();
    if offset < free_from {
        return Err(format!("begins at byte {offset}, before the end of the one before it at {free_from}"));
    }
    match offset.checked_add(length) {
        Some(end) if end <= state => Ok(end),
        _ => Err(format!("has {length} bytes at {offset} of a state of {state} bytes")),
    }
}
