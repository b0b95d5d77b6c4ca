//! A snapshot of operator state that waits to be written, by anyone, on any thread.

use std::mem;

use bytes::Bytes;

use super::cell::FrozenElements;
use super::snapshot::{OperatorStateMeta, OperatorStatePart, RestoredElements, write_element};
use crate::checkpoint_stream::CheckpointStateOutputStream;
use crate::panic::{caught, serializer_of};
use crate::{RunningChecksum, StateError};

/// About how many bytes are serialised before they are written.
const PIECE_BYTES: usize = 64 * 1024;

/// The operator state of one subtask as it was at a freeze.
#[derive(Default)]
pub struct FrozenOperatorState {
    states: Vec<FrozenOperatorStatePart>,
}

struct FrozenOperatorStatePart {
    meta: OperatorStateMeta,
    elements: u64,
    content: Box<dyn FrozenElements>,
}

impl FrozenOperatorState {
    pub(super) fn push(&mut self, meta: OperatorStateMeta, elements: u64, content: Box<dyn FrozenElements>) {
        self.states.push(FrozenOperatorStatePart { meta, elements, content });
    }

    /// Adds a list whose elements are serialised already: for operators that keep no [`OperatorState`](super::OperatorState).
    ///
    /// # Panics
    /// When it is no list, and when there is a list of its name.
    pub fn push_serialized(&mut self, meta: OperatorStateMeta, elements: Vec<Bytes>) {
        assert!(!meta.is_broadcast() && meta.map_key.is_none(), "{} {:?} is no list", meta.redistribution, meta.name);
        let is_it = |state: &FrozenOperatorStatePart| !state.meta.is_broadcast() && state.meta.name == meta.name;
        assert!(!self.states.iter().any(is_it), "there are two lists with the name {:?}", meta.name);
        let count = elements.len() as u64;
        self.push(meta, count, Box::new(Serialized(elements.into_iter())));
    }

    /// Whether there is no state at all. A state without elements is one.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Writes the states to a stream, one part each.
    pub async fn write(
        mut self,
        stream: &mut CheckpointStateOutputStream<'_>,
    ) -> Result<Vec<OperatorStatePart>, StateError> {
        self.sort();
        let mut parts = Vec::with_capacity(self.states.len());
        for mut state in self.states {
            let offset = stream.position();
            let mut checksum = RunningChecksum::default();
            loop {
                let mut piece = Vec::new();
                let is_last =
                    caught(|| serializer_of(&state.meta.name), || state.content.write_some(&mut piece, PIECE_BYTES))?;
                checksum.update(&piece);
                stream.write(Bytes::from(piece)).await?;
                if is_last {
                    break;
                }
            }
            let length = stream.position() - offset;
            let (meta, elements, checksum) = (state.meta, state.elements, checksum.finish());
            parts.push(OperatorStatePart { meta, elements, offset, length, checksum });
        }
        Ok(parts)
    }

    /// Appends the states to `out`, one part each, for a host that keeps them itself. The first byte of a part is counted
    /// from where `out` ended.
    pub fn write_to(mut self, out: &mut Vec<u8>) -> Result<Vec<OperatorStatePart>, StateError> {
        self.sort();
        let base = out.len();
        let mut parts = Vec::with_capacity(self.states.len());
        for mut state in self.states {
            let start = out.len();
            while !caught(|| serializer_of(&state.meta.name), || state.content.write_some(out, PIECE_BYTES))? {}
            let mut checksum = RunningChecksum::default();
            checksum.update(&out[start..]);
            parts.push(OperatorStatePart {
                meta: state.meta,
                elements: state.elements,
                offset: (start - base) as u64,
                length: (out.len() - start) as u64,
                checksum: checksum.finish(),
            });
        }
        Ok(parts)
    }

    /// Lists before broadcast states, each in order of name: the same in every subtask, whatever was registered first.
    fn sort(&mut self) {
        self.states.sort_by(|one, other| {
            (one.meta.is_broadcast(), &one.meta.name).cmp(&(other.meta.is_broadcast(), &other.meta.name))
        });
    }
}

/// Elements that are bytes already.
struct Serialized(std::vec::IntoIter<Bytes>);

impl FrozenElements for Serialized {
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError> {
        let start = out.len();
        while out.len() - start < bytes_max {
            let Some(element) = self.0.next() else { return Ok(true) };
            write_element(&element, out);
        }
        Ok(false)
    }
}

/// What was restored and never decoded.
pub(super) struct Unread(Vec<Bytes>);

impl Unread {
    /// What this subtask carries on of it, and how many elements these are.
    pub(super) fn carried(restored: &[RestoredElements]) -> (u64, Box<dyn FrozenElements>) {
        let carried = restored.iter().filter(|elements| elements.is_carried);
        let count = carried.clone().map(|elements| elements.elements).sum();
        let mut pieces: Vec<Bytes> = carried.map(|elements| elements.content.clone()).collect();
        pieces.reverse();
        (count, Box::new(Self(pieces)))
    }
}

impl FrozenElements for Unread {
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError> {
        let Some(piece) = self.0.last_mut() else { return Ok(true) };
        if piece.len() > bytes_max {
            out.extend_from_slice(&piece.split_to(bytes_max));
        } else {
            out.extend_from_slice(&mem::take(piece));
            self.0.pop();
        }
        Ok(self.0.is_empty())
    }
}
