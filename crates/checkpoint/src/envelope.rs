//! The envelope around every file of the protocol: magic, version, length, payload, checksum.
//!
//! Defined in `docs/format/README.md`. What the envelope promises: any file that was cut, extended, damaged or made by
//! something else is told from a good one before a single value of it is looked at.

use std::fmt;

use bincode::Options;
use highwater_state_api::Checksum;
use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER_BYTES: usize = 8 + 4 + 8;
const CHECKSUM_BYTES: usize = 8;

/// The kinds of file that the protocol writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A record of the job log.
    LogRecord,
    /// The metadata of a checkpoint.
    Metadata,
}

impl FileKind {
    /// First bytes of each such file.
    pub(crate) const fn magic(self) -> [u8; 8] {
        match self {
            Self::LogRecord => *b"HWJOBLOG",
            Self::Metadata => *b"HWCHKPNT",
        }
    }

    /// The newest version. It and all before it, from 1 on, are read.
    pub(crate) const fn version(self) -> u32 {
        match self {
            Self::LogRecord => 2,
            Self::Metadata => 3,
        }
    }

    /// Largest payload that is written or read: no file can ask for more memory than this.
    pub(crate) const fn payload_bytes_max(self) -> u64 {
        match self {
            Self::LogRecord => 1 << 20,
            Self::Metadata => 1 << 30,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LogRecord => "job log record",
            Self::Metadata => "checkpoint metadata",
        })
    }
}

/// Why bytes are not a file of the kind that was asked for. Final: reading again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file ends too early.
    #[error("{kind} is cut: expected {expected} bytes, found {found}")]
    Cut {
        /// What was to be read.
        kind: FileKind,
        /// How many bytes there should be at least.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// The file is of another kind, or not ours at all.
    #[error("not a {kind}: expected the first bytes {}, found {}", expected.escape_ascii(), found.escape_ascii())]
    WrongMagic {
        /// What was to be read.
        kind: FileKind,
        /// The first bytes of such a file.
        expected: [u8; 8],
        /// The first bytes of this one.
        found: [u8; 8],
    },
    /// The file was written by a later release.
    #[error(
        "{kind} has format version {found}, this release reads up to {expected}: a newer one has written it, or it is damaged"
    )]
    UnknownVersion {
        /// What was to be read.
        kind: FileKind,
        /// The newest version that can be read.
        expected: u32,
        /// The version of the file.
        found: u32,
    },
    /// The payload is larger than any that is written.
    #[error("{kind} has a payload of {found} bytes, at most {limit} are possible")]
    TooLarge {
        /// What was to be read or written.
        kind: FileKind,
        /// The largest payload.
        limit: u64,
        /// The payload announced.
        found: u64,
    },
    /// There are bytes behind the end.
    #[error("{kind} has bytes behind its end: expected {expected} bytes, found {found}")]
    Trailing {
        /// What was to be read.
        kind: FileKind,
        /// The length that the file announces.
        expected: u64,
        /// The length that it has.
        found: u64,
    },
    /// The bytes are not those that were written.
    #[error("{kind} is damaged: expected checksum {expected}, found {found}")]
    ChecksumMismatch {
        /// What was to be read.
        kind: FileKind,
        /// The checksum in the file.
        expected: Checksum,
        /// The checksum of its bytes.
        found: Checksum,
    },
    /// The bytes are unharmed, but they say something that cannot be.
    #[error("{kind} is invalid: {reason}")]
    Invalid {
        /// What was to be read or written.
        kind: FileKind,
        /// Why, for people.
        reason: String,
    },
}

/// A file of the newest version.
pub(crate) fn encode<T: Serialize>(kind: FileKind, value: &T) -> Result<Vec<u8>, FormatError> {
    encode_as(kind.version(), kind, value)
}

