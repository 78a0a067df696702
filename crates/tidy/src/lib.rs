//! Rules over the repository itself, run as tests.
//!
//! What a reviewer would otherwise have to remember is checked here: which crate may use which
//! (`tests/dependencies.rs`), that every requirement said to be shown names a test that exists
//! (`tests/conformance.rs`), and the house style (`tests/style.rs`). This library holds the readers
//! those tests share. They work on text, line by line, and do not parse Rust or Markdown in full: a
//! rule that needs a parser belongs into Clippy.

pub mod conformance;
pub mod markdown;
pub mod rust;
pub mod tree;

/// Fails the calling test unless `offenders` is empty, naming each of them and the way out.
///
/// # Panics
///
/// When there is an offender.
#[track_caller]
pub fn demand_none(offenders: &[String], rule: &str, what_to_do: &str) {
    assert!(
        offenders.is_empty(),
        "{rule}: {} found\n\n  {}\n\n{what_to_do}\n",
        offenders.len(),
        offenders.join("\n  "),
    );
}
