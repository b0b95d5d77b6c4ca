//! Serializers: how a typed value becomes the bytes of a snapshot, and back.

use std::fmt;

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::schema::{Schema, SchemaError};

/// Bytes that one serialised value can have at most: 1 GiB.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A value could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{serializer}: {reason}")]
pub struct SerializerError {
    /// Name of the serializer.
    pub serializer: &'static str,
    /// What it says.
    pub reason: String,
}

/// Writes and reads values of one type. One value is used from several threads at once.
///
/// Two rules keep state readable: the same value always gives the same bytes, and `deserialize` reads exactly what
/// `serialize` wrote (trailing bytes are an error).
pub trait Serializer<T>: Send + Sync + fmt::Debug {
    /// Appends the bytes of `value` to `out`.
    fn serialize(&self, value: &T, out: &mut Vec<u8>) -> Result<(), SerializerError>;

    /// Reads a value from exactly these bytes.
    fn deserialize(&self, bytes: &[u8]) -> Result<T, SerializerError>;

    /// The schema of what this serializer writes; recorded in every snapshot.
    fn schema(&self) -> Result<Schema, SchemaError>;
}

/// The default: bincode 1.3 with fixed-width little-endian integers, through serde.
///
/// Its schema is traced from the type's `Deserialize`. Where that cannot work, [`BincodeSerializer::opaque`] takes a
/// name and a version instead.
#[derive(Debug, Clone, Default)]
pub struct BincodeSerializer {
    opaque: Option<(String, u32)>,
}

impl BincodeSerializer {
    /// With a schema traced from the type.
    pub fn traced() -> Self {
        Self::default()
    }

    /// With a schema that is only a name and a version: the user vouches that equal ones mean equal bytes.
    pub fn opaque(name: impl Into<String>, version: u32) -> Self {
        Self { opaque: Some((name.into(), version)) }
    }
}

fn options() -> impl Options {
    bincode::options().with_fixint_encoding().reject_trailing_bytes().with_limit(VALUE_BYTES_MAX)
}

fn error(error: bincode::Error) -> SerializerError {
    SerializerError { serializer: "bincode", reason: error.to_string() }
}

impl<T: Serialize + DeserializeOwned> Serializer<T> for BincodeSerializer {
    fn serialize(&self, value: &T, out: &mut Vec<u8>) -> Result<(), SerializerError> {
        let start = out.len();
        options().serialize_into(&mut *out, value).map_err(|cause| {
            out.truncate(start);
            error(cause)
        })
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<T, SerializerError> {
        options().deserialize(bytes).map_err(error)
    }

    fn schema(&self) -> Result<Schema, SchemaError> {
        match &self.opaque {
            Some((name, version)) => Ok(Schema::Opaque { name: name.clone(), version: *version }),
            None => Schema::trace::<T>(),
        }
    }
}
