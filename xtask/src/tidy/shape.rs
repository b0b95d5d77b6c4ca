//! The shape of a source file: what it is for, how long it is, why a test in it is ignored.

use super::Finding;
use crate::code::Code;

/// Where a file has more than one purpose. 150 to 400 lines are comfortable.
const LINES_MAX: usize = 700;

pub(super) fn check(path: &str, text: &str, code: &Code) -> Vec<Finding> {
    let mut findings = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_none_or(|purpose| purpose.trim().is_empty()) {
        let instead = "begin with `//! `: one sentence that says what the file is for";
        findings.push(Finding::new(path, 1, "a file without a purpose", instead));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines, more than {LINES_MAX}");
        let instead = "divide it by role; long tests move next door, into `<name>_test.rs`";
        findings.push(Finding::new(path, LINES_MAX + 1, what, instead));
    }
    for line in code.find("#[ignore]").chain(code.find(",ignore)]")) {
        let what = "a test is ignored without a reason";
        findings.push(Finding::new(path, line, what, "write `#[ignore = \"why, and until when\"]`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check("a.rs", text, &Code::of(text)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_file_says_first_what_it_is_for() {
        assert!(findings("//! Counts barriers.\nfn f() {}").is_empty());
        for text in ["", "//!\n", "use std::fmt;\n//! Counts barriers.", "// Counts barriers."] {
            assert!(findings(text)[0].starts_with("a.rs:1: a file without a purpose"), "{text}");
        }
    }

    #[test]
    fn a_file_may_grow_only_so_long() {
        let text = |lines: usize| format!("//! Long.\n{}", "//\n".repeat(lines - 1));
        assert!(findings(&text(LINES_MAX)).is_empty());
        assert!(findings(&text(LINES_MAX + 1))[0].starts_with("a.rs:701: 701 lines, more than 700"));
    }

    #[test]
    fn an_ignored_test_says_why() {
        assert!(findings("//! T.\n#[test]\n#[ignore = \"takes an hour\"]\nfn t() {}").is_empty());
        assert!(findings("//! T.\n#[test]\n#[ignore]\nfn t() {}")[0].starts_with("a.rs:3: a test is ignored"));
        assert!(
            findings("//! T.\n#[cfg_attr(windows, ignore)]\nfn t() {}")[0].starts_with("a.rs:2: a test is ignored")
        );
    }
}
