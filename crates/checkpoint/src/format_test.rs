//! Log records and metadata as files: the examples of the format texts, and every way in which a file can be wrong.

use bytes::Bytes;
use highwater_state_api::{
    Attempt, CheckpointId, Checksum, KEY_HASH_ID, KeyGroup, KeyGroupPart, KeyedStateHandle, MaxParallelism, ObjectPath,
    OperatorStateHandle, OperatorStateMeta, OperatorStatePart, READER_SPLITS, RawKeyedStateHandle, Redistribution,
    Schema, StateHandle, StateKind, TableMeta, operator_state,
};
use insta::assert_snapshot;
use proptest::prelude::*;

use crate::script_test::{job, uid};
use crate::{
    CheckpointMetadata, FormatError, HookState, LogRecord, OperatorSnapshot, OperatorState, decode_log_record,
    decode_metadata, decode_metadata_with_hooks, encode_log_record, encode_metadata, encode_metadata_with_hooks,
};

/// The bytes of the first example in a format text: lines that are indented by four and begin with a byte.
fn example(text: &str) -> Vec<u8> {
    let lines = text.lines().skip_while(|line| !line.ends_with("# Example")).skip(1);
    let of_example = lines.take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("    "));
    // A byte column of 16 bytes is 47 characters wide.
    of_example
        .flat_map(|line| line.get(..47).unwrap_or(line).split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn record() -> LogRecord {
    let metadata = StateHandle::Object {
        path: ObjectPath::parse("job/chk-7-1/_metadata").unwrap(),
        length: 1_234,
        checksum: Checksum(0x0123_4567_89ab_cdef),
    };
    LogRecord::Completed { attempt: Attempt(1), checkpoint: CheckpointId(7), metadata }
}

fn keyed(subtask: u32, parallelism: u32, groups: &[u16]) -> KeyedStateHandle {
    let part = |index: usize, group: u16| KeyGroupPart {
        group: KeyGroup(group),
        offset: index as u64 * 3,
        length: 3,
        checksum: Checksum::of(b"abc"),
    };
    KeyedStateHandle {
        range: MaxParallelism::new(4).unwrap().range_of(subtask, parallelism),
        tables: vec![TableMeta {
            name: "total".to_owned(),
            kind: StateKind::Value,
            key: Schema::trace::<String>().unwrap(),
            namespace: Schema::unit(),
            map_key: None,
            value: Schema::trace::<i64>().unwrap(),
        }],
        parts: groups.iter().enumerate().map(|(index, group)| part(index, *group)).collect(),
        state: StateHandle::Inline(Bytes::from(b"abc".repeat(groups.len()))),
    }
}

fn raw_keyed(keyed: KeyedStateHandle) -> RawKeyedStateHandle {
    RawKeyedStateHandle { range: keyed.range, parts: keyed.parts, state: keyed.state }
}

/// A part with its bytes.
fn part(name: &str, redistribution: Redistribution, strings: &[&[u8]]) -> (OperatorStatePart, Vec<u8>) {
    let mut bytes = Vec::new();
    strings.iter().for_each(|string| operator_state::write_element(string, &mut bytes));
    let schema = Schema::Opaque { name: "split".to_owned(), version: 3 };
    let is_broadcast = redistribution == Redistribution::Broadcast;
    let map_key = is_broadcast.then(|| schema.clone());
    let part = OperatorStatePart {
        meta: OperatorStateMeta { name: name.to_owned(), redistribution, map_key, element: schema },
        elements: strings.len() as u64 / if is_broadcast { 2 } else { 1 },
        offset: 0,
        length: bytes.len() as u64,
        checksum: Checksum::of(&bytes),
    };
    (part, bytes)
}

fn operator_state(parts: &[(OperatorStatePart, Vec<u8>)]) -> OperatorStateHandle {
    let mut content = Vec::new();
    let mut placed = Vec::new();
    for (part, bytes) in parts {
        placed.push(OperatorStatePart { offset: content.len() as u64, ..part.clone() });
        content.extend_from_slice(bytes);
    }
    OperatorStateHandle { parts: placed, state: StateHandle::Inline(Bytes::from(content)) }
}

fn metadata() -> CheckpointMetadata {
    let (mut seen, content) = part("seen", Redistribution::Split, &[&7u64.to_le_bytes()]);
    seen.meta.element = Schema::trace::<u64>().unwrap();
    let snapshot = OperatorSnapshot {
        keyed: Some(keyed(0, 1, &[2])),
        operator: Some(operator_state(&[(seen, content)])),
        watermark: Some(-1),
        ..OperatorSnapshot::default()
    };
    CheckpointMetadata {
        job: job(),
        attempt: Attempt(1),
        checkpoint: CheckpointId(7),
        triggered_at_ms: 1_700_000_000_000,
        key_hash: KEY_HASH_ID.to_owned(),
        operators: vec![OperatorState {
            uid: uid("sum"),
            max_parallelism: MaxParallelism::new(4).unwrap(),
            finished: false,
            subtasks: vec![snapshot],
            enumerator: None,
        }],
    }
}

fn rich_metadata() -> CheckpointMetadata {
    let splits = operator_state(&[part(READER_SPLITS, Redistribution::Split, &[b"one", b""])]);
    let source = OperatorSnapshot { operator: Some(splits), ended: true, ..OperatorSnapshot::default() };
    let counter = |subtask, groups: &[u16]| OperatorSnapshot {
        keyed: Some(keyed(subtask, 2, groups)),
        raw_keyed: Some(raw_keyed(keyed(subtask, 2, &groups[..groups.len().min(1)]))),
        operator: Some(operator_state(&[
            part("a", Redistribution::Union, &[b"x", b"y"]),
            part("b", Redistribution::Split, &[]),
            part("a", Redistribution::Broadcast, &[b"key", b"value"]),
        ])),
        watermark: Some(i64::MIN),
        ..OperatorSnapshot::default()
    };
    let mut metadata = metadata();
    metadata.operators = vec![
        OperatorState {
            uid: uid("source"),
            max_parallelism: MaxParallelism::new(32_768).unwrap(),
            finished: false,
            subtasks: vec![source, OperatorSnapshot::default()],
            enumerator: Some(Bytes::from_static(b"rest")),
        },
        OperatorState {
            uid: uid("sum"),
            max_parallelism: MaxParallelism::new(4).unwrap(),
            finished: false,
            subtasks: vec![counter(0, &[0, 1]), counter(1, &[])],
            enumerator: None,
        },
    ];
    metadata
}

/// An operator whose task has finished.
fn finished(of: &str) -> OperatorState {
    let max_parallelism = MaxParallelism::new(4).unwrap();
    OperatorState { uid: uid(of), max_parallelism, finished: true, subtasks: Vec::new(), enumerator: None }
}

#[test]
fn the_examples_of_the_format_texts_are_true() {
    let log = example(include_str!("../../../docs/format/job-log.md"));
    assert_eq!(encode_log_record(&record()).unwrap(), log);
    assert_eq!(decode_log_record(&log).unwrap(), record());
    let checkpoint = example(include_str!("../../../docs/format/checkpoint.md"));
    assert_eq!(encode_metadata(&metadata()).unwrap(), checkpoint);
    assert_eq!(decode_metadata(&checkpoint).unwrap(), metadata());
}

/// The example of version 1, and a richer file that the release which wrote it has written.
#[test]
fn metadata_of_version_1_is_read_for_ever() {
    let old = example(include_str!("../../../docs/format/checkpoint-version-1.md"));
    let mut expected = metadata();
    expected.operators[0].subtasks[0].operator = None;
    assert_eq!(decode_metadata(&old).unwrap(), expected);

    let rich = decode_metadata(include_bytes!("../fixtures/metadata_version_1.bin")).unwrap();
    let mut expected = rich_metadata();
    let all = [b'u'; 200];
    let (mut union, content) = part("all", Redistribution::Union, &[&all]);
    union.meta.element = Schema::trace::<String>().unwrap();
    // In the file they are the other way round.
    let mut last = union.clone();
    last.meta.name = "zeta".to_owned();
    expected.operators[0].subtasks[1].operator = Some(operator_state(&[(union, content.clone()), (last, content)]));
    for counter in &mut expected.operators[1].subtasks {
        (counter.raw_keyed, counter.operator) = (None, None);
    }
    expected.operators[1].subtasks[0].keyed.as_mut().unwrap().tables.push(TableMeta {
        name: "names".to_owned(),
        kind: StateKind::Map,
        key: Schema::trace::<String>().unwrap(),
        namespace: Schema::unit(),
        map_key: Some(Schema::trace::<u32>().unwrap()),
        value: Schema::trace::<(bool, u8)>().unwrap(),
    });
    assert_eq!(rich, expected);
    // What was read is written as it is now.
    assert_eq!(decode_metadata(&encode_metadata(&rich).unwrap()).unwrap(), rich);
}

/// The example of version 2, and a richer file that the release which wrote it has written.
#[test]
fn metadata_of_version_2_is_read_for_ever() {
    let old = example(include_str!("../../../docs/format/checkpoint-version-2.md"));
    assert_eq!(decode_metadata(&old).unwrap(), metadata());
    let rich = decode_metadata(include_bytes!("../fixtures/metadata_version_2.bin")).unwrap();
    assert_eq!(rich, rich_metadata());
}

#[test]
fn hooks_are_a_section_behind_the_operators_and_without_them_there_is_none() {
    let hook = |identifier: &str| HookState { identifier: identifier.to_owned(), state: Bytes::from_static(b"on") };
    let file = encode_metadata_with_hooks(&metadata(), &[hook("a"), hook("b")]).unwrap();
    assert_eq!(decode_metadata_with_hooks(&file).unwrap(), (metadata(), vec![hook("a"), hook("b")]));
    assert_eq!(decode_metadata(&file).unwrap(), metadata());
    let without = encode_metadata(&metadata()).unwrap();
    assert_eq!(decode_metadata_with_hooks(&without).unwrap(), (metadata(), Vec::new()));
    // The section of the format text, behind the payload of the example.
    let section = [&b"\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0session\x02\0\0\0\0\0\0\0on"[..]].concat();
    let payload = &without[20..without.len() - 8];
    let by_hand = sealed(b"HWCHKPNT", &[payload, &section].concat());
    assert_eq!(encode_metadata_with_hooks(&metadata(), &[hook("session")]).unwrap(), by_hand);
    let error = |hooks: &[HookState]| {
        let payload = bincode::serialize(&(metadata(), hooks)).unwrap();
        let read = decode_metadata_with_hooks(&sealed(b"HWCHKPNT", &payload)).unwrap_err();
        if !hooks.is_empty() {
            assert_eq!(encode_metadata_with_hooks(&metadata(), hooks).unwrap_err(), read);
        }
        read.to_string()
    };
    let errors = [error(&[]), error(&[hook("a"), hook("a")]), error(&[hook("b"), hook("a")]), error(&[hook(" ")])];
    assert_snapshot!(errors.join("\n"));
    for cut in without.len()..file.len() {
        assert!(decode_metadata_with_hooks(&file[..cut]).is_err());
    }
}

#[test]
fn a_version_that_was_never_written_is_an_error() {
    for version in [0, 4] {
        let error = decode_metadata(&sealed_as(version, b"HWCHKPNT", b"")).unwrap_err();
        assert!(matches!(error, FormatError::UnknownVersion { found, .. } if found == version), "{error}");
    }
}

/// Contract: T345.
#[test]
fn what_was_encoded_is_decoded() {
    let claim = LogRecord::Claim { nonce: u64::MAX, first_checkpoint: CheckpointId(u64::MAX) };
    let inline = StateHandle::Inline(Bytes::from_static(b"metadata"));
    let small = LogRecord::Completed { attempt: Attempt(0), checkpoint: CheckpointId(0), metadata: inline };
    let dropped = |newest| LogRecord::Dropped { attempt: Attempt(3), newest };
    let [none, some] = [dropped(None), dropped(Some(CheckpointId(7)))];
    for record in [claim, small, record(), LogRecord::Finished { attempt: Attempt(3) }, none, some] {
        assert_eq!(decode_log_record(&encode_log_record(&record).unwrap()).unwrap(), record);
    }
    let mut partly_finished = rich_metadata();
    partly_finished.operators[0] = finished("source");
    for metadata in [metadata(), rich_metadata(), partly_finished] {
        assert_eq!(decode_metadata(&encode_metadata(&metadata).unwrap()).unwrap(), metadata);
    }
}

#[test]
fn what_version_1_of_the_log_has_no_place_for_is_not_read_as_version_1() {
    let dropped = LogRecord::Dropped { attempt: Attempt(3), newest: None };
    let encoded = encode_log_record(&dropped).unwrap();
    assert_eq!((encoded.len(), encoded[8]), (41, 2), "version 2");
    assert_eq!(encode_log_record(&record()).unwrap()[8], 1, "what an earlier release can read is written as before");
    let payload = &encoded[20..33];
    assert_eq!(decode_log_record(&sealed_as(2, b"HWJOBLOG", payload)).unwrap(), dropped);
    let error = decode_log_record(&sealed_as(1, b"HWJOBLOG", payload)).unwrap_err();
    assert!(matches!(error, FormatError::Invalid { .. }), "{error}");
}

#[test]
fn every_truncation_is_an_error() {
    let log = encode_log_record(&record()).unwrap();
    for length in 0..log.len() {
        assert!(matches!(decode_log_record(&log[..length]), Err(FormatError::Cut { .. })), "{length}");
    }
    let checkpoint = encode_metadata(&rich_metadata()).unwrap();
    for length in 0..checkpoint.len() {
        assert!(matches!(decode_metadata(&checkpoint[..length]), Err(FormatError::Cut { .. })), "{length}");
    }
}

#[test]
fn every_changed_bit_is_an_error() {
    let log = encode_log_record(&record()).unwrap();
    let checkpoint = encode_metadata(&rich_metadata()).unwrap();
    for bit in 0..log.len() * 8 {
        let mut damaged = log.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_log_record(&damaged).is_err(), "bit {bit}");
    }
    for bit in 0..checkpoint.len() * 8 {
        let mut damaged = checkpoint.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_metadata(&damaged).is_err(), "bit {bit}");
    }
}

