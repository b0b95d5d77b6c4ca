//! What becomes of restored state that a function takes, that it leaves alone, and that is none of its.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_state_api::{
    Attempt, BincodeSerializer, BoxedError, CheckpointId, FunctionInitializationContext, FunctionSnapshotContext,
    JobName, KeyGroup, KeyedBackendParameters, KeyedState, MaxParallelism, OperatorStateMeta, OperatorUid,
    RAW_OPERATOR_STATE, Redistribution, RestoredElements, RowSettings, Schema, StateError, operator_state,
    raw_operator_state_meta,
};
use highwater_state_kit::HeapStateBackend;
use highwater_stream_api::{
    ByReference, Collector, KeyedContext, KeyedProcessFunction, KeyedProcessHooks, ProcessContext, ProcessFunction,
    Timestamp,
};

use super::FunctionState;

use crate::TaskError;
use crate::channel::Barrier;
use crate::error::chain_of;
use crate::operator::{
    FreezeError, FrozenOperator, Operator, OperatorContext, RestoredKeyedState, RestoredOperator, RestoredOperatorState,
};
use crate::operators::{FlatMapOperator, KeyedProcessOperator, ProcessOperator, connector_list};

/// Reads and writes raw state, or does not.
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    reads: bool,
    writes_partitions_at: Option<u64>,
    writes_key_groups_at: Option<u64>,
}

impl Raw {
    fn snapshot_state(self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        if self.writes_partitions_at == Some(cx.checkpoint().0) {
            cx.raw_operator_state_output()?.write_all(b"new")?;
        }
        if self.writes_key_groups_at == Some(cx.checkpoint().0) {
            let stream = cx.raw_keyed_state_output()?;
            stream.start_new_key_group(KeyGroup(2))?;
            stream.write_all(b"new group")?;
        }
        Ok(())
    }
}

impl KeyedProcessFunction<u64, u64> for Raw {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
        if self.reads {
            cx.raw_operator_state_inputs();
            cx.raw_keyed_state_inputs()?;
        }
        Ok(())
    }

    fn process(&mut self, _: u64, _: &mut KeyedContext<'_, u64>, _: &mut Collector<u64>) -> Result<(), BoxedError> {
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        Raw::snapshot_state(*self, cx)
    }
}

/// The same without a key.
struct Unkeyed(Raw);

impl ProcessFunction<u64> for Unkeyed {
    type Out = u64;

    fn process(&mut self, _: u64, _: &mut ProcessContext<'_>, _: &mut Collector<u64>) -> Result<(), BoxedError> {
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        self.0.snapshot_state(cx)
    }
}

fn keyed(function: Raw) -> Box<dyn Operator> {
    Box::new(KeyedProcessOperator::new(ByReference::new(|number: &u64| number), function))
}

fn unkeyed(function: Raw) -> Box<dyn Operator> {
    Box::new(ProcessOperator::new(Unkeyed(function)))
}

fn without_function() -> Box<dyn Operator> {
    Box::new(FlatMapOperator::new(|number: u64, out: &mut Collector<u64>| {
        out.collect(number);
        Ok(())
    }))
}

