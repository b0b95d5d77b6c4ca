//! Operator state as it stands in a snapshot. Defined in `docs/format/operator-state.md`.
//!
//! A part is the elements of one state of one subtask: byte strings one after another, each with its length before it as
//! in the canonical stream. An entry of a broadcast state is two of them, key and value.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::canonical::{byte_string, write_byte_string};
use crate::descriptors::or_none;
use crate::{Checksum, KeyGroupPart, KeyGroupRange, Schema, StateError, StateHandle};

/// How operator state is handed out at a restore.
///
/// Closed on purpose: who hands state out must know every way, and a new one must not go by unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Redistribution {
    /// A list of which every element goes to exactly one subtask.
    Split,
    /// A list of which every element goes to every subtask.
    Union,
    /// A map that is the same in every subtask: each gets one copy.
    Broadcast,
}

impl fmt::Display for Redistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Split => "split list state",
            Self::Union => "union list state",
            Self::Broadcast => "broadcast state",
        })
    }
}

/// What is recorded of a state in every snapshot: enough to know what it is and whether its bytes can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorStateMeta {
    /// The name. Lists have names of their own, broadcast states have names of their own.
    pub name: String,
    /// How it is handed out.
    pub redistribution: Redistribution,
    /// Schema of the map keys; `None` unless it is a broadcast state.
    pub map_key: Option<Schema>,
    /// Schema of the elements, or of a broadcast state's values.
    pub element: Schema,
}

impl OperatorStateMeta {
    /// Whether it is a broadcast state: these have names of their own.
    pub fn is_broadcast(&self) -> bool {
        self.redistribution == Redistribution::Broadcast
    }

    /// Checks that a state with this meta may be used as `requested`: same redistribution and same schemas.
    pub fn check_usable_as(&self, requested: &Self) -> Result<(), StateError> {
        if self.redistribution != requested.redistribution {
            return Err(StateError::OtherRedistribution {
                state: self.name.clone(),
                existing: self.redistribution,
                requested: requested.redistribution,
            });
        }
        let other = |part, existing: &Schema, requested: &Schema| StateError::OtherSchema {
            state: self.name.clone(),
            part,
            existing: Box::new(existing.clone()),
            requested: Box::new(requested.clone()),
        };
        if self.map_key != requested.map_key {
            return Err(other("map key", &or_none(&self.map_key), &or_none(&requested.map_key)));
        }
        if self.element != requested.element {
            let part = if self.is_broadcast() { "value" } else { "element" };
            return Err(other(part, &self.element, &requested.element));
        }
        Ok(())
    }
}

/// One state of one subtask within the bytes of its operator state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorStatePart {
    /// What it is.
    pub meta: OperatorStateMeta,
    /// Number of elements, or of entries.
    pub elements: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Checksum of this part alone.
    pub checksum: Checksum,
}

/// The operator state of one operator subtask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorStateHandle {
    /// The states: lists before broadcast states, each in ascending order of name.
    pub parts: Vec<OperatorStatePart>,
    /// The bytes that the parts are parts of.
    pub state: StateHandle,
}

/// What one operator subtask wrote to its raw keyed stream, with an index by key group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawKeyedStateHandle {
    /// The groups that the subtask owned.
    pub range: KeyGroupRange,
    /// The groups that it wrote, in ascending order.
    pub parts: Vec<KeyGroupPart>,
    /// The bytes that the parts index.
    pub state: StateHandle,
}

/// Elements of one state that are restored to a subtask: bytes of a part, or of consecutive elements of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredElements {
    /// Number of elements, or of entries.
    pub elements: u64,
    /// The elements, each with its length.
    pub content: Bytes,
    /// Whether this subtask writes them again as long as nobody has registered the state. Of a union list, which every
    /// subtask gets whole, each element is carried on by one; otherwise it would be there more often with every restore.
    pub is_carried: bool,
}

/// Appends an element to the bytes of a part.
pub fn write_element(element: &[u8], out: &mut Vec<u8>) {
    write_byte_string(element, out);
}

/// The byte strings of a part: of a list its elements; of a broadcast state keys and values in turn.
pub fn elements(part: &[u8]) -> impl Iterator<Item = Result<&[u8], StateError>> {
    let mut rest = part;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let element = byte_string(&mut rest).map_err(|what| StateError::Damaged(format!("operator state: {what}")));
        if element.is_err() {
            rest = &[];
        }
        Some(element)
    })
}

/// The elements with these numbers, out of the bytes of a list's part. Fails when there are not as many.
pub fn slice_elements(part: &Bytes, numbers: Range<u64>) -> Result<Bytes, StateError> {
    let mut rest = &part[..];
    let mut skip = |count: u64| -> Result<usize, StateError> {
        for _ in 0..count {
            if rest.is_empty() {
                return Err(StateError::Damaged("an operator state has fewer elements than its metadata says".into()));
            }
            byte_string(&mut rest).map_err(|what| StateError::Damaged(format!("operator state: {what}")))?;
        }
        Ok(part.len() - rest.len())
    };
    let start = skip(numbers.start)?;
    let end = skip(numbers.end.saturating_sub(numbers.start))?;
    Ok(part.slice(start..end))
}
