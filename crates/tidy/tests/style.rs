//! House style that neither rustfmt nor Clippy checks.
//!
//! The words looked for are put together with `concat!`, so that this file does not find itself.

use abide_tidy::{demand_none, markdown, rust, tree::Tree};

const SHIPPED_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const README_LINES_MAX: usize = 120;

/// What a newcomer may count on finding.
const DOCUMENTS: [&str; 12] = [
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CHANGELOG.md",
    "docs/access.md",
    "docs/conformance.md",
    "docs/decisions.md",
    "docs/errors.md",
    "docs/guide.md",
    "docs/measurements.md",
    "docs/operations.md",
    "docs/workflows.md",
];

#[test]
fn the_expected_documents_exist() {
    let tree = Tree::open();
    let missing: Vec<String> =
        DOCUMENTS.iter().filter(|path| !tree.holds(path)).map(ToString::to_string).collect();
    demand_none(
        &missing,
        "missing documents",
        "Write them, or take them off this list together with every link to them.",
    );
}

#[test]
fn the_readme_is_short() {
    let lines = Tree::open().text("README.md").unwrap_or_default().lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines, {README_LINES_MAX} at the most: move the rest into docs/ and link to it",
    );
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let tree = Tree::open();
    let offenders: Vec<String> = tree
        .texts(".rs")
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path.to_owned())
        .collect();
    demand_none(
        &offenders,
        "source files that do not open with `//!`",
        "Let the first line say what the file is for, and what it does not do.",
    );
}

#[test]
fn files_hold_one_noun() {
    let tree = Tree::open();
    let offenders: Vec<String> = shipped_sources(&tree)
        .map(|(path, text)| (path, rust::shipped_lines(&text).len()))
        .filter(|(_, lines)| *lines > SHIPPED_LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines} lines before its tests"))
        .collect();
    demand_none(
        &offenders,
        "files of more than 600 lines",
        "There are two nouns in it: give the second a file of its own.",
    );
}

#[test]
fn functions_fit_on_a_screen() {
    let tree = Tree::open();
    let mut offenders = Vec::new();
    for (path, text) in shipped_sources(&tree) {
        let lines = rust::shipped_lines(&text);
        let long = rust::functions(&lines).into_iter().filter(|found| found.lines > FUNCTION_LINES_MAX);
        offenders.extend(
            long.map(|found| format!("{path}:{}: {} has {} lines", found.line, found.name, found.lines)),
        );
    }
    demand_none(
        &offenders,
        "functions of more than 70 lines",
        "Give its parts names: each step that a comment would announce is a function.",
    );
}

#[test]
fn nothing_is_left_for_later() {
    let macros = [concat!("to", "do!"), concat!("un", "implemented!")];
    let words = [concat!("FIX", "ME"), concat!("X", "XX")];
    let offenders = lines_where(
        |path| !path.ends_with(".md") && !path.ends_with(".lock"),
        |line| macros.iter().any(|it| line.contains(it)) || words.iter().any(|it| has_word(line, it)),
    );
    demand_none(
        &offenders,
        "notes to self",
        "Do it, or refuse the case with a typed error and note the gap in docs/decisions.md.",
    );
}

#[test]
fn every_test_runs() {
    let attribute = concat!("#[", "ignore");
    let offenders =
        lines_where(|path| path.ends_with(".rs"), |line| code(line).is_some_and(|it| it.contains(attribute)));
    demand_none(
        &offenders,
        "tests that are switched off",
        "Make it pass or delete it. One that is slow belongs behind a command of its own.",
    );
}

#[test]
fn lints_are_expected_and_never_allowed() {
    let attributes = [concat!("#[", "allow("), concat!("#![", "allow(")];
    let offenders = lines_where(
        |path| path.ends_with(".rs"),
        |line| code(line).is_some_and(|it| attributes.iter().any(|attribute| it.contains(attribute))),
    );
    demand_none(
        &offenders,
        "lints switched off for good",
        "Follow the lint, or write `#[expect(lint, reason = \"...\")]`: that one tells when it is spent.",
    );
}