/// A file with this payload and a checksum that is right.
fn sealed(magic: &[u8; 8], payload: &[u8]) -> Vec<u8> {
    sealed_as(if magic == b"HWCHKPNT" { 3 } else { 1 }, magic, payload)
}

fn sealed_as(version: u32, magic: &[u8; 8], payload: &[u8]) -> Vec<u8> {
    let mut file = magic.to_vec();
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    file.extend_from_slice(payload);
    let checksum = Checksum::of(&file);
    file.extend_from_slice(&checksum.0.to_le_bytes());
    file
}

/// Contract: D94, Q299.
#[test]
fn an_error_says_what_was_expected_and_what_was_found() {
    let good = encode_log_record(&record()).unwrap();
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        decode_log_record(&file).unwrap_err().to_string()
    };
    let errors = [
        error(&|file| file.clear()),
        error(&|file| file.truncate(96)),
        error(&|file| file.push(0)),
        error(&|file| file[..4].copy_from_slice(b"\x00ELF")),
        error(&|file| file[8] = 3),
        error(&|file| file[12..20].fill(0xff)),
        error(&|file| file[40] ^= 1),
        decode_metadata(&good).unwrap_err().to_string(),
        decode_log_record(&sealed(b"HWJOBLOG", &[9, 0, 0, 0])).unwrap_err().to_string(),
        decode_log_record(&sealed(b"HWJOBLOG", &[2, 0, 0, 0, 1])).unwrap_err().to_string(),
        decode_log_record(&sealed(b"HWJOBLOG", &[2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7])).unwrap_err().to_string(),
    ];
    assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_length_inside_the_payload_cannot_ask_for_more_than_there_is() {
    // A job name, a list and a state of 2^63 bytes.
    let huge = (1u64 << 63).to_le_bytes();
    assert!(matches!(decode_metadata(&sealed(b"HWCHKPNT", &huge)), Err(FormatError::Invalid { .. })));
    let mut payload = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    payload.extend_from_slice(&huge);
    assert!(matches!(decode_log_record(&sealed(b"HWJOBLOG", &payload)), Err(FormatError::Invalid { .. })));
    let head = 3u64.to_le_bytes().into_iter().chain(*b"job").chain([0; 24]).chain([0; 8]).chain(huge);
    assert!(matches!(
        decode_metadata(&sealed(b"HWCHKPNT", &head.collect::<Vec<_>>())),
        Err(FormatError::Invalid { .. })
    ));
}

