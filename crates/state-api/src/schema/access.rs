//! How visitors get at the parts of what the tracer hands out: elements, entries, variants, fields by name.

use std::mem;

use serde::de::value::{StrDeserializer, U32Deserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use super::graph::{Form, Place};
use super::refusal::Refusal;
use super::trace::{Branch, Mood, Tracer};

/// The parts of a branch, one after the other; none if there is no branch.
#[derive(Debug)]
pub(super) struct Parts<'t> {
    pub(super) tracer: &'t mut Tracer,
    pub(super) at: Option<Branch>,
    /// Parts read so far.
    pub(super) read: &'t mut usize,
}

impl Parts<'_> {
    fn left(&self) -> usize {
        self.at.map_or(0, |at| self.tracer.graph.branch(at.node, at.branch).slots.len() - *self.read)
    }

    fn next<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        let Some(at) = self.at.filter(|_| self.left() > 0) else { return Ok(None) };
        let slot = *self.read;
        *self.read += 1;
        self.tracer.read(at.slot(slot), at.mood_of(slot), seed).map(Some)
    }
}

impl<'de> de::SeqAccess<'de> for Parts<'_> {
    type Error = Refusal;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        self.next(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left())
    }
}

impl<'de> de::MapAccess<'de> for Parts<'_> {
    type Error = Refusal;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        match self.next(seed)? {
            Some(value) => Ok(value),
            None => Err(self.tracer.stop("it asks for a value without a key")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left() / 2)
    }
}

/// Hands a visitor the content of an option.
pub(super) struct Present<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Present<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(source)
    }
}

/// Hands a visitor the content of a newtype struct.
pub(super) struct Newtype<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Newtype<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(source)
    }
}

/// One variant of an enum.
///
/// It is asked for by its index, as bytes do, and another time by its name: with aliases among the names these are not
/// the same variant, and the names of the enum cannot be known.
#[derive(Debug)]
pub(super) struct EnumAccess<'t> {
    pub(super) tracer: &'t mut Tracer,
    pub(super) at: Branch,
    pub(super) name: &'static str,
}

impl<'de, 't> de::EnumAccess<'de> for EnumAccess<'t> {
    type Error = Refusal;
    type Variant = VariantAccess<'t>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, VariantAccess<'t>), Refusal> {
        let Self { tracer, at, name } = self;
        let is_by_name = tracer.graph.wants_name(at.node, at.branch);
        let variant = if is_by_name {
            let named: StrDeserializer<'_, Refusal> = name.into_deserializer();
            seed.deserialize(named)
        } else {
            let indexed: U32Deserializer<Refusal> = (at.branch as u32).into_deserializer();
            seed.deserialize(indexed)
        };
        match variant {
            Ok(variant) => {
                let read = format!("{:?}", mem::discriminant(&variant));
                if tracer.graph.identify(at.node, at.branch, is_by_name, read) {
                    return Ok((variant, VariantAccess { tracer, at }));
                }
                Err(tracer.stop(format!("the variant {name:?} does not stand at its index: is there an alias?")))
            }
            Err(_) if is_by_name => {
                tracer.graph.skip_name(at.node, at.branch);
                Err(tracer.over())
            }
            Err(refusal) => Err(tracer.stop(format!(
                "the variant {name:?} is not read by its index ({refusal}): is there a variant with an alias?"
            ))),
        }
    }
}

/// The content of one variant.
#[derive(Debug)]
pub(super) struct VariantAccess<'t> {
    tracer: &'t mut Tracer,
    at: Branch,
}

impl<'de> de::VariantAccess<'de> for VariantAccess<'_> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        self.tracer.form(self.at, Form::Parts(0))?;
        self.tracer.complete(self.at, 0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refusal> {
        self.tracer.single(self.at, seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.tracer.content(self.at, Form::Parts(len), visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refusal> {
        self.tracer.content(self.at, Form::Fields(fields), visitor)
    }
}

impl Tracer {
    /// Finds out to which field a name belongs, by showing the name twice: derived code refuses the second and says
    /// the field's proper name. Always ends the pass.
    pub(super) fn find_owner<'de, V: Visitor<'de>>(
        &mut self,
        at: Branch,
        name: usize,
        names: &'static [&'static str],
        visitor: V,
    ) -> Refusal {
        let mut shown = 0;
        let twice = Twice { tracer: &mut *self, name: names[name], samples: at.samples, shown: &mut shown };
        match visitor.visit_map(twice) {
            Err(Refusal::Duplicate(owner)) if shown == 2 && names.contains(&owner) => {
                self.graph.own(at.node, at.branch, name, owner);
                self.over()
            }
            Err(refusal) if self.is_refused() => refusal,
            _ => self.stop(format!("it has fewer fields than names, and {:?} belongs to none", names[name])),
        }
    }
}

/// A map that holds one field twice.
struct Twice<'t> {
    tracer: &'t mut Tracer,
    name: &'static str,
    samples: usize,
    shown: &'t mut usize,
}

impl<'de> de::MapAccess<'de> for Twice<'_> {
    type Error = Refusal;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        if *self.shown == 2 {
            return Ok(None);
        }
        *self.shown += 1;
        let named: StrDeserializer<'_, Refusal> = self.name.into_deserializer();
        seed.deserialize(named).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        self.tracer.graph.clear_aside();
        self.tracer.read(Place::Aside, Mood { samples: self.samples, is_seeking: false }, seed)
    }
}
