//! The model: every state as a plain map.

use std::collections::BTreeMap;

use highwater_state_api::{BincodeSerializer, Serializer, State};

use super::super::harness::{EntryAddress, group_of};

/// Key.
type OfKey<T> = BTreeMap<String, T>;
/// Key, namespace.
type OfNamespace<T> = BTreeMap<(String, String), T>;

/// What the states hold. A list that is empty is not in here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plain {
    pub(super) values: OfKey<u16>,
    /// Key, map key.
    pub(super) maps: BTreeMap<(String, String), String>,
    pub(super) lists: OfKey<Vec<u16>>,
    pub(super) reduced: OfKey<u64>,
    pub(super) aggregated: OfKey<(u64, u64)>,
    pub(super) folded: OfKey<Vec<u16>>,
    pub(super) window_lists: OfNamespace<Vec<u16>>,
    pub(super) window_reduced: OfNamespace<u64>,
}

impl Plain {
    /// The entries of a snapshot, with those of each list joined to one.
    pub(super) fn entries(&self) -> BTreeMap<EntryAddress, Vec<u8>> {
        let mut entries = BTreeMap::new();
        let mut add = |name: &str, key: &String, namespace: Vec<u8>, map_key: Vec<u8>, value: Vec<u8>| {
            entries.insert((name.to_owned(), group_of(key), bytes(key), namespace, map_key), value);
        };
        let none = Vec::new;
        self.values.iter().for_each(|(key, value)| add("value", key, none(), none(), bytes(value)));
        self.maps.iter().for_each(|((key, map_key), text)| add("map", key, none(), bytes(map_key), bytes(text)));
        self.lists.iter().for_each(|(key, list)| add("list", key, none(), none(), list_bytes(list)));
        self.reduced.iter().for_each(|(key, sum)| add("reduced", key, none(), none(), bytes(sum)));
        self.aggregated.iter().for_each(|(key, mean)| add("mean", key, none(), none(), bytes(mean)));
        self.folded.iter().for_each(|(key, folded)| add("folded", key, none(), none(), bytes(folded)));
        let lists = self.window_lists.iter();
        lists.for_each(|((key, ns), list)| add("window list", key, bytes(ns), none(), list_bytes(list)));
        let sums = self.window_reduced.iter();
        sums.for_each(|((key, ns), sum)| add("window reduced", key, bytes(ns), none(), bytes(sum)));
        entries
    }
}

/// Joins the chunks of lists, which are in order of position.
pub(super) fn join_lists(entries: BTreeMap<EntryAddress, Vec<u8>>) -> BTreeMap<EntryAddress, Vec<u8>> {
    let mut joined: BTreeMap<EntryAddress, Vec<u8>> = BTreeMap::new();
    for ((name, group, key, namespace, map_key), value) in entries {
        let map_key = if name.ends_with("list") { Vec::new() } else { map_key };
        joined.entry((name, group, key, namespace, map_key)).or_default().extend(value);
    }
    joined
}

fn bytes<T: State>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    BincodeSerializer::traced().serialize(value, &mut out).unwrap();
    out
}

/// Each element with its length before it.
fn list_bytes(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|element| [&[2], &element.to_le_bytes()[..]].concat()).collect()
}
