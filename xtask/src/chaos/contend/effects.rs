//! The checker: holds the traces of all processes of a job against its log, and finds what an attempt did after another one
//! had claimed the job.
//!
//! Every effect is traced with the moment at which the fence was asked (`about to …`) and with the moment at which it had
//! happened (`linked`, `deleted`, …), by the same thread. A claim is known to be there when its process says so. So an effect
//! whose fence was asked when a later claim was there already is one that the fence should have stopped: that is certain,
//! whatever the scheduler did. If the claim came between question and effect, no fence could have stopped it; then it must
//! be one that does no harm.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use highwater_checkpoint::{LogRecord, LogView, decode_log_record};

/// A moment as traces write it: of the same length everywhere, so that the order of texts is that of time.
type Moment = String;

/// Something that a process did outside itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effect {
    attempt: u64,
    kind: Kind,
    /// When the fence was asked.
    asked: Moment,
    done: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A transaction of this checkpoint, or of one before it, got its final name.
    Commit { checkpoint: u64 },
    /// What is named was deleted.
    Delete { what: String },
    /// What earlier attempts had not committed was removed.
    Clear,
}

/// What the traces and the log of one job say.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    effects: Vec<Effect>,
    /// When each claim was there at the latest, as far as its own process says.
    claims: BTreeMap<u64, Option<Moment>>,
    /// Checkpoints that are known to be complete, with the moment at which somebody knew.
    complete: Vec<(u64, Moment)>,
    /// Which attempt has completed which checkpoint. No two complete the same.
    completed_by: BTreeMap<u64, u64>,
    /// When which checkpoint was gone on from.
    restored: Vec<(u64, Moment)>,
}

/// What the checker has seen, when nothing is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) claims: u32,
    pub(crate) commits: u32,
    pub(crate) deletes: u32,
    /// Commits of which a foreign claim came between the question and the effect. They did no harm.
    pub(crate) overtaken_commits: u32,
    /// The same for everything that deletes.
    pub(crate) overtaken_deletes: u32,
}

impl Checked {
    pub(crate) fn add(&mut self, other: Checked) {
        self.claims += other.claims;
        self.commits += other.commits;
        self.deletes += other.deletes;
        self.overtaken_commits += other.overtaken_commits;
        self.overtaken_deletes += other.overtaken_deletes;
    }
}

