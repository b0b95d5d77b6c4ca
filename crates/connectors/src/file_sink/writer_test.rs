//! What stands in the files, and what a failed write does to a transaction.

use std::fs;

use highwater_state_api::{CheckpointId, Checksum};
use highwater_stream_api::{Data, Sink, SinkWriter, Timestamp};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::support_test::{Fixture, context, sink_error, write};
use super::{FileSink, FileSinkError, RowFormat};
use crate::support_test::{full_text, read_all};

/// The content of the committed file that these records become.
fn content<T: Data, F: RowFormat<In = T>>(sink: FileSink<F>, records: Vec<T>) -> String {
    fs::create_dir_all(&sink.directory).unwrap();
    let context = context(1, 0, 1);
    let mut writer = sink.create_writer(&context).unwrap();
    for record in records {
        writer.write(record, Timestamp::NONE).unwrap();
    }
    let transaction = writer.prepare_commit(CheckpointId(1)).unwrap().unwrap();
    sink.commit(&transaction).unwrap();
    let content = fs::read(transaction.part().committed_path(&sink.directory)).unwrap();
    assert_eq!((transaction.length(), transaction.checksum()), (content.len() as u64, Checksum::of(&content)));
    String::from_utf8(content).unwrap()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    delay: Option<i64>,
    distance: f64,
}

#[test]
fn csv_rows_have_no_header_and_none_is_an_empty_field() {
    let directory = TempDir::new().unwrap();
    let rows = vec![
        Row { name: "Endeavor, Inc.".to_owned(), delay: None, distance: 0.5 },
        Row { name: "say \"hi\"\n".to_owned(), delay: Some(-3), distance: 2.0 },
    ];
    assert_eq!(
        content(FileSink::csv::<Row>(directory.path()), rows),
        "\"Endeavor, Inc.\",,0.5\n\"say \"\"hi\"\"\n\",-3,2.0\n"
    );
}

#[test]
fn tuples_and_single_values_are_rows() {
    let directory = TempDir::new().unwrap();
    let rows = vec![("a".to_owned(), Some(1)), (String::new(), None)];
    assert_eq!(content(FileSink::csv::<(String, Option<u8>)>(directory.path().join("a")), rows), "a,1\n,\n");
    let values = vec![Some(1), None];
    assert_eq!(content(FileSink::csv::<Option<u8>>(directory.path().join("b")), values), "1\n\"\"\n");
}

#[test]
fn lines_are_the_texts_of_the_records() {
    let directory = TempDir::new().unwrap();
    assert_eq!(content(FileSink::lines::<i64>(directory.path().join("a")), vec![1, -2]), "1\n-2\n");
    let texts = vec!["ä, \"b\"".to_owned(), String::new(), "c".to_owned()];
    assert_eq!(content(FileSink::lines::<String>(directory.path().join("b")), texts), "ä, \"b\"\n\nc\n");
}

#[test]
fn records_larger_than_every_buffer_are_whole() {
    let directory = TempDir::new().unwrap();
    let records: Vec<String> = [1, 65_535, 65_536, 65_537, 1_000_000, 3].map(|length| "x".repeat(length)).to_vec();
    let expected = records.join("\n") + "\n";
    assert_eq!(content(FileSink::lines::<String>(directory.path().join("a")), records.clone()), expected);
    assert_eq!(content(FileSink::csv::<String>(directory.path().join("b")), records), expected);
}

#[test]
fn what_the_sink_commits_a_file_source_reads_back() {
    let directory = TempDir::new().unwrap();
    let rows = vec![("name".to_owned(), "value".to_owned()), ("a\r\n\",".to_owned(), "\u{feff}".to_owned())];
    content(FileSink::csv::<(String, String)>(directory.path()), rows.clone());
    let source = crate::FileSource::csv::<(String, String)>(directory.path().join("*"));
    assert_eq!(read_all(&source).unwrap(), rows[1..], "the first row is read as the header");
}

