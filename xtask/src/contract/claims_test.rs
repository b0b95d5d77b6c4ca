//! What counts as a test that names a number.

use super::*;

/// The claims of a text as `id test line`, and the findings.
fn scan(text: &str) -> (Vec<String>, Vec<String>) {
    scan_with(text, &Suites::default())
}

fn scan_with(text: &str, suites: &Suites) -> (Vec<String>, Vec<String>) {
    let mut findings = Vec::new();
    let claims = claims("crates/x/src/keyed/a.rs", text, suites, &mut findings);
    let claims = claims.iter().map(|claim| format!("{} {} {}", claim.id, claim.test, claim.line)).collect();
    (claims, findings.iter().map(Finding::to_string).collect())
}

/// The claims of a text without findings.
fn claimed(text: &str) -> Vec<String> {
    let (claims, findings) = scan(text);
    assert_eq!(findings, [""; 0], "{text}");
    claims
}

/// The one finding of a text without claims.
fn refused(text: &str) -> String {
    let (claims, findings) = scan(text);
    assert_eq!(claims, [""; 0], "{text}");
    assert_eq!(findings.len(), 1, "{text}");
    findings[0].clone()
}

#[test]
fn a_test_names_numbers_in_a_comment_above_it() {
    for text in [
        "/// Contract: A1, B30.\n#[test]\nfn it_works() {}",
        "// Contract: A1, B30.\n#[test]\nfn it_works() {}",
        "/// Contract: A1, B30.\n/// More words.\n#[test]\npub(crate) fn it_works() {}",
        "/// Contract: A1, B30.\n#[tokio::test(flavor = \"current_thread\")]\nasync fn it_works() {}",
        "/// Contract: A1, B30.\n#[test]\n#[should_panic(expected = \"x; y\")]\nfn it_works() {}",
        "/// Contract: A1, B30.\n#[test]\n#[cfg(all(unix, not(miri)))]\nfn it_works() -> Result<()> { Ok(()) }",
    ] {
        assert_eq!(claimed(text), ["A1 it_works 1", "B30 it_works 1"], "{text}");
    }
    assert_eq!(claimed("#[test]\n/// Contract: A1.\nfn it_works() {}"), ["A1 it_works 2"]);
}

#[test]
fn several_lines_add_up() {
    let text =
        "/// Contract: A1.\n// Contract: A2.\n#[test]\nfn it_works() {}\n/// Contract: A3.\n#[test]\nfn it_holds() {}";
    assert_eq!(claimed(text), ["A1 it_works 1", "A2 it_works 2", "A3 it_holds 5"]);
}

#[test]
fn a_property_is_a_test() {
    let text = "proptest! {\n    #![proptest_config(ProptestConfig::default())]\n\n    /// Contract: A1.\n    #[test]\n    fn it_holds(x in 0..5u32) { }\n}";
    assert_eq!(claimed(text), ["A1 it_holds 4"]);
}

#[test]
fn a_case_of_a_suite_is_a_test() {
    let mut suites = Suites::default();
    suites.add(
        "crates/x/src/keyed/mod.rs",
        "macro_rules! suite { ($d:tt) => {} }\nsuite! { $\n    // words\n    it_works,\n    it_holds\n}\nfn other() {}",
    );
    let text = |name: &str| format!("/// Contract: A1.\npub fn {name}(factory: &dyn Factory) {{}}");
    for name in ["it_works", "it_holds"] {
        assert_eq!(scan_with(&text(name), &suites).0, [format!("A1 {name} 1")]);
    }
    for name in ["other", "words"] {
        assert_eq!(scan_with(&text(name), &suites).1.len(), 1, "{name}");
    }
    // Its cases are below the folder of the list, not anywhere.
    let mut elsewhere = Suites::default();
    elsewhere.add("crates/x/src/storage/mod.rs", "suite! { $ it_works }");
    assert_eq!(scan_with(&text("it_works"), &elsewhere).1.len(), 1);
}

#[test]
fn only_a_test_that_runs_can_name_numbers() {
    for text in [
        "/// Contract: A1.\nfn helper() {}",
        "/// Contract: A1.\nstruct State;",
        "/// Contract: A1.\nstruct State { a: u32 }",
        "/// Contract: A1.\n#[test]\n#[ignore = \"takes an hour\"]\nfn it_works() {}",
        "/// Contract: A1.\nmod tests {\n    #[test]\n    fn it_works() {}\n}",
        "#[test]\nfn it_works() {\n    // Contract: A1.\n    let x = 1;\n}",
        "#[test]\nfn it_works() {}\n/// Contract: A1.\n",
    ] {
        let finding = refused(text);
        assert!(finding.contains("A1 above something that is no test"), "{finding}");
    }
}

#[test]
fn the_attributes_of_one_function_are_not_those_of_the_next() {
    assert!(refused("#[test]\nfn it_works() {}\n/// Contract: A1.\nfn helper() {}").contains(":3: A1 above"));
}

#[test]
fn numbers_that_cannot_be_read_are_refused() {
    for list in ["A1", "A1 A2.", "a1.", "A1, .", ".", "A1–A3."] {
        let finding = refused(&format!("/// Contract: {list}\n#[test]\nfn it_works() {{}}"));
        assert!(finding.starts_with("crates/x/src/keyed/a.rs:1: numbers that cannot be read"), "{finding}");
    }
}

#[test]
fn a_text_that_is_talked_about_is_no_claim() {
    assert_eq!(claimed("const T: &str = \"/// Contract: A1.\n#[test]\nfn it_works() {}\";"), [""; 0]);
    assert_eq!(claimed("//! Contract: A1.\n/// The contract: A1.\nfn f() {}"), [""; 0]);
}
