//! The parser of `docs/contract`.

use super::*;

const README: &str = "# Contract

| group | what | numbers |
|---|---|---|
| A | [keyed state](a.md) | 1–3 |
| B | [snapshots](b.md) | 4 |

## Capabilities

- **savepoints**: snapshots that a user owns
- **local recovery**: copies of state on the machine

## Reasons

- **Java null**: there is none
";

const A: &str = "# A. Keyed state
State: open.

Some words about **all** of it.

- **A1** A key without a value
  reads as `None`.
- **A2** Not *yet* here. *Planned: local
  recovery.*

## More

- **A3** There is none. *Not applicable: Java null.*
";

const B: &str = "# B. Snapshots\nState: finished.\n\n- **B4** It is there.\n";

fn read(a: &str, b: &str) -> (Contract, Vec<String>) {
    let mut findings = Vec::new();
    let text = |path: &str| match path {
        "docs/contract/README.md" => Some(README.to_owned()),
        "docs/contract/a.md" => Some(a.to_owned()),
        "docs/contract/b.md" => Some(b.to_owned()),
        _ => None,
    };
    let contract = Contract::read(text, &mut findings);
    (contract, findings.iter().map(Finding::to_string).collect())
}

/// The one finding about group A with this text; group B is as it should be.
fn finding(a: &str) -> String {
    let (_, findings) = read(a, B);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings[0].clone()
}

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

#[test]
fn groups_and_numbers_are_read_with_their_state() {
    let (contract, findings) = read(A, B);
    assert_eq!(findings, [""; 0]);
    let groups: Vec<_> =
        contract.groups.iter().map(|group| (group.letter, group.title.as_str(), group.finished)).collect();
    assert_eq!(groups, [('A', "keyed state", false), ('B', "snapshots", true)]);
    let status = |name: &str| contract.entry(id(name)).unwrap().1.status.clone();
    assert_eq!(status("A1"), Status::Promised);
    assert_eq!(status("A2"), Status::Planned("local recovery".to_owned()));
    assert_eq!(status("A3"), Status::NotApplicable("Java null".to_owned()));
    assert_eq!(status("B4"), Status::Promised);
    assert!(contract.entry(id("A4")).is_none());
}

#[test]
fn an_id_is_a_letter_and_a_number() {
    assert_eq!(id("A30").to_string(), "A30");
    for text in ["", "A", "a1", "A01", "A-1", "A+1", "A1x", "11", "A 1", "ÄA"] {
        assert_eq!(Id::parse(text), None, "{text}");
    }
}

#[test]
fn ids_are_in_the_order_of_their_numbers() {
    assert!(id("A2") < id("A10") && id("A10") < id("B1"));
}

#[test]
fn a_missing_number_is_named() {
    let finding = finding(&A.replace("- **A1** A key without a value\n  reads as `None`.\n", ""));
    assert!(finding.starts_with("docs/contract/a.md:1: A1 is missing"), "{finding}");
}

#[test]
fn a_number_that_is_there_twice_is_named() {
    let finding = finding(&format!("{A}- **A1** Again.\n"));
    assert!(finding.starts_with("docs/contract/a.md:14: A1 is there twice"), "{finding}");
}

#[test]
fn a_number_outside_the_table_is_named() {
    for name in ["A4", "B4"] {
        let finding = finding(&format!("{A}- **{name}** More.\n"));
        assert!(finding.starts_with(&format!("docs/contract/a.md:14: {name} is not one of")), "{finding}");
    }
}

#[test]
fn only_capabilities_and_reasons_of_the_readme_are_allowed() {
    let unknown = finding(&A.replace("*Planned: local\n  recovery.*", "*Planned: teleportation.*"));
    assert!(unknown.starts_with("docs/contract/a.md:8: A2 is planned with `teleportation`"), "{unknown}");
    // A capability is no reason.
    let unknown = finding(&A.replace("Java null", "savepoints"));
    assert!(unknown.starts_with("docs/contract/a.md:13: A3 is not applicable for `savepoints`"), "{unknown}");
}

#[test]
fn a_status_that_is_not_at_the_end_is_named() {
    for status in [
        "*Planned: savepoints.* And more.",
        "*Planned: savepoints*",
        "*Planned: savepoints.* *Not applicable: Java null.*",
    ] {
        let finding = finding(&A.replace("*Planned: local\n  recovery.*", status));
        assert!(finding.contains("A2 has a status that is not read"), "{finding}");
    }
}

#[test]
fn a_number_that_says_nothing_is_named() {
    let finding = finding(&A.replace("There is none. ", ""));
    assert!(finding.starts_with("docs/contract/a.md:13: A3 says nothing"), "{finding}");
}

#[test]
fn what_stands_in_bold_at_the_start_of_an_item_is_a_number() {
    let finding = finding(&format!("{A}- **All of them** are good.\n"));
    assert!(finding.starts_with("docs/contract/a.md:14: `All of them` is no number"), "{finding}");
}

#[test]
fn a_group_says_on_its_second_line_whether_it_is_finished() {
    let finding = finding(&A.replace("State: open.", "State: nearly finished."));
    assert!(finding.starts_with("docs/contract/a.md:2: group A has no state"), "{finding}");
}

#[test]
fn a_table_without_its_files_is_refused() {
    let mut findings = Vec::new();
    Contract::read(|path| path.ends_with("README.md").then(|| README.to_owned()), &mut findings);
    let findings: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].starts_with("docs/contract/README.md:5: docs/contract/a.md is missing"), "{findings:?}");
    let mut findings = Vec::new();
    Contract::read(|_| None, &mut findings);
    assert_eq!(findings.len(), 1);
}

#[test]
fn a_table_with_a_row_that_cannot_be_read_is_refused() {
    for (row, what) in [
        ("| A | [more](a.md) | 5 |", "group A is there twice"),
        ("| 1 | [more](a.md) | 5 |", "no group of the contract"),
        ("| C | [more](a.md) | 9–5 |", "no group of the contract"),
        ("| C | [more](a.md) | all |", "no group of the contract"),
    ] {
        let mut findings = Vec::new();
        let readme = README.replace("\n\n## Capabilities", &format!("\n{row}\n\n## Capabilities"));
        let text = |path: &str| match path {
            "docs/contract/README.md" => Some(readme.clone()),
            "docs/contract/a.md" => Some(A.to_owned()),
            _ => Some(B.to_owned()),
        };
        Contract::read(text, &mut findings);
        assert_eq!(findings.len(), 1, "{row}");
        assert!(findings[0].to_string().starts_with(&format!("docs/contract/README.md:7: {what}")), "{}", findings[0]);
    }
}
