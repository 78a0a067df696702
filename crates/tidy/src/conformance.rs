//! Reading `docs/conformance.md`: a count line, and tables with a row per requirement.
//!
//! The form of the page is described in its own head.

/// A line of a table: one requirement and the tests that show it.
#[derive(Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The line it is on, counted from 1.
    pub line: usize,
    /// The requirement's name, such as `OW-001`.
    pub id: &'a str,
    /// The step that builds it: a number, or `later`.
    pub step: &'a str,
    /// The tests that show it, `path/to/file.rs::name` each; none while it is open.
    pub tests: Vec<&'a str>,
}

/// The whole page.
#[derive(Debug, Default)]
pub struct Page<'a> {
    /// Every line that reads `N of M shown`.
    pub counts: Vec<&'a str>,
    /// The requirements in the order of the page.
    pub rows: Vec<Row<'a>>,
    /// Table lines that are not of the described form, with their line number.
    pub malformed: Vec<String>,
}

/// Reads the page.
#[must_use]
pub fn parse(text: &str) -> Page<'_> {
    let mut page = Page::default();
    for (index, line) in text.lines().enumerate() {
        if line.ends_with(" shown") && line.starts_with(|c: char| c.is_ascii_digit()) {
            page.counts.push(line);
        }
        if !line.starts_with('|') || line.starts_with("| id |") || line.starts_with("|---") {
            continue;
        }
        match row(index + 1, line) {
            Some(row) => page.rows.push(row),
            None => page.malformed.push(format!("line {}: {line}", index + 1)),
        }
    }
    page
}

/// Takes `path/to/file.rs::name` apart, or that of a test in Python.
#[must_use]
pub fn file_and_test(name: &str) -> Option<(&str, &str)> {
    name.split_once("::").filter(|(file, test)| is_source(file) && is_identifier(test))
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells = cells(text);
    let &[id, step, requirement, tests] = cells.as_slice() else {
        return None;
    };
    let step_is_known = step == "later" || step.parse::<u8>().is_ok();
    if id.is_empty() || requirement.is_empty() || !step_is_known {
        return None;
    }
    let tests = if tests == "open" { Vec::new() } else { test_cell(tests)? };
    Some(Row { line, id, step, tests })
}

/// The cells of a table line. A pipe behind a backslash is text.
fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim_end().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
        return Vec::new();
    };
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in inner.match_indices('|').filter(|(at, _)| !inner[..*at].ends_with('\\')) {
        cells.push(inner[start..at].trim());
        start = at + 1;
    }
    cells.push(inner[start..].trim());
    cells
}

/// The names in a test cell: each between backticks, commas between them.
fn test_cell(cell: &str) -> Option<Vec<&str>> {
    cell.split(", ")
        .map(|name| name.strip_prefix('`')?.strip_suffix('`').filter(|name| file_and_test(name).is_some()))
        .collect()
}

fn is_source(file: &str) -> bool {
    file.ends_with(".rs") || file.ends_with(".py")
}

/// The names of the tests of a file, as whatever runs them finds them.
#[must_use]
pub fn test_names<'a>(file: &str, source: &'a str) -> Vec<&'a str> {
    if file.ends_with(".rs") {
        return crate::rust::test_names(source).into_iter().collect();
    }
    let heads =
        source.lines().filter_map(|line| line.strip_prefix("def ").or(line.strip_prefix("async def ")));
    heads
        .filter_map(|head| head.split_once('('))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("test_"))
        .collect()
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_their_tests() {
        let page = parse(
            "1 of 2 shown\n\n| id | step | requirement | test |\n|---|---|---|---|\n| A-1 | 3 | x \\| y | `a/b.rs::c`, `d.rs::e` |\n| A-2 | later | z | open |\n",
        );
        assert_eq!(page.counts, ["1 of 2 shown"]);
        assert_eq!(page.malformed, [""; 0]);
        assert_eq!(
            page.rows,
            [
                Row { line: 5, id: "A-1", step: "3", tests: vec!["a/b.rs::c", "d.rs::e"] },
                Row { line: 6, id: "A-2", step: "later", tests: vec![] },
            ]
        );
    }

    #[test]
    fn what_is_not_of_the_form_is_named() {
        let wrong = [
            "| A-1 | 3 | x |",
            "| A-1 | soon | x | open |",
            "| A-1 | 3 | x | done |",
            "| A-1 | 3 | x | a.rs::b |",
            "| A-1 | 3 | x | `b` |",
            "| A-1 | 3 | x | `a.rs::m::b` |",
            "| A-1 | 3 | | open |",
        ];
        for line in wrong {
            assert_eq!(parse(line).malformed, [format!("line 1: {line}")]);
        }
    }
}