impl Evidence {
    /// Takes the trace of one process: of one attempt, since each process ends with its first.
    pub(crate) fn read_trace(&mut self, text: &str) -> Result<()> {
        let mut attempt = None;
        // What each thread is about to do, since when.
        let mut about: BTreeMap<&str, (Moment, u64)> = BTreeMap::new();
        // The last line of a process that was killed may be cut.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let Some(line) = Line::parse(line) else { continue };
            let moment = line.moment.to_owned();
            match (line.target, &*line.text) {
                ("highwater::job:", "claimed") => {
                    let claimed = line.number("attempt").with_context(|| line.whole.to_owned())?;
                    self.claims.insert(claimed, Some(moment));
                    attempt = Some(claimed);
                }
                ("highwater::job:", "restoring") => {
                    let checkpoint = line.number("checkpoint").with_context(|| line.whole.to_owned())?;
                    self.restored.push((checkpoint, moment.clone()));
                    self.complete.push((checkpoint, moment));
                }
                ("highwater::checkpoint:", "complete") => {
                    let checkpoint = line.number("checkpoint").with_context(|| line.whole.to_owned())?;
                    self.completed_by.insert(checkpoint, attempt.with_context(|| line.whole.to_owned())?);
                    self.complete.push((checkpoint, moment));
                }
                ("highwater::effect:", text) if text.starts_with("about to") => {
                    about.insert(line.thread, (moment, line.number("checkpoint").unwrap_or_default()));
                }
                ("highwater::effect:", text) => {
                    let (asked, checkpoint) = about.get(line.thread).cloned().with_context(|| line.whole.to_owned())?;
                    let attempt = attempt.with_context(|| line.whole.to_owned())?;
                    let kind = match text {
                        "linked" => Kind::Commit { checkpoint },
                        "cleared" => Kind::Clear,
                        _ => Kind::Delete { what: line.whole.to_owned() },
                    };
                    self.effects.push(Effect { attempt, kind, asked, done: moment });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the records of the log: a claim whose process was killed before it could say so is known from here. Records that
    /// cannot be, such as one of an attempt that had been fenced, are an error.
    pub(crate) fn read_log(&mut self, folder: &Path) -> Result<()> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(sequence) = name.parse::<u64>() else { continue };
            let record = decode_log_record(&std::fs::read(&path)?).with_context(|| path.display().to_string())?;
            records.push((sequence, record));
        }
        records.sort_by_key(|(sequence, _)| *sequence);
        for (sequence, record) in &records {
            match record {
                LogRecord::Claim { .. } => {
                    self.claims.entry(*sequence).or_default();
                }
                LogRecord::Completed { attempt, checkpoint, .. } => {
                    self.completed_by.insert(checkpoint.0, attempt.0);
                }
                LogRecord::Dropped { .. } | LogRecord::Finished { .. } => {}
            }
        }
        let view = LogView::replay(records, 1).context("the log has records that cannot be")?;
        ensure!(view.is_finished(), "the log does not say that the job is finished");
        Ok(())
    }

    /// What was done though another attempt had claimed the job, one line each; or what there was.
    pub(crate) fn judge(&self) -> Result<Checked, Vec<String>> {
        let mut wrong = Vec::new();
        let mut checked = Checked { claims: self.claims.len() as u32, ..Checked::default() };
        for effect in &self.effects {
            match effect.kind {
                Kind::Commit { .. } => checked.commits += 1,
                Kind::Delete { .. } => checked.deletes += 1,
                Kind::Clear => {}
            }
            let claimed = self.claimed_after(effect.attempt);
            if claimed.is_some_and(|claimed| claimed < &effect.asked) {
                wrong.push(format!("after a foreign claim: {effect:?}, the claim was there at {claimed:?}"));
            } else if claimed.is_some_and(|claimed| claimed < &effect.done) {
                match effect.kind {
                    Kind::Commit { .. } => checked.overtaken_commits += 1,
                    Kind::Delete { .. } | Kind::Clear => checked.overtaken_deletes += 1,
                }
            }
            wrong.extend(self.harm(effect));
        }
        if wrong.is_empty() { Ok(checked) } else { Err(wrong) }
    }

    /// When a claim later than `attempt` was there for certain.
    fn claimed_after(&self, attempt: u64) -> Option<&Moment> {
        self.claims.range(attempt + 1..).filter_map(|(_, moment)| moment.as_ref()).min()
    }

    /// What an effect has destroyed, whenever it happened.
    fn harm(&self, effect: &Effect) -> Option<String> {
        match &effect.kind {
            Kind::Commit { checkpoint } => {
                let is_complete = |(complete, since): &(u64, Moment)| complete >= checkpoint && *since <= effect.asked;
                (!self.complete.iter().any(is_complete))
                    .then(|| format!("committed before its checkpoint was known to be complete: {effect:?}"))
            }
            Kind::Delete { what } => {
                let was_needed = |(checkpoint, since): &(u64, Moment)| {
                    let attempt = self.completed_by.get(checkpoint);
                    let folder = attempt.map(|attempt| format!("/chk-{checkpoint}-{attempt}"));
                    *since > effect.done && folder.is_some_and(|folder| names(what, &folder))
                };
                self.restored.iter().any(was_needed).then(|| format!("deleted, and gone on from later: {effect:?}"))
            }
            Kind::Clear => None,
        }
    }
}

/// Whether a folder, or something in it, stands in a text.
fn names(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| !text[at + folder.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// "2026-01-31T12:00:00.000000Z DEBUG ThreadId(05) highwater::effect: deleted discard=…"
struct Line<'a> {
    whole: &'a str,
    moment: &'a str,
    thread: &'a str,
    target: &'a str,
    text: String,
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(whole: &'a str) -> Option<Self> {
        let mut words = whole.split_whitespace();
        let (moment, _level, thread, target) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let words: Vec<&str> = words.collect();
        let text = words.iter().take_while(|word| !word.contains('=')).copied().collect::<Vec<_>>().join(" ");
        Some(Self { whole, moment, thread, target, text, words })
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a process: second, thread, target and text.
    fn trace(lines: &[(u32, u32, &str, &str)]) -> String {
        let line = |(second, thread, target, text): &(u32, u32, &str, &str)| {
            format!("2026-01-31T12:00:{second:02}.000000Z DEBUG ThreadId({thread:02}) highwater::{target}: {text}\n")
        };
        lines.iter().map(line).collect()
    }

    fn judged(traces: &[String]) -> Result<Checked, Vec<String>> {
        let mut evidence = Evidence::default();
        traces.iter().for_each(|trace| evidence.read_trace(trace).unwrap());
        evidence.judge()
    }

    fn first() -> Vec<(u32, u32, &'static str, &'static str)> {
        vec![(1, 1, "job", "claimed job=flights attempt=1"), (2, 1, "checkpoint", "complete checkpoint=7")]
    }

    fn second() -> String {
        trace(&[
            (10, 1, "job", "claimed job=flights attempt=3"),
            (11, 1, "job", "restoring job=flights attempt=3 checkpoint=7"),
        ])
    }

    #[test]
    fn a_commit_that_began_after_a_foreign_claim_is_found() {
        let mut lines = first();
        lines.push((12, 5, "effect", "about to commit operator=files subtask=0 checkpoint=7"));
        lines.push((13, 5, "effect", "linked path=out/part-1"));
        let wrong = judged(&[trace(&lines), second()]).unwrap_err();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(
            wrong[0].starts_with("after a foreign claim: Effect { attempt: 1, kind: Commit { checkpoint: 7 }"),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_commit_that_found_the_file_committed_is_no_effect() {
        let mut lines = first();
        lines.push((12, 5, "effect", "about to commit operator=files subtask=0 checkpoint=7"));
        assert_eq!(judged(&[trace(&lines), second()]).unwrap().commits, 0);
    }

    #[test]
    fn an_effect_that_a_claim_has_overtaken_is_counted() {
        let mut lines = first();
        lines.push((9, 5, "effect", "about to commit operator=files subtask=0 checkpoint=7"));
        lines.push((9, 6, "effect", "about to delete discard=flights/chk-6-1"));
        lines.push((12, 5, "effect", "linked path=out/part-1"));
        let checked = judged(&[trace(&lines), second()]).unwrap();
        assert_eq!(checked, Checked { claims: 2, commits: 1, overtaken_commits: 1, ..Checked::default() });
    }

    #[test]
    fn harm_is_found_whenever_it_was_done() {
        let mut lines = first();
        lines.push((3, 5, "effect", "about to commit operator=files subtask=0 checkpoint=8"));
        lines.push((4, 5, "effect", "linked path=out/part-1"));
        lines.push((5, 5, "effect", "about to delete discard=flights/chk-7-1"));
        lines.push((6, 5, "effect", "deleted discard=flights/chk-7-1"));
        let wrong = judged(&[trace(&lines), second()]).unwrap_err();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("committed before its checkpoint"), "{wrong:?}");
        assert!(wrong[1].starts_with("deleted, and gone on from later"), "{wrong:?}");
    }
}
