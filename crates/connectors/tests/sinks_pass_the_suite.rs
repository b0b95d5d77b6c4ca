//! The sinks keep the contract of sinks with two-phase commit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::path::Path;

use highwater_conformance::sink::SinkUnderTest;
use highwater_conformance::transactional_sink_conformance;
use highwater_connectors::{CollectSink, CollectedRecords, FileSink};
use highwater_stream_api::Sink;
use tempfile::TempDir;

/// Files in a directory that is taken away in an outage.
fn files<S: Sink<In = String>>(path: &str, open: impl Fn(&Path) -> S + 'static) -> SinkUnderTest {
    let folder = TempDir::new().unwrap();
    let (out, gone) = (folder.path().join(path), folder.path().join("gone"));
    let (visible, uncommitted, taken) = (out.clone(), out.clone(), out.clone());
    SinkUnderTest::new(move || open(&out), move || visible_in(&visible))
        .with_uncommitted(move || names(&uncommitted).iter().filter(|name| name.starts_with(".part-")).count())
        .with_outage(move |lasts| {
            let (from, to) = if lasts { (&taken, &gone) } else { (&gone, &taken) };
            fs::rename(from, to).unwrap();
        })
        .keeping(folder)
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What a reader sees who passes by names with a dot.
fn visible_in(directory: &Path) -> Vec<String> {
    let committed = names(directory).into_iter().filter(|name| !name.starts_with('.'));
    let texts = committed.map(|name| fs::read_to_string(directory.join(name)).unwrap());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

mod files_of_lines {
    use super::*;

    transactional_sink_conformance!(|| files("out", |out| FileSink::lines::<String>(out)));
}

mod files_of_csv_rows {
    use super::*;

    transactional_sink_conformance!(|| files("a/b/c", |out| FileSink::csv::<String>(out)));
}

mod collected_records {
    use super::*;

    transactional_sink_conformance!(|| {
        let records = CollectedRecords::<String>::default();
        let visible = records.clone();
        SinkUnderTest::new(move || CollectSink::new(records.clone()), move || visible.to_vec())
    });
}