/// A file of this version, which has to have a place for everything in the value.
pub(crate) fn encode_as<T: Serialize>(version: u32, kind: FileKind, value: &T) -> Result<Vec<u8>, FormatError> {
    let invalid = |error: bincode::Error| FormatError::Invalid { kind, reason: error.to_string() };
    let length = options(u64::MAX).serialized_size(value).map_err(invalid)?;
    let limit = kind.payload_bytes_max();
    if length > limit {
        return Err(FormatError::TooLarge { kind, limit, found: length });
    }
    let mut file = Vec::with_capacity(HEADER_BYTES + length as usize + CHECKSUM_BYTES);
    file.extend_from_slice(&kind.magic());
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&length.to_le_bytes());
    options(limit).serialize_into(&mut file, value).map_err(invalid)?;
    let checksum = Checksum::of(&file);
    file.extend_from_slice(&checksum.0.to_le_bytes());
    Ok(file)
}

/// A file of which everything but the payload has been looked at.
pub(crate) struct Envelope<'f> {
    kind: FileKind,
    /// The version of the payload.
    pub(crate) version: u32,
    payload: &'f [u8],
}

impl Envelope<'_> {
    /// The payload, all of which must belong to it.
    pub(crate) fn payload<T: DeserializeOwned>(&self) -> Result<T, FormatError> {
        // The limit bounds what a length inside the payload can make the decoder allocate.
        options(self.payload.len() as u64)
            .deserialize(self.payload)
            .map_err(|error| FormatError::Invalid { kind: self.kind, reason: error.to_string() })
    }
}

impl Envelope<'_> {
    /// The payload and the section behind it, to which the rest must belong; without a rest there is no section.
    pub(crate) fn payload_and_section<T: DeserializeOwned, S: DeserializeOwned>(
        &self,
    ) -> Result<(T, Option<S>), FormatError> {
        let invalid = |error: bincode::Error| FormatError::Invalid { kind: self.kind, reason: error.to_string() };
        let limit = self.payload.len() as u64;
        let mut rest = self.payload;
        let payload = options(limit).deserialize_from(&mut rest).map_err(invalid)?;
        let section = if rest.is_empty() { None } else { Some(options(limit).deserialize(rest).map_err(invalid)?) };
        Ok((payload, section))
    }
}

/// Checks a file of this kind, of any version that was ever written.
pub(crate) fn open(kind: FileKind, file: &[u8]) -> Result<Envelope<'_>, FormatError> {
    let found = file.len() as u64;
    let cut = |expected: u64| FormatError::Cut { kind, expected, found };
    let smallest = (HEADER_BYTES + CHECKSUM_BYTES) as u64;

    let (magic, rest) = file.split_first_chunk::<8>().ok_or(cut(smallest))?;
    if *magic != kind.magic() {
        return Err(FormatError::WrongMagic { kind, expected: kind.magic(), found: *magic });
    }
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(cut(smallest))?;
    let version = u32::from_le_bytes(*version);
    if version == 0 || version > kind.version() {
        return Err(FormatError::UnknownVersion { kind, expected: kind.version(), found: version });
    }
    let (length, _) = rest.split_first_chunk::<8>().ok_or(cut(smallest))?;
    let length = u64::from_le_bytes(*length);
    let limit = kind.payload_bytes_max();
    if length > limit {
        return Err(FormatError::TooLarge { kind, limit, found: length });
    }

    let expected = smallest + length; // no overflow: the length was checked
    if found < expected {
        return Err(cut(expected));
    }
    if found > expected {
        return Err(FormatError::Trailing { kind, expected, found });
    }
    let (checked, checksum) = file.split_last_chunk::<CHECKSUM_BYTES>().ok_or(cut(expected))?;
    let (expected, found) = (Checksum(u64::from_le_bytes(*checksum)), Checksum::of(checked));
    if expected != found {
        return Err(FormatError::ChecksumMismatch { kind, expected, found });
    }

    Ok(Envelope { kind, version, payload: &checked[HEADER_BYTES..] })
}

fn options(limit: u64) -> impl Options {
    bincode::options().with_little_endian().with_fixint_encoding().reject_trailing_bytes().with_limit(limit)
}
