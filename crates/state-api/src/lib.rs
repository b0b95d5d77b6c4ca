//! Words and traits of state: ids, key groups, descriptors, handles, backends and storage.
