//! Printing a schema, so that it reads like the type: `{account: str, tags: [Plain | Span{from: u8, to: u8}]}`.

use std::fmt;

use super::{Container, Schema, Shape};

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
    fn list<'s>(&mut self, shapes: impl IntoIterator<Item = &'s Shape>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
