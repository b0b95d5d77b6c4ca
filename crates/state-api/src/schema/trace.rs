//! The tracing deserializer: it hands out samples, and writes down what is asked for.

use std::marker::PhantomData;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Visitor};

use super::access::{EnumAccess, Newtype, Parts, Present};
use super::graph::{Asker, Choice, Form, Graph, NodeId, Place, Request};
use super::refusal::Refusal;
use super::samples::{SAMPLES, Sample};

/// Times that a type can be read: once for every option, collection and variant, and for every sample refused.
const PASSES_MAX: usize = 1 << 14;
/// Parts that can be read in all passes together.
const STEPS_MAX: usize = 1 << 24;
/// Parts that can be open within each other.
const DEPTH_MAX: usize = 192;

/// Reads the type until nothing of it is unknown.
pub(super) fn trace<T: DeserializeOwned>() -> Result<Graph, String> {
    let mut tracer = Tracer::default();
    for _ in 0..PASSES_MAX {
        let before = tracer.graph.changes();
        let is_read = tracer.pass::<T>()?;
        let is_pending = tracer.graph.measure();
        if is_read && !is_pending {
            return Ok(tracer.graph);
        }
        if tracer.graph.changes() == before {
            return Err("parts of the type are never asked for".to_owned());
        }
    }
    Err(format!("parts of the type are unknown after it was read {PASSES_MAX} times"))
}

/// What lasts over the passes, and what happened in this one.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    pub(super) graph: Graph,
    steps: usize,
    /// Places being read, the root first.
    open: Vec<Place>,
    /// No sample can help: why.
    failure: Option<String>,
    /// The innermost place that refused what it was shown, and what it said.
    refused: Option<(Place, String)>,
    /// The pass has found what it was for, and is not to be read on.
    is_over: bool,
}

impl Tracer {
    /// Reads the type once; false if it was not read to its end, and may be another time.
    fn pass<T: DeserializeOwned>(&mut self) -> Result<bool, String> {
        self.open.clear();
        self.refused = None;
        self.is_over = false;
        let value = self.read(Place::Root, Mood { samples: 0, is_seeking: true }, PhantomData::<T>);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // A `Deserialize` may also have swallowed the refusal of a part, and gone on with something else.
        let Some((place, reason)) = self.refused.take() else { return Ok(value.is_ok() && !self.is_over) };
        if self.graph.next_sample(place) { Ok(false) } else { Err(reason) }
    }

