//! Rows that do not fit end the job with file, line, record and column, wherever reading began.

use highwater_state_api::CheckpointId;
use std::time::Duration;

use highwater_stream_api::{BoxedError, Source, SourceReader, SplitAssignment, SplitEnumerator};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::*;
use crate::support_test::{full_text, gzip, poll_at, write};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    value: i64,
}

/// The error that the content ends in: in one go, and when everything before the row was read by an earlier attempt.
fn failure(content: &[u8], records_before: usize) -> String {
    let directory = TempDir::new().unwrap();
    let mut texts = Vec::new();
    for content in [content.to_vec(), gzip(content)] {
        let path = write(directory.path(), "a.csv", &content);
        for stop_before in 0..=records_before {
            let source = FileSource::csv::<Row>(&path);
            let SplitAssignment::Split(split) = source.create_enumerator().unwrap().next_split(0).unwrap() else {
                panic!()
            };
            let mut reader = source.create_reader(0).unwrap();
            reader.add_split(split).unwrap();
            let mut out = Vec::new();
            while out.len() < stop_before {
                let left = stop_before - out.len();
                poll_at(&mut reader, Duration::ZERO, left, &mut out).unwrap();
            }
            let splits = reader.snapshot(CheckpointId(1)).unwrap();
            let mut reader = source.create_reader(0).unwrap();
            splits.into_iter().for_each(|split| reader.add_split(split).unwrap());
            let error = until_error(&mut reader, &mut out);
            assert_eq!(out.len(), records_before, "{error}");
            let again = until_error(&mut reader, &mut out);
            assert_eq!(out.len(), records_before, "the row was passed over after its error");
            assert_eq!(error.to_string(), again.to_string());
            assert_eq!(reader.snapshot(CheckpointId(1)).unwrap()[0].position.record, records_before as u64);
            let text = full_text(&*error);
            texts.push(text.replace(directory.path().to_str().unwrap(), "DIR"));
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "the place differs: {texts:#?}");
    texts.remove(0)
}

fn until_error(
    reader: &mut FileSourceReader<Row>,
    out: &mut Vec<(Row, highwater_stream_api::Timestamp)>,
) -> BoxedError {
    for _ in 0..100 {
        if let Err(error) = poll_at(reader, Duration::ZERO, 10, out) {
            return error;
        }
    }
    panic!("no error");
}

#[test]
fn a_value_of_another_type_names_its_place() {
    assert_eq!(
        failure(b"name,value\na,1\nb,x\nc,3\n", 1),
        "\"DIR/a.csv\", line 3 (record 2), column \"value\": invalid digit found in string"
    );
    assert_eq!(
        failure(b"name,value\r\na,1\r\n\r\n\"b\r\n\",2\r\nc,\r\n", 2),
        "\"DIR/a.csv\", line 6 (record 3), column \"value\": cannot parse integer from empty string"
    );
    assert_eq!(
        failure("\u{feff}value,name\n1e3,a\n".as_bytes(), 0),
        "\"DIR/a.csv\", line 2 (record 1), column \"value\": invalid digit found in string"
    );
}

#[test]
fn a_missing_column_is_named() {
    assert_eq!(failure(b"name,values\na,1\n", 0), "\"DIR/a.csv\", line 2 (record 1): missing field `value`");
}

#[test]
fn too_few_and_too_many_fields_are_counted() {
    assert_eq!(
        failure(b"name,value\na,1\nb\n", 1),
        "\"DIR/a.csv\", line 3 (record 2): the row has 1 fields, and the header names 2"
    );
    assert_eq!(
        failure(b"name,value\na,1\nb,2,3\nc,4,5", 1),
        "\"DIR/a.csv\", line 3 (record 2): the row has 3 fields, and the header names 2"
    );
}

#[test]
fn a_text_that_is_not_utf8_is_named() {
    assert_eq!(
        failure(b"name,value\na,1\n\xff,2\n", 1),
        "\"DIR/a.csv\", line 3 (record 2), column \"name\": the text is not UTF-8"
    );
    assert_eq!(failure(b"\n\xff,value\na,1\n", 0), "\"DIR/a.csv\", line 2 (record 0): the text is not UTF-8");
}

#[test]
fn a_damaged_compressed_file_is_an_error_and_not_an_end() {
    let directory = TempDir::new().unwrap();
    let whole = gzip(b"name,value\na,1\nb,2\n");
    let cut = whole[..whole.len() - 6].to_vec();
    let mut damaged = whole.clone();
    let at = damaged.len() - 7; // in the checksum
    damaged[at] ^= 1;
    let trailing = [&whole[..], b"garbage"].concat();
    for (name, content) in [("cut", cut), ("damaged", damaged), ("trailing", trailing)] {
        let path = write(directory.path(), name, &content);
        let source = FileSource::csv::<Row>(&path);
        let SplitAssignment::Split(split) = source.create_enumerator().unwrap().next_split(0).unwrap() else {
            panic!()
        };
        let mut reader = source.create_reader(0).unwrap();
        reader.add_split(split).unwrap();
        let error = until_error(&mut reader, &mut Vec::new()).downcast::<FileSourceError>().unwrap();
        assert!(matches!(&*error, FileSourceError::Read { path: named, .. } if named.ends_with(name)), "{error}");
    }
}
