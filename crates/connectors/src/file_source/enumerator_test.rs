//! Which files are found, and that a restart reads the same ones or says what has changed.

use highwater_state_api::CheckpointId;
use std::fs;

use highwater_stream_api::{BoxedError, Source, SourceReader, SplitAssignment, SplitEnumerator};
use tempfile::TempDir;

use super::*;
use crate::support_test::{gzip, read, read_all, write};

type Row = (String, u64);
type Change<'a> = &'a dyn Fn(&str);

fn names(source: &FileSource<Row>) -> Vec<String> {
    let enumerator = source.create_enumerator().unwrap();
    let name = |split: &FileSplit| Path::new(&split.path).file_name().unwrap().to_str().unwrap().to_owned();
    enumerator.waiting().map(name).collect()
}

fn found(pattern: impl AsRef<Path>) -> Vec<String> {
    names(&FileSource::csv::<Row>(pattern))
}

fn error<T>(result: Result<T, BoxedError>) -> FileSourceError {
    *result.err().unwrap().downcast::<FileSourceError>().unwrap()
}

#[test]
fn a_pattern_finds_files_in_the_order_of_their_paths_and_no_hidden_ones() {
    let directory = TempDir::new().unwrap();
    for name in ["b.csv", "a.csv", "c.txt", ".part-00000001-00000-00000000.inprogress", ".a.csv", "a-b.csv"] {
        write(directory.path(), name, b"");
    }
    fs::create_dir(directory.path().join("d.csv")).unwrap();
    write(&directory.path().join("d.csv"), "e.csv", b"");
    assert_eq!(found(directory.path().join("*.csv")), ["a-b.csv", "a.csv", "b.csv"]);
    assert_eq!(found(directory.path().join("*")), ["a-b.csv", "a.csv", "b.csv", "c.txt"]);
    assert_eq!(found(directory.path().join("[ac].*")), ["a.csv", "c.txt"]);
    assert_eq!(found(directory.path().join("**/e.csv")), ["e.csv"]);
    assert_eq!(found(directory.path().join("**/[a-e].csv")), ["a.csv", "b.csv", "e.csv"]);
    assert_eq!(found(directory.path().join("d*/*")), ["e.csv"]);
    assert_eq!(found(directory.path().join("d.csv/../?.csv")), ["a.csv", "b.csv"]);
    assert_eq!(found(directory.path().join(".a*")), [".a.csv"]);
    assert_eq!(found(format!("{}//./*.txt/", directory.path().display())), ["c.txt"]);
}

#[test]
fn a_file_that_exists_is_no_pattern() {
    let directory = TempDir::new().unwrap();
    write(directory.path(), "a[1].csv", b"");
    write(directory.path(), "a1.csv", b"");
    write(directory.path(), "*.csv", b"");
    assert_eq!(found(directory.path().join("a[1].csv")), ["a[1].csv"]);
    assert_eq!(found(directory.path().join("*.csv")), ["*.csv"]);
}

