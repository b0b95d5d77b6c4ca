//! Redistribution, with the results that Flink has for the same input.

use bytes::Bytes;
use highwater_state_api::operator_state::{slice_elements, write_element};
use highwater_state_api::{
    Checksum, KEY_HASH_ID, KeyGroup, KeyGroupPart, KeyedStateHandle, MaxParallelism, OperatorStateHandle,
    OperatorStateMeta, OperatorStatePart, READER_SPLITS, RawKeyedStateHandle, Redistribution, Schema, StateHandle,
    operator_state,
};
use proptest::prelude::*;

use crate::script_test::{job, uid};
use crate::{
    CheckpointMetadata, HaveEnded, OperatorSnapshot, OperatorState, OperatorStatePiece, OperatorStateShare,
    OperatorTarget, RedistributeError, RestoredOperator, redistribute,
};

fn groups(groups: u32) -> MaxParallelism {
    MaxParallelism::new(groups).unwrap()
}

/// One state of one subtask, with its elements; of a broadcast state keys and values in turn.
#[derive(Clone)]
struct List {
    meta: OperatorStateMeta,
    elements: Vec<String>,
}

fn list(name: &str, redistribution: Redistribution, elements: &[&str]) -> List {
    let schema = Schema::Opaque { name: "text".to_owned(), version: 1 };
    let map_key = (redistribution == Redistribution::Broadcast).then(|| schema.clone());
    List {
        meta: OperatorStateMeta { name: name.to_owned(), redistribution, map_key, element: schema },
        elements: elements.iter().map(|element| element.to_string()).collect(),
    }
}

fn operator(name: &str, subtasks: Vec<OperatorSnapshot>) -> OperatorState {
    OperatorState { uid: uid(name), max_parallelism: groups(128), finished: false, subtasks, enumerator: None }
}

/// A subtask with these states.
fn lists(lists: &[List]) -> OperatorSnapshot {
    let mut content = Vec::new();
    let mut parts = Vec::new();
    for List { meta, elements } in lists {
        let offset = content.len();
        elements.iter().for_each(|element| write_element(element.as_bytes(), &mut content));
        parts.push(OperatorStatePart {
            meta: meta.clone(),
            elements: elements.len() as u64 / if meta.is_broadcast() { 2 } else { 1 },
            offset: offset as u64,
            length: (content.len() - offset) as u64,
            checksum: Checksum::of(&content[offset..]),
        });
    }
    let operator = OperatorStateHandle { parts, state: StateHandle::Inline(Bytes::from(content)) };
    OperatorSnapshot { operator: Some(operator), ..OperatorSnapshot::default() }
}

/// The elements of a share.
fn elements(share: &OperatorStateShare) -> Vec<String> {
    let of_piece = |piece: &OperatorStatePiece| {
        let StateHandle::Inline(content) = &piece.state else { panic!("{piece:?}") };
        let part = content.slice(piece.offset as usize..(piece.offset + piece.length) as usize);
        assert_eq!(Checksum::of(&part), piece.checksum);
        let piece =
            if share.meta.is_broadcast() { part } else { slice_elements(&part, piece.elements.clone()).unwrap() };
        let strings =
            operator_state::elements(&piece).map(|element| String::from_utf8(element.unwrap().to_vec()).unwrap());
        strings.collect::<Vec<_>>()
    };
    share.pieces.iter().flat_map(of_piece).collect()
}

/// Keyed state of a subtask with one part of one byte a group.
fn keyed(max: MaxParallelism, subtask: u32, parallelism: u32) -> OperatorSnapshot {
    let range = max.range_of(subtask, parallelism);
    let part =
        |(offset, group): (u64, KeyGroup)| KeyGroupPart { group, offset, length: 1, checksum: Checksum::of(b"x") };
    let keyed = KeyedStateHandle {
        range,
        tables: Vec::new(),
        parts: (0..).zip(range.iter()).map(part).collect(),
        state: StateHandle::Inline(Bytes::from(vec![subtask as u8; range.count() as usize])),
    };
    OperatorSnapshot { keyed: Some(keyed), ..OperatorSnapshot::default() }
}

