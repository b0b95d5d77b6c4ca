//! The split of the file source: one file, and where in it to go on.

use std::fmt;

use highwater_state_api::Checksum;
use serde::{Deserialize, Serialize};

/// One file with the position of the next record. Goes into checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileSplit {
    /// The file, as the pattern named it: a relative path stays relative.
    pub path: String,
    /// What the file was when the job started.
    pub identity: FileIdentity,
    /// The next record.
    pub position: FilePosition,
}

/// How a file is recognised: its length, and the checksum of its first and last 64 KiB (of all of it, up to 128 KiB).
///
/// The time of modification is not part of it: a copy or a restored backup has another one and is the same input, and
/// an edit may leave it as it is. Nor is the whole content, which would have to be read once more at every start. So
/// one change goes unseen: an edit far from both ends that keeps the length of a plain file. In a compressed file the
/// checksum that ends it finds that one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Length on disk in bytes.
    pub length: u64,
    /// Checksum of both ends on disk.
    pub checksum: Checksum,
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with checksum {}", self.length, self.checksum)
    }
}

/// A position between two records of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FilePosition {
    /// The byte of the content, uncompressed, at which the next record is looked for. 0 is the start of the file; the
    /// record is then the first one after the header.
    pub byte: u64,
    /// How many records lie before it. The header is none.
    pub record: u64,
}