    /// Reads one part.
    pub(super) fn read<'de, S: DeserializeSeed<'de>>(
        &mut self,
        place: Place,
        mut mood: Mood,
        seed: S,
    ) -> Result<S::Value, Refusal> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(self.stop(format!("it has more than {STEPS_MAX} parts to be read")));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(self.stop(format!("its parts are more than {DEPTH_MAX} deep within each other")));
        }
        match self.graph.slot(place).samples {
            0 => {}
            own => mood.samples = own,
        }
        self.open.push(place);
        let result = seed.deserialize(Source { tracer: &mut *self, place, mood });
        let result = match result {
            Ok(_) if self.graph.slot(place).child.is_none() => Err(self.stop("it reads nothing")),
            Err(refusal) => {
                if self.refused.is_none() && !self.is_over {
                    self.refused = Some((place, self.at(&format!("every sample is refused: {refusal}"))));
                }
                Err(refusal)
            }
            result => result,
        };
        self.open.pop();
        result
    }

    /// Gives up on the type.
    pub(super) fn stop(&mut self, reason: impl AsRef<str>) -> Refusal {
        if self.failure.is_none() {
            self.failure = Some(self.at(reason.as_ref()));
        }
        self.over()
    }

    /// Ends this pass.
    pub(super) fn over(&mut self) -> Refusal {
        self.is_over = true;
        Refusal::Over
    }

    /// Whether a part has refused what it was shown, in this pass.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Says where in the type something happened: names of fields and variants, numbers of other parts.
    fn at(&self, what: &str) -> String {
        let mut path = Vec::new();
        for place in &self.open {
            let Place::Part { node, branch, slot } = place else { continue };
            let request = &self.graph.node(*node).request;
            if let Request::Enum(variants) = request {
                path.push(variants[*branch].to_owned());
            }
            match (self.graph.branch(*node, *branch).form, request) {
                (Some(Form::Fields(names)), _) => path.push(names[*slot].to_owned()),
                (_, Request::Option | Request::Sequence) => {}
                (_, Request::Map) => path.push(["key", "value"][*slot].to_owned()),
                _ => path.push(slot.to_string()),
            }
        }
        if path.is_empty() { what.to_owned() } else { format!("in `{}`: {what}", path.join(".")) }
    }

    /// Lets a visitor read the parts of a branch.
    pub(super) fn content<'de, V: Visitor<'de>>(
        &mut self,
        at: Branch,
        form: Form,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.form(at, form)?;
        if let (Some(name), Form::Fields(names)) = (self.graph.unowned(at.node, at.branch), form) {
            return Err(self.find_owner(at, name, names, visitor));
        }
        let mut read = 0;
        let value = match form {
            Form::Parts(2) if self.graph.node(at.node).request == Request::Map => {
                visitor.visit_map(Parts { tracer: &mut *self, at: Some(at), read: &mut read })
            }
            _ => visitor.visit_seq(Parts { tracer: &mut *self, at: Some(at), read: &mut read }),
        }?;
        self.complete(at, read)?;
        Ok(value)
    }

    /// Lets a seed read the only part of a branch.
    pub(super) fn single<'de, S: DeserializeSeed<'de>>(&mut self, at: Branch, seed: S) -> Result<S::Value, Refusal> {
        self.form(at, Form::Parts(1))?;
        let value = self.read(at.slot(0), at.mood_of(0), seed)?;
        self.complete(at, 1)?;
        Ok(value)
    }

    pub(super) fn form(&mut self, at: Branch, form: Form) -> Result<(), Refusal> {
        if self.graph.form(at.node, at.branch, form) {
            return Ok(());
        }
        Err(self.stop("the number of its parts depends on what it has read before, or is too large"))
    }

    pub(super) fn complete(&mut self, at: Branch, read: usize) -> Result<(), Refusal> {
        if self.graph.complete(at.node, at.branch, read) {
            return Ok(());
        }
        Err(self.stop(format!("it took {read} parts, which is not what it had asked for")))
    }
}

/// How a part is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mood {
    pub(super) samples: usize,
    /// The way of this pass to something new leads through here.
    pub(super) is_seeking: bool,
}

/// The branch of a node that is being read, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(super) node: NodeId,
    pub(super) branch: usize,
    pub(super) samples: usize,
    /// The slot through which the way to something new leads.
    toward: Option<usize>,
}

impl Branch {
    pub(super) fn slot(self, slot: usize) -> Place {
        Place::Part { node: self.node, branch: self.branch, slot }
    }

    pub(super) fn mood_of(self, slot: usize) -> Mood {
        Mood { samples: self.samples, is_seeking: self.toward == Some(slot) }
    }
}

/// The deserializer of one part.
#[derive(Debug)]
pub(super) struct Source<'t> {
    tracer: &'t mut Tracer,
    place: Place,
    mood: Mood,
}

impl<'t> Source<'t> {
    fn enter(&mut self, asker: Asker, request: Request) -> Result<NodeId, Refusal> {
        let entered = self.tracer.graph.enter(self.place, asker, request);
        entered.map_err(|reason| self.tracer.stop(reason))
    }