#[test]
fn metadata_that_does_not_fit_together_is_invalid() {
    let error = |change: &dyn Fn(&mut CheckpointMetadata)| {
        let mut metadata = rich_metadata();
        change(&mut metadata);
        // What cannot be written cannot be read either.
        let written = encode_metadata(&metadata).unwrap_err();
        let payload = bincode::serialize(&metadata).unwrap();
        assert_eq!(decode_metadata(&sealed(b"HWCHKPNT", &payload)).unwrap_err(), written);
        written.to_string()
    };
    fn part(metadata: &mut CheckpointMetadata, index: usize) -> &mut KeyGroupPart {
        &mut metadata.operators[1].subtasks[0].keyed.as_mut().unwrap().parts[index]
    }
    fn raw(metadata: &mut CheckpointMetadata) -> &mut RawKeyedStateHandle {
        metadata.operators[1].subtasks[0].raw_keyed.as_mut().unwrap()
    }
    fn table(metadata: &mut CheckpointMetadata) -> &mut TableMeta {
        &mut metadata.operators[1].subtasks[1].keyed.as_mut().unwrap().tables[0]
    }
    fn parts(metadata: &mut CheckpointMetadata) -> &mut Vec<OperatorStatePart> {
        &mut metadata.operators[1].subtasks[1].operator.as_mut().unwrap().parts
    }
    let errors = [
        error(&|metadata| metadata.operators[1].uid = uid("source")),
        error(&|metadata| metadata.operators[1].subtasks.clear()),
        error(&|metadata| metadata.operators[1].subtasks = vec![OperatorSnapshot::default(); 5]),
        error(&|metadata| metadata.operators[1].subtasks.reverse()),
        error(&|metadata| part(metadata, 0).group = KeyGroup(3)),
        error(&|metadata| part(metadata, 1).group = KeyGroup(0)),
        error(&|metadata| part(metadata, 1).offset = 4),
        error(&|metadata| part(metadata, 1).offset = u64::MAX),
        error(&|metadata| part(metadata, 1).offset = 2),
        error(&|metadata| raw(metadata).range = MaxParallelism::new(4).unwrap().all()),
        error(&|metadata| raw(metadata).parts[0].length = 4),
        error(&|metadata| parts(metadata).swap(0, 1)),
        error(&|metadata| parts(metadata).reverse()),
        error(&|metadata| parts(metadata)[1].meta.name = "a".to_owned()),
        error(&|metadata| parts(metadata)[2].meta.map_key = None),
        error(&|metadata| parts(metadata)[0].length = 100),
        error(&|metadata| parts(metadata)[1].elements = 1),
        error(&|metadata| parts(metadata)[2].offset = 0),
        error(&|metadata| {
            let parts = &mut raw(metadata).parts;
            parts.push(KeyGroupPart { group: KeyGroup(1), offset: 1, length: 2, ..parts[0] });
        }),
        error(&|metadata| {
            let subtasks = metadata.operators[1].subtasks.clone();
            metadata.operators[1] = OperatorState { subtasks, ..finished("sum") };
        }),
        error(&|metadata| {
            let enumerator = Some(Bytes::from_static(b"rest"));
            metadata.operators[0] = OperatorState { enumerator, ..finished("source") };
        }),
        // What one subtask says against what the others say.
        error(&|metadata| parts(metadata)[1].meta.redistribution = Redistribution::Union),
        error(&|metadata| parts(metadata)[2].meta.element = Schema::unit()),
        error(&|metadata| table(metadata).kind = StateKind::List),
        error(&|metadata| table(metadata).value = Schema::unit()),
    ];
    assert_snapshot!(errors.join("\n"));
}

