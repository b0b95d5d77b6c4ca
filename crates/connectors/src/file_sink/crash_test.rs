//! Crashes at every step of a transaction, and files that are not what was prepared.

use std::fs;

use highwater_state_api::{Attempt, CheckpointId};
use highwater_stream_api::{CommitError, Sink, SinkWriter};

use super::FileSinkError;
use super::support_test::{Fixture, lost, sink_error, visible, write};

#[test]
fn a_crash_while_writing_leaves_a_hidden_file_that_the_next_attempt_removes() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    let mut writer = fixture.writer(1, 0);
    write(&mut writer, &["a"]);
    std::mem::forget(writer); // the process is killed: nothing is dropped
    assert_eq!(fixture.names(), [".part-00000001-00000-00000000.inprogress"]);
    fixture.start(2, None).unwrap();
    fixture.sink.abort_earlier_attempts(Attempt(2)).unwrap();
    assert!(fixture.names().is_empty());
}

#[test]
fn a_writer_that_is_dropped_takes_its_open_file_with_it_and_leaves_the_prepared_one() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    let mut writer = fixture.writer(1, 0);
    write(&mut writer, &["a"]);
    let prepared = writer.prepare_commit(CheckpointId(1)).unwrap().unwrap();
    write(&mut writer, &["b"]);
    drop(writer);
    assert_eq!(fixture.names(), [".part-00000001-00000-00000000.inprogress"]);
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_crash_after_the_prepare_is_committed_by_a_later_attempt() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(3, &["a", "b"]);
    fixture.start(5, Some(1)).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    fixture.sink.abort_earlier_attempts(Attempt(5)).unwrap();
    assert_eq!(fixture.names(), ["part-00000003-00000-00000000"]);
    assert_eq!(fixture.visible(), ["a", "b"]);
}

#[test]
fn a_crash_between_the_two_names_is_finished_by_the_next_commit() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let (hidden, committed) =
        (prepared.part().uncommitted_path(&fixture.out), prepared.part().committed_path(&fixture.out));
    fs::hard_link(&hidden, &committed).unwrap();
    assert_eq!(fixture.names().len(), 2);
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.names(), ["part-00000001-00000-00000000"]);
}

#[test]
fn a_crash_after_the_rename_and_before_the_return_is_committed_again() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let (hidden, committed) =
        (prepared.part().uncommitted_path(&fixture.out), prepared.part().committed_path(&fixture.out));
    fs::rename(hidden, committed).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.names(), ["part-00000001-00000-00000000"]);
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_crash_between_the_second_name_and_the_abort_of_old_files_loses_nothing() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let part = prepared.part();
    fs::hard_link(part.uncommitted_path(&fixture.out), part.committed_path(&fixture.out)).unwrap();
    fixture.sink.abort_earlier_attempts(Attempt(2)).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_hidden_file_that_is_gone_is_lost_and_both_names_are_told() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let (hidden, final_path) =
        (prepared.part().uncommitted_path(&fixture.out), prepared.part().committed_path(&fixture.out));
    fs::remove_file(&hidden).unwrap();
    let error = lost(fixture.sink.commit(&prepared));
    assert!(error.to_string().contains("part-00000001-00000-00000000.inprogress"), "{error}");
    assert!(
        matches!(error, FileSinkError::Missing { uncommitted, committed } if uncommitted == hidden && committed == final_path)
    );
    assert!(fixture.names().is_empty(), "nothing was made up");
}

#[test]
fn a_committed_file_that_is_gone_is_lost() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    fixture.sink.commit(&prepared).unwrap();
    fs::remove_file(prepared.part().committed_path(&fixture.out)).unwrap();
    assert!(matches!(lost(fixture.sink.commit(&prepared)), FileSinkError::Missing { .. }));
}

#[test]
fn a_file_that_is_not_what_was_prepared_is_not_published() {
    for (content, expected, found) in [
        ("a\nb\nc\n", "4 bytes", "6 bytes"),
        ("a\n", "4 bytes", "2 bytes"),
        ("", "4 bytes", "0 bytes"),
        ("a\nc\n", "4 bytes with checksum ", "4 bytes with checksum "),
    ] {
        let fixture = Fixture::new();
        let prepared = fixture.prepared(1, &["a", "b"]);
        let hidden = prepared.part().uncommitted_path(&fixture.out);
        fs::write(&hidden, content).unwrap();
        match lost(fixture.sink.commit(&prepared)) {
            FileSinkError::Damaged { path, expected: told_expected, found: told_found } => {
                assert_eq!(path, hidden);
                assert!(told_expected.starts_with(expected) && told_found.starts_with(found));
                assert_ne!(told_expected, told_found);
            }
            other => panic!("{other}"),
        }
        assert_eq!(fixture.names(), [".part-00000001-00000-00000000.inprogress"]);
        assert_eq!(fs::read_to_string(&hidden).unwrap(), content, "it is left as it is, to be looked at");
    }
}

#[test]
fn a_file_in_the_place_of_the_committed_one_is_never_overwritten() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let committed = prepared.part().committed_path(&fixture.out);
    fs::write(&committed, "someone else's").unwrap();
    assert!(matches!(lost(fixture.sink.commit(&prepared)), FileSinkError::Damaged { path, .. } if path == committed));
    assert_eq!(fs::read_to_string(&committed).unwrap(), "someone else's");
    fs::remove_file(&committed).unwrap();
    fs::create_dir(&committed).unwrap();
    assert!(matches!(lost(fixture.sink.commit(&prepared)), FileSinkError::Damaged { path, .. } if path == committed));
    fs::remove_dir(&committed).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn an_operating_error_may_be_tried_again() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let aside = fixture.out.with_file_name("aside");
    fs::rename(&fixture.out, &aside).unwrap();
    fs::write(&fixture.out, "not a directory").unwrap();
    match fixture.sink.commit(&prepared) {
        Err(CommitError::Retryable(error)) => {
            assert!(matches!(sink_error(error), FileSinkError::Io { path, .. } if path.starts_with(&fixture.out)));
        }
        other => panic!("{other:?}"),
    }
    fs::remove_file(&fixture.out).unwrap();
    fs::rename(&aside, &fixture.out).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_directory_that_is_away_says_nothing_about_what_is_in_it() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let aside = fixture.out.with_file_name("aside");
    fs::rename(&fixture.out, &aside).unwrap();
    let is_retryable = || match fixture.sink.commit(&prepared) {
        Err(CommitError::Retryable(error)) => {
            assert!(matches!(sink_error(error), FileSinkError::NotOurs { directory, .. } if directory == fixture.out));
        }
        other => panic!("{other:?}"),
    };
    is_retryable();
    // The place where it is mounted.
    fs::create_dir(&fixture.out).unwrap();
    is_retryable();
    fs::remove_dir(&fixture.out).unwrap();
    fs::rename(&aside, &fixture.out).unwrap();
    fixture.sink.commit(&prepared).unwrap();
    assert_eq!(fixture.visible(), ["a"]);
}

#[test]
fn a_directory_that_was_moved_is_committed_to_where_it_is() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    let moved = fixture.out.with_file_name("moved");
    fs::rename(&fixture.out, &moved).unwrap();
    super::FileSink::lines::<String>(&moved).commit(&prepared).unwrap();
    assert_eq!(visible(&moved), ["a"]);
}
