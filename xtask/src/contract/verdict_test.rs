//! Where docs and tests disagree.

use super::super::claims::{Suites, claims};
use super::*;

/// The contract of one group with three numbers: promised, planned, not applicable.
fn contract(state: &str) -> Contract {
    let mut findings = Vec::new();
    let group = format!(
        "# A\nState: {state}.\n\n- **A1** One.\n- **A2** Two. *Planned: savepoints.*\n- **A3** Three. *Not applicable: Java null.*\n"
    );
    let readme = "| A | [keyed state](a.md) | 1–3 |\n## Capabilities\n- **savepoints**\n## Reasons\n- **Java null**\n";
    let read = |path: &str| Some(if path.ends_with("a.md") { group.clone() } else { readme.to_owned() });
    let contract = Contract::read(read, &mut findings);
    assert!(findings.is_empty(), "{findings:?}");
    contract
}

/// The claims of one test that names these numbers.
fn claims_of(list: &str) -> Vec<Claim> {
    let mut findings = Vec::new();
    let text =
        if list.is_empty() { String::new() } else { format!("\n/// Contract: {list}.\n#[test]\nfn it_works() {{}}") };
    let claims = claims("tests/a.rs", &text, &Suites::default(), &mut findings);
    assert!(findings.is_empty(), "{findings:?}");
    claims
}

fn findings(state: &str, list: &str) -> Vec<String> {
    let (contract, claims) = (contract(state), claims_of(list));
    Verdict::new(&contract, &claims).findings().iter().map(Finding::to_string).collect()
}

#[test]
fn tests_that_name_what_is_promised_are_in_order() {
    assert_eq!(findings("open", "A1"), [""; 0]);
    assert_eq!(findings("open", ""), [""; 0]);
    assert_eq!(findings("finished", "A1"), [""; 0]);
}

#[test]
fn a_finished_group_shows_everything_that_is_promised() {
    let findings = findings("finished", "");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with("docs/contract/a.md:4: no test shows A1"), "{findings:?}");
}

#[test]
fn a_number_that_the_contract_does_not_have_is_named_at_its_test() {
    let findings = findings("open", "A1, B7");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with("tests/a.rs:2: it_works names B7"), "{findings:?}");
}

#[test]
fn what_a_test_shows_is_not_planned_and_not_inapplicable() {
    let findings = findings("open", "A2, A3");
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(
        findings[0].starts_with("docs/contract/a.md:5: A2 is marked planned (savepoints), but it_works in tests/a.rs")
    );
    assert!(findings[1].starts_with("docs/contract/a.md:6: A3 is marked not applicable (Java null), but it_works"));
}

#[test]
fn a_group_is_counted_and_listed() {
    let (contract, claims) = (contract("open"), claims_of("A1"));
    let verdict = Verdict::new(&contract, &claims);
    let counts = "1 covered    0 uncovered    1 planned    1 not applicable";
    assert_eq!(
        verdict.summary(),
        format!("A    keyed state  open        {counts}\nall                           {counts}\n")
    );
    assert_eq!(
        verdict.numbers(&contract.groups[0]),
        "A1    covered         it_works (tests/a.rs)\n\
         A2    planned         savepoints\n\
         A3    not applicable  Java null\n"
    );
    let verdict = Verdict::new(&contract, &[]);
    assert!(verdict.numbers(&contract.groups[0]).starts_with("A1    uncovered\n"));
}

#[test]
fn only_covered_numbers_of_the_groups_asked_for_are_drawn() {
    let (contract, claims) = (contract("open"), claims_of("A1"));
    let verdict = Verdict::new(&contract, &claims);
    assert_eq!(verdict.draw(5, 1, |_| true), "A1    covered         it_works (tests/a.rs)\n");
    assert_eq!(verdict.draw(0, 1, |_| true), "");
    assert_eq!(verdict.draw(5, 1, |letter| letter == 'B'), "");
}
