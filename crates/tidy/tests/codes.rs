//! Every error code that the sources write stands in the table of error codes, and the other way round.

use std::collections::BTreeMap;

use abide_core::error_codes;
use abide_tidy::{demand_none, rust, tree::Tree};

/// The file with the table itself.
const TABLE: &str = "crates/core/src/error_code.rs";

/// What stands before the literal of a code and nothing else.
const BEFORE_CODES: [&str; 7] =
    ["Failure::new(", "ApiError::new(", "Self::new(", "lasting(", "passing(", "of_provider(", "withheld(ix,"];

/// What stands before codes and other literals: there, a code is known by its underscore.
const BEFORE_ANY: [&str; 4] = ["code:", "unwrap_or(", "=> (", ": &str ="];

/// What looks like a code and is none: why something is blocked or given up, and what an input is wired to.
const NO_CODES: [&str; 3] = ["initial_state", "intent_suspended", "portfolio_deadline"];

#[test]
fn every_code_that_is_written_stands_in_the_table() {
    let known = |code: &str| NO_CODES.contains(&code) || error_codes().iter().any(|entry| entry.code == code);
    let offenders: Vec<String> = written_codes()
        .into_iter()
        .filter(|(code, _)| !known(code))
        .map(|(code, path)| format!("{path}: {code}"))
        .collect();
    demand_none(&offenders, "error codes that no page explains", "Add them to the table in the core.");
}

#[test]
fn every_code_in_the_table_is_written_somewhere() {
    let written = written_codes();
    let offenders: Vec<String> = error_codes()
        .iter()
        .filter(|entry| !written.contains_key(entry.code))
        .map(|entry| entry.code.to_owned())
        .collect();
    demand_none(&offenders, "error codes that nobody can meet", "Take them out of the table in the core.");
}

#[test]
fn a_code_is_found_wherever_it_may_be_written() {
    let text = r#"
        Failure::new("one_a", message); lasting(
            "two_b",
            message); Self { code: "three_c" }; const NAME: &str = "four_d"; new("five_e"); code: "six"; ApiError::new("seven")
    "#;
    assert_eq!(codes(text), ["one_a", "two_b", "three_c", "four_d", "seven"]);
}

/// Each code with the file that it stands in.
fn written_codes() -> BTreeMap<String, String> {
    let tree = Tree::open();
    let parts = ["crates/core/src/", "crates/engine/src/", "crates/server/src/"];
    let sources = tree.texts(".rs").filter(|(path, _)| {
        *path != TABLE && !rust::is_test_file(path) && parts.iter().any(|part| path.starts_with(part))
    });
    let mut found = BTreeMap::new();
    for (path, text) in sources {
        let shipped = rust::shipped_lines(&text).join("\n");
        found.extend(codes(&shipped).into_iter().map(|code| (code, path.to_owned())));
    }
    found
}

/// The codes in a text, in the order in which they stand there.
fn codes(text: &str) -> Vec<String> {
    let quotes: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
    let literals = quotes.windows(2).map(|pair| (&text[..pair[0]], &text[pair[0] + 1..pair[1]]));
    literals.filter(|(before, literal)| is_code(before, literal)).map(|(_, code)| code.to_owned()).collect()
}

/// Whether a literal is a code: lower-case words joined by underscores, in the place of a code.
fn is_code(before: &str, literal: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let before = before.trim_end();
    let announced = |list: &[&str]| list.iter().any(|announced| before.ends_with(announced));
    literal.split('_').all(word)
        && (announced(&BEFORE_CODES) || literal.contains('_') && announced(&BEFORE_ANY))
}
