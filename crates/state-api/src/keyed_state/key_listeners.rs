//! Listeners that hear of every change of the current key.

use std::any::Any;

use super::KeyedState;
use crate::rows::key_rows;
use crate::{Key, StateError};

/// Identifies a listener within its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyListenerId(u64);

/// Called with a key, whose type was checked at the registration.
type Listener = Box<dyn FnMut(&dyn Any) + Send>;

/// The listeners of a store.
#[derive(Default)]
pub(super) struct KeyListeners {
    listeners: Vec<(KeyListenerId, Listener)>,
    next: u64,
}

impl KeyListeners {
    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Tells all listeners, in the order in which they were registered.
    pub(super) fn call(&mut self, key: &dyn Any) {
        self.listeners.iter_mut().for_each(|(_, listener)| listener(key));
    }
}

impl KeyedState {
    /// Calls `listener` with every key that is about to become current, once for each time, while the one before is still
    /// current.
    ///
    /// Fails when `K` is not the type of the keys.
    pub fn register_key_listener<K: Key>(
        &mut self,
        mut listener: impl FnMut(&K) + Send + 'static,
    ) -> Result<KeyListenerId, StateError> {
        key_rows::serializer::<K>(&mut *self.rows.keys.column)?;
        let listeners = &mut self.key_listeners;
        let id = KeyListenerId(listeners.next);
        listeners.next += 1;
        listeners
            .listeners
            .push((id, Box::new(move |key| listener(key.downcast_ref().expect("the type of the keys was checked")))));
        self.is_watched = true;
        Ok(id)
    }

    /// Removes a listener. Whether there was one of this number.
    pub fn deregister_key_listener(&mut self, id: KeyListenerId) -> bool {
        let listeners = &mut self.key_listeners.listeners;
        let before = listeners.len();
        listeners.retain(|(own, _)| *own != id);
        let is_removed = listeners.len() < before;
        self.is_watched = !self.key_listeners.is_empty() || !self.rows.namespaces.is_empty();
        is_removed
    }
}
