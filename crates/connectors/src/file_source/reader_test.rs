//! Reading CSV files, and going on after every record, whatever the file looks like.

use highwater_state_api::CheckpointId;
use std::path::Path;

use highwater_stream_api::{Polled, Source, SourceReader};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::*;
use crate::support_test::{continues_exactly_after_every_record, gzip, poll_at, read_all, write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    note: String,
    value: Option<i64>,
}

fn row(name: &str, note: &str, value: impl Into<Option<i64>>) -> Row {
    Row { name: name.to_owned(), note: note.to_owned(), value: value.into() }
}

/// Reads the content as a file, plain and compressed in one and in many members, in one go and after every stop.
fn check(content: &[u8], expected: &[Row]) {
    let directory = TempDir::new().unwrap();
    let members: Vec<u8> = content.chunks(5).flat_map(gzip).collect();
    for (name, content) in [("a.csv", content.to_vec()), ("a.csv.gz", gzip(content)), ("members.gz", members)] {
        let path = write(directory.path(), name, &content);
        let source = || FileSource::csv::<Row>(&path).with_null_value("NA");
        assert_eq!(read_all(&source()).unwrap(), expected, "{name}");
        continues_exactly_after_every_record(&source);
    }
}

/// Contract: R325.
#[test]
fn quoted_line_ends_delimiters_and_quotes_survive_a_stop() {
    check(
        b"name,note,value\n\"a\",\"one\ntwo\r\nthree\",1\n\"b,c\",\"\"\"quoted\"\"\",-2\n\"\",\"\n\",3\nd,\"x\n\",4\n",
        &[row("a", "one\ntwo\r\nthree", 1), row("b,c", "\"quoted\"", -2), row("", "\n", 3), row("d", "x\n", 4)],
    );
}

#[test]
fn the_last_line_need_not_end() {
    check(b"name,note,value\na,b,1\nc,d,2", &[row("a", "b", 1), row("c", "d", 2)]);
    check(b"name,note,value\na,b,1\nc,d,", &[row("a", "b", 1), row("c", "d", None)]);
    check(b"name,note,value\na,b,1\nc,d,\"2\"", &[row("a", "b", 1), row("c", "d", 2)]);
}

#[test]
fn a_file_without_rows_has_no_records() {
    for content in ["", "\n", "\r\n\r\n", "\u{feff}", "name,note,value", "name,note,value\n", "name,note,value\r\n\n"] {
        check(content.as_bytes(), &[]);
    }
}

