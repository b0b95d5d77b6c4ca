//! The stable hash of a key: what decides, for ever, which key group it belongs to.
//!
//! The hash is XXH32 (seed 0) over the *canonical key encoding*, which depends on nothing but the key's value as serde
//! describes it: not on the process, the build, the serializer of the state, or the names of types and fields.
//! The encoding is defined in `docs/format/key-hash.md` and is simple enough to be written in any language.

use serde::{Serialize, ser};

/// Name of the hash, recorded in every checkpoint. A checkpoint with another name is refused.
pub const KEY_HASH_ID: &str = "xxh32-canonical-1";

/// The 32-bit stable hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u32);

/// A key that has no stable hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyHashError {
    /// The key holds a value whose encoding would not be stable.
    #[error("a key cannot hold {0}: its hash would not be stable")]
    Unstable(&'static str),
    /// The key holds a sequence whose length is not known before it is serialised.
    #[error("a key cannot hold a sequence of unknown length")]
    UnknownLength,
    /// The key's own `Serialize` failed.
    #[error("the key could not be serialised: {0}")]
    Custom(String),
}

impl ser::Error for KeyHashError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

/// Computes key hashes; holds the buffer that the encoding is written to, so that hashing does not allocate.
#[derive(Debug, Default)]
pub struct KeyHasher {
    buffer: Vec<u8>,
}

impl KeyHasher {
    /// The stable hash of `key`.
    #[inline]
    pub fn hash<K: Serialize + ?Sized>(&mut self, key: &K) -> Result<KeyHash, KeyHashError> {
        self.buffer.clear();
        key.serialize(CanonicalEncoder { out: &mut self.buffer })?;
        Ok(KeyHash(twox_hash::XxHash32::oneshot(0, &self.buffer)))
    }
}

/// Writes the canonical key encoding of `key` to the end of `out`.
pub fn encode_canonical<K: Serialize + ?Sized>(key: &K, out: &mut Vec<u8>) -> Result<(), KeyHashError> {
    key.serialize(CanonicalEncoder { out })
}

struct CanonicalEncoder<'a> {
    out: &'a mut Vec<u8>,
}

impl CanonicalEncoder<'_> {
    fn length(&mut self, length: usize) -> Result<(), KeyHashError> {
        let length = u32::try_from(length).map_err(|_| KeyHashError::Unstable("more than 4 GiB"))?;
        self.out.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn reborrow(&mut self) -> CanonicalEncoder<'_> {
        CanonicalEncoder { out: self.out }
    }
}

macro_rules! fixed_width {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $method(self, v: $type) -> Result<(), KeyHashError> {
            self.out.extend_from_slice(&v.to_le_bytes());
            Ok(())
        }
    )*};
}

impl<'a> ser::Serializer for CanonicalEncoder<'a> {
    type Ok = ();
    type Error = KeyHashError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = ser::Impossible<(), KeyHashError>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fixed_width! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_bool(self, v: bool) -> Result<(), KeyHashError> {
        self.out.push(u8::from(v));
        Ok(())
    }

    fn serialize_f32(self, _: f32) -> Result<(), KeyHashError> {
        Err(KeyHashError::Unstable("a floating-point number"))
    }

    fn serialize_f64(self, _: f64) -> Result<(), KeyHashError> {
        Err(KeyHashError::Unstable("a floating-point number"))
    }

    fn serialize_char(self, v: char) -> Result<(), KeyHashError> {
        self.serialize_u32(u32::from(v))
    }

    #[inline]
    fn serialize_str(self, v: &str) -> Result<(), KeyHashError> {
        self.serialize_bytes(v.as_bytes())
    }

    #[inline]
    fn serialize_bytes(mut self, v: &[u8]) -> Result<(), KeyHashError> {
        self.length(v.len())?;
        self.out.extend_from_slice(v);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), KeyHashError> {
        self.out.push(0);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), KeyHashError> {
        self.out.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), KeyHashError> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), KeyHashError> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), KeyHashError> {
        self.serialize_u32(index)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), KeyHashError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), KeyHashError> {
        self.reborrow().serialize_u32(index)?;
        value.serialize(self)
    }

    fn serialize_seq(mut self, length: Option<usize>) -> Result<Self, KeyHashError> {
        self.length(length.ok_or(KeyHashError::UnknownLength)?)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, KeyHashError> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, KeyHashError> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, KeyHashError> {
        self.reborrow().serialize_u32(index)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, KeyHashError> {
        Err(KeyHashError::Unstable("a map"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, KeyHashError> {
        Ok(self)
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, KeyHashError> {
        self.reborrow().serialize_u32(index)?;
        Ok(self)
    }

    /// The encoding is of bytes, so types choose their compact form.
    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! compound {
    ($($trait:ident :: $method:ident ($($name:ident : $type:ty)?)),* $(,)?) => {$(
        impl ser::$trait for CanonicalEncoder<'_> {
            type Ok = ();
            type Error = KeyHashError;
            fn $method<T: Serialize + ?Sized>(&mut self, $($name: $type,)? value: &T) -> Result<(), KeyHashError> {
                value.serialize(self.reborrow())
            }
            fn end(self) -> Result<(), KeyHashError> {
                Ok(())
            }
        }
    )*};
}

compound! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(_name: &'static str),
    SerializeStructVariant::serialize_field(_name: &'static str),
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    fn hash<K: Serialize + ?Sized>(key: &K) -> Result<KeyHash, KeyHashError> {
        KeyHasher::default().hash(key)
    }

    #[test]
    fn borrowed_and_owned_text_agree() {
        assert_eq!(hash("a"), hash(&String::from("a")));
        assert_eq!(hash(&("a", 1)), hash(&(String::from("a"), 1)));
    }

    #[test]
    fn fields_that_run_together_differ() {
        assert_ne!(hash(&("a", "bc")), hash(&("ab", "c")));
        assert_ne!(hash(&(vec![1u8], vec![2u8, 3])), hash(&(vec![1u8, 2], vec![3u8])));
    }

    /// Field case: R79.
    /// Those that the compiler lets through: a type may say of itself that it is `Eq` and `Hash`.
    #[test]
    fn keys_without_a_stable_hash_are_refused() {
        assert_eq!(hash(&1.0f64), Err(KeyHashError::Unstable("a floating-point number")));
        assert_eq!(hash(&("a", [Some(1.0f32)])), Err(KeyHashError::Unstable("a floating-point number")));
        assert_eq!(hash(&HashMap::from([(1, 2)])), Err(KeyHashError::Unstable("a map")));
        assert_eq!(hash(&BTreeMap::from([(1, 2)])), Err(KeyHashError::Unstable("a map")));
    }
}
