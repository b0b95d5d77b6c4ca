//! Streams that are right, and every way in which one can be wrong.

use super::*;

/// Entries as (table, key, value), visited in this order.
struct Entries(Vec<(u16, &'static [u8], Vec<u8>)>);

impl FrozenState for Entries {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        self.0.iter().try_for_each(|(table, key, value)| {
            visit(Entry { at: At { table: TableId(*table), group, key, namespace: b"n", map_key: b"" }, value })
        })
    }
}

fn written(entries: Vec<(u16, &'static [u8], Vec<u8>)>) -> Result<Bytes, StateError> {
    let mut out = Vec::new();
    write_key_group(&mut Entries(entries), KeyGroup(1), &mut out).map(|()| out.into())
}

/// Table, key, value.
type OwnEntry = (u16, Vec<u8>, Vec<u8>);

/// The entries of a stream.
fn read(stream: Bytes) -> Result<Vec<OwnEntry>, StateError> {
    let mut entries = Vec::new();
    for section in sections(stream)? {
        section.visit(section.table, KeyGroup(1), &mut |entry| {
            entries.push((entry.at.table.0, entry.at.key.to_vec(), entry.value.to_vec()));
            Ok(())
        })?;
    }
    Ok(entries)
}

fn message(outcome: Result<impl std::fmt::Debug, StateError>) -> String {
    match outcome.unwrap_err() {
        StateError::Damaged(message) => message,
        StateError::Backend(source) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    let long = |length| vec![7; length];
    let entries: Vec<(u16, &'static [u8], Vec<u8>)> = vec![
        (0, b"", Vec::new()),
        (0, b"a", long(127)),
        (3, b"a", long(128)),
        (3, b"b", long(16_384)),
        (9, b"b", long(3_000_000)),
    ];
    let expected: Vec<_> = entries.iter().map(|(table, key, value)| (*table, key.to_vec(), value.clone())).collect();
    let stream = written(entries).unwrap();
    assert_eq!(sections(stream.clone()).unwrap().iter().map(|section| section.table.0).collect::<Vec<_>>(), [0, 3, 9]);
    assert!(read(stream).unwrap() == expected);
    assert!(written(Vec::new()).unwrap().is_empty());
}

#[test]
fn a_table_that_is_visited_again_is_an_error_of_the_backend() {
    for tables in [[1u16, 0, 2], [0, 2, 0], [0, 2, 1]] {
        let entries = tables.into_iter().map(|table| (table, &b"k"[..], Vec::new()));
        let message = message(written(entries.collect()));
        assert!(message.contains("visits table") && message.contains("again"), "{message}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_damaged() {
    let stream = written(vec![(0, b"key", vec![1, 2, 3]), (1, b"other", vec![4; 200])]).unwrap();
    // Cut between two sections it is another stream.
    let first = SECTION_HEADER_BYTES + 4 + 2 + 1 + 4;
    for length in 1..stream.len() {
        let cut = read(stream.slice(..length));
        if length == first {
            assert_eq!(cut.unwrap().len(), 1);
        } else {
            let message = message(cut);
            assert!(message.contains("cut off") || message.contains("longer than"), "{length}: {message}");
        }
    }
}

#[test]
fn sections_out_of_order_are_damage() {
    let one = written(vec![(1, b"k", Vec::new())]).unwrap();
    let two = written(vec![(2, b"k", Vec::new())]).unwrap();
    for (first, second) in [(&two, &one), (&one, &one)] {
        let stream = Bytes::from([&first[..], &second[..]].concat());
        assert_eq!(message(sections(stream)), "canonical stream: the sections are not in order");
    }
    assert_eq!(sections(Bytes::from([&one[..], &two[..]].concat())).unwrap().len(), 2);
}

#[test]
fn a_length_has_nine_bytes_at_most() {
    let mut nine = vec![0x80; 8];
    nine.push(0);
    assert_eq!(byte_string(&mut &nine[..]).unwrap(), b"");
    let mut ten = vec![0x80; 9];
    ten.push(0);
    assert_eq!(byte_string(&mut &ten[..]), Err("a length has more than nine bytes"));
    let mut large = vec![0xff; 8];
    large.push(0x7f);
    assert_eq!(byte_string(&mut &large[..]), Err("a byte string is longer than what is left"));
    let mut exact = &[2, 5, 6, 7][..];
    assert_eq!((byte_string(&mut exact).unwrap(), exact), (&[5, 6][..], &[7][..]));
    assert_eq!(byte_string(&mut &[3, 5, 6][..]), Err("a byte string is longer than what is left"));
}
