//! The column of a state into which values go one by one: reducing, aggregating and folding state.
//!
//! There is one accumulator a row, kept by a value column. What differs between the three is a function.

use std::sync::Arc;

use super::access::{Access, Behind};
use super::column::{Column, FrozenColumn};
use super::value_column::ValueColumn;
use crate::{BoxedError, Serializer, State, StateError};

/// How values of type `In` become an accumulator, and that becomes a result.
pub(crate) trait Accumulate<In, Acc, Out>: Send + Sync + 'static {
    /// The accumulator with a value more; `None` is that of no value.
    fn add(&self, accumulator: Option<&Acc>, value: In) -> Result<Acc, BoxedError>;

    /// The result of an accumulator.
    fn result(&self, accumulator: &Acc) -> Result<Out, BoxedError>;

    /// The accumulator of the values of both.
    fn merge(&self, one: Acc, other: &Acc) -> Result<Acc, BoxedError>;
}

/// The accumulators of one state. What their type is, is known only inside, for handles do not name it.
pub(crate) struct AccumulatingColumn<In, Out> {
    inner: Box<dyn Accumulators<In, Out>>,
}

impl<In: 'static, Out: 'static> AccumulatingColumn<In, Out> {
    pub(crate) fn new<Acc: State>(
        name: String,
        serializer: Arc<dyn Serializer<Acc>>,
        function: Arc<dyn Accumulate<In, Acc, Out>>,
    ) -> Self {
        Self { inner: Box::new(TypedAccumulators { values: ValueColumn::new(name, serializer, None), function }) }
    }

    /// The result of the current row, if it has one.
    pub(crate) fn get(&mut self, access: &mut Access<'_>) -> Result<Option<Out>, StateError> {
        self.inner.get(access)
    }

    /// Adds a value to the accumulator of the current row. Fails with nothing changed.
    pub(crate) fn add(&mut self, access: &mut Access<'_>, value: In) -> Result<(), StateError> {
        self.inner.add(access, value)
    }

    /// Removes the accumulator of the current row.
    pub(crate) fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        self.inner.clear(access)
    }
}

/// See [`AccumulatingColumn`].
trait Accumulators<In, Out>: Column {
    fn get(&mut self, access: &mut Access<'_>) -> Result<Option<Out>, StateError>;
    fn add(&mut self, access: &mut Access<'_>, value: In) -> Result<(), StateError>;
    fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError>;
}

struct TypedAccumulators<In, Acc, Out> {
    values: ValueColumn<Acc>,
    function: Arc<dyn Accumulate<In, Acc, Out>>,
}

impl<In: 'static, Acc: State, Out: 'static> TypedAccumulators<In, Acc, Out> {
    fn failed(&self, source: BoxedError) -> StateError {
        StateError::Function { state: self.values.name().to_owned(), source }
    }
}

impl<In: 'static, Acc: State, Out: 'static> Accumulators<In, Out> for TypedAccumulators<In, Acc, Out> {
    fn get(&mut self, access: &mut Access<'_>) -> Result<Option<Out>, StateError> {
        let Some(accumulator) = self.values.get(access)? else { return Ok(None) };
        self.function.result(accumulator).map(Some).map_err(|error| self.failed(error))
    }

    fn add(&mut self, access: &mut Access<'_>, value: In) -> Result<(), StateError> {
        let added = self.function.add(self.values.get(access)?, value);
        let added = added.map_err(|error| self.failed(error))?;
        self.values.set(access, added)
    }

    fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        self.values.clear(access)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<In: 'static, Acc: State, Out: 'static> Column for TypedAccumulators<In, Acc, Out> {
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        self.values.load(row, map_key, value)
    }

    fn set_hash_seed(&mut self, seed: u64) {
        self.values.set_hash_seed(seed);
    }

    fn finish_load(&mut self) -> Result<(), StateError> {
        self.values.finish_load()
    }

    fn set_next_position(&mut self, position: u64) {
        self.values.set_next_position(position);
    }

    fn own_rows(&self) -> usize {
        self.values.own_rows()
    }

    fn is_empty_at(&self, row: u32) -> bool {
        self.values.is_empty_at(row)
    }

    fn freeze(&mut self) -> Box<dyn FrozenColumn> {
        self.values.freeze()
    }

    fn fold(&mut self) -> bool {
        self.values.fold()
    }

    fn warm(&mut self, rows: &[u32]) {
        self.values.warm(rows);
    }

    fn merge(&mut self, access: &mut Access<'_>, sources: &[u32]) -> Result<(), StateError> {
        let target = access.row;
        let mut merged = self.values.get(access)?.cloned();
        let mut has_changed = false;
        for source in sources {
            access.row = *source;
            let Some(accumulator) = self.values.get(access)? else { continue };
            has_changed = true;
            merged = Some(match merged {
                None => accumulator.clone(),
                Some(merged) => self
                    .function
                    .merge(merged, accumulator)
                    .map_err(|source| StateError::Function { state: self.values.name().to_owned(), source })?,
            });
        }
        access.row = target;
        let Some(merged) = merged.filter(|_| has_changed) else { return Ok(()) };
        self.values.set(access, merged)?;
        for source in sources {
            access.row = *source;
            self.values.clear(access)?;
        }
        access.row = target;
        Ok(())
    }

    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError> {
        self.values.write_back(behind)
    }

    fn forget(&mut self) {
        self.values.forget();
    }
}

#[deny(clippy::missing_trait_methods)]
impl<In: 'static, Out: 'static> Column for AccumulatingColumn<In, Out> {
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        self.inner.load(row, map_key, value)
    }

    fn set_hash_seed(&mut self, seed: u64) {
        self.inner.set_hash_seed(seed);
    }

    fn finish_load(&mut self) -> Result<(), StateError> {
        self.inner.finish_load()
    }

    fn set_next_position(&mut self, position: u64) {
        self.inner.set_next_position(position);
    }

    fn own_rows(&self) -> usize {
        self.inner.own_rows()
    }

    fn is_empty_at(&self, row: u32) -> bool {
        self.inner.is_empty_at(row)
    }

    fn freeze(&mut self) -> Box<dyn FrozenColumn> {
        self.inner.freeze()
    }

    fn fold(&mut self) -> bool {
        self.inner.fold()
    }

    fn warm(&mut self, rows: &[u32]) {
        self.inner.warm(rows);
    }

    fn merge(&mut self, access: &mut Access<'_>, sources: &[u32]) -> Result<(), StateError> {
        self.inner.merge(access, sources)
    }

    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError> {
        self.inner.write_back(behind)
    }

    fn forget(&mut self) {
        self.inner.forget();
    }
}
