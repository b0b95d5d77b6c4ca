//! How the key of one row is kept: with as few bytes as its type allows, since every record looks at one.

use crate::Key;

/// The key of a row. Whether the row is in use is known elsewhere.
pub(crate) trait KeyCell<K>: Clone + Send + Sync + 'static {
    /// What a new page of cells is filled with when `key` is the first in it.
    fn vacant(key: &K) -> Self;

    /// The cell of a row that has this key.
    fn holding(key: K) -> Self;

    /// The key of a row in use.
    fn key(&self) -> &K;

    /// Whether a row in use has this key.
    fn holds(&self, key: &K) -> bool;

    /// The row is given back: lets go of what the key owns, if anything.
    fn vacate(&mut self);
}

/// Whether `Option<K>` is no larger than `K`. Keys that own memory always have a pointer that makes it so.
pub(crate) const fn has_niche<K>() -> bool {
    size_of::<Option<K>>() == size_of::<K>()
}

/// For keys whose type leaves room for a mark of vacancy.
impl<K: Key> KeyCell<K> for Option<K> {
    fn vacant(_: &K) -> Self {
        None
    }

    fn holding(key: K) -> Self {
        Some(key)
    }

    fn key(&self) -> &K {
        self.as_ref().expect("only rows in use are asked for their keys")
    }

    #[inline]
    fn holds(&self, key: &K) -> bool {
        self.as_ref() == Some(key)
    }

    fn vacate(&mut self) {
        *self = None;
    }
}

/// For plain keys such as numbers, where a mark of vacancy would double the size: a vacant cell holds any key.
#[derive(Clone)]
pub(crate) struct Bare<K>(K);

impl<K: Key> KeyCell<K> for Bare<K> {
    fn vacant(key: &K) -> Self {
        Self(key.clone())
    }

    fn holding(key: K) -> Self {
        Self(key)
    }

    fn key(&self) -> &K {
        &self.0
    }

    #[inline]
    fn holds(&self, key: &K) -> bool {
        self.0 == *key
    }

    fn vacate(&mut self) {}
}