/// Keyed state of a subtask in which nothing is under any key.
fn keyed_without_entries(max: MaxParallelism, subtask: u32, parallelism: u32) -> OperatorSnapshot {
    let mut snapshot = keyed(max, subtask, parallelism);
    let keyed = snapshot.keyed.as_mut().unwrap();
    (keyed.parts, keyed.state) = (Vec::new(), StateHandle::Inline(Bytes::new()));
    snapshot
}

fn metadata(operators: Vec<OperatorState>) -> CheckpointMetadata {
    CheckpointMetadata {
        job: job(),
        attempt: highwater_state_api::Attempt(1),
        checkpoint: highwater_state_api::CheckpointId(1),
        triggered_at_ms: 0,
        key_hash: KEY_HASH_ID.to_owned(),
        operators,
    }
}

fn target(name: &str, parallelism: u32) -> OperatorTarget {
    OperatorTarget { uid: uid(name), is_stable: true, is_source: false, parallelism, max_parallelism: None }
}

fn restore(operator: OperatorState, parallelism: u32) -> RestoredOperator {
    let name = operator.uid.clone();
    let target = OperatorTarget { is_source: operator.enumerator.is_some(), ..target(name.as_str(), parallelism) };
    let assignment = redistribute(&metadata(vec![operator]), &[target]).unwrap();
    assignment.operators[&name].clone()
}