/// A context in which this is restored.
fn context(operator: Vec<RestoredOperatorState>, raw_keyed: &[(KeyGroup, &'static str)]) -> OperatorContext {
    let checkpoint = CheckpointId(3);
    let raw_keyed = raw_keyed.iter().map(|(group, content)| (*group, Bytes::from(*content))).collect();
    let restored = RestoredOperator {
        checkpoint,
        keyed: Vec::new(),
        raw_keyed,
        operator,
        watermark: Timestamp::MIN,
        finished: false,
    };
    OperatorContext {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(2),
        uid: OperatorUid::new("operator").unwrap(),
        subtask: 0,
        parallelism: 1,
        max_parallelism: MaxParallelism::new(8).unwrap(),
        state_backend: Arc::new(HeapStateBackend::new()),
        row_settings: RowSettings { cached_rows_max: 0, hash_seed: 1 },
        now: Duration::ZERO,
        fence: Default::default(),
        restored_checkpoint: Some(checkpoint),
        restored: Some(restored),
    }
}

/// A state with these elements, in one piece.
fn state(meta: OperatorStateMeta, elements: &[&str]) -> RestoredOperatorState {
    let mut content = Vec::new();
    elements.iter().for_each(|element| operator_state::write_element(element.as_bytes(), &mut content));
    let elements = elements.len() as u64;
    RestoredOperatorState {
        meta,
        elements: vec![RestoredElements { elements, content: Bytes::from(content), is_carried: true }],
    }
}

fn partitions(partitions: &[&str]) -> Vec<RestoredOperatorState> {
    vec![state(raw_operator_state_meta(), partitions)]
}

fn freeze(operator: &mut dyn Operator, checkpoint: u64) -> Result<FrozenOperator, FreezeError> {
    operator.freeze(Barrier { checkpoint: CheckpointId(checkpoint), triggered_at_ms: 0 })
}

/// The partitions in a snapshot, and the raw key groups.
fn written(frozen: FrozenOperator) -> (Vec<String>, Vec<(KeyGroup, Bytes)>) {
    let mut content = Vec::new();
    let parts = frozen.operator.map_or_else(Vec::new, |operator| operator.write_to(&mut content).unwrap());
    let is_raw = |part: &operator_state::OperatorStatePart| part.meta == raw_operator_state_meta();
    let partitions = parts.into_iter().filter(is_raw).flat_map(|part| {
        let bytes = &content[part.offset as usize..(part.offset + part.length) as usize];
        operator_state::elements(bytes).map(|one| String::from_utf8(one.unwrap().to_vec()).unwrap()).collect::<Vec<_>>()
    });
    (partitions.collect(), frozen.raw_keyed.map_or_else(Vec::new, |raw| raw.groups))
}

const GROUPS: &[(KeyGroup, &str)] = &[(KeyGroup(1), "one"), (KeyGroup(5), "five")];

#[test]
fn raw_state_that_was_not_read_is_not_replaced() {
    let writing = [
        Raw { writes_partitions_at: Some(4), ..Raw::default() },
        Raw { writes_key_groups_at: Some(4), ..Raw::default() },
    ];
    for function in writing {
        let mut operator = keyed(function);
        operator.open(context(partitions(&["a", "b"]), GROUPS)).unwrap();
        let Err(FreezeError::Decline(error)) = freeze(&mut *operator, 4) else { panic!("{function:?}") };
        let text = chain_of(&error);
        assert!(text.contains("is restored and was not read: what is written would take its place"), "{text}");
        // Nothing has changed.
        let (partitions, groups) = written(freeze(&mut *operator, 5).unwrap());
        assert_eq!(partitions, ["a", "b"], "{function:?}");
        assert_eq!(groups, GROUPS.iter().map(|(group, content)| (*group, Bytes::from(*content))).collect::<Vec<_>>());
    }
}

#[test]
fn raw_state_that_was_read_is_the_functions_to_write_again() {
    let function = Raw { reads: true, writes_partitions_at: Some(4), writes_key_groups_at: Some(4) };
    let mut operator = keyed(function);
    operator.open(context(partitions(&["a", "b"]), GROUPS)).unwrap();
    let new_group = (KeyGroup(2), Bytes::from("new group"));
    assert_eq!(written(freeze(&mut *operator, 4).unwrap()), (vec!["new".to_owned()], vec![new_group.clone()]));
    assert_eq!(written(freeze(&mut *operator, 5).unwrap()), (Vec::new(), Vec::new()));
    // Where none is restored there is nothing to be read.
    let mut operator = keyed(Raw { reads: false, ..function });
    operator.open(context(partitions(&[]), &[])).unwrap();
    assert_eq!(written(freeze(&mut *operator, 4).unwrap()), (vec!["new".to_owned()], vec![new_group]));
}

#[test]
fn what_nobody_asks_for_is_known_whatever_it_is() {
    let list = OperatorStateMeta { name: "list".to_owned(), ..raw_operator_state_meta() };
    let restored = || {
        let mut states = partitions(&["a"]);
        states.push(state(list.clone(), &["x"]));
        context(states, GROUPS)
    };
    let unread = |mut function: Raw| {
        let cx = restored();
        let parameters = KeyedBackendParameters {
            job: cx.job.clone(),
            operator: cx.uid.clone(),
            subtask: cx.subtask,
            max_parallelism: cx.max_parallelism,
            range: cx.key_groups(),
        };
        let backend = cx.state_backend.create_keyed_backend(&parameters).unwrap();
        let serializer = Arc::new(BincodeSerializer::traced());
        let mut keyed = KeyedState::open::<u64>(backend, &parameters, serializer, cx.row_settings).unwrap();
        let mut hooks = KeyedProcessHooks::<u64, u64, Raw>::new(&mut function);
        let opened = FunctionState::open(cx, &mut hooks, Some(&mut keyed)).unwrap();
        opened.unread_states(Some(&keyed)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(unread(Raw::default()), ["list", "raw operator state", "raw keyed state"]);
    assert_eq!(unread(Raw { reads: true, ..Raw::default() }), ["list"]);
}

/// What an operator says to restored state when it is opened.
fn refused(mut operator: Box<dyn Operator>, context: OperatorContext) -> Option<StateError> {
    match operator.open(context) {
        Ok(()) => None,
        Err(TaskError::State { source, .. }) => Some(*source),
        Err(other) => panic!("{other}"),
    }
}

fn not_taken(error: Option<StateError>) -> Vec<String> {
    match error {
        None => Vec::new(),
        Some(StateError::NotTaken { states }) => states,
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn the_list_of_a_connector_is_not_taken_by_a_function() {
    for name in ["_sink_transactions", "_reader_splits"] {
        let list = |elements: &[&str]| context(vec![state(connector_list::<u64>(name), elements)], &[]);
        for operator in [keyed, unkeyed, |_| without_function()] {
            assert_eq!(not_taken(refused(operator(Raw::default()), list(&["pending"]))), [name]);
            // With nothing in it there is nothing to lose.
            assert!(not_taken(refused(operator(Raw::default()), list(&[]))).is_empty());
        }
        // And nothing to carry on, which would be in the way of another connector.
        for mut operator in [keyed(Raw::default()), unkeyed(Raw::default())] {
            operator.open(list(&[])).unwrap();
            assert!(freeze(&mut *operator, 4).unwrap().operator.is_none(), "{name}");
        }
    }
}

/// Contract: Q301.
#[test]
fn keyed_state_without_entries_is_no_reason_to_refuse() {
    let with_keyed_state = |groups: &[KeyGroup]| {
        let mut written = keyed(Raw::default());
        written.open(context(Vec::new(), &[])).unwrap();
        let (_, state) = freeze(&mut *written, 3).unwrap().keyed.unwrap();
        assert!(!state.tables.is_empty(), "timers have a table");
        let groups = groups.iter().map(|group| (*group, Bytes::from("entries"))).collect();
        let mut context = context(Vec::new(), &[]);
        context.restored.as_mut().unwrap().keyed = vec![RestoredKeyedState { tables: state.tables, groups }];
        context
    };
    for operator in [unkeyed, |_| without_function()] {
        assert!(not_taken(refused(operator(Raw::default()), with_keyed_state(&[]))).is_empty());
        let states = not_taken(refused(operator(Raw::default()), with_keyed_state(&[KeyGroup(1)])));
        assert_eq!(states, ["_timer_state/event_user-timers"]);
    }
}

#[test]
fn raw_keyed_state_is_taken_only_where_there_is_a_key() {
    let restored = || context(Vec::new(), GROUPS);
    assert_eq!(not_taken(refused(unkeyed(Raw::default()), restored())), ["raw keyed state"]);
    assert_eq!(not_taken(refused(without_function(), restored())), ["raw keyed state"]);
    assert!(not_taken(refused(keyed(Raw::default()), restored())).is_empty());
}

#[test]
fn raw_operator_state_of_another_form_is_an_error_that_says_so() {
    let raw = raw_operator_state_meta;
    let other_schema = OperatorStateMeta { element: Schema::Opaque { name: "raw".to_owned(), version: 2 }, ..raw() };
    let error = refused(unkeyed(Raw::default()), context(vec![state(other_schema, &["x"])], &[]));
    assert!(matches!(&error, Some(StateError::OtherSchema { state, .. }) if state == RAW_OPERATOR_STATE), "{error:?}");
    let union = OperatorStateMeta { redistribution: Redistribution::Union, ..raw() };
    let error = refused(unkeyed(Raw::default()), context(vec![state(union, &["x"])], &[]));
    assert!(matches!(error, Some(StateError::OtherRedistribution { .. })), "{error:?}");
}
