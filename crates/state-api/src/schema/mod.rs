//! Schemas: the shape of serialised values, recorded beside them so that old bytes are never read as something else.
//!
//! A schema holds field and variant names and shapes, and no name of a type: renaming a struct changes nothing.
//! Its form in a snapshot is defined in `docs/format/checkpoint.md`.
//!
//! # Why a tracer of our own
//!
//! The crate serde-reflection, the obvious choice, finds types by name: two instances of one generic struct, or two
//! structs of the same name in different modules, are one to it. And it explores no enum inside a sequence, an option
//! or itself once it knows what the sequence holds, so most types with an enum stay unfinished. Hence:
//!
//! * `trace` reads the type again and again from a deserializer that makes up what it is asked for;
//! * `graph` keeps what was asked for, and knows the way to what was not. A part of a type is found again by the
//!   compiler's identity of the visitor that asks (within this process, and never stored), not by a name;
//! * `fold` makes one part of those that hold the same, which makes equal what has equal bytes.
//!
//! A type is traced to its end or not at all.

mod access;
mod display;
mod fold;
mod graph;
mod refusal;
mod samples;
mod trace;
#[cfg(test)]
mod trace_test;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The shape of a serialised value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Schema {
    /// Known only by a name and a version that the user gave.
    Opaque {
        /// The name.
        name: String,
        /// The version.
        version: u32,
    },
    /// Traced from the type: the shape of the value, and the containers that it refers to by index.
    Structural {
        /// The shape of the value itself.
        root: Shape,
        /// Structs and enums, in the order in which they are met from the root. No two are the same.
        containers: Vec<Container>,
    },
}

/// The shape of one part of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A type without bytes of its own or with a fixed name: `unit`, `bool`, `i8` … `u128`, `f32`, `f64`, `char`,
    /// `str`, `bytes`.
    Primitive(String),
    /// An optional value.
    Option(Box<Shape>),
    /// A sequence of any length.
    Sequence(Box<Shape>),
    /// A map.
    Map(Box<Shape>, Box<Shape>),
    /// A fixed number of values.
    Tuple(Vec<Shape>),
    /// The same shape a fixed number of times, at least twice.
    Array(Box<Shape>, u64),
    /// A struct or an enum: index into the containers of the schema.
    Container(u32),
}

/// A struct or an enum, without its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// Fields with names, in the order in which they are written.
    Struct(Vec<(String, Shape)>),
    /// Fields without names.
    TupleStruct(Vec<Shape>),
    /// Variants: index, name and content.
    Enum(Vec<(u32, String, Box<Container>)>),
}

/// No schema could be traced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SchemaError {
    /// Why, in the words of the tracer.
    pub reason: String,
}

impl Schema {
    /// The schema of `()`, which has no bytes.
    pub fn unit() -> Self {
        Self::Structural { root: Shape::Primitive("unit".to_owned()), containers: Vec::new() }
    }

    /// Finds the schema of a type by watching what its `Deserialize` asks for.
    ///
    /// Structs, enums, collections and types that hold themselves are all traced, whatever holds them. This fails for
    ///
    /// * types that refuse every sample value: a number that has to be a prime above 1,000;
    /// * types that ask the bytes what they hold: enums with `tag` or `untagged`, flattened fields;
    /// * types that ask for different things after different values, as far as the samples show it;
    /// * enums that have a variant with an alias: which of its names is written is not to be seen. Fields may have
    ///   aliases;
    /// * types that hold themselves with no struct or enum between, or have no end.
    ///
    /// `Deserialize` is run with samples such as 1 and `"a"`; it must not do more than read.
    pub fn trace<T: DeserializeOwned>() -> Result<Self, SchemaError> {
        let schema = trace::trace::<T>().and_then(|graph| fold::fold(&graph));
        schema.map_err(|reason| SchemaError { reason })
    }
}
