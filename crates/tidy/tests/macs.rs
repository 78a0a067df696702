//! A MAC is compared in constant time, so that nobody learns from the clock how much of a forged one was right.

use abide_tidy::{demand_none, rust, tree::Tree};

/// What compares in constant time.
const CONSTANT_TIME: [&str; 2] = ["constant_time::verify_slices_are_equal(", "hmac::verify("];

/// Names of values that have to be compared so.
const SECRET_WORDS: [&str; 7] = ["mac", "macs", "tag", "hmac", "signature", "signed", "expected_mac"];

/// What compares in a time that depends on the values.
const PLAIN: [&str; 7] = [" == ", " != ", ".eq(", ".ne(", ".starts_with(", ".ends_with(", ".cmp("];

/// Files that check MACs, for sure: the rules below must not come to hold because they find nothing.
const CHECKERS: [&str; 2] = ["crates/server/src/keyring.rs", "crates/server/src/token.rs"];

#[test]
fn no_mac_is_compared_by_plain_equality() {
    let mut offenders = Vec::new();
    for (path, text) in sources_with_macs() {
        let lines = rust::shipped_lines(&text);
        let wrong = lines.iter().enumerate().filter(|(_, line)| compares_plainly(line));
        offenders.extend(wrong.map(|(ix, line)| format!("{path}:{}: {}", ix + 1, line.trim())));
    }
    demand_none(
        &offenders,
        "MACs compared byte by byte",
        "Use constant_time::verify_slices_are_equal or hmac::verify. If it is no MAC, give it another name.",
    );
}

#[test]
fn whatever_verifies_a_mac_does_so_in_constant_time() {
    let verifies = |text: &str| {
        let lines = rust::shipped_lines(text);
        rust::functions(&lines).iter().any(|found| found.name.starts_with("verify"))
    };
    let offenders: Vec<String> = sources_with_macs()
        .into_iter()
        .filter(|(_, text)| verifies(text) && !CONSTANT_TIME.iter().any(|primitive| text.contains(primitive)))
        .map(|(path, _)| path)
        .collect();
    demand_none(
        &offenders,
        "files that verify MACs without the primitive for it",
        "Use constant_time::verify_slices_are_equal or hmac::verify.",
    );
    let tree = Tree::open();
    for path in CHECKERS {
        let text = tree.text(path).unwrap_or_default();
        assert!(verifies(&text), "{path} is said to verify MACs; correct the list");
        let shipped = rust::shipped_lines(&text).join("\n");
        assert!(CONSTANT_TIME.iter().any(|primitive| shipped.contains(primitive)), "{path}");
    }
}

#[test]
fn a_plain_comparison_is_known_by_what_it_compares() {
    for line in [
        "if mac == sent {",
        "a.mac != b",
        "    tag.eq(&sent)",
        "(&macs[0] == &sent)",
        "signature.starts_with(x)",
    ] {
        assert!(compares_plainly(line), "{line}");
    }
    for line in [
        "// mac == sent",
        "kid(tenant, secret) == text",
        "let mac = sign(key);",
        "machine == other",
        "tags == asked",
    ] {
        assert!(!compares_plainly(line), "{line}");
    }
}

/// Path and text of the sources that make or check MACs.
fn sources_with_macs() -> Vec<(String, String)> {
    let tree = Tree::open();
    let found: Vec<(String, String)> = tree
        .texts(".rs")
        .filter(|(path, text)| path.contains("/src/") && !rust::is_test_file(path) && text.contains("hmac"))
        .filter(|(path, _)| !path.starts_with("crates/tidy/"))
        .map(|(path, text)| (path.to_owned(), text))
        .collect();
    assert!(
        CHECKERS.iter().all(|path| found.iter().any(|(found, _)| found == path)),
        "they are not looked at"
    );
    found
}

fn compares_plainly(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    PLAIN.iter().any(|plain| code.contains(plain)) && words.any(|word| SECRET_WORDS.contains(&word))
}
