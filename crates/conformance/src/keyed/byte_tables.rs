//! Cases: what a backend that keeps bytes does with them. Backends that keep rows pass them by.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use highwater_state_api::{
    AnyDescriptor, At, BincodeSerializer, ByteTables, KeyGroup, KeyedStateBackend, MapStateDescriptor, Prefix,
    Residence, Schema, Serializer, TableId, ValueStateDescriptor,
};

use super::harness::{BackendFactory, all_groups, parameters};

/// Parts of addresses that are the same when they are joined or cut, and that stand at the ends of an order.
const PARTS: [&[u8]; 8] = [b"", b"a", b"ab", b"b", b"\0", b"a\0", b"\xff", b"\xff\xff"];

type Address = (TableId, KeyGroup, Vec<u8>, Vec<u8>, Vec<u8>);

fn at(address: &Address) -> At<'_> {
    let (table, group, key, namespace, map_key) = address;
    At { table: *table, group: *group, key, namespace, map_key }
}

fn address(at: At<'_>) -> Address {
    (at.table, at.group, at.key.to_vec(), at.namespace.to_vec(), at.map_key.to_vec())
}

/// An address in the first table.
fn simple(key: &[u8], map_key: &[u8]) -> Address {
    (TableId(0), KeyGroup(3), key.to_vec(), Vec::new(), map_key.to_vec())
}

fn open(factory: BackendFactory<'_>) -> Box<dyn KeyedStateBackend> {
    let mut backend = factory().create_keyed_backend(&parameters(all_groups())).unwrap();
    if let Some(tables) = tables(&mut *backend) {
        let key = Serializer::<u64>::schema(&BincodeSerializer::traced()).unwrap();
        let value = ValueStateDescriptor::<u64>::new("value");
        let map = MapStateDescriptor::<u64, u64>::new("map");
        let descriptors: [&dyn AnyDescriptor; 2] = [&map, &value];
        for (number, descriptor) in descriptors.into_iter().enumerate() {
            tables
                .open_table(TableId(number as u16), &descriptor.table_meta(key.clone(), Schema::unit()).unwrap())
                .unwrap();
        }
    }
    backend
}

fn tables(backend: &mut dyn KeyedStateBackend) -> Option<&mut dyn ByteTables> {
    match backend.residence() {
        Residence::Rows => None,
        Residence::Bytes(tables) => Some(tables),
    }
}

/// Runs a case on the byte tables of a new backend, if it has any.
fn with_tables(factory: BackendFactory<'_>, case: impl Fn(&mut dyn ByteTables)) {
    let mut backend = open(factory);
    if let Some(tables) = tables(&mut *backend) {
        case(tables);
    }
}

fn get(tables: &mut dyn ByteTables, address: &Address) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    tables.get(at(address), &mut value).unwrap().then_some(value)
}

fn scan(tables: &mut dyn ByteTables, prefix: Prefix<'_>) -> BTreeMap<Address, Vec<u8>> {
    let mut found = BTreeMap::new();
    let scanned = tables.scan(prefix, &mut |entry| {
        let twice = found.insert(address(entry.at), entry.value.to_vec());
        assert!(twice.is_none(), "{:?} is visited twice", entry.at);
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    found
}

/// Entries under every address that can be made of the parts; the value tells whose it is.
fn filled(tables: &mut dyn ByteTables) -> BTreeMap<Address, Vec<u8>> {
    let mut expected = BTreeMap::new();
    for table in [TableId(0), TableId(1)] {
        for group in [KeyGroup(0), KeyGroup(1), KeyGroup(15)] {
            for key in PARTS {
                for namespace in [&b""[..], b"a", b"\0"] {
                    for map_key in PARTS {
                        let at = At { table, group, key, namespace, map_key };
                        let value = format!("{at:?}").into_bytes();
                        tables.put(at, &value).unwrap();
                        expected.insert(address(at), value);
                    }
                }
            }
        }
    }
    expected
}

/// Addresses that differ in any part are different, also when the parts look alike; a put replaces.
pub fn bytes_are_kept_under_their_whole_address(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let mut expected = filled(tables);
        for (address, value) in &expected {
            assert_eq!(get(tables, address).as_ref(), Some(value));
        }
        let removed: Vec<Address> = expected.keys().step_by(3).cloned().collect();
        for address in removed {
            tables.remove(at(&address)).unwrap();
            assert_eq!(get(tables, &address), None);
            expected.remove(&address);
        }
        for (address, value) in expected.iter_mut().step_by(2) {
            tables.put(at(address), b"replaced").unwrap();
            *value = b"replaced".to_vec();
        }
        for (address, value) in &expected {
            assert_eq!(get(tables, address).as_ref(), Some(value));
        }
    });
}

/// A value without bytes is there: found, scanned, and gone after its removal.
pub fn an_empty_value_is_a_value(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let address = simple(b"", b"");
        assert_eq!(get(tables, &address), None);
        tables.put(at(&address), b"").unwrap();
        assert_eq!(get(tables, &address), Some(Vec::new()));
        assert_eq!(scan(tables, Prefix::Table(TableId(0))).len(), 1);
        tables.put(at(&address), b"longer").unwrap();
        tables.put(at(&address), b"").unwrap();
        assert_eq!(get(tables, &address), Some(Vec::new()));
        tables.remove(at(&address)).unwrap();
        assert_eq!(get(tables, &address), None);
        assert!(scan(tables, Prefix::Table(TableId(0))).is_empty());
    });
}