/// `name elements|name elements` for each subtask.
fn shares(restored: &RestoredOperator) -> Vec<String> {
    let text = |share: &OperatorStateShare| format!("{} {}", share.meta.name, elements(share).join(","));
    restored.subtasks.iter().map(|one| one.operator.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

fn dealt(redistribution: Redistribution, old: &[&[&str]], parallelism: u32) -> Vec<String> {
    let subtasks = old.iter().map(|elements| lists(&[list("s", redistribution, elements)])).collect();
    shares(&restore(operator("op", subtasks), parallelism))
}

const A: &[&str] = &["A0", "A1", "A2"];
const B: &[&str] = &["B0", "B1"];

/// Contract: E107, E108.
#[test]
fn a_split_list_is_dealt_in_consecutive_runs() {
    let split = Redistribution::Split;
    assert_eq!(dealt(split, &[A, B], 3), ["s A0,A1", "s A2,B0", "s B1"]);
    assert_eq!(dealt(split, &[A, B], 1), ["s A0,A1,A2,B0,B1"]);
    assert_eq!(dealt(split, &[A, B], 4), ["s A0,A1", "s A2", "s B0", "s B1"]);
}

/// Contract: E109.
#[test]
fn at_the_same_parallelism_split_lists_stay_as_they_are() {
    assert_eq!(dealt(Redistribution::Split, &[A, &[]], 2), ["s A0,A1,A2", "s "]);
    assert_eq!(dealt(Redistribution::Split, &[&[], A, B], 3), ["s ", "s A0,A1,A2", "s B0,B1"]);
}

/// Contract: E110.
#[test]
fn one_element_goes_to_one_subtask_and_the_others_know_of_the_list() {
    assert_eq!(dealt(Redistribution::Split, &[&["A0"]], 4), ["s A0", "s ", "s ", "s "]);
}

/// Contract: E111.
#[test]
fn who_comes_first_rotates_from_list_to_list() {
    let split = Redistribution::Split;
    let subtask = lists(&[list("s1", split, &["0", "1", "2", "3"]), list("s2", split, &["0", "1", "2", "3", "4"])]);
    assert_eq!(shares(&restore(operator("op", vec![subtask]), 3)), ["s1 0,1|s2 4", "s1 2|s2 0,1", "s1 3|s2 2,3"]);
}

/// Contract: E112.
#[test]
fn a_union_list_goes_to_everyone_at_any_parallelism() {
    for parallelism in [1, 2, 3] {
        let old: &[&[&str]] = &[&["A0", "A1"], &["B0"]];
        assert_eq!(dealt(Redistribution::Union, old, parallelism), vec!["s A0,A1,B0"; parallelism as usize]);
    }
}

/// Field case: R53.
#[test]
fn lists_of_any_size_are_divided_evenly() {
    let split = Redistribution::Split;
    let numbers: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let mut old = vec![lists(&[list("empty", split, &[]), list("full", split, &numbers)])];
    old.push(lists(&[list("empty", split, &[]), list("full", split, &[])]));
    let sizes = |parallelism: u32| {
        let restored = restore(operator("op", old.clone()), parallelism);
        let mut all: Vec<String> = Vec::new();
        let mut sizes = Vec::new();
        for one in &restored.subtasks {
            let [empty, full] = &one.operator[..] else { panic!("{one:?}") };
            assert_eq!((elements(empty).len(), empty.meta.name.as_str()), (0, "empty"));
            sizes.push(elements(full).len());
            all.extend(elements(full));
        }
        assert_eq!(all, numbers, "each once, in order");
        sizes
    };
    assert_eq!(sizes(3), [4, 3, 3]);
    assert_eq!(sizes(7), [2, 2, 2, 1, 1, 1, 1]);
    assert_eq!(sizes(1), [10]);
    assert_eq!(sizes(20), [[1; 10], [0; 10]].concat());

    // And once more from what came of it: 1, 3, 7, 1, 20.
    let mut operator_now = operator("op", vec![lists(&[list("full", split, &numbers)])]);
    for parallelism in [1, 3, 7, 1, 20] {
        let restored = restore(operator_now, parallelism);
        let again = restored.subtasks.iter().map(|one| {
            let own = elements(&one.operator[0]);
            lists(&[list("full", split, &own.iter().map(String::as_str).collect::<Vec<_>>())])
        });
        let all: Vec<String> = restored.subtasks.iter().flat_map(|one| elements(&one.operator[0])).collect();
        assert_eq!(all, numbers, "{parallelism}");
        operator_now = operator("op", again.collect());
    }
}

fn copied(old: &[&[&str]], parallelism: u32) -> Vec<String> {
    dealt(Redistribution::Broadcast, old, parallelism)
}

/// Contract: E113.
#[test]
fn of_a_broadcast_state_everyone_gets_one_copy() {
    let (a, b): (&[&str], &[&str]) = (&["key", "A"], &["key", "B"]);
    assert_eq!(copied(&[a, b], 3), ["s key,A", "s key,B", "s key,A"]);
    assert_eq!(copied(&[a, b, a], 2), ["s key,A", "s key,B"]);
    assert_eq!(copied(&[a, b], 2), ["s key,A", "s key,B"]);
    // An empty copy is one.
    assert_eq!(copied(&[&[], b], 2), ["s ", "s key,B"]);
}

/// Field case: R55.
///
/// Contract: E114.
#[test]
fn where_a_subtask_has_no_copy_another_is_taken_and_none_are_merged() {
    let map = list("s", Redistribution::Broadcast, &["a", "1", "b", "2"]);
    let some = || lists(std::slice::from_ref(&map));
    let none = || OperatorSnapshot { ended: true, ..OperatorSnapshot::default() };
    for (old, parallelism) in [
        (vec![some(), some()], 4),
        (vec![some(), some(), some(), some()], 1),
        (vec![none(), some()], 2),
        (vec![some(), none(), some()], 3),
        (vec![none(), none(), some()], 7),
    ] {
        let restored = restore(operator("op", old), parallelism);
        assert_eq!(shares(&restored), vec!["s a,1,b,2"; parallelism as usize]);
    }
    // The next one's, in a circle.
    let copy = |value: &str| lists(&[list("s", Redistribution::Broadcast, &["key", value])]);
    let restored = restore(operator("op", vec![copy("A"), none(), copy("C")]), 3);
    assert_eq!(shares(&restored), ["s key,A", "s key,C", "s key,C"]);
    let restored = restore(operator("op", vec![copy("A"), copy("B"), none()]), 3);
    assert_eq!(shares(&restored), ["s key,A", "s key,B", "s key,A"]);
}

#[test]
fn a_list_and_a_broadcast_state_of_one_name_are_two_states() {
    let one =
        lists(&[list("s", Redistribution::Split, &["a"]), list("s", Redistribution::Broadcast, &["key", "value"])]);
    assert_eq!(shares(&restore(operator("op", vec![one]), 2)), ["s a|s key,value", "s |s key,value"]);
}

/// Field case: R51.
/// What nobody registers is there once, however often it is restored.
#[test]
fn each_part_of_a_union_list_is_carried_on_by_one() {
    let union = |elements: &[&str]| lists(&[list("s", Redistribution::Union, elements)]);
    let mut now = operator("op", vec![union(&["a", "b"]), union(&["c"]), union(&["d", "e", "f"])]);
    for parallelism in [3, 2, 5, 1, 3] {
        let restored = restore(now.clone(), parallelism);
        assert_eq!(shares(&restored), vec!["s a,b,c,d,e,f"; parallelism as usize]);
        let carried = restored.subtasks.iter().map(|one| {
            let mut share = one.operator[0].clone();
            share.pieces.retain(|piece| piece.is_carried);
            let carried = elements(&share);
            union(&carried.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let next = operator("op", carried.collect());
        assert!(parallelism != now.subtasks.len() as u32 || next == now, "the same parallelism changes nothing");
        now = next;
    }
}

/// Contract: E116.
#[test]
fn partitions_of_raw_operator_state_are_dealt_like_elements() {
    let raw = List {
        meta: highwater_state_api::raw_operator_state_meta(),
        ..list("", Redistribution::Split, &["x", "y", "z"])
    };
    let restored = restore(operator("op", vec![lists(&[raw])]), 3);
    assert_eq!(shares(&restored), ["_raw_operator_state x", "_raw_operator_state y", "_raw_operator_state z"]);
}

/// Contract: F133.
#[test]
fn raw_keyed_state_goes_where_its_key_groups_go() {
    let max = groups(10);
    let raw = |subtask| {
        let keyed = keyed(max, subtask, 2).keyed.unwrap();
        let raw = RawKeyedStateHandle { range: keyed.range, parts: keyed.parts, state: keyed.state };
        OperatorSnapshot { raw_keyed: Some(raw), ..OperatorSnapshot::default() }
    };
    let old = OperatorState { max_parallelism: max, ..operator("op", vec![raw(0), raw(1)]) };
    let restored = restore(old, 3);
    for (subtask, one) in (0..).zip(&restored.subtasks) {
        let found: Vec<KeyGroup> = one.raw_keyed.iter().flat_map(|raw| &raw.parts).map(|part| part.group).collect();
        assert_eq!(found, max.range_of(subtask, 3).iter().collect::<Vec<_>>());
    }
}

#[test]
fn an_operator_has_state_if_a_subtask_wrote_any_be_it_empty() {
    let has_state = |subtasks| restore(operator("op", subtasks), 1).has_state;
    assert!(!has_state(vec![OperatorSnapshot { watermark: Some(1), ..OperatorSnapshot::default() }]));
    assert!(has_state(vec![OperatorSnapshot::default(), lists(&[list("s", Redistribution::Split, &[])])]));
    assert!(has_state(vec![keyed(groups(128), 0, 1)]));
}

#[test]
fn subtasks_that_disagree_on_a_list_are_refused() {
    let split = list("s", Redistribution::Split, &["a"]);
    let union = list("s", Redistribution::Union, &["a"]);
    let mut other = split.clone();
    other.meta.element = Schema::Opaque { name: "text".to_owned(), version: 2 };
    for odd in [union, other] {
        let operator = operator("op", vec![lists(std::slice::from_ref(&split)), lists(&[odd])]);
        let error = redistribute(&metadata(vec![operator]), &[target("op", 2)]).unwrap_err();
        assert_eq!(error, RedistributeError::StatesDisagree { uid: uid("op"), name: "s".to_owned() });
    }
}

/// Contract: F131.
#[test]
fn keyed_state_goes_where_its_key_groups_go() {
    let max = groups(10);
    for (old, new) in [(1, 1), (1, 3), (3, 1), (2, 3), (3, 2), (4, 10), (10, 4), (5, 5)] {
        let subtasks = (0..old).map(|subtask| keyed(max, subtask, old)).collect();
        let restored = restore(OperatorState { max_parallelism: max, ..operator("op", subtasks) }, new);
        assert_eq!(restored.max_parallelism, max);
        let mut seen = Vec::new();
        for (subtask, one) in (0..new).zip(&restored.subtasks) {
            for handle in &one.keyed {
                assert_eq!(handle.range.intersection(max.range_of(subtask, new)), Some(handle.range));
                let StateHandle::Inline(bytes) = &handle.state else { panic!("{handle:?}") };
                let part_groups: Vec<_> = handle.parts.iter().map(|part| part.group).collect();
                assert_eq!(part_groups, handle.range.iter().collect::<Vec<_>>());
                for part in &handle.parts {
                    // The part still points to its own byte, in the state of the subtask that had the group.
                    let owner = max.subtask_of(part.group, old);
                    assert_eq!(bytes[0], owner as u8);
                    let expected = u64::from(part.group.0) - u64::from(max.range_of(owner, old).start().0);
                    assert_eq!(part.offset, expected);
                    seen.push(part.group);
                }
            }
        }
        assert_eq!(seen, max.all().iter().collect::<Vec<_>>(), "{old} → {new}: each group once, in order");
    }
}

#[test]
fn at_the_same_parallelism_handles_go_one_to_one() {
    let max = groups(128);
    let subtasks: Vec<_> = (0..3).map(|subtask| keyed(max, subtask, 3)).collect();
    let restored = restore(operator("op", subtasks.clone()), 3);
    for (old, new) in subtasks.iter().zip(&restored.subtasks) {
        assert_eq!(new.keyed, [old.keyed.clone().unwrap()]);
    }
}

/// Contract: R321.
#[test]
fn readers_splits_go_back_to_the_enumerator_at_any_parallelism() {
    let reader = |splits: &[&str]| {
        lists(&[list(READER_SPLITS, Redistribution::Split, splits), list("x", Redistribution::Split, &["1"])])
    };
    let source = OperatorState {
        enumerator: Some(Bytes::from_static(b"rest")),
        ..operator("source", vec![reader(&["a@3", "b@0"]), reader(&[]), reader(&["c@9"])])
    };
    for parallelism in [1, 3, 5] {
        let restored = restore(source.clone(), parallelism);
        let back = restored.source.clone().unwrap();
        assert_eq!(back.enumerator, "rest");
        assert_eq!(elements(&back.splits.unwrap()), ["a@3", "b@0", "c@9"]);
        assert!(shares(&restored).iter().all(|share| !share.contains(READER_SPLITS) && share.starts_with("x ")));
    }
}

#[test]
fn a_position_is_not_given_to_an_operator_that_is_no_source() {
    // Also when no split is left to be read: that there is none is the position.
    for splits in [&["a@3"][..], &[]] {
        let reader = lists(&[list(READER_SPLITS, Redistribution::Split, splits)]);
        let source =
            OperatorState { enumerator: Some(Bytes::from_static(b"rest")), ..operator("numbers", vec![reader]) };
        let error = redistribute(&metadata(vec![source.clone()]), &[target("numbers", 1)]).unwrap_err();
        assert_eq!(error, RedistributeError::NotASource { uid: uid("numbers") });
        let text = "operator numbers was a source when the checkpoint was taken, and is none in the job: its position \
                    would be lost";
        assert_eq!(error.to_string(), text);
        let is_source = OperatorTarget { is_source: true, ..target("numbers", 1) };
        assert!(redistribute(&metadata(vec![source]), &[is_source]).is_ok());
    }
}

/// Contract: S331.
#[test]
fn a_restored_watermark_is_ahead_of_nobodys() {
    let at = |watermark| OperatorSnapshot { watermark, ..OperatorSnapshot::default() };
    let done = |watermark| OperatorSnapshot { watermark, ended: true, ..OperatorSnapshot::default() };
    let watermark = |subtasks: Vec<OperatorSnapshot>| {
        let restored = restore(operator("op", subtasks), 2);
        assert_eq!(restored.subtasks[0].watermark, restored.subtasks[1].watermark);
        restored.subtasks[0].watermark
    };
    assert_eq!(watermark(vec![at(Some(7)), at(Some(-3)), at(Some(9))]), Some(-3));
    assert_eq!(watermark(vec![at(Some(7)), at(None)]), None);
    assert_eq!(watermark(vec![at(Some(7)), done(None)]), Some(7));
    assert_eq!(watermark(vec![done(None), done(Some(i64::MAX))]), Some(i64::MAX));
}

#[test]
fn an_operator_has_ended_as_far_as_its_subtasks_have() {
    let subtask = |ended| OperatorSnapshot { ended, ..OperatorSnapshot::default() };
    for parallelism in [1, 2, 3] {
        for (ended, expected) in
            [([true, true], HaveEnded::All), ([true, false], HaveEnded::Some), ([false, false], HaveEnded::None)]
        {
            let restored = restore(operator("op", ended.map(subtask).to_vec()), parallelism);
            assert_eq!((restored.ended, restored.finished), (expected, false), "{parallelism}");
        }
    }
}

/// Contract: P290.
#[test]
fn a_finished_operator_gets_nothing_whatever_its_numbers_are_now() {
    let finished = OperatorState { finished: true, ..operator("op", Vec::new()) };
    for (parallelism, max_parallelism) in [(1, None), (3, None), (500, Some(groups(512)))] {
        let target = OperatorTarget { max_parallelism, ..target("op", parallelism) };
        let restored =
            redistribute(&metadata(vec![finished.clone()]), &[target]).unwrap().operators[&uid("op")].clone();
        assert!(restored.finished && !restored.has_state, "{restored:?}");
        assert_eq!((restored.ended, restored.subtasks, restored.source), (HaveEnded::All, Vec::new(), None));
    }
    assert!(redistribute(&metadata(vec![finished]), &[]).unwrap().operators.is_empty(), "it may go out of the job");
}

/// Contract: P291.
#[test]
fn what_subtasks_that_have_ended_kept_in_lists_is_there_for_everyone() {
    let subtask = |ended, elements: [&str; 2]| {
        let states = [list("all", Redistribution::Union, &elements), list("some", Redistribution::Split, &elements)];
        OperatorSnapshot { ended, ..lists(&states) }
    };
    for parallelism in [1, 2, 3] {
        let old = vec![subtask(true, ["a", "b"]), subtask(false, ["c", "d"])];
        let restored = restore(operator("op", old), parallelism);
        let mut dealt = Vec::new();
        for subtask in &restored.subtasks {
            let [union, split] = &subtask.operator[..] else { panic!("{subtask:?}") };
            assert_eq!(elements(union), ["a", "b", "c", "d"], "{parallelism}");
            dealt.extend(elements(split));
        }
        assert_eq!(dealt.len(), 4, "{dealt:?}");
        dealt.sort();
        assert_eq!(dealt, ["a", "b", "c", "d"], "{parallelism}");
    }
}

/// Contract: Q300, Q301.
#[test]
fn state_without_an_operator_is_refused_with_every_uid() {
    let metadata = metadata(vec![
        operator("zebra", vec![keyed(groups(128), 0, 1)]),
        operator("kept", vec![keyed(groups(128), 0, 1)]),
        operator(
            "stateless",
            vec![OperatorSnapshot { watermark: Some(1), ..lists(&[list("s", Redistribution::Split, &[])]) }],
        ),
        operator("stateless-keyed", vec![keyed_without_entries(groups(128), 0, 1)]),
        OperatorState { enumerator: Some(Bytes::new()), ..operator("ant", vec![OperatorSnapshot::default()]) },
        operator("list", vec![lists(&[list("s", Redistribution::Union, &["a"])])]),
    ]);
    let error = redistribute(&metadata, &[target("kept", 1), target("new", 1)]).unwrap_err();
    let uids = vec![uid("ant"), uid("list"), uid("zebra")];
    assert_eq!(error, RedistributeError::OperatorsMissing { uids, job: vec![uid("kept"), uid("new")] });
    assert_eq!(
        error.to_string(),
        "the checkpoint has state of operators that are not in the job: ant, list, zebra; the job has kept, new; \
         a uid must not change; to lose their state, set `execution.state-recovery.ignore-unclaimed-state: true`"
    );
}

#[test]
fn a_new_operator_is_not_in_the_assignment() {
    let assignment = redistribute(&metadata(vec![]), &[target("new", 1)]).unwrap();
    assert!(assignment.operators.is_empty());
}

/// Contract: F131.
#[test]
fn another_max_parallelism_is_refused_with_both_numbers() {
    let metadata = metadata(vec![operator("op", vec![OperatorSnapshot::default()])]);
    let asked = |max| OperatorTarget { max_parallelism: Some(groups(max)), ..target("op", 1) };
    assert!(redistribute(&metadata, &[asked(128)]).is_ok());
    let error = redistribute(&metadata, &[asked(256)]).unwrap_err();
    assert_eq!(error.to_string(), "operator op: max parallelism is set to 256, its state was taken with 128");
}

/// Contract: F130.
#[test]
fn more_subtasks_than_key_groups_are_refused() {
    let metadata = metadata(vec![operator("op", vec![OperatorSnapshot::default()])]);
    for parallelism in [0, 129] {
        let error = redistribute(&metadata, &[target("op", parallelism)]).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, format!("parallelism {parallelism} is outside 1..=128, the job's max parallelism"));
    }
    assert!(redistribute(&metadata, &[target("op", 128)]).is_ok());
}

#[test]
fn keys_placed_by_another_hash_are_refused() {
    let with_hash = |operators| CheckpointMetadata { key_hash: "other".to_owned(), ..metadata(operators) };
    let keyed = with_hash(vec![operator("op", vec![keyed(groups(128), 0, 1)])]);
    let error = redistribute(&keyed, &[target("op", 1)]).unwrap_err();
    assert!(matches!(error, RedistributeError::KeyHashDiffers { .. }), "{error}");
    for unkeyed in [OperatorSnapshot::default(), keyed_without_entries(groups(128), 0, 1)] {
        let unkeyed = with_hash(vec![operator("op", vec![unkeyed])]);
        assert!(redistribute(&unkeyed, &[target("op", 1)]).is_ok());
    }
}

proptest! {
    /// Nothing is lost, nothing is doubled, order is kept within a share, shares differ by one at most.
    ///
    /// Contract: E115.
    #[test]
    fn dealing_keeps_every_element_once(
        old in prop::collection::vec(prop::collection::vec(0usize..9, 2), 1..6),
        parallelism in 1u32..8,
    ) {
        let mut next = 0;
        let mut subtasks = Vec::new();
        for sizes in &old {
            let mut new = |size: usize| -> Vec<String> {
                next += size;
                (next - size..next).map(|element| format!("{element:03}")).collect()
            };
            let both: Vec<_> = ["s1", "s2"].iter().zip(sizes).map(|(name, size)| {
                let elements = new(*size);
                list(name, Redistribution::Split, &elements.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect();
            subtasks.push(lists(&both));
        }
        let restored = restore(operator("op", subtasks), parallelism);
        let mut all: Vec<String> = Vec::new();
        for index in 0..2 {
            let sizes: Vec<usize> = restored.subtasks.iter().map(|one| elements(&one.operator[index]).len()).collect();
            let rescaled = old.len() != parallelism as usize;
            prop_assert!(!rescaled || sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            for one in &restored.subtasks {
                prop_assert!(elements(&one.operator[index]).is_sorted());
                all.extend(elements(&one.operator[index]));
            }
        }
        all.sort();
        let expected: Vec<String> = (0..next).map(|element| format!("{element:03}")).collect();
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn nothing_is_restored_under_a_uid_that_only_counts_the_steps() {
    let ended = OperatorSnapshot { watermark: Some(i64::MAX), ended: true, ..OperatorSnapshot::default() };
    let metadata = metadata(vec![operator("map-1", vec![ended])]);
    let unstable = OperatorTarget { is_stable: false, ..target("map-1", 1) };
    assert!(redistribute(&metadata, &[unstable]).unwrap().operators.is_empty());
    let restored = redistribute(&metadata, &[target("map-1", 1)]).unwrap();
    assert_eq!(restored.operators[&uid("map-1")].ended, HaveEnded::All);
}