#[test]
fn what_is_not_found_is_named() {
    let directory = TempDir::new().unwrap();
    for name in ["none.csv", "*.csv"] {
        let pattern = directory.path().join(name);
        let error = error(FileSource::csv::<Row>(&pattern).create_enumerator());
        assert!(matches!(&error, FileSourceError::NoMatch { pattern: named } if *named == pattern), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let malformed = error(FileSource::csv::<Row>("a[.csv").create_enumerator());
    assert!(matches!(malformed, FileSourceError::Pattern { pattern, .. } if pattern == "a[.csv"));
    let a_directory = error(FileSource::csv::<Row>(directory.path()).create_enumerator());
    assert!(matches!(a_directory, FileSourceError::Directory { path } if path == directory.path()));
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_unicode_is_an_error_and_not_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join(std::ffi::OsStr::from_bytes(b"\xff.csv"));
    fs::write(&path, b"").unwrap();
    let pattern = directory.path().join("*.csv");
    for pattern in [&pattern, &path] {
        let error = error(FileSource::csv::<Row>(pattern).create_enumerator());
        assert!(matches!(&error, FileSourceError::NotUtf8 { path: named } if *named == path), "{error}");
    }
}

#[test]
fn a_relative_path_stays_relative() {
    let first = |pattern: &str| {
        let enumerator = FileSource::csv::<Row>(pattern).create_enumerator().unwrap();
        enumerator.waiting().next().unwrap().path.clone()
    };
    assert_eq!(first("*.toml"), "Cargo.toml");
    assert_eq!(first("./src/li?.rs"), "./src/lib.rs");
}

#[cfg(unix)]
#[test]
fn a_circle_of_links_comes_to_an_end() {
    let directory = TempDir::new().unwrap();
    let below = directory.path().join("below");
    fs::create_dir(&below).unwrap();
    write(&below, "a.csv", b"");
    std::os::unix::fs::symlink(directory.path(), below.join("circle")).unwrap();
    std::os::unix::fs::symlink(below.join("a.csv"), directory.path().join("link.csv")).unwrap();
    assert_eq!(found(directory.path().join("**/*.csv")), ["a.csv", "link.csv"]);
}

#[test]
fn a_file_that_appears_later_is_not_read() {
    let directory = TempDir::new().unwrap();
    write(directory.path(), "a.csv", b"name,value\na,1\n");
    write(directory.path(), "c.csv", b"name,value\nc,3\n");
    let source = FileSource::csv::<Row>(directory.path().join("*.csv"));
    let state = source.create_enumerator().unwrap().snapshot().unwrap();
    write(directory.path(), "b.csv", b"name,value\nb,2\n");
    let mut restored = source.restore_enumerator(&state).unwrap();
    let records = read(&mut restored, &mut source.create_reader(0).unwrap(), usize::MAX, 10).unwrap();
    assert_eq!(records, [("a".to_owned(), 1), ("c".to_owned(), 3)]);
}

/// Changes a file after the first record was read, and gives the errors of the reader's and the enumerator's restart.
fn change(content: &[u8], change: impl Fn(&str)) -> [Option<FileSourceError>; 2] {
    let directory = TempDir::new().unwrap();
    let path = write(directory.path(), "a.csv", content);
    let source = FileSource::csv::<Row>(&path);
    let mut enumerator = source.create_enumerator().unwrap();
    let untouched = enumerator.snapshot().unwrap();
    let SplitAssignment::Split(split) = enumerator.next_split(0).unwrap() else { panic!() };
    let mut reader = source.create_reader(0).unwrap();
    reader.add_split(split).unwrap();
    read(&mut enumerator, &mut reader, 1, 1).unwrap();
    let splits = reader.snapshot(CheckpointId(1)).unwrap();

    change(&path);
    let mut reader = source.create_reader(0).unwrap();
    splits.into_iter().for_each(|split| reader.add_split(split).unwrap());
    let downcast = |error: BoxedError| *error.downcast::<FileSourceError>().unwrap();
    [
        read(&mut enumerator, &mut reader, usize::MAX, 1).err().map(downcast),
        source.restore_enumerator(&untouched).err().map(downcast),
    ]
}

#[test]
fn a_file_that_has_changed_is_named_wherever_the_job_stands_in_it() {
    let mut content = b"name,value\n".to_vec();
    content.extend_from_slice(&b"abcdef,1\n".repeat(50_000));
    for content in [&b"name,value\na,1\nb,2\nc,3\n"[..], &content] {
        let edit = |at: usize| {
            move |path: &str| {
                let mut content = fs::read(path).unwrap();
                content[at] = b'z';
                fs::write(path, content).unwrap();
            }
        };
        let append = |path: &str| fs::write(path, [content, b"d,4\n"].concat()).unwrap();
        let cut = |path: &str| fs::write(path, &content[..content.len() - 4]).unwrap();
        let changes: [(&str, Change<'_>); 5] = [
            ("first bytes", &edit(12)),
            ("last bytes", &edit(content.len() - 3)),
            ("appended", &append),
            ("cut", &cut),
            ("compressed", &|path| fs::write(path, gzip(content)).unwrap()),
        ];
        for (what, changed) in changes {
            for error in change(content, changed) {
                assert!(
                    matches!(&error, Some(FileSourceError::Changed { path, expected, found })
                        if path.ends_with("a.csv") && expected != found),
                    "{what}: {error:?}"
                );
            }
        }
        for error in change(content, |path| fs::remove_file(path).unwrap()) {
            let error = error.unwrap();
            assert!(matches!(&error, FileSourceError::Gone { path, .. } if path.ends_with("a.csv")), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("a.csv\" is gone") && text.contains("put the file back as it was"), "{text}");
        }
        for error in change(content, |path| {
            let copy = fs::read(path).unwrap();
            fs::remove_file(path).unwrap();
            fs::write(path, copy).unwrap();
        }) {
            assert!(error.is_none(), "a copy is the same input: {error:?}");
        }
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_not_passed_over_in_silence() {
    let directory = TempDir::new().unwrap();
    let path = write(directory.path(), "a.csv", b"name,value\na,1\nb,2");
    let source = FileSource::csv::<Row>(&path);
    let (mut enumerator, mut reader) = (source.create_enumerator().unwrap(), source.create_reader(0).unwrap());
    assert_eq!(read(&mut enumerator, &mut reader, 1, 1).unwrap(), [("a".to_owned(), 1)]);
    fs::write(&path, b"name,value\na,1\nb,22\nc,3\n").unwrap();
    let error = error(read(&mut enumerator, &mut reader, usize::MAX, 1));
    assert!(matches!(error, FileSourceError::Changed { .. }), "{error}");
}

#[test]
fn a_position_behind_the_end_is_an_error() {
    let directory = TempDir::new().unwrap();
    for (name, content) in [("a", b"name,value\na,1\n".to_vec()), ("b", gzip(b"name,value\na,1\n"))] {
        let path = write(directory.path(), name, &content);
        let mut split = enumerator::find(Path::new(&path)).unwrap().remove(0);
        split.position = FilePosition { byte: 16, record: 2 };
        let source = FileSource::csv::<Row>(&path);
        let mut reader = source.create_reader(0).unwrap();
        reader.add_split(split).unwrap();
        let result = read(&mut SplitQueue::new([]), &mut reader, usize::MAX, 1);
        assert!(matches!(error(result), FileSourceError::Ended { length: 15, position: 16, .. }));
    }
}

#[test]
fn a_tuple_takes_the_columns_in_their_order() {
    let directory = TempDir::new().unwrap();
    let path = write(directory.path(), "a.csv", b"x,y\na,1\n");
    assert_eq!(read_all(&FileSource::csv::<Row>(path)).unwrap(), [("a".to_owned(), 1)]);
}

#[test]
fn a_split_is_written_as_the_format_says() {
    let split = FileSplit {
        path: "a.csv".to_owned(),
        identity: FileIdentity { length: 2, checksum: highwater_state_api::Checksum(3) },
        position: FilePosition { byte: 4, record: 5 },
    };
    let state = SplitQueue::new([split]).snapshot().unwrap();
    let mut expected = vec![1];
    expected.extend_from_slice(&1_u64.to_le_bytes());
    expected.extend_from_slice(&5_u64.to_le_bytes());
    expected.extend_from_slice(b"a.csv");
    (2..6_u64).for_each(|number| expected.extend_from_slice(&number.to_le_bytes()));
    assert_eq!(state, expected);
}

#[test]
fn the_identity_is_the_checksum_of_both_ends() {
    let directory = TempDir::new().unwrap();
    for length in [0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 500_000] {
        let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let path = write(directory.path(), "a.csv", &content);
        let ends = if length > 131_072 { [&content[..65_536], &content[length - 65_536..]].concat() } else { content };
        let identity = enumerator::find(Path::new(&path)).unwrap()[0].identity;
        let checksum = highwater_state_api::Checksum::of(&ends);
        assert_eq!(identity, FileIdentity { length: length as u64, checksum }, "{length} bytes");
    }
}