    fn primitive(mut self, name: &'static str) -> Result<&'static Sample, Refusal> {
        self.enter(Asker::anyone(), Request::Primitive(name))?;
        Ok(&SAMPLES[self.mood.samples])
    }

    /// Enters a node and chooses what to hand out: a branch, or nothing.
    fn choose<V>(mut self, request: Request) -> Result<(&'t mut Tracer, Option<Branch>), Refusal> {
        let node = self.enter(Asker::of::<V>(), request)?;
        let Mood { samples, is_seeking } = self.mood;
        let Tracer { graph, open, .. } = &mut *self.tracer;
        match graph.choose(node, is_seeking, SAMPLES[samples].filled, open) {
            Some(Choice::Branch(branch, toward)) => Ok((self.tracer, Some(Branch { node, branch, samples, toward }))),
            Some(Choice::Nothing) => Ok((self.tracer, None)),
            None => Err(self.tracer.stop("it has no finite value")),
        }
    }

    fn parts<'de, V: Visitor<'de>>(self, request: Request, form: Form, visitor: V) -> Result<V::Value, Refusal> {
        match self.choose::<V>(request)? {
            (tracer, Some(at)) => tracer.content(at, form, visitor),
            (tracer, None) if form == Form::Parts(2) => visitor.visit_map(Parts { tracer, at: None, read: &mut 0 }),
            (tracer, None) => visitor.visit_seq(Parts { tracer, at: None, read: &mut 0 }),
        }
    }

    fn untraceable<T>(self, method: &str, who: &str) -> Result<T, Refusal> {
        Err(self.tracer.stop(format!("it asks the bytes what they hold (`{method}`), as {who} do; bytes do not tell")))
    }
}

macro_rules! primitives {
    ($($method:ident, $visit:ident, $name:literal, $sample:ident => $value:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
            let $sample = self.primitive($name)?;
            visitor.$visit($value)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Source<'_> {
    type Error = Refusal;

    primitives! {
        deserialize_bool, visit_bool, "bool", sample => sample.number % 2 == 1;
        deserialize_i8, visit_i8, "i8", sample => sample.number as i8;
        deserialize_i16, visit_i16, "i16", sample => sample.number.into();
        deserialize_i32, visit_i32, "i32", sample => sample.number.into();
        deserialize_i64, visit_i64, "i64", sample => sample.number.into();
        deserialize_i128, visit_i128, "i128", sample => sample.number.into();
        deserialize_u8, visit_u8, "u8", sample => sample.number;
        deserialize_u16, visit_u16, "u16", sample => sample.number.into();
        deserialize_u32, visit_u32, "u32", sample => sample.number.into();
        deserialize_u64, visit_u64, "u64", sample => sample.number.into();
        deserialize_u128, visit_u128, "u128", sample => sample.number.into();
        deserialize_f32, visit_f32, "f32", sample => sample.number.into();
        deserialize_f64, visit_f64, "f64", sample => sample.number.into();
        deserialize_char, visit_char, "char", sample => sample.character();
        deserialize_str, visit_borrowed_str, "str", sample => sample.text;
        deserialize_string, visit_string, "str", sample => sample.text.to_owned();
        deserialize_bytes, visit_borrowed_bytes, "bytes", sample => sample.bytes;
        deserialize_byte_buf, visit_byte_buf, "bytes", sample => sample.bytes.to_vec();
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.primitive("unit")?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.choose::<V>(Request::Option)? {
            (tracer, Some(at)) => tracer.single(at, Present(visitor)),
            (_, None) => visitor.visit_none(),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        let (tracer, at) = self.choose::<V>(Request::TupleStruct(0))?;
        let value = visitor.visit_unit()?;
        if let Some(at) = at {
            tracer.form(at, Form::Parts(0))?;
            tracer.complete(at, 0)?;
        }
        Ok(value)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        match self.choose::<V>(Request::TupleStruct(1))? {
            (tracer, Some(at)) => tracer.single(at, Newtype(visitor)),
            (tracer, None) => Err(tracer.stop("it has no finite value")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.parts(Request::Sequence, Form::Parts(1), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.parts(Request::Map, Form::Parts(2), visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.parts(Request::Tuple(len), Form::Parts(len), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.parts(Request::TupleStruct(len), Form::Parts(len), visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.parts(Request::Struct(fields), Form::Fields(fields), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.choose::<V>(Request::Enum(variants))? {
            (tracer, Some(at)) => visitor.visit_enum(EnumAccess { tracer, at, name: variants[at.branch] }),
            (tracer, None) => Err(tracer.stop("it has no finite value")),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        self.untraceable("deserialize_identifier", "flattened structs and adjacently tagged enums")
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        self.untraceable("deserialize_any", "untagged and internally tagged enums")
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        self.untraceable("deserialize_ignored_any", "types that skip what they do not know")
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
