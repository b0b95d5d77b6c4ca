//! The promises as they stand in `docs/contract`: groups, their numbers, and what is said about each.

use std::collections::BTreeMap;
use std::fmt;

use crate::finding::Finding;

/// What tests name: the letter of a group and a number, `A1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    group: char,
    number: u32,
}

impl Id {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.chars();
        let group = rest.next().filter(char::is_ascii_uppercase)?;
        let digits = rest.as_str();
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        let number = digits.parse().ok().filter(|_| is_number)?;
        Some(Self { group, number })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Through `pad`, so that a column of them can be aligned.
        f.pad(&format!("{}{}", self.group, self.number))
    }
}

/// Whether the project promises it already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    Promised,
    /// It comes with a capability that does not exist yet.
    Planned(String),
    /// It means nothing here, for one of a few reasons.
    NotApplicable(String),
}

/// One numbered behaviour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) status: Status,
}

/// A group of behaviours: one line of the table in the README, and one file.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) letter: char,
    pub(super) title: String,
    pub(super) path: String,
    /// Whether a behaviour that no test shows is a mistake.
    pub(super) finished: bool,
    pub(super) entries: BTreeMap<Id, Entry>,
}

/// All of `docs/contract`.
#[derive(Debug, Default)]
pub(super) struct Contract {
    pub(super) groups: Vec<Group>,
}

/// The folder of the contract, from the root of the workspace.
pub(super) const FOLDER: &str = "docs/contract";

const README: &str = "docs/contract/README.md";

impl Contract {
    /// Reads the README and the files that its table names. `read` gives the text of a file, if there is such a file.
    pub(super) fn read(read: impl Fn(&str) -> Option<String>, findings: &mut Vec<Finding>) -> Self {
        let Some(readme) = read(README) else {
            findings.push(Finding::new(README, 1, "the contract has no README", "write it"));
            return Self::default();
        };
        let terms = Terms { capabilities: names(&readme, "## Capabilities"), reasons: names(&readme, "## Reasons") };
        let mut groups: Vec<Group> = Vec::new();
        for (index, line) in readme.lines().enumerate() {
            let mut mistake =
                |what: String, instead: &str| findings.push(Finding::new(README, index + 1, what, instead));
            // | A | [keyed state](a-keyed-state.md) | 1–40 |
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [letter, link, numbers] = cells[..] else { continue };
            let Some((title, file)) = link.strip_prefix('[').and_then(|link| link.strip_suffix(')')?.split_once("]("))
            else {
                continue;
            };
            let (Some(Id { group: letter, number: _ }), Some(numbers)) =
                (Id::parse(&format!("{letter}1")), range(numbers))
            else {
                mistake(format!("no group of the contract: {line}"), "write `| A | [title](file.md) | 1–40 |`");
                continue;
            };
            if groups.iter().any(|group| group.letter == letter) {
                mistake(format!("group {letter} is there twice"), "give every group a letter of its own");
                continue;
            }
            let path = format!("{FOLDER}/{file}");
            let Some(text) = read(&path) else {
                mistake(format!("{path} is missing"), "write the group's file");
                continue;
            };
            let mut group = Group { letter, title: title.to_owned(), path, finished: false, entries: BTreeMap::new() };
            group.parse(&text, &terms, findings);
            group.check_numbers(numbers, findings);
            groups.push(group);
        }
        Self { groups }
    }

    pub(super) fn entry(&self, id: Id) -> Option<(&Group, &Entry)> {
        self.groups.iter().find_map(|group| Some((group, group.entries.get(&id)?)))
    }
}

/// The words that a status may name.
struct Terms {
    capabilities: Vec<String>,
    reasons: Vec<String>,
}

/// The names in bold that begin the items of a section's list: `- **local recovery**: …`.
fn names(text: &str, heading: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    let items = section.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("- **"));
    items.filter_map(|item| item.split_once("**")).map(|(name, _)| name.to_owned()).collect()
}

/// `1–40`, or one number.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('–').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

