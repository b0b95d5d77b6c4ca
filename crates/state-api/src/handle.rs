//! State handles: where one piece of snapshotted state can be read again, and how to tell that it is unharmed.

use std::fmt;
use std::hash::Hasher;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{KeyGroup, KeyGroupRange};

/// Content checksum: XXH3-64 (seed 0) of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Checksum(pub u64);

impl Checksum {
    /// The checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(twox_hash::XxHash3_64::oneshot(bytes))
    }
}

/// Computes the checksum of bytes that come in pieces; how they are divided makes no difference.
#[derive(Clone, Default)]
pub struct RunningChecksum(twox_hash::XxHash3_64);

impl RunningChecksum {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of what has been taken so far.
    pub fn finish(&self) -> Checksum {
        Checksum(self.0.finish())
    }
}

impl fmt::Debug for RunningChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningChecksum").field(&self.finish()).finish()
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Path of an object inside a checkpoint storage: segments joined by `/`, relative to the storage's root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectPath(String);

impl ObjectPath {
    /// Joins segments. A segment is never empty, `.` or `..`, and holds no `/`, `\` or control character.
    ///
    /// # Panics
    /// When a segment breaks that rule: segments are made by the protocol, never taken from outside unchecked.
    pub fn new<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        let segments: Vec<&str> = segments.into_iter().collect();
        assert!(
            !segments.is_empty() && segments.iter().all(|segment| is_segment(segment)),
            "{segments:?} is no object path"
        );
        Self(segments.join("/"))
    }

    /// Reads a path back that was written somewhere; `None` when it is none.
    pub fn parse(path: &str) -> Option<Self> {
        path.split('/').all(is_segment).then(|| Self(path.to_owned()))
    }

    /// The path with one more segment. Same rule as [`ObjectPath::new`].
    pub fn join(&self, segment: &str) -> Self {
        assert!(is_segment(segment), "{segment:?} is no segment of an object path");
        Self(format!("{}/{segment}", self.0))
    }

    /// The path as text, with `/` between segments.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Whether this object lies under the folder `folder`.
    pub fn is_under(&self, folder: &ObjectPath) -> bool {
        self.0.strip_prefix(&folder.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

fn is_segment(segment: &str) -> bool {
    !segment.is_empty()
        && segment != "."
        && segment != ".."
        && !segment.chars().any(|c| c == '/' || c == '\\' || c.is_control())
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes that were snapshotted: either carried along, or an object in the checkpoint storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateHandle {
    /// The bytes themselves: small state travels inside the metadata.
    Inline(Bytes),
    /// An object of the storage.
    Object {
        /// Where it is.
        path: ObjectPath,
        /// Its length in bytes.
        length: u64,
        /// Checksum of its whole content.
        checksum: Checksum,
    },
}

impl StateHandle {
    /// Length of the state in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Object { length, .. } => *length,
        }
    }

    /// The object this handle needs, if it needs one.
    pub fn object(&self) -> Option<&ObjectPath> {
        match self {
            Self::Inline(_) => None,
            Self::Object { path, .. } => Some(path),
        }
    }
}

/// Where the part of one key group lies within a keyed snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroupPart {
    /// The group.
    pub group: KeyGroup,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Checksum of this part alone, so that a restore can read and check only the groups it needs.
    pub checksum: Checksum,
}

/// The keyed state of one operator subtask in the canonical stream, with an index by key group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedStateHandle {
    /// The groups that the subtask owned.
    pub range: KeyGroupRange,
    /// The tables of the state: what was registered, in the order of their table numbers.
    pub tables: Vec<crate::TableMeta>,
    /// The parts in ascending order of group; groups without an entry are left out.
    pub parts: Vec<KeyGroupPart>,
    /// The bytes that the parts index.
    pub state: StateHandle,
}
