//! Schemas: the shape of serialised values, recorded beside them so that old bytes are never read as something else.
//!
//! A schema holds field and variant names and shapes, and no name of a type: renaming a struct changes nothing.
//! Its form in a snapshot is defined in `docs/format/checkpoint.md`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_reflection::{ContainerFormat, Format, Named, Tracer, TracerConfig, VariantFormat};

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
        /// Structs and enums, in the order in which they are met from the root.
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
    /// The same shape a fixed number of times.
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
    /// Finds the schema of a type by watching what its `Deserialize` asks for.
    ///
    /// Fails for types that check what they read, and for types whose shape depends on what they read.
    pub fn trace<T: DeserializeOwned>() -> Result<Self, SchemaError> {
        let error = |error: serde_reflection::Error| SchemaError { reason: error.to_string() };
        let config = TracerConfig::default().is_human_readable(false);
        let mut tracer = Tracer::new(config);
        let (format, _) = tracer.trace_simple_type::<T>().map_err(error)?;
        let registry = tracer.registry().map_err(error)?;
        let mut builder = Builder { registry: &registry, seen: BTreeMap::new(), containers: Vec::new() };
        let root = builder.shape(&format)?;
        let containers = builder.containers.into_iter().flatten().collect();
        Ok(Self::Structural { root, containers })
    }
}

struct Builder<'a> {
    registry: &'a serde_reflection::Registry,
    seen: BTreeMap<String, u32>,
    /// `None` while the container is being built: a type may refer to itself.
    containers: Vec<Option<Container>>,
}

impl Builder<'_> {
    fn shape(&mut self, format: &Format) -> Result<Shape, SchemaError> {
        let primitive = |name: &str| Ok(Shape::Primitive(name.to_owned()));
        match format {
            Format::Unit => primitive("unit"),
            Format::Bool => primitive("bool"),
            Format::I8 => primitive("i8"),
            Format::I16 => primitive("i16"),
            Format::I32 => primitive("i32"),
            Format::I64 => primitive("i64"),
            Format::I128 => primitive("i128"),
            Format::U8 => primitive("u8"),
            Format::U16 => primitive("u16"),
            Format::U32 => primitive("u32"),
            Format::U64 => primitive("u64"),
            Format::U128 => primitive("u128"),
            Format::F32 => primitive("f32"),
            Format::F64 => primitive("f64"),
            Format::Char => primitive("char"),
            Format::Str => primitive("str"),
            Format::Bytes => primitive("bytes"),
            Format::Option(inner) => Ok(Shape::Option(Box::new(self.shape(inner)?))),
            Format::Seq(inner) => Ok(Shape::Sequence(Box::new(self.shape(inner)?))),
            Format::Map { key, value } => Ok(Shape::Map(Box::new(self.shape(key)?), Box::new(self.shape(value)?))),
            Format::Tuple(parts) => Ok(Shape::Tuple(self.shapes(parts)?)),
            Format::TupleArray { content, size } => Ok(Shape::Array(Box::new(self.shape(content)?), *size as u64)),
            Format::TypeName(name) => self.container(name),
            Format::Variable(_) => Err(SchemaError { reason: "part of the type was never seen".to_owned() }),
        }
    }

    fn shapes(&mut self, formats: &[Format]) -> Result<Vec<Shape>, SchemaError> {
        formats.iter().map(|format| self.shape(format)).collect()
    }

    fn fields(&mut self, fields: &[Named<Format>]) -> Result<Vec<(String, Shape)>, SchemaError> {
        fields.iter().map(|field| Ok((field.name.clone(), self.shape(&field.value)?))).collect()
    }

    fn container(&mut self, name: &str) -> Result<Shape, SchemaError> {
        if let Some(index) = self.seen.get(name) {
            return Ok(Shape::Container(*index));
        }
        let format = self
            .registry
            .get(name)
            .ok_or_else(|| SchemaError { reason: format!("the type {name} was named but never seen") })?;
        let index = self.containers.len() as u32;
        self.seen.insert(name.to_owned(), index);
        self.containers.push(None);
        let container = match format {
            ContainerFormat::UnitStruct => Container::TupleStruct(Vec::new()),
            ContainerFormat::NewTypeStruct(inner) => Container::TupleStruct(vec![self.shape(inner)?]),
            ContainerFormat::TupleStruct(parts) => Container::TupleStruct(self.shapes(parts)?),
            ContainerFormat::Struct(fields) => Container::Struct(self.fields(fields)?),
            ContainerFormat::Enum(variants) => {
                let mut list = Vec::new();
                for (index, variant) in variants {
                    let content = match &variant.value {
                        VariantFormat::Unit => Container::TupleStruct(Vec::new()),
                        VariantFormat::NewType(inner) => Container::TupleStruct(vec![self.shape(inner)?]),
                        VariantFormat::Tuple(parts) => Container::TupleStruct(self.shapes(parts)?),
                        VariantFormat::Struct(fields) => Container::Struct(self.fields(fields)?),
                        VariantFormat::Variable(_) => {
                            return Err(SchemaError { reason: format!("a variant of {name} was never seen") });
                        }
                    };
                    list.push((*index, variant.name.clone(), Box::new(content)));
                }
                Container::Enum(list)
            }
        };
        self.containers[index as usize] = Some(container);
        Ok(Shape::Container(index))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opaque { name, version } => write!(f, "{name} version {version}"),
            Self::Structural { root, containers } => Printer { containers, open: Vec::new() }.shape(root, f),
        }
    }
}

