//! Columns: one registered state each, over the rows of all keys.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Key, Serializer, State, StateError};

/// One registered state, whatever its type.
pub trait Column: Send + 'static {}

/// How a column is reached: the current row, and the byte tables behind it if there are any.
pub struct Access<'a> {
    of: PhantomData<&'a ()>,
}

pub(crate) struct ValueColumn<T>(PhantomData<T>);
pub(crate) struct MapColumn<UK, UV>(PhantomData<(UK, UV)>);
impl<T: State> Column for ValueColumn<T> {}
impl<UK: Key, UV: State> Column for MapColumn<UK, UV> {}

pub(crate) fn value_column<T: State>(_name: String, _serializer: Arc<dyn Serializer<T>>) -> Box<dyn Column> {
    unimplemented!()
}
pub(crate) fn map_column<UK: Key, UV: State>(
    _name: String,
    _key: Arc<dyn Serializer<UK>>,
    _value: Arc<dyn Serializer<UV>>,
) -> Box<dyn Column> {
    unimplemented!()
}

impl<T: State> ValueColumn<T> {
    pub(crate) fn get(&mut self, _: &mut Access<'_>) -> Result<Option<&T>, StateError> {
        unimplemented!()
    }
    pub(crate) fn set(&mut self, _: &mut Access<'_>, _value: T) -> Result<(), StateError> {
        unimplemented!()
    }
    pub(crate) fn modify<R>(
        &mut self,
        _: &mut Access<'_>,
        _change: impl FnOnce(&mut Option<T>) -> R,
    ) -> Result<R, StateError> {
        unimplemented!()
    }
    pub(crate) fn clear(&mut self, _: &mut Access<'_>) -> Result<(), StateError> {
        unimplemented!()
    }
}

impl<UK: Key, UV: State> MapColumn<UK, UV> {
    pub(crate) fn get(&mut self, _: &mut Access<'_>, _map_key: &UK) -> Result<Option<&UV>, StateError> {
        unimplemented!()
    }
    pub(crate) fn put(&mut self, _: &mut Access<'_>, _map_key: UK, _value: UV) -> Result<(), StateError> {
        unimplemented!()
    }
    pub(crate) fn remove(&mut self, _: &mut Access<'_>, _map_key: &UK) -> Result<(), StateError> {
        unimplemented!()
    }
    pub(crate) fn for_each(&mut self, _: &mut Access<'_>, _visit: impl FnMut(&UK, &UV)) -> Result<(), StateError> {
        unimplemented!()
    }
    pub(crate) fn is_empty(&mut self, _: &mut Access<'_>) -> Result<bool, StateError> {
        unimplemented!()
    }
    pub(crate) fn clear(&mut self, _: &mut Access<'_>) -> Result<(), StateError> {
        unimplemented!()
    }
}
