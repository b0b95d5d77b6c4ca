//! Sorting more records than fit into memory: runs that are sorted in memory, spilled to a temporary file and merged.
//!
//! Records are bytes here. They come out in the order of hash and key, and those of one key in the order in which they were
//! pushed.

mod run;
mod spill;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::path::PathBuf;

use run::Run;
use spill::{Spill, SpilledRun};

/// What a sort may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortSettings {
    /// How many bytes of memory, at least 64 KiB. A record that is larger is held alone.
    pub(crate) memory_bytes: usize,
    /// Where temporary files are made: in one of these folders, or else where the system has them.
    pub(crate) directories: Vec<PathBuf>,
}

/// Takes records in any order.
pub(crate) struct ExternalSorter {
    settings: SortSettings,
    /// Which of the folders is used.
    directory: usize,
    run: Run,
    spill: Option<Spill>,
    runs: Vec<SpilledRun>,
}

/// Gives the records of a sorter in their order.
pub(crate) struct SortedRecords {
    from: From,
    record: SortedRecord,
    has_record: bool,
}

enum From {
    Memory(Run),
    File(Merge),
}

/// One record, in memory that is used again for the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedRecord {
    pub(crate) hash: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl ExternalSorter {
    /// A sorter without records. Of several folders it uses the one with the number `directory`, counted round.
    pub(crate) fn new(settings: SortSettings, directory: usize) -> Self {
        Self { settings, directory, run: Run::default(), spill: None, runs: Vec::new() }
    }

    /// Takes a record. After an error the sorter is not to be used again.
    pub(crate) fn push(&mut self, hash: u32, key: &[u8], payload: &[u8]) -> io::Result<()> {
        // Vectors that grow double, so that half of the bound is the most that may be in use.
        if !self.run.is_empty() && self.run.bytes_with(key, payload) > self.settings.memory_bytes / 2 {
            self.spill_run()?;
        }
        self.run.push(hash, key, payload);
        Ok(())
    }

    /// How many runs are in the temporary file.
    #[cfg(test)]
    pub(crate) fn spilled_runs(&self) -> usize {
        self.runs.len()
    }

    fn spill_run(&mut self) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => {
                let directories = &self.settings.directories;
                let directory = directories.get(self.directory.checked_rem(directories.len()).unwrap_or(0));
                none.insert(Spill::create(directory.map(PathBuf::as_path))?)
            }
        };
        self.run.sort();
        self.runs.push(spill.write(self.run.iter())?);
        self.run.clear();
        Ok(())
    }

    /// There are no more records.
    pub(crate) fn finish(mut self) -> io::Result<SortedRecords> {
        let from = if self.spill.is_none() {
            self.run.sort();
            From::Memory(self.run)
        } else {
            if !self.run.is_empty() {
                self.spill_run()?;
            }
            // Its memory is what the runs are read into.
            drop(self.run);
            let spill = self.spill.expect("there is a file if a run was spilled");
            From::File(Merge::new(spill, self.runs, self.settings.memory_bytes)?)
        };
        let mut sorted = SortedRecords { from, record: SortedRecord::default(), has_record: false };
        sorted.advance()?;
        Ok(sorted)
    }
}

impl SortedRecords {
    /// The next record, again until [`SortedRecords::advance`] is called; `None` when there are no more.
    pub(crate) fn peek(&self) -> Option<&SortedRecord> {
        self.has_record.then_some(&self.record)
    }

    /// Goes on to the record after it.
    pub(crate) fn advance(&mut self) -> io::Result<()> {
        self.has_record = match &mut self.from {
            From::Memory(run) => match run.next() {
                Some((hash, key, payload)) => {
                    self.record.set(hash, key, payload);
                    true
                }
                None => false,
            },
            From::File(merge) => merge.next(&mut self.record)?,
        };
        Ok(())
    }
}

impl SortedRecord {
    fn set(&mut self, hash: u32, key: &[u8], payload: &[u8]) {
        self.hash = hash;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.payload.clear();
        self.payload.extend_from_slice(payload);
    }
}

/// Joins runs in a file.
struct Merge {
    spill: Spill,
    runs: Vec<SpilledRun>,
    /// The next record of every run that has one, the least on top.
    heads: BinaryHeap<Reverse<Head>>,
}

struct Head {
    record: SortedRecord,
    /// Of equal keys, the run that was spilled first comes first.
    run: usize,
}

impl Merge {
    fn new(mut spill: Spill, mut runs: Vec<SpilledRun>, memory_bytes: usize) -> io::Result<Self> {
        let read_bytes = memory_bytes / runs.len().max(1);
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            run.read_at_once(read_bytes);
            let mut head = Head { record: SortedRecord::default(), run: number };
            if run.next(&mut spill, &mut head.record)? {
                heads.push(Reverse(head));
            }
        }
        Ok(Self { spill, runs, heads })
    }

    /// Puts the next record into `record`, if there is one.
    fn next(&mut self, record: &mut SortedRecord) -> io::Result<bool> {
        let Some(mut top) = self.heads.peek_mut() else { return Ok(false) };
        let Reverse(head) = &mut *top;
        std::mem::swap(record, &mut head.record);
        if !self.runs[head.run].next(&mut self.spill, &mut head.record)? {
            PeekMut::pop(top);
        }
        Ok(true)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |head: &Self| (head.record.hash, head.run);
        let ((hash, run), (other_hash, other_run)) = (parts(self), parts(other));
        hash.cmp(&other_hash).then_with(|| self.record.key.cmp(&other.record.key)).then_with(|| run.cmp(&other_run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
#[path = "sort_test.rs"]
mod sort_test;
