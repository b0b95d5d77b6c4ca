//! Records and event time.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that can be the record of a stream.
///
/// Records are serialised only where they have to be: when in-flight records become part of a checkpoint, between
/// processes, and in batch mode in front of functions with a key, where they are sorted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a record of a stream",
    note = "records are owned types that derive `Clone`, `serde::Serialize` and `serde::Deserialize`"
)]
pub trait Data: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}
impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Data for T {}

/// Event time in milliseconds since the epoch. Three instants have a meaning of their own, so that no `Option` has to
/// be stored for each record: [`Timestamp::NONE`], [`Timestamp::MIN`] and [`Timestamp::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A record to which no time was assigned. Not an instant; it is below all of them.
    pub const NONE: Self = Self(i64::MIN);
    /// The earliest instant; also the watermark before any is known.
    pub const MIN: Self = Self(i64::MIN + 1);
    /// The latest instant; as a watermark: the input has ended.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant `millis` milliseconds after the epoch; the lowest value becomes [`Timestamp::MIN`].
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.max(Self::MIN.0))
    }

    /// Milliseconds since the epoch; `None` for [`Timestamp::NONE`].
    pub fn millis(self) -> Option<i64> {
        (self != Self::NONE).then_some(self.0)
    }

    /// The instant `millis` later (earlier when negative), kept within [`Timestamp::MIN`] and [`Timestamp::MAX`].
    pub fn plus_millis(self, millis: i64) -> Self {
        if self == Self::NONE { self } else { Self::from_millis(self.0.saturating_add(millis)) }
    }

    /// The raw number, for storing.
    pub fn to_raw(self) -> i64 {
        self.0
    }

    /// What [`Timestamp::to_raw`] gave.
    pub fn from_raw(raw: i64) -> Self {
        Self(raw)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::NONE => f.write_str("none"),
            Self::MIN => f.write_str("min"),
            Self::MAX => f.write_str("max"),
            Self(millis) => write!(f, "{millis}"),
        }
    }
}
