//! The keyed function of the simulated job: counts the records of each key and emits every count. Also keeps the keys of
//! its records in a list of operator state, so that both kinds of state can be held against each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_state_api::{
    BoxedError, FunctionInitializationContext, FunctionSnapshotContext, ListStateDescriptor, OperatorListState,
    ValueState, ValueStateDescriptor,
};
use highwater_stream_api::{Collector, KeyedContext, KeyedProcessFunction};

use crate::record::{Counted, Record};

/// Name of the state that holds the counts.
pub(crate) const COUNT_STATE: &str = "count";
/// Name of the list that holds the key of each record.
pub(crate) const KEYS_STATE: &str = "keys";

/// Counts records by key.
pub(super) struct Counter {
    /// Bytes of ballast that each key carries.
    pub ballast_bytes: usize,
    /// Set by the world: the next record fails, once.
    pub fails: Arc<AtomicBool>,
    /// Set by the world: the next snapshot fails, once.
    pub declines: Arc<AtomicBool>,
    count: ValueState<u64>,
    ballast: ValueState<String>,
    keys: OperatorListState<u32>,
}

impl Counter {
    /// A counter without state.
    pub(super) fn new(ballast_bytes: usize, fails: Arc<AtomicBool>, declines: Arc<AtomicBool>) -> Self {
        Self {
            ballast_bytes,
            fails,
            declines,
            count: ValueState::default(),
            ballast: ValueState::default(),
            keys: OperatorListState::default(),
        }
    }
}

impl KeyedProcessFunction<u32, Record> for Counter {
    type Out = Counted;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
        let store = cx.keyed_state_store()?;
        self.count = store.get_state(&ValueStateDescriptor::new(COUNT_STATE))?;
        self.ballast = store.get_state(&ValueStateDescriptor::new("ballast"))?;
        self.keys = cx.operator_state_store().get_list_state(&ListStateDescriptor::new(KEYS_STATE))?;
        Ok(())
    }

    fn process(
        &mut self,
        record: Record,
        cx: &mut KeyedContext<'_, u32>,
        out: &mut Collector<Counted>,
    ) -> Result<(), BoxedError> {
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err("the function fails as the seed says".into());
        }
        let count = self.count.value(cx)?.unwrap_or(0) + 1;
        self.count.update(cx, count)?;
        self.keys.add(cx, record.key)?;
        if count == 1 && self.ballast_bytes > 0 {
            self.ballast.update(cx, "x".repeat(self.ballast_bytes))?;
        }
        out.collect(Counted { record, count });
        Ok(())
    }

    fn snapshot_state(&mut self, _: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        if self.declines.swap(false, Ordering::Relaxed) {
            return Err("the snapshot fails as the seed says".into());
        }
        Ok(())
    }
}
