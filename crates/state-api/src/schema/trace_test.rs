//! What is traced, and what is not: for each type the text of its schema, or what the error says.

#[expect(dead_code, reason = "only their shapes are looked at")]
mod types;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::{NonZeroI64, NonZeroU32};
use std::ops::{Bound, Range};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::*;

/// The schema reads as expected.
#[track_caller]
fn check<T: DeserializeOwned>(expected: &str) {
    assert_eq!(Schema::trace::<T>().map(|schema| schema.to_string()).as_deref(), Ok(expected));
}

/// There is no schema, and the error says why.
#[track_caller]
fn refuse<T: DeserializeOwned>(expected: &str) {
    let error = Schema::trace::<T>().map(|schema| schema.to_string()).unwrap_err();
    assert!(error.reason.contains(expected), "{error}");
}

#[track_caller]
fn same<A: DeserializeOwned, B: DeserializeOwned>() {
    assert_eq!(Schema::trace::<A>().unwrap(), Schema::trace::<B>().unwrap());
}

#[track_caller]
fn differ<A: DeserializeOwned, B: DeserializeOwned>() {
    assert_ne!(Schema::trace::<A>().unwrap(), Schema::trace::<B>().unwrap());
}

use types::*;

/// Asks for bytes, as the types of serde_bytes do.
struct Blob;

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct BlobVisitor;
        impl Visitor<'_> for BlobVisitor {
            type Value = Blob;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<Blob, E> {
                Ok(Blob)
            }
        }
        source.deserialize_bytes(BlobVisitor)
    }
}

/// A visitor with a value of its own: what it asks for is not known from its type.
struct Stateful<const WIDE: bool>;

impl<'de, const WIDE: bool> Deserialize<'de> for Stateful<WIDE> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        deserialize_stateful(source, WIDE).map(|()| Self)
    }
}

fn deserialize_stateful<'de, D: Deserializer<'de>>(source: D, is_wide: bool) -> Result<(), D::Error> {
    struct StatefulVisitor(bool);
    impl<'de> Visitor<'de> for StatefulVisitor {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<(), A::Error> {
            if self.0 { parts.next_element::<u64>().map(drop) } else { parts.next_element::<u8>().map(drop) }
        }
    }
    source.deserialize_tuple(1, StatefulVisitor(is_wide))
}

/// Holds itself behind a visitor that may ask for anything: whether it ends is not known.
struct Chain;

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct ChainVisitor(u8);
        impl<'de> Visitor<'de> for ChainVisitor {
            type Value = Chain;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "link {}", self.0)
            }
            fn visit_none<E: Error>(self) -> Result<Chain, E> {
                Ok(Chain)
            }
            fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Chain, D::Error> {
                Chain::deserialize(source)
            }
        }
        source.deserialize_option(ChainVisitor(0))
    }
}

/// The second part depends on the first.
#[derive(Debug)]
struct Dependent;

impl<'de> Deserialize<'de> for Dependent {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct DependentVisitor;
        impl<'de> Visitor<'de> for DependentVisitor {
            type Value = Dependent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two parts")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Dependent, A::Error> {
                match parts.next_element::<Option<u8>>()? {
                    Some(None) => parts.next_element::<u64>().map(drop)?,
                    _ => parts.next_element::<String>().map(drop)?,
                }
                Ok(Dependent)
            }
        }
        source.deserialize_tuple(2, DependentVisitor)
    }
}

/// Reads nothing of its sequence.
struct Careless;

impl<'de> Deserialize<'de> for Careless {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct CarelessVisitor;
        impl<'de> Visitor<'de> for CarelessVisitor {
            type Value = Careless;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Careless, A::Error> {
                Ok(Careless)
            }
        }
        source.deserialize_seq(CarelessVisitor)
    }
}

#[test]
fn a_schema_reads_like_the_type() {
    check::<Payment>("{account: str, cents: i64, tags: [Plain | Sub(#0?) | Span{from: u8, to: u8}]}");
}

