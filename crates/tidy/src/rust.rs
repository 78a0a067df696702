//! Reading Rust source by lines: where the shipped part ends, how long functions are, which tests exist.
//!
//! The readers rely on rustfmt's layout, which `./test` checks first: a function's closing brace stands
//! alone on its line at the indentation of its `fn`.

/// A function and its size.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name, without path.
    pub name: &'a str,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

/// Whether the file at `path` holds tests only: in a `tests` or `benches` directory, or a `tests.rs`.
#[must_use]
pub fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// The lines that ship: those before the inline test module.
///
/// A `#[cfg(test)]` on anything else (an import, a helper, `mod tests;`) does not end them.
#[must_use]
pub fn shipped_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].trim_end().ends_with('{')
    };
    let end = lines.windows(2).position(opens_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

/// The functions with a body among `lines`, nested ones included.
#[must_use]
pub fn functions<'a>(lines: &[&'a str]) -> Vec<Function<'a>> {
    (0..lines.len())
        .filter_map(|start| {
            let name = function_name(lines[start])?;
            let lines = body_lines(&lines[start..])?;
            Some(Function { name, line: start + 1, lines })
        })
        .collect()
}

/// The names of the functions that the test harness runs, `#[tokio::test]` and `proptest!` included.
///
/// Inside `proptest!` a function without `#[test]` is not run either, so the attribute decides there too.
#[must_use]
pub fn test_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines() {
        marked |= is_test_attribute(line.trim_start());
        if let Some(name) = function_name(line) {
            names.extend(marked.then_some(name));
            marked = false;
        }
    }
    names
}

fn is_test_attribute(line: &str) -> bool {
    ["#[test]", "#[tokio::test]", "#[tokio::test("].iter().any(|attribute| line.starts_with(attribute))
}

/// The name behind `fn`, if the line declares a function.
fn function_name(line: &str) -> Option<&str> {
    const BEFORE_FN: [&str; 8] =
        ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe ", "extern \"C\" ", "#[test] "];
    let mut rest = line.trim_start();
    while let Some(shorter) = BEFORE_FN.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

/// How many lines the function takes whose `fn` is on the first line; `None` for a declaration.
fn body_lines(lines: &[&str]) -> Option<usize> {
    let (first, rest) = lines.split_first()?;
    let first = first.trim_end();
    if first.ends_with(';') {
        return None;
    }
    if first.ends_with('}') {
        return Some(1);
    }
    let indent = &first[..first.len() - first.trim_start().len()];
    for (offset, line) in rest.iter().enumerate() {
        let Some(code) = line.strip_prefix(indent) else {
            continue;
        };
        match code.trim_end() {
            "}" => return Some(offset + 2),
            end if end.starts_with(')') && end.ends_with('}') => return Some(offset + 2),
            end if end.starts_with(')') && end.ends_with(';') => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_are_known_by_their_path() {
        assert!(is_test_file("crates/core/tests/decide.rs"));
        assert!(is_test_file("crates/core/src/run/tests.rs"));
        assert!(is_test_file("crates/store/benches/commit.rs"));
        assert!(!is_test_file("crates/core/src/tests_of_time.rs"));
    }

    #[test]
    fn only_an_inline_test_module_ends_the_shipped_part() {
        let text = "//! A.\n#[cfg(test)]\nuse x;\n#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(shipped_lines(text).len(), 6);
    }

    #[test]
    fn functions_are_measured_from_fn_to_their_own_brace() {
        let text = "pub fn one() {}\nimpl A {\n    pub(crate) async fn outer(\n        a: u8,\n    ) -> u8 {\n        if a {\n        }\n    }\n}\n";
        let lines: Vec<&str> = text.lines().collect();
        let found = functions(&lines);
        assert_eq!(
            found,
            [Function { name: "one", line: 1, lines: 1 }, Function { name: "outer", line: 3, lines: 6 }]
        );
    }

    #[test]
    fn declarations_without_a_body_are_not_functions() {
        let text =
            "trait A {\n    fn one();\n    fn two(\n        a: u8,\n    );\n    fn three() {\n    }\n}\n";
        let lines: Vec<&str> = text.lines().collect();
        let names: Vec<&str> = functions(&lines).iter().map(|function| function.name).collect();
        assert_eq!(names, ["three"]);
    }

    #[test]
    fn tests_are_functions_with_a_test_attribute() {
        let text = "#[test]\nfn one() {}\nfn helper() {}\n    #[tokio::test(\n    )]\n    async fn two() {}\n    #[test]\n    fn three(x in 0..5u8) {}\n// #[test]\nfn four() {}\n";
        assert_eq!(test_names(text), ["one", "two", "three"]);
    }
}