/// Contract: T344.
#[test]
fn a_reference_into_the_storage_is_read_as_it_was_written_and_nothing_else_is_one() {
    let path = "job/chk-7-1/_metadata";
    let referring_to = |path: &str| {
        let mut payload = bincode::serialize(&record()).unwrap();
        let old = payload.windows(21).position(|window| window == b"job/chk-7-1/_metadata").unwrap();
        payload[old - 8..old].copy_from_slice(&(path.len() as u64).to_le_bytes());
        payload.splice(old..old + 21, path.bytes());
        decode_log_record(&sealed(b"HWJOBLOG", &payload))
    };
    assert_eq!(referring_to(path).unwrap(), record());
    assert!(referring_to("job/chk-8-1/_metadata").is_ok());
    for path in ["", "/", "/job", "job/", "job//chk", "..", "job/../other", "./job"] {
        let error = referring_to(path).unwrap_err();
        assert!(matches!(error, FormatError::Invalid { .. }), "{path:?}: {error}");
        assert!(error.to_string().ends_with(&format!("{path:?} is no path of an object")), "{error}");
    }
}

/// Contract: T344.
#[test]
fn a_path_that_leaves_the_storage_is_invalid() {
    // No `ObjectPath` can be made of this, so the bytes are.
    let mut payload = bincode::serialize(&record()).unwrap();
    let at = payload.windows(3).position(|window| window == b"job").unwrap();
    payload[at..at + 3].copy_from_slice(b"../");
    assert_snapshot!(decode_log_record(&sealed(b"HWJOBLOG", &payload)).unwrap_err().to_string());
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_log_record(&sealed(b"HWJOBLOG", &payload));
        let _ = decode_metadata(&sealed(b"HWCHKPNT", &payload));
        let _ = decode_metadata(&payload);
    }

    #[test]
    fn no_change_of_good_metadata_makes_the_decoder_panic(at in 0usize..2_000, byte in any::<u8>()) {
        let mut payload = bincode::serialize(&rich_metadata()).unwrap();
        let at = at % payload.len();
        payload[at] = byte;
        if let Ok(decoded) = decode_metadata(&sealed(b"HWCHKPNT", &payload)) {
            prop_assert_eq!(bincode::serialize(&decoded).unwrap(), payload);
        }
    }
}