/// `get` appends, and leaves the buffer alone when there is nothing.
pub fn reading_appends_to_what_is_there(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let (there, absent) = (simple(b"there", b""), simple(b"absent", b""));
        tables.put(at(&there), b"value").unwrap();
        let mut out = b"before ".to_vec();
        assert!(tables.get(at(&there), &mut out).unwrap());
        assert_eq!(out, b"before value");
        assert!(!tables.get(at(&absent), &mut out).unwrap());
        assert_eq!(out, b"before value");
    });
}

/// A removal need not find anything, and is of one entry.
pub fn removing_what_is_not_there_succeeds(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let [short, middle, long] = [&b"a"[..], b"ab", b"abc"].map(|map_key| simple(b"key", map_key));
        tables.remove(at(&middle)).unwrap();
        tables.put(at(&short), b"1").unwrap();
        tables.put(at(&long), b"3").unwrap();
        tables.remove(at(&middle)).unwrap();
        assert_eq!(get(tables, &short), Some(b"1".to_vec()));
        assert_eq!(get(tables, &long), Some(b"3".to_vec()));
        tables.remove(at(&short)).unwrap();
        tables.remove(at(&short)).unwrap();
        assert_eq!(get(tables, &short), None);
    });
}

/// A scan has every entry of its prefix once and none of its neighbours, whatever the bytes.
pub fn a_scan_visits_exactly_its_prefix(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let entries = filled(tables);
        let expect = |prefix: &dyn Fn(&Address) -> bool| {
            let entries = entries.iter().filter(|(address, _)| prefix(address));
            entries.map(|(address, value)| (address.clone(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        for table in [TableId(0), TableId(1)] {
            assert_eq!(scan(tables, Prefix::Table(table)), expect(&|address| address.0 == table));
            for group in [KeyGroup(0), KeyGroup(1), KeyGroup(15)] {
                for key in PARTS {
                    for namespace in [&b""[..], b"a", b"\0"] {
                        let found = scan(tables, Prefix::Namespace { table, group, key, namespace });
                        let expected = expect(&|address| {
                            address.0 == table && address.1 == group && address.2 == key && address.3 == namespace
                        });
                        assert_eq!(found, expected);
                        assert_eq!(found.len(), PARTS.len());
                    }
                }
            }
        }
        let key = &b"never written"[..];
        assert!(
            scan(tables, Prefix::Namespace { table: TableId(0), group: KeyGroup(0), key, namespace: b"" }).is_empty()
        );
    });
}

/// A visitor that breaks is not called again, and the break is no error.
pub fn a_scan_ends_when_the_visitor_breaks(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        for number in 0..20u8 {
            tables.put(at(&simple(b"key", &[number])), &[number]).unwrap();
        }
        for wanted in 1..=20 {
            let mut visited = 0;
            let scanned = tables.scan(Prefix::Table(TableId(0)), &mut |_| {
                visited += 1;
                if visited == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            scanned.unwrap();
            assert_eq!(visited, wanted);
        }
    });
}

/// Lengths around the limits of small length fields.
pub fn long_parts_and_values_are_kept(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let lengths = [127, 128, 255, 256, 65_535, 65_536, 70_000];
        let long = |length: usize| vec![b'x'; length];
        for length in lengths {
            for address in [simple(&long(length), b"short"), simple(b"short", &long(length))] {
                tables.put(at(&address), &long(length)).unwrap();
            }
        }
        for length in lengths {
            for address in [simple(&long(length), b"short"), simple(b"short", &long(length))] {
                assert_eq!(get(tables, &address).map(|value| value.len()), Some(length));
            }
        }
        assert_eq!(scan(tables, Prefix::Table(TableId(0))).len(), 2 * lengths.len());
        let short = Prefix::Namespace { table: TableId(0), group: KeyGroup(3), key: b"short", namespace: b"" };
        assert_eq!(scan(tables, short).len(), lengths.len());
    });
}

/// A prefetch is a hint, of entries that are there and of others.
pub fn a_prefetch_changes_nothing(factory: BackendFactory<'_>) {
    with_tables(factory, |tables| {
        let addresses: Vec<Address> = (0..10u8).map(|number| simple(&[number], b"")).collect();
        for address in addresses.iter().step_by(2) {
            tables.put(at(address), b"value").unwrap();
        }
        tables.prefetch(&[]);
        tables.prefetch(&addresses.iter().map(at).collect::<Vec<_>>());
        tables.put(at(&addresses[1]), b"new").unwrap();
        tables.remove(at(&addresses[2])).unwrap();
        for (number, address) in addresses.iter().enumerate() {
            let expected = match number {
                1 => Some(&b"new"[..]),
                2 => None,
                even if even % 2 == 0 => Some(&b"value"[..]),
                _ => None,
            };
            assert_eq!(get(tables, address).as_deref(), expected, "entry {number}");
        }
    });
}

/// Two keyed backends, of one factory or of two, share nothing.
pub fn backends_of_one_factory_are_independent(factory: BackendFactory<'_>) {
    let [mut first, mut second] = [open(factory), open(factory)];
    let (Some(first), Some(second)) = (tables(&mut *first), tables(&mut *second)) else { return };
    let address = simple(b"key", b"");
    first.put(at(&address), b"first").unwrap();
    assert_eq!(get(second, &address), None);
    second.put(at(&address), b"second").unwrap();
    assert_eq!(get(first, &address), Some(b"first".to_vec()));
}
