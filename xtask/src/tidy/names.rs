//! The table of Flink's names is whole: it says of each name of the list where it is, and of no other.

use std::collections::BTreeMap;

use super::Finding;

/// The names, one a line.
pub(super) const LIST: &str = "docs/flink-names.txt";
/// The tables: a name in a left cell, in backticks.
pub(super) const TABLES: &str = "docs/flink-names.md";

pub(super) fn check(list: &str, tables: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let listed = by_name(LIST, lines_of(list), &mut findings);
    let placed = by_name(TABLES, left_cells(tables), &mut findings);
    for (name, line) in &listed {
        if !placed.contains_key(name) {
            let instead = format!("say in {TABLES} where it is, or what it will come with, or why there is none");
            findings.push(Finding::new(LIST, *line, format!("`{name}` is in no table"), instead));
        }
    }
    for (name, line) in &placed {
        if !listed.contains_key(name) {
            let what = format!("`{name}` is not in the list of names");
            findings.push(Finding::new(TABLES, *line, what, format!("add it to {LIST}")));
        }
    }
    findings
}

/// The line of each name. A name that is there twice is a finding.
fn by_name<'t>(
    path: &str,
    names: impl Iterator<Item = (usize, &'t str)>,
    findings: &mut Vec<Finding>,
) -> BTreeMap<&'t str, usize> {
    let mut lines = BTreeMap::new();
    for (line, name) in names {
        if let Some(first) = lines.insert(name, line) {
            let what = format!("`{name}` is there twice, first in line {first}");
            findings.push(Finding::new(path, line, what, "say it once"));
        }
    }
    lines
}

fn lines_of(list: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(list.lines().map(str::trim));
    lines.filter(|(_, name)| !name.is_empty() && !name.starts_with('#'))
}

/// What stands in backticks in the left cells of tables.
fn left_cells(tables: &str) -> impl Iterator<Item = (usize, &str)> {
    let cells = (1..).zip(tables.lines()).filter_map(|(line, text)| Some((line, text.strip_prefix("| ")?)));
    cells.flat_map(|(line, text)| {
        let cell = text.split(" | ").next().unwrap_or_default();
        cell.split('`').skip(1).step_by(2).map(move |name| (line, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Names\n\n| Flink | Highwater |\n|---|---|\n| `a`, `b.c` (*old*) | `d`, the same |\n";

    fn findings(list: &str, tables: &str) -> Vec<String> {
        check(list, tables).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_list_and_tables_of_the_same_names_are_in_order() {
        assert_eq!(findings("# Names.\na\n\nb.c\n", TABLE), [""; 0]);
    }

    #[test]
    fn a_name_that_no_table_has_is_found() {
        let found = findings("a\nb.c\nd\n", TABLE);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/flink-names.txt:3: `d` is in no table"), "{found:?}");
    }

    #[test]
    fn a_name_that_the_list_has_not_is_found() {
        let found = findings("a\n", TABLE);
        assert_eq!(
            found,
            ["docs/flink-names.md:5: `b.c` is not in the list of names — add it to docs/flink-names.txt"]
        );
    }

    #[test]
    fn a_name_that_is_there_twice_is_found() {
        let found = findings("a\nb.c\na\n", TABLE);
        assert_eq!(found, ["docs/flink-names.txt:3: `a` is there twice, first in line 1 — say it once"]);
        assert!(findings("a\nb.c\n", &TABLE.replace("b.c`", "b.c`, `a`"))[0].contains("is there twice"));
    }
}
