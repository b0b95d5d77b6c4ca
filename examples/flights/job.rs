//! The flights job itself, whatever it runs on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use highwater::prelude::*;
use jiff::Timestamp as Instant;
use serde::{Deserialize, Serialize};

use super::options::Options;

/// Folder of the totals per carrier.
pub(crate) const PER_CARRIER: &str = "per_carrier";
/// Folder of the totals per origin and hour.
pub(crate) const HOURLY_BY_ORIGIN: &str = "hourly_by_origin";

const HOUR_MS: i64 = 3_600_000;

/// A row of the input, as far as it is used. `NA` is read as a missing value.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    dep_time: Option<i64>,
    dep_delay: Option<i64>,
    arr_delay: Option<i64>,
    carrier: String,
    origin: String,
    time_hour: String,
}

/// A flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight {
    carrier: String,
    origin: String,
    /// Start of the hour in which it was scheduled to leave, in milliseconds since the epoch.
    hour_ms: i64,
    departed: bool,
    dep_delay: Option<i64>,
    arr_delay: Option<i64>,
}

impl TryFrom<Row> for Flight {
    type Error = jiff::Error;

    fn try_from(row: Row) -> Result<Self, jiff::Error> {
        Ok(Self {
            hour_ms: row.time_hour.parse::<Instant>()?.as_millisecond(),
            carrier: row.carrier,
            origin: row.origin,
            departed: row.dep_time.is_some(),
            dep_delay: row.dep_delay,
            arr_delay: row.arr_delay,
        })
    }
}

/// Describes the job in `env`.
pub(crate) fn describe(env: &StreamExecutionEnvironment, options: &Options) -> anyhow::Result<()> {
    let names = Arc::new(read_names(&options.airlines)?);
    let out_of_orderness = Duration::from_secs(options.out_of_orderness.saturating_mul(3_600));
    let source = FileSource::csv::<Row>(&options.input).with_null_value("NA");

    let flights = env
        .from_source(Throttled::new(source, options.throttle))
        .uid("flights")
        .flat_map(|row, out: &mut Collector<Flight>| {
            let text = row.time_hour.clone();
            let flight = Flight::try_from(row).with_context(|| format!("time_hour is {text:?}"))?;
            out.collect(flight);
            Ok(())
        })
        .assign_timestamps_and_watermarks(
            |flight| flight.hour_ms,
            WatermarkStrategy::bounded_out_of_orderness(out_of_orderness),
        );

    flights
        .key_by(|flight| &flight.carrier)
        .process(move || PerCarrier { names: names.clone(), totals: ValueState::default() })
        .uid("per-carrier")
        .sink_to(FileSink::csv(options.output.join(PER_CARRIER)))
        .uid("per-carrier-files");

    flights
        .key_by_value(|flight| (flight.origin.clone(), flight.hour_ms))
        .process(HourlyByOrigin::default)
        .uid("hourly-by-origin")
        .sink_to(FileSink::csv(options.output.join(HOURLY_BY_ORIGIN)))
        .uid("hourly-by-origin-files");
    Ok(())
}

fn read_names(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text.lines().skip(1).filter(|line| !line.is_empty());
    rows.map(|line| {
        let (code, name) = line.split_once(',').with_context(|| format!("{}: {line:?}", path.display()))?;
        Ok((code.to_owned(), name.trim_matches('"').to_owned()))
    })
    .collect()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct CarrierTotals {
    flights: u64,
    cancelled: u64,
    arrivals: u64,
    arr_delay_sum: i64,
}

/// Carrier, name, flights, cancelled, arrivals, summed arrival delay in minutes.
type CarrierRow = (String, String, u64, u64, u64, i64);

/// Totals of each carrier, put out when the input has ended.
struct PerCarrier {
    names: Arc<BTreeMap<String, String>>,
    totals: ValueState<CarrierTotals>,
}

impl KeyedProcessFunction<String, Flight> for PerCarrier {
    type Out = CarrierRow;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.totals = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("totals"))?;
        Ok(())
    }

    fn process(
        &mut self,
        flight: Flight,
        cx: &mut KeyedContext<'_, String>,
        _: &mut Collector<CarrierRow>,
    ) -> Result<()> {
        let is_first = self.totals.modify(cx, |totals| {
            let is_first = totals.is_none();
            let totals = totals.get_or_insert_default();
            totals.flights += 1;
            totals.cancelled += u64::from(!flight.departed);
            totals.arrivals += u64::from(flight.arr_delay.is_some());
            totals.arr_delay_sum += flight.arr_delay.unwrap_or(0);
            is_first
        })?;
        if is_first {
            cx.register_event_time_timer(Timestamp::MAX)?;
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timestamp,
        cx: &mut KeyedContext<'_, String>,
        out: &mut Collector<CarrierRow>,
    ) -> Result<()> {
        let carrier = cx.current_key().clone();
        let name = self.names.get(&carrier).with_context(|| format!("carrier {carrier:?} has no name"))?.clone();
        let totals = self.totals.value(cx)?.context("a timer is only set for a carrier that has totals")?;
        self.totals.clear(cx)?;
        out.collect((carrier, name, totals.flights, totals.cancelled, totals.arrivals, totals.arr_delay_sum));
        Ok(())
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct HourTotals {
    scheduled: u64,
    departed: u64,
    dep_delay_sum: i64,
    dep_delay_max: Option<i64>,
}

/// Origin, start of the hour, scheduled, departed, sum and maximum of the departure delay in minutes.
type HourRow = (String, String, u64, u64, i64, Option<i64>);

/// Totals of each hour at each airport, put out when the hour is over.
#[derive(Default)]
struct HourlyByOrigin {
    totals: ValueState<HourTotals>,
}

impl KeyedProcessFunction<(String, i64), Flight> for HourlyByOrigin {
    type Out = HourRow;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.totals = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("totals"))?;
        Ok(())
    }

    fn process(
        &mut self,
        flight: Flight,
        cx: &mut KeyedContext<'_, (String, i64)>,
        _: &mut Collector<HourRow>,
    ) -> Result<()> {
        let last_instant = Timestamp::from_millis(flight.hour_ms + HOUR_MS - 1);
        if cx.current_watermark() >= last_instant {
            cx.count_late_record();
            return Ok(());
        }
        let is_first = self.totals.modify(cx, |totals| {
            let is_first = totals.is_none();
            let totals = totals.get_or_insert_default();
            totals.scheduled += 1;
            totals.departed += u64::from(flight.dep_delay.is_some());
            totals.dep_delay_sum += flight.dep_delay.unwrap_or(0);
            totals.dep_delay_max = totals.dep_delay_max.max(flight.dep_delay);
            is_first
        })?;
        if is_first {
            cx.register_event_time_timer(last_instant)?;
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timestamp,
        cx: &mut KeyedContext<'_, (String, i64)>,
        out: &mut Collector<HourRow>,
    ) -> Result<()> {
        let (origin, hour_ms) = cx.current_key().clone();
        let hour = Instant::from_millisecond(hour_ms)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let totals = self.totals.value(cx)?.context("a timer is only set for an hour that has totals")?;
        self.totals.clear(cx)?;
        out.collect((origin, hour, totals.scheduled, totals.departed, totals.dep_delay_sum, totals.dep_delay_max));
        Ok(())
    }
}