#[test]
fn primitives_and_collections() {
    check::<bool>("bool");
    check::<(i8, i16, i32, i64, i128)>("(i8, i16, i32, i64, i128)");
    check::<(u8, u16, u32, u64, u128)>("(u8, u16, u32, u64, u128)");
    check::<(f32, f64, char, String)>("(f32, f64, char, str)");
    check::<(usize, isize, ())>("(u64, i64, unit)");
    check::<(NonZeroU32, NonZeroI64)>("(u32, i64)");
    check::<Box<str>>("str");
    check::<PathBuf>("str");
    check::<Vec<u8>>("[u8]");
    check::<VecDeque<Option<Vec<String>>>>("[[str]?]");
    check::<Option<Option<bool>>>("bool??");
    check::<Blob>("bytes");
    check::<[u8; 4]>("[u8; 4]");
    check::<[[Option<char>; 2]; 3]>("[[char?; 2]; 3]");
    check::<[u8; 0]>("()");
    check::<(u8,)>("(u8)");
    check::<(u8, u8)>("[u8; 2]");
    check::<HashMap<String, BTreeMap<u8, Vec<i16>>>>("map<str, map<u8, [i16]>>");
}

#[test]
fn types_of_the_standard_library() {
    check::<Duration>("{secs: u64, nanos: u32}");
    check::<SystemTime>("{secs_since_epoch: u64, nanos_since_epoch: u32}");
    check::<Range<u8>>("{start: u8, end: u8}");
    check::<Bound<u8>>("Unbounded | Included(u8) | Excluded(u8)");
    check::<Result<u8, Vec<Bound<()>>>>("Ok(u8) | Err([Unbounded | Included(unit) | Excluded(unit)])");
    check::<IpAddr>("V4([u8; 4]) | V6([u8; 16])");
    check::<Cow<'static, str>>("str");
    check::<PhantomData<String>>("()");
}

#[test]
fn structs_and_attributes() {
    check::<Unit>("()");
    check::<Meters>("(u32)");
    check::<Both<Unit, Meters>>("{left: (), right: (u32)}");
    check::<Transparent>("[u8]");
    check::<Attributes<'static>>("{other: u8, defaulted: u16?, through: str, text: str}");
    check::<Renamed>("firstThing{one_field: u8} | 2nd");
    check::<WithOther>("A(u8) | C");
    check::<crate::SubtaskId>("{task: u32, subtask: u32}");
}

#[test]
fn enums_are_explored_wherever_they_are() {
    let inner = "Unit | Newtype(u8) | Tuple(u8, str) | Struct{one: bool} | Empty{} | NoParts";
    check::<Inner>(inner);
    check::<Vec<Inner>>(&format!("[{inner}]"));
    check::<Option<Inner>>(&format!("{inner}?"));
    check::<Outer>(&format!("Nested([{inner}]?) | Map(map<{inner}, ({inner}, {inner}?)>)"));
    check::<Vec<(Option<Box<[Outer; 2]>>, u8)>>(&format!(
        "[([Nested([{inner}]?) | Map(map<{inner}, ({inner}, {inner}?)>); 2]?, u8)]"
    ));
}

#[test]
fn instances_of_one_generic_type_are_told_apart() {
    check::<Pairs>(
        "{numbers: (u32, u32), texts: (str, str), \
         nested: (((u32, u32), (u32, u32)), ((u32, u32), (u32, u32)))}",
    );
    check::<Both<Vec<Pair<u8>>, Option<Pair<Inner>>>>(&format!(
        "{{left: [(u8, u8)], right: ({0}, {0})?}}",
        "Unit | Newtype(u8) | Tuple(u8, str) | Struct{one: bool} | Empty{} | NoParts"
    ));
    check::<Lists>(
        "{numbers: {value: u8, next: #1?}, \
         texts: {value: ({value: char, next: #4?}, {value: char, next: #4?}), next: #2?}}",
    );
}