struct Printer<'a> {
    containers: &'a [Container],
    /// Containers being printed: a type that holds itself is printed as `#index` the second time.
    open: Vec<u32>,
}

impl Printer<'_> {
    fn list<'s>(
        &mut self,
        shapes: impl IntoIterator<Item = &'s Shape>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for (index, shape) in shapes.into_iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            self.shape(shape, f)?;
        }
        Ok(())
    }

    fn shape(&mut self, shape: &Shape, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match shape {
            Shape::Primitive(name) => f.write_str(name),
            Shape::Option(inner) => self.shape(inner, f).and_then(|()| f.write_str("?")),
            Shape::Sequence(inner) => {
                f.write_str("[")?;
                self.shape(inner, f)?;
                f.write_str("]")
            }
            Shape::Map(key, value) => {
                f.write_str("map<")?;
                self.list([&**key, &**value], f)?;
                f.write_str(">")
            }
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                self.list(parts, f)?;
                f.write_str(")")
            }
            Shape::Array(inner, length) => {
                f.write_str("[")?;
                self.shape(inner, f)?;
                write!(f, "; {length}]")
            }
            Shape::Container(index) => match self.containers.get(*index as usize) {
                Some(container) if !self.open.contains(index) => {
                    self.open.push(*index);
                    self.container(container, f)?;
                    self.open.pop();
                    Ok(())
                }
                _ => write!(f, "#{index}"),
            },
        }
    }

    fn container(&mut self, container: &Container, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match container {
            Container::Struct(fields) => {
                f.write_str("{")?;
                for (index, (name, shape)) in fields.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{name}: ")?;
                    self.shape(shape, f)?;
                }
                f.write_str("}")
            }
            Container::TupleStruct(parts) => {
                f.write_str("(")?;
                self.list(parts, f)?;
                f.write_str(")")
            }
            Container::Enum(variants) => {
                for (index, (_, name, content)) in variants.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" | ")?;
                    }
                    f.write_str(name)?;
                    if **content != Container::TupleStruct(Vec::new()) {
                        self.container(content, f)?;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Payment {
        account: String,
        cents: i64,
        tags: Vec<Tag>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    enum Tag {
        Plain,
        Sub(Box<Option<Payment>>),
        Span { from: u8, to: u8 },
    }

    mod renamed {
        use super::*;
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only its shape is looked at")]
        pub(super) struct Total {
            pub(super) sum: i64,
        }
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only its shape is looked at")]
        pub(super) struct Amount {
            pub(super) sum: i64,
        }
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only its shape is looked at")]
        pub(super) struct Other {
            pub(super) total: i64,
        }
    }

    #[test]
    fn a_schema_reads_like_the_type() {
        let schema = Schema::trace::<Payment>().unwrap();
        assert_eq!(
            schema.to_string(),
            "{account: str, cents: i64, tags: [Plain | Sub(#0?) | Span{from: u8, to: u8}]}"
        );
    }

    #[test]
    fn the_name_of_a_type_does_not_count_and_the_name_of_a_field_does() {
        let schema = Schema::trace::<renamed::Total>().unwrap();
        assert_eq!(schema, Schema::trace::<renamed::Amount>().unwrap());
        assert_ne!(schema, Schema::trace::<renamed::Other>().unwrap());
    }

    #[test]
    fn a_type_that_checks_what_it_reads_cannot_be_traced() {
        let error = Schema::trace::<crate::JobName>().unwrap_err();
        assert!(error.reason.contains("is not usable"), "{error}");
    }
}
