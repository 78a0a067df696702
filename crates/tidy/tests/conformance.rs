//! The promises of `docs/conformance.md`: every requirement has its row, every test it names exists.

use std::collections::BTreeMap;

use abide_tidy::conformance::{self, Page, file_and_test, test_names};
use abide_tidy::{demand_none, tree::Tree};

const PAGE: &str = "docs/conformance.md";

/// How the ids of each group begin, the digits they are padded to, and how many there are.
const GROUPS: &[(&str, usize, usize)] = &[
    ("OW-", 3, 251),
    ("OI-", 3, 190),
    ("PR-", 3, 57),
    ("RP-", 3, 67),
    ("ATD-A", 1, 18),
    ("ATD-B", 1, 14),
    ("ATD-C", 1, 9),
    ("ATD-D", 1, 14),
    ("ATD-E", 1, 17),
    ("ATD-F", 1, 6),
    ("ATD-G", 1, 11),
    ("ATD-H", 1, 4),
    ("ATD-I", 1, 14),
    ("ATD-J", 1, 1),
];

/// A test that shows more than this shows none of them well.
const IDS_PER_TEST_MAX: usize = 3;

#[test]
fn every_line_of_the_tables_has_the_described_form() {
    demand_none(
        &read(&page()).malformed,
        "table lines of another form",
        "A row is `| id | step | requirement | test |`; the head of the page says what a test cell holds.",
    );
}

#[test]
fn every_requirement_has_one_row_in_order() {
    let text = page();
    let mut missing = expected_ids();
    let ranks: BTreeMap<String, usize> = missing.iter().cloned().zip(0..).collect();
    let mut offenders = Vec::new();
    let mut last = 0;
    for row in &read(&text).rows {
        let found = missing.iter().position(|id| id == row.id).map(|at| missing.remove(at)).is_some();
        let complaint = match ranks.get(row.id) {
            None => Some("is not a known id"),
            Some(_) if !found => Some("is there twice"),
            Some(&rank) if rank < last => Some("comes too late"),
            Some(&rank) => {
                last = rank;
                None
            }
        };
        offenders.extend(complaint.map(|complaint| format!("line {}: {} {complaint}", row.line, row.id)));
    }
    offenders.extend(missing.iter().map(|id| format!("{id} has no row")));
    demand_none(
        &offenders,
        "requirements out of place",
        "Each id has one row, in the order of GROUPS and by number. A new requirement also raises its \
         group's number there.",
    );
}

#[test]
fn the_count_line_tells_the_truth() {
    let text = page();
    let page = read(&text);
    let shown = page.rows.iter().filter(|row| !row.tests.is_empty()).count();
    let truth = format!("{shown} of {} shown", page.rows.len());
    assert_eq!(page.counts, [truth.as_str()], "the count line of {PAGE} should read: {truth}");
}

#[test]
fn every_test_that_is_named_exists() {
    let tree = Tree::open();
    let text = page();
    let mut known: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut offenders = Vec::new();
    for row in &read(&text).rows {
        for (file, test) in row.tests.iter().filter_map(|name| file_and_test(name)) {
            match known.entry(file).or_insert_with(|| tree.text(file).filter(|_| tree.holds(file))) {
                None => offenders.push(format!("{}: there is no file {file}", row.id)),
                Some(source) if !test_names(file, source).contains(&test) => {
                    offenders.push(format!("{}: {file} has no test {test}", row.id));
                }
                Some(_) => {}
            }
        }
    }
    demand_none(
        &offenders,
        "tests that do not exist",
        "Name the test that shows the requirement now, or set the row back to `open` (and the count line).",
    );
}

#[test]
fn no_test_stands_for_too_many_requirements() {
    let text = page();
    let page = read(&text);
    let mut ids_by_test: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &page.rows {
        for &test in &row.tests {
            ids_by_test.entry(test).or_default().push(row.id);
        }
    }
    let offenders: Vec<String> = ids_by_test
        .iter()
        .filter(|(_, ids)| ids.len() > IDS_PER_TEST_MAX)
        .map(|(test, ids)| format!("{test}: {}", ids.join(", ")))
        .collect();
    demand_none(
        &offenders,
        "tests named by more than three requirements",
        "Write a test for each that fails when only this requirement is broken.",
    );
}

fn page() -> String {
    Tree::open().text(PAGE).expect("docs/conformance.md exists and is text")
}

fn read(text: &str) -> Page<'_> {
    conformance::parse(text)
}

fn expected_ids() -> Vec<String> {
    GROUPS
        .iter()
        .flat_map(|&(prefix, digits, count)| (1..=count).map(move |n| format!("{prefix}{n:0digits$}")))
        .collect()
}