#[test]
fn types_that_hold_themselves() {
    check::<List<u8>>("{value: u8, next: #0?}");
    check::<Tree>("{children: [#0], by_name: map<str, #0>}");
    check::<Folder>("{entries: [Folder(#0) | Link(#1, #0?) | File{bytes: u64}]}");
    check::<Entry>("Folder({entries: [#0]}) | Link(#0, {entries: [#0]}?) | File{bytes: u64}");
    check::<Expression>("Add(#0, #0) | Call{name: str, arguments: [#0]} | Number(f64)");
    check::<Ping>("A(A(#0) | B(#0) | End) | B(A(#0) | B(#0) | End)");
    check::<Pong>("A(A(#0) | B(#0)) | B(A(#0) | B(#0)) | End");
}

#[test]
fn equal_parts_make_equal_schemas_and_nothing_else_does() {
    same::<Total, Amount>();
    differ::<Total, Other>();
    same::<Both<Total, Amount>, Both<Amount, Amount>>();
    same::<Both<Amount, Total>, Both<Amount, Amount>>();
    same::<List<u8>, Even>();
    same::<Both<Odd, Even>, Both<List<u8>, List<u8>>>();
    differ::<List<u8>, List<u16>>();
    differ::<Pair<u8>, (u8, u8)>();
    differ::<Meters, u32>();
    same::<Both<Folder, Entry>, Both<Folder, Entry>>();
    let Ok(Schema::Structural { containers, .. }) = Schema::trace::<Both<Odd, Vec<Even>>>() else { panic!() };
    assert_eq!(containers.len(), 2);
}

#[test]
fn an_alias_of_a_field_does_not_count() {
    check::<Aliased>("{new: u32, more: #0?, last: u8}");
    same::<Aliased, Plain>();
    check::<Vec<AliasedField>>("[Only{new: u8}]");
}

#[test]
fn types_that_check_what_they_read_are_shown_other_samples() {
    let inner = "Unit | Newtype(u8) | Tuple(u8, str) | Struct{one: bool} | Empty{} | NoParts";
    check::<crate::JobName>("str");
    check::<Mixed>(&format!("{{not_zero: u32, even: u32, filled: [u32], later: {inner}?}}"));
    check::<Vec<Some1<Some1<Pair<Even2>>>>>("[[[(u32, u32)]]]");
    refuse::<Picky>("is too small a prime");
}

#[test]
fn a_refusal_says_where() {
    refuse::<Deep>("in `a.value.Picky.prime`: every sample is refused: 127 is too small a prime");
}

#[test]
fn visitors_with_values_are_told_apart_by_place() {
    check::<Both<Stateful<true>, Vec<Stateful<false>>>>("{left: (u64), right: [(u8)]}");
}

#[test]
fn a_type_is_not_read_in_all_its_combinations() {
    let schema = Schema::trace::<Level1>().unwrap();
    let Schema::Structural { containers, .. } = schema else { panic!() };
    assert_eq!(containers.len(), 21);
}

#[test]
fn a_type_without_end_is_an_error() {
    refuse::<Chain>("deep within each other");
}

#[test]
fn what_cannot_be_seen_is_an_error() {
    refuse::<Flattened>("flattened");
    refuse::<Vec<Internal>>("deserialize_any");
    refuse::<Option<Untagged>>("deserialize_any");
    refuse::<serde::de::IgnoredAny>("deserialize_ignored_any");
    refuse::<Adjacent>("adjacently tagged");
    refuse::<Dependent>("depends on what it has read before");
    refuse::<Careless>("took 0 parts");
    refuse::<AliasedVariant>("alias");
    refuse::<AliasedVariantWithOther>("alias");
    refuse::<Endless>("no finite value");
    refuse::<EndlessEnum>("no finite value");
    refuse::<OnlyLists>("without a struct or an enum between");
    refuse::<Vec<Never>>("no finite value");
}

#[test]
fn what_is_traced_is_what_bincode_writes() {
    #[derive(Serialize, Deserialize)]
    enum Event {
        Start,
        Move { by: (i8, u64), via: Option<char> },
    }
    check::<Vec<Event>>("[Start | Move{by: (i8, u64), via: char?}]");
    let bytes = bincode::serialize(&vec![Event::Start, Event::Move { by: (1, 2), via: Some('a') }]).unwrap();
    assert_eq!(bytes, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, b'a']);
}