#[test]
fn nothing_written_leaves_no_file() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    let mut writer = fixture.writer(1, 0);
    for checkpoint in 1..4 {
        assert!(writer.prepare_commit(CheckpointId(checkpoint)).unwrap().is_none());
    }
    assert!(fixture.names().is_empty());
}

#[test]
fn a_line_with_a_line_break_is_refused_and_spoils_the_transaction() {
    for bad in ["two\nlines", "ends\n", "carriage\rreturn"] {
        let fixture = Fixture::new();
        fixture.start(1, None).unwrap();
        let mut writer = fixture.writer(1, 0);
        write(&mut writer, &["good"]);
        let error = writer.write(bad.to_owned(), Timestamp::NONE).unwrap_err();
        assert!(full_text(&*error).contains("line break"), "{error}");
        assert!(matches!(sink_error(error), FileSinkError::Record { .. }));
        for checkpoint in 1..3 {
            let error = writer.write("good".to_owned(), Timestamp::NONE).unwrap_err();
            assert!(matches!(sink_error(error), FileSinkError::Spoilt { .. }));
            let error = writer.prepare_commit(CheckpointId(checkpoint)).unwrap_err();
            assert!(matches!(sink_error(error), FileSinkError::Spoilt { .. }));
        }
        assert!(fixture.names().is_empty(), "what can never be committed is removed");
    }
}

#[test]
fn a_record_that_is_no_row_is_refused() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::csv::<(u8, std::collections::BTreeMap<String, u8>)>(directory.path());
    let context = context(1, 0, 1);
    let mut writer = sink.create_writer(&context).unwrap();
    let error = writer.write((1, [("a".to_owned(), 2)].into()), Timestamp::NONE).unwrap_err();
    assert!(matches!(sink_error(error), FileSinkError::Record { path, .. } if path.starts_with(directory.path())));
    assert!(writer.prepare_commit(CheckpointId(1)).is_err());
}

#[test]
fn two_writers_of_one_name_do_not_meet_in_one_file() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    let (mut first, mut second) = (fixture.writer(1, 0), fixture.writer(1, 0));
    write(&mut first, &["a"]);
    let error = sink_error(second.write("b".to_owned(), Timestamp::NONE).unwrap_err());
    assert!(matches!(&error, FileSinkError::NameTaken { path } if path.starts_with(&fixture.out)), "{error}");
    fixture.sink.commit(&first.prepare_commit(CheckpointId(1)).unwrap().unwrap()).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_file_that_cannot_be_created_is_tried_again_by_the_next_record() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer(1, 0);
    let error = sink_error(writer.write("a".to_owned(), Timestamp::NONE).unwrap_err());
    assert!(matches!(&error, FileSinkError::Io { operation: "create", path, .. } if path.starts_with(&fixture.out)));
    fixture.start(1, None).unwrap();
    write(&mut writer, &["b"]);
    fixture.sink.commit(&writer.prepare_commit(CheckpointId(1)).unwrap().unwrap()).unwrap();
    assert_eq!(fixture.names(), ["part-00000001-00000-00000000"]);
}

#[test]
fn a_transaction_is_written_as_the_format_says() {
    use highwater_state_api::{BincodeSerializer, Serializer};
    let transaction = Fixture::new().prepared(7, &["a"]);
    let mut bytes = Vec::new();
    BincodeSerializer::traced().serialize(&transaction, &mut bytes).unwrap();
    let mut expected = 7_u64.to_le_bytes().to_vec();
    expected.extend_from_slice(&0_u32.to_le_bytes());
    expected.extend_from_slice(&0_u64.to_le_bytes());
    expected.extend_from_slice(&2_u64.to_le_bytes());
    expected.extend_from_slice(&Checksum::of(b"a\n").0.to_le_bytes());
    assert_eq!(bytes, expected);
}
