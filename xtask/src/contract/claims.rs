//! Which numbers the tests name: `/// Contract: A1, A30.` above a test.

use std::collections::BTreeSet;

use super::document::Id;
use crate::code::{Token, is_word, tokens};
use crate::finding::Finding;

/// A test says that it shows a behaviour.
#[derive(Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) id: Id,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) test: String,
}

/// The cases that a `suite! { … }` lists: functions that are tests without an attribute.
#[derive(Debug, Default)]
pub(super) struct Suites {
    cases: BTreeSet<(String, String)>,
}

impl Suites {
    /// Takes the lists of one file. Their cases are functions of files in its folder, or below it.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        let mut code = tokens(text).filter(|token| !token.code.is_empty()).map(|token| token.code);
        let mut before = ["", ""];
        while let Some(sign) = code.next() {
            if before == ["suite", "!"] && sign == "{" {
                let words = code.by_ref().take_while(|word| *word != "}").filter(|word| word.starts_with(is_word));
                self.cases.extend(words.map(|case| (folder(path).to_owned(), case.to_owned())));
            }
            before = [before[1], sign];
        }
    }

    fn has(&self, path: &str, function: &str) -> bool {
        self.cases.iter().any(|(folder, case)| case == function && path.starts_with(folder))
    }
}

fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..=at])
}

/// The numbers that the tests of one file name. A line that names numbers above anything else is a finding.
pub(super) fn claims(path: &str, text: &str, suites: &Suites, findings: &mut Vec<Finding>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut above = Above::default();
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        if let Some(list) = list_of(&token) {
            above.lists.push((token.line, list));
        }
        match token.code {
            "" => {}
            "#" => above.attribute(&mut tokens),
            "fn" => {
                let name = tokens.by_ref().find(|token| !token.code.is_empty());
                let test = name.filter(|name| name.code.starts_with(is_word)).map(|name| name.code).unwrap_or_default();
                let runs = (above.is_test || suites.has(path, test)) && !above.is_ignored;
                for (line, list) in std::mem::take(&mut above).lists {
                    let claim = |id| Claim { id, path: path.to_owned(), line, test: test.to_owned() };
                    match list {
                        Some(ids) if runs => claims.extend(ids.into_iter().map(claim)),
                        list => findings.push(stray(path, line, list)),
                    }
                }
            }
            // The end of an item, or of a statement: what stood above it belongs to no function.
            ";" | "{" | "}" => {
                let lists = std::mem::take(&mut above).lists;
                findings.extend(lists.into_iter().map(|(line, list)| stray(path, line, list)));
            }
            _ => {}
        }
    }
    findings.extend(above.lists.into_iter().map(|(line, list)| stray(path, line, list)));
    claims
}

/// What stands above the next function.
#[derive(Default)]
struct Above {
    /// Lines that name numbers; `None` for one that cannot be read.
    lists: Vec<(usize, Option<Vec<Id>>)>,
    is_test: bool,
    is_ignored: bool,
}

impl Above {
    /// Reads an attribute behind its `#`.
    fn attribute<'a>(&mut self, tokens: &mut impl Iterator<Item = Token<'a>>) {
        let mut depth = 0;
        let mut attribute = String::new();
        for token in tokens.filter(|token| !token.code.is_empty()) {
            match token.code {
                "[" => depth += 1,
                "]" => depth -= 1,
                code => attribute.push_str(code),
            }
            if depth == 0 && token.code != "!" {
                break;
            }
        }
        let name = attribute.split(['(', '=']).next().unwrap_or_default();
        self.is_test |= name == "test" || name.ends_with("::test");
        self.is_ignored |= name == "ignore";
    }
}

/// The numbers of a comment that names some: `None` if it names none, `Some(None)` if they cannot be read.
fn list_of(token: &Token<'_>) -> Option<Option<Vec<Id>>> {
    let comment = token.text.strip_prefix("///").or_else(|| token.text.strip_prefix("//"))?;
    let list = comment.trim().strip_prefix("Contract:")?;
    let ids = list.strip_suffix('.').map(|list| list.split(',').map(|id| Id::parse(id.trim())).collect());
    Some(ids.flatten())
}

fn stray(path: &str, line: usize, list: Option<Vec<Id>>) -> Finding {
    let Some(ids) = list else {
        return Finding::new(path, line, "numbers that cannot be read", "write `/// Contract: A1, A30.`");
    };
    let ids = ids.iter().map(Id::to_string).collect::<Vec<_>>().join(", ");
    let what = format!("{ids} above something that is no test, or is ignored");
    Finding::new(path, line, what, "move the line to the test that shows it, directly above the function")
}

#[cfg(test)]
#[path = "claims_test.rs"]
mod claims_test;
