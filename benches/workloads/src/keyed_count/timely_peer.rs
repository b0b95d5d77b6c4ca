//! The keyed count in timely dataflow: each worker makes records, exchanges them, counts, and adds up.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use hashbrown::HashMap;
use timely::Config;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::{Input, Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};

use super::{Size, Tally};
use crate::stream::event;

/// Records that a worker makes before it works on what has come.
const RECORDS_A_STEP: usize = 1024;

pub(super) fn run(size: Size, parallelism: u32, tally: &Arc<Tally>) -> Result<()> {
    let tally = tally.clone();
    let workers = timely::execute(Config::process(parallelism as usize), move |worker| -> Result<()> {
        let (index, peers) = (worker.index() as u64, worker.peers());
        let mut input = InputHandle::<u64, _>::new();
        let probe = ProbeHandle::new();
        let seen = Rc::new(Cell::new((0, 0)));
        let sink = seen.clone();
        worker.dataflow(|scope| {
            scope
                .input_from(&mut input)
                .container::<Vec<u64>>()
                .unary(Exchange::new(|key: &u64| *key), "count", |_, _| {
                    let mut counts: HashMap<u64, u64> = HashMap::new();
                    move |input, output| {
                        input.for_each_stamp(|cap, batches| {
                            let mut session = output.session(&cap);
                            for key in batches.flat_map(|batch| batch.drain(..)) {
                                let count = counts.entry(key).or_insert(0);
                                *count += 1;
                                session.give(*count);
                            }
                        });
                    }
                })
                .container::<Vec<u64>>()
                .unary::<timely::container::CapacityContainerBuilder<Vec<u64>>, _, _, _>(Pipeline, "add up", |_, _| {
                    move |input, _| {
                        input.for_each_stamp(|_, batches| {
                            for batch in batches {
                                let (records, checksum) = sink.get();
                                let sum: u64 = batch.iter().sum();
                                sink.set((records + batch.len() as u64, checksum + sum));
                                batch.clear();
                            }
                        });
                    }
                })
                .probe_with(&probe);
        });

        tally.start()?;
        let mut numbers = (index..size.events).step_by(peers);
        loop {
            let mut made = 0;
            for i in numbers.by_ref().take(RECORDS_A_STEP) {
                input.send(event(i, size.keys));
                made += 1;
            }
            if made == 0 {
                break;
            }
            worker.step();
        }
        input.close();
        while !probe.done() {
            worker.step();
        }
        let (records, checksum) = seen.get();
        tally.add(records, checksum, size)
    });
    for result in workers.map_err(|error| anyhow!(error))?.join() {
        result.map_err(|error| anyhow!(error))??;
    }
    Ok(())
}