#[test]
fn every_line_end_is_one() {
    let expected = [row("a", "b", 1), row("c", "d", 2), row("e", "f", 3)];
    check(b"name,note,value\r\na,b,1\r\nc,d,2\r\ne,f,3\r\n", &expected);
    check(b"name,note,value\ra,b,1\rc,d,2\re,f,3", &expected);
    check(b"\n\nname,note,value\n\n\na,b,1\r\nc,d,2\n\r\n\ne,f,3\n\n", &expected);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_column() {
    check("\u{feff}name,note,value\na,b,1\nc,d,2\n".as_bytes(), &[row("a", "b", 1), row("c", "d", 2)]);
    check("\u{feff}\"name\",note,value\na,b,1\n".as_bytes(), &[row("a", "b", 1)]);
}

#[test]
fn the_same_bytes_in_the_middle_are_data_also_after_a_stop() {
    check(
        "name,note,value\na,b,1\n\u{feff}c,d,2\n\u{feff}e,f,3\n".as_bytes(),
        &[row("a", "b", 1), row("\u{feff}c", "d", 2), row("\u{feff}e", "f", 3)],
    );
}

#[test]
fn columns_are_found_by_name_and_others_are_ignored() {
    check(b"value,other,note,name\n1,x,b,a\n2,y,d,c\n", &[row("a", "b", 1), row("c", "d", 2)]);
}

#[test]
fn null_values_and_empty_fields_are_none() {
    check(
        b"name,note,value\na,b,NA\nNA,NAN,\n\"NA\",na,7\n",
        &[row("a", "b", None), row("", "NAN", None), row("", "na", 7)],
    );
}

#[test]
fn records_larger_than_every_buffer_are_whole() {
    let long = "x\n".repeat(200_000);
    let content = format!("name,note,value\na,\"{long}\",1\nb,\"{long}\",2\nc,d,3\n");
    let directory = TempDir::new().unwrap();
    for (name, content) in [("a", content.clone().into_bytes()), ("b", gzip(content.as_bytes()))] {
        let path = write(directory.path(), name, &content);
        let records = read_all(&FileSource::csv::<Row>(&path)).unwrap();
        assert_eq!(records, [row("a", &long, 1), row("b", &long, 2), row("c", "d", 3)]);
        continues_exactly_after_every_record(&|| FileSource::csv::<Row>(&path));
    }
}

#[test]
fn a_delimiter_can_be_chosen() {
    let directory = TempDir::new().unwrap();
    let path = write(directory.path(), "a.csv", b"name;note;value\na,b;c;1\n");
    let source = FileSource::csv::<Row>(path).with_delimiter(b';');
    assert_eq!(read_all(&source).unwrap(), [row("a,b", "c", 1)]);
}

#[test]
fn several_files_are_read_each_to_its_end() {
    let directory = TempDir::new().unwrap();
    write(directory.path(), "b.csv.gz", &gzip(b"note,name,value\nd,c,2\nf,e,3\n"));
    write(directory.path(), "a.csv", b"name,note,value\na,b,1");
    write(directory.path(), "c.csv", b"");
    write(directory.path(), "d.csv", b"name,note,value\ng,h,4\n");
    let source = || FileSource::csv::<Row>(directory.path().join("*.csv*"));
    let expected = [row("a", "b", 1), row("c", "d", 2), row("e", "f", 3), row("g", "h", 4)];
    assert_eq!(read_all(&source()).unwrap(), expected);
    continues_exactly_after_every_record(&source);
}

#[test]
fn a_position_counts_bytes_of_content_and_records() {
    let directory = TempDir::new().unwrap();
    let content = b"name,note,value\na,\"\n\",1\nc,d,2\n";
    let positions = |path: &str| {
        let source = FileSource::csv::<Row>(path);
        let mut reader = source.create_reader(0).unwrap();
        reader.add_split(enumerator::find(Path::new(path)).unwrap().remove(0)).unwrap();
        let mut positions = Vec::new();
        loop {
            match reader.snapshot(CheckpointId(1)).unwrap().first() {
                Some(split) => positions.push((split.position.byte, split.position.record)),
                None => return positions,
            }
            poll_at(&mut reader, std::time::Duration::ZERO, 1, &mut Vec::new()).unwrap();
        }
    };
    let expected = [(0, 0), (24, 1), (30, 2)];
    assert_eq!(positions(&write(directory.path(), "a", content)), expected);
    assert_eq!(positions(&write(directory.path(), "b", &gzip(content))), expected);
}

#[test]
fn a_long_way_into_a_compressed_file_is_taken_in_several_polls() {
    let directory = TempDir::new().unwrap();
    let mut content = b"name,note,value\n".to_vec();
    let long = "x".repeat(1 << 20);
    for number in 0..20 {
        content.extend_from_slice(format!("{number},{long},{number}\n").as_bytes());
    }
    let path = write(directory.path(), "a", &gzip(&content));
    let source = FileSource::csv::<Row>(&path);
    let mut split = enumerator::find(Path::new(&path)).unwrap().remove(0);
    let mut reader = source.create_reader(0).unwrap();
    reader.add_split(split.clone()).unwrap();
    let mut out = Vec::new();
    while out.len() < 19 {
        poll_at(&mut reader, std::time::Duration::ZERO, 19 - out.len(), &mut out).unwrap();
    }
    split.position = reader.snapshot(CheckpointId(1)).unwrap()[0].position;

    let mut reader = source.create_reader(0).unwrap();
    reader.add_split(split.clone()).unwrap();
    let (mut out, mut polls) = (Vec::new(), 0);
    while out.is_empty() {
        assert_eq!(reader.snapshot(CheckpointId(1)).unwrap(), [split.clone()], "the position does not move on the way");
        assert_eq!(poll_at(&mut reader, std::time::Duration::ZERO, 1, &mut out).unwrap(), Polled::More);
        polls += 1;
    }
    assert_eq!(out[0].0.name, "19");
    assert!((4..8).contains(&polls), "{polls} polls");
}

/// The flights of one month, which the repository ships with totals that an independent script has made.
#[test]
fn a_month_of_flights_adds_up() {
    #[derive(Clone, Serialize, Deserialize)]
    struct Flight {
        carrier: String,
        dep_time: Option<u32>,
        arr_delay: Option<i64>,
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let source = FileSource::csv::<Flight>(data.join("flights-2013-01.csv.gz")).with_null_value("NA");
    let mut found = std::collections::BTreeMap::<String, [i64; 4]>::new();
    for Flight { carrier, dep_time, arr_delay } in read_all(&source).unwrap() {
        let totals = found.entry(carrier).or_default();
        totals[0] += 1;
        totals[1] += i64::from(dep_time.is_none());
        totals[2] += i64::from(arr_delay.is_some());
        totals[3] += arr_delay.unwrap_or(0);
    }
    let golden = std::fs::read_to_string(data.join("golden_per_carrier-2013-01.csv")).unwrap();
    assert_eq!(golden.lines().count(), found.len() + 1, "the golden file has a header");
    for line in golden.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let numbers: Vec<i64> = fields[fields.len() - 4..].iter().map(|field| field.parse().unwrap()).collect();
        assert_eq!(numbers, found[fields[0]], "{line}");
    }
}
