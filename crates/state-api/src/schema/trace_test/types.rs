//! Types to trace. Nobody reads their fields.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

#[derive(Deserialize)]
pub(super) struct Payment {
    account: String,
    cents: i64,
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
pub(super) enum Tag {
    Plain,
    Sub(Box<Option<Payment>>),
    Span { from: u8, to: u8 },
}

#[derive(Deserialize)]
pub(super) struct Total {
    sum: i64,
}
#[derive(Deserialize)]
pub(super) struct Amount {
    sum: i64,
}
#[derive(Deserialize)]
pub(super) struct Other {
    total: i64,
}
#[derive(Deserialize)]
pub(super) struct Both<A, B> {
    left: A,
    right: B,
}

#[derive(Deserialize)]
pub(super) struct Pair<T>(T, T);
#[derive(Deserialize)]
pub(super) struct Pairs {
    numbers: Pair<u32>,
    texts: Pair<String>,
    nested: Pair<Pair<Pair<u32>>>,
}

#[derive(Deserialize)]
pub(super) struct List<T> {
    value: T,
    next: Option<Box<List<T>>>,
}
/// The same values as a list, but every other link is of another type.
#[derive(Deserialize)]
pub(super) struct Even {
    value: u8,
    next: Option<Box<Odd>>,
}
#[derive(Deserialize)]
pub(super) struct Odd {
    value: u8,
    next: Option<Box<Even>>,
}
#[derive(Deserialize)]
pub(super) struct Lists {
    numbers: List<u8>,
    texts: List<Pair<List<char>>>,
}
#[derive(Deserialize)]
pub(super) struct Tree {
    children: Vec<Tree>,
    by_name: BTreeMap<String, Tree>,
}
#[derive(Deserialize)]
pub(super) struct Folder {
    entries: Vec<Entry>,
}
#[derive(Deserialize)]
pub(super) enum Entry {
    Folder(Folder),
    Link(Box<Entry>, Option<Box<Folder>>),
    File { bytes: u64 },
}
#[derive(Deserialize)]
pub(super) enum Expression {
    Add(Box<Expression>, Box<Expression>),
    Call { name: String, arguments: Vec<Expression> },
    Number(f64),
}
/// Every variant but the last leads back through the other type.
#[derive(Deserialize)]
pub(super) enum Ping {
    A(Box<Pong>),
    B(Box<Pong>),
}
#[derive(Deserialize)]
pub(super) enum Pong {
    A(Box<Ping>),
    B(Box<Ping>),
    End,
}
#[derive(Deserialize)]
pub(super) enum Outer {
    Nested(Option<Vec<Inner>>),
    Map(HashMap<Inner, (Inner, Option<Inner>)>),
}
#[derive(Deserialize, PartialEq, Eq, Hash)]
pub(super) enum Inner {
    Unit,
    Newtype(u8),
    Tuple(u8, String),
    Struct { one: bool },
    Empty {},
    NoParts(),
}

#[derive(Deserialize)]
pub(super) struct Unit;
#[derive(Deserialize)]
pub(super) struct Meters(u32);
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Transparent {
    inner: Vec<u8>,
}
#[derive(Deserialize)]
pub(super) struct Attributes<'a> {
    #[serde(rename = "other")]
    renamed: u8,
    #[serde(default)]
    defaulted: Option<u16>,
    #[serde(skip)]
    skipped: String,
    #[serde(with = "text")]
    through: u64,
    text: Cow<'a, str>,
}
mod text {
    use super::*;
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
        String::deserialize(source)?.parse().map_err(D::Error::custom)
    }
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Renamed {
    FirstThing {
        one_field: u8,
    },
    #[serde(rename = "2nd")]
    Second,
}
#[derive(Deserialize)]
pub(super) struct Aliased {
    #[serde(alias = "old", alias = "zz", alias = "a")]
    new: Even2,
    #[serde(default, alias = "b")]
    more: Option<Box<Aliased>>,
    last: u8,
}
/// As [`Aliased`], without the aliases.
#[derive(Deserialize)]
pub(super) struct Plain {
    new: u32,
    more: Option<Box<Plain>>,
    last: u8,
}
#[derive(Deserialize)]
pub(super) enum AliasedField {
    Only {
        #[serde(alias = "old")]
        new: u8,
    },
}

#[derive(Deserialize)]
pub(super) struct Flattened {
    a: u8,
    #[serde(flatten)]
    rest: Total,
}
#[derive(Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Internal {
    A { a: u8 },
}
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Untagged {
    A(u8),
    B(String),
}
#[derive(Deserialize)]
#[serde(tag = "kind", content = "content")]
pub(super) enum Adjacent {
    A(u8),
    B(String),
}
#[derive(Deserialize)]
pub(super) enum AliasedVariant {
    A,
    #[serde(alias = "Old")]
    B,
}
#[derive(Deserialize)]
pub(super) enum AliasedVariantWithOther {
    A,
    #[serde(alias = "Old")]
    B,
    #[serde(other)]
    C,
}
#[derive(Deserialize)]
pub(super) enum WithOther {
    A(u8),
    #[serde(other)]
    C,
}
#[derive(Deserialize)]
pub(super) struct Endless {
    next: Box<Endless>,
}
#[derive(Deserialize)]
pub(super) enum EndlessEnum {
    A(Box<EndlessEnum>),
    B(Vec<u8>, Box<EndlessEnum>),
}
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct OnlyLists(Vec<OnlyLists>);
#[derive(Deserialize)]
pub(super) enum Never {}
#[derive(Deserialize)]
pub(super) struct Deep {
    a: Vec<Option<BTreeMap<u8, Checked>>>,
}
#[derive(Deserialize)]
pub(super) enum Checked {
    Fine,
    Picky { prime: Picky },
}

/// Refuses every sample.
#[derive(Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Picky(u64);
impl TryFrom<u64> for Picky {
    type Error = String;
    fn try_from(number: u64) -> Result<Self, String> {
        if number > 1000 { Ok(Self(number)) } else { Err(format!("{number} is too small a prime")) }
    }
}
/// Takes only even numbers.
#[derive(Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct Even2(u32);
impl TryFrom<u32> for Even2 {
    type Error = &'static str;
    fn try_from(number: u32) -> Result<Self, &'static str> {
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("odd") }
    }
}
/// Takes only lists that hold something.
#[derive(Deserialize)]
#[serde(try_from = "Vec<T>")]
pub(super) struct Some1<T>(Vec<T>);
impl<T> TryFrom<Vec<T>> for Some1<T> {
    type Error = &'static str;
    fn try_from(list: Vec<T>) -> Result<Self, &'static str> {
        if list.is_empty() { Err("empty") } else { Ok(Self(list)) }
    }
}
#[derive(Deserialize)]
pub(super) struct Mixed {
    not_zero: NonZeroU32,
    even: Even2,
    filled: Some1<Even2>,
    later: Option<Inner>,
}

/// Every level holds the next one twice: a value of the first can hold a million of the last.
macro_rules! levels {
    ($name:ident $next:ident $($rest:ident)*) => {
        #[derive(Deserialize)]
        pub(super) struct $name {
            left: Option<Box<$next>>,
            right: Vec<($next, Inner)>,
        }
        levels!($next $($rest)*);
    };
    ($last:ident) => {
        #[derive(Deserialize)]
        pub(super) struct $last(u8);
    };
}
levels! {
    Level1 Level2 Level3 Level4 Level5 Level6 Level7 Level8
    Level9 Level10 Level11 Level12 Level13 Level14 Level15 Level16
    Level17 Level18 Level19 Level20
}
