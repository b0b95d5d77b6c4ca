//! State that an operator cannot take stops the job, and is not dropped.

use highwater::prelude::*;

use crate::support::{endless, environment, run_and_cancel, storage};

/// Keeps a list and a count by key.
#[derive(Default)]
struct Stateful {
    count: ValueState<u64>,
    list: OperatorListState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Stateful {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        self.list = cx.operator_state_store().get_list_state(&ListStateDescriptor::new("list"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        self.count.update(cx, number)?;
        self.list.add(cx, number)?;
        out.collect(number);
        Ok(())
    }
}

/// Has no state.
struct Passing;

impl ProcessFunction<u64> for Passing {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }
}

/// Contract: O282.
#[test]
fn when_an_operator_without_state_takes_its_name() {
    let storage = storage();
    let env = environment("without-state", storage.clone());
    env.from_source(endless(1))
        .key_by_value(|number| number % 10)
        .process(Stateful::default)
        .uid("it")
        .sink_to(CollectSink::default());
    run_and_cancel(&env, 3);

    let error = |step: &dyn Fn(DataStream<u64>) -> DataStream<u64>| {
        let env = environment("without-state", storage.clone());
        step(env.from_source(endless(1))).uid("it").sink_to(CollectSink::default());
        let error = env.execute().unwrap_err();
        assert!(matches!(&error, JobError::Task { restarts: 0, .. }), "{error:?}");
        format!("{error:?}")
    };
    let of_map = error(&|numbers| numbers.map(|number| number));
    assert!(of_map.contains("that the operator cannot take: _timer_state/event_user-timers, count, list;"), "{of_map}");
    // What is not keyed a function may still ask for.
    let of_process = error(&|numbers| numbers.process(|| Passing));
    assert!(of_process.contains("cannot take: _timer_state/event_user-timers, count;"), "{of_process}");
}
