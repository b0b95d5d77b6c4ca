//! Key selectors: how the key of a record is found.

use std::marker::PhantomData;

use highwater_state_api::{Key, KeyHash, KeyHashError, KeyHasher, KeyedState, StateError};

/// Finds the keys of records, borrowed from the record where it can be.
pub trait KeySelector<T>: Clone + Send + Sync + 'static {
    /// The type of the key.
    type Key: Key;

    /// The stable hash of a record's key.
    fn hash(&self, record: &T, hasher: &mut KeyHasher) -> Result<KeyHash, KeyHashError>;

    /// Resolves the keys of a batch of records, with their hashes, in `state`.
    fn resolve(&self, records: &[T], hashes: &[KeyHash], state: &mut KeyedState) -> Result<(), StateError>;
}

/// A key that is a part of the record: `|payment| &payment.account`.
pub struct ByReference<F, K: ?Sized> {
    select: F,
    of: PhantomData<fn() -> Box<K>>,
}

impl<F, K> ByReference<F, K> {
    /// Selects by this function.
    pub fn new<T>(select: F) -> Self
    where
        // Also tells the compiler that a closure returns a part of what it is given.
        F: Fn(&T) -> &K,
    {
        Self { select, of: PhantomData }
    }
}

impl<F: Clone, K> Clone for ByReference<F, K> {
    fn clone(&self) -> Self {
        Self { select: self.select.clone(), of: PhantomData }
    }
}

impl<T, K: Key, F> KeySelector<T> for ByReference<F, K>
where
    F: Fn(&T) -> &K + Clone + Send + Sync + 'static,
{
    type Key = K;

    fn hash(&self, record: &T, hasher: &mut KeyHasher) -> Result<KeyHash, KeyHashError> {
        hasher.hash((self.select)(record))
    }

    fn resolve(&self, records: &[T], hashes: &[KeyHash], state: &mut KeyedState) -> Result<(), StateError> {
        state.resolve_batch(records.iter().map(|record| (self.select)(record)).zip(hashes.iter().copied()))
    }
}

/// A key that is computed from the record: `|flight| (flight.origin.clone(), flight.hour)`.
pub struct ByValue<F, K> {
    select: F,
    of: PhantomData<fn() -> K>,
}

impl<F, K> ByValue<F, K> {
    /// Selects by this function.
    pub fn new(select: F) -> Self {
        Self { select, of: PhantomData }
    }
}

impl<F: Clone, K> Clone for ByValue<F, K> {
    fn clone(&self) -> Self {
        Self { select: self.select.clone(), of: PhantomData }
    }
}

impl<T, K: Key, F> KeySelector<T> for ByValue<F, K>
where
    F: Fn(&T) -> K + Clone + Send + Sync + 'static,
{
    type Key = K;

    fn hash(&self, record: &T, hasher: &mut KeyHasher) -> Result<KeyHash, KeyHashError> {
        hasher.hash(&(self.select)(record))
    }

    fn resolve(&self, records: &[T], hashes: &[KeyHash], state: &mut KeyedState) -> Result<(), StateError> {
        let keys: Vec<K> = records.iter().map(&self.select).collect();
        state.resolve_batch(keys.iter().zip(hashes.iter().copied()))
    }
}