#[test]
fn nothing_names_a_path_of_one_machine() {
    let needles = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];
    let offenders =
        lines_where(|_| true, |line| needles.iter().any(|needle| has_absolute_path(line, needle)));
    demand_none(
        &offenders,
        "paths that exist on one machine only",
        "Write the path from the repository's root, or a temporary directory made by the test.",
    );
}

#[test]
fn dependencies_come_from_the_public_registry() {
    let lock = Tree::open().text("Cargo.lock").expect("Cargo.lock is checked in");
    // The public registry is the only one whose entries say "github.com" in a lock file; a mirror or a git
    // repository would stand there under its own name.
    let is_public = |line: &str| line.starts_with("source = \"registry+https://github.com/");
    let offenders: Vec<String> = lock
        .lines()
        .filter(|line| line.starts_with("source = ") && !is_public(line))
        .map(str::to_owned)
        .collect();
    demand_none(
        &offenders,
        "sources in Cargo.lock that others may not reach",
        "Take the crate from the public registry.",
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let tree = Tree::open();
    let mut offenders = Vec::new();
    for (page, text) in tree.texts(".md") {
        for link in markdown::file_links(&text) {
            if !markdown::resolve(page, link.target).is_some_and(|path| tree.holds(&path)) {
                offenders.push(format!("{page}:{}: {}", link.line, link.target));
            }
        }
    }
    demand_none(&offenders, "links to files that do not exist", "Correct the path or write the file.");
}

#[test]
fn scripts_stop_at_the_first_error() {
    let tree = Tree::open();
    let offenders: Vec<String> = tree
        .texts("")
        .filter(|(_, text)| text.starts_with("#!/usr/bin/env bash") || text.starts_with("#!/bin/bash"))
        .filter(|(path, text)| !text.contains("\nset -euo pipefail\n") || !is_executable(&tree, path))
        .map(|(path, _)| path.to_owned())
        .collect();
    demand_none(
        &offenders,
        "scripts that are lenient or cannot be started",
        "Write `set -euo pipefail` below the head of the script, and `chmod +x` it.",
    );
}

/// Path and text of the Rust files that hold more than tests.
fn shipped_sources(tree: &Tree) -> impl Iterator<Item = (&str, String)> {
    tree.texts(".rs").filter(|(path, _)| !rust::is_test_file(path))
}

/// Every line that is `wrong`, as `path:line: text`, over the files that `concern` the rule.
fn lines_where(concern: impl Fn(&str) -> bool, wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let tree = Tree::open();
    let mut found = Vec::new();
    for (path, text) in tree.texts("").filter(|(path, _)| concern(path)) {
        let lines = text.lines().enumerate().filter(|(_, line)| wrong(line));
        found.extend(lines.map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim())));
    }
    found
}

/// The line, unless all of it is a comment.
fn code(line: &str) -> Option<&str> {
    Some(line.trim_start()).filter(|line| !line.starts_with("//"))
}

fn has_word(line: &str, word: &str) -> bool {
    let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word)
        .any(|(at, _)| apart(line[..at].chars().next_back()) && apart(line[at + word.len()..].chars().next()))
}

/// Whether `path` stands in the line as an absolute path and not as the tail of a longer one.
fn has_absolute_path(line: &str, path: &str) -> bool {
    let within_a_path = |c: char| c.is_alphanumeric() || "_-.~*}".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(within_a_path))
}

#[cfg(unix)]
fn is_executable(tree: &Tree, path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    tree.root().join(path).metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Tree, _: &str) -> bool {
    true
}

#[test]
fn words_and_paths_are_told_from_parts_of_others() {
    let word = concat!("X", "XX");
    assert!(has_word(&format!("// {word}: later"), word));
    assert!(!has_word(&format!("mktemp a.{word}{word}"), word));
    let path = concat!("/wo", "rk/");
    assert!(has_absolute_path(&format!("cd {path}main"), path));
    assert!(has_absolute_path(&format!("file://{path}main"), path));
    assert!(!has_absolute_path(&format!("GET /v1{path}items"), path));
}