impl Group {
    /// Takes state and entries from the text of the group's file.
    fn parse(&mut self, text: &str, terms: &Terms, findings: &mut Vec<Finding>) {
        match text.lines().nth(1) {
            Some("State: open.") => {}
            Some("State: finished.") => self.finished = true,
            _ => {
                let instead = "write `State: open.` or `State: finished.` on the second line";
                findings.push(Finding::new(&self.path, 2, format!("group {} has no state", self.letter), instead));
            }
        }
        // An entry goes on until the next one, a blank line or a heading.
        let mut open: Option<(usize, String, String)> = None;
        for (index, line) in text.lines().enumerate() {
            let begins = line.strip_prefix("- **").and_then(|item| item.split_once("**"));
            if begins.is_some() || line.trim().is_empty() || line.starts_with('#') {
                self.take(open.take(), terms, findings);
            }
            if let Some((id, text)) = begins {
                open = Some((index + 1, id.to_owned(), text.trim().to_owned()));
            } else if let Some((_, _, text)) = &mut open {
                text.push(' ');
                text.push_str(line.trim());
            }
        }
        self.take(open, terms, findings);
    }

    fn take(&mut self, entry: Option<(usize, String, String)>, terms: &Terms, findings: &mut Vec<Finding>) {
        let Some((line, name, text)) = entry else { return };
        let mut mistake = |what: String, instead: &str| findings.push(Finding::new(&self.path, line, what, instead));
        let Some(id) = Id::parse(&name) else {
            return mistake(format!("`{name}` is no number"), "write the letter of the group and a number, `A1`");
        };
        let (text, status) = status_of(&text);
        if text.is_empty() {
            mistake(format!("{id} says nothing"), "write what is promised");
        }
        match &status {
            Status::Planned(capability) if !terms.capabilities.contains(capability) => {
                mistake(
                    format!("{id} is planned with `{capability}`, which is no capability"),
                    "use one of the README's",
                );
            }
            Status::NotApplicable(reason) if !terms.reasons.contains(reason) => {
                mistake(
                    format!("{id} is not applicable for `{reason}`, which is no reason"),
                    "use one of the README's",
                );
            }
            _ => {}
        }
        if text.contains("*Planned") || text.contains("*Not applicable") {
            mistake(
                format!("{id} has a status that is not read"),
                "one status, at the end: `*Planned: local recovery.*`",
            );
        }
        if self.entries.insert(id, Entry { line, status }).is_some() {
            findings.push(Finding::new(
                &self.path,
                line,
                format!("{id} is there twice"),
                "give every behaviour its own number",
            ));
        }
    }

    /// Compares the numbers that there are with those of the README's table.
    fn check_numbers(&self, numbers: std::ops::RangeInclusive<u32>, findings: &mut Vec<Finding>) {
        for (id, entry) in &self.entries {
            if id.group != self.letter || !numbers.contains(&id.number) {
                let what = format!("{id} is not one of the group's numbers");
                findings.push(Finding::new(&self.path, entry.line, what, "see the table in the README"));
            }
        }
        for number in numbers {
            let id = Id { group: self.letter, number };
            if !self.entries.contains_key(&id) {
                findings.push(Finding::new(
                    &self.path,
                    1,
                    format!("{id} is missing"),
                    "write `- **`, the number, `**` and what is promised",
                ));
            }
        }
    }
}

/// Cuts the status off the end of an entry's text.
fn status_of(text: &str) -> (&str, Status) {
    let cut = |marker: &str| {
        let (before, status) = text.strip_suffix(".*")?.rsplit_once(marker)?;
        (!status.contains('*')).then(|| (before.trim_end(), status.to_owned()))
    };
    if let Some((text, capability)) = cut("*Planned: ") {
        (text, Status::Planned(capability))
    } else if let Some((text, reason)) = cut("*Not applicable: ") {
        (text, Status::NotApplicable(reason))
    } else {
        (text, Status::Promised)
    }
}

#[cfg(test)]
#[path = "document_test.rs"]
mod document_test;
