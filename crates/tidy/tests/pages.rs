//! Pages that are made from tables in the code, and must say what the code says.

use abide_core::{ErrorCode, error_codes};
use abide_tidy::tree::Tree;

/// Rewrite the pages instead of checking them: `ABIDE_REGENERATE=1 cargo test -p abide-tidy`.
const REGENERATE: &str = "ABIDE_REGENERATE";

#[test]
fn the_page_of_errors_is_the_table_of_errors() {
    let path = Tree::open().root().join("docs/errors.md");
    let page = error_page();
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/errors.md differs from the table in the core; run with {REGENERATE}=1");
}

fn error_page() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         An error is `{error, message, details?}`: a stable code for programs, a sentence for people. This page is made\n\
         from the table in `crates/core/src/error_code.rs`.\n\n\
         ## Answers to requests\n",
    );
    let (in_runs, in_answers): (Vec<&ErrorCode>, Vec<&ErrorCode>) =
        error_codes().iter().partition(|entry| entry.status == 0);
    for entry in in_answers {
        page += &format!("\n### {} ({})\n{}", entry.code, entry.status, described(entry));
    }
    page += "\n## Errors of runs and nodes\n\nThese stand in `error` of a run or a node, not in an answer.\n";
    for entry in in_runs {
        page += &format!("\n### {}\n{}", entry.code, described(entry));
    }
    page
}

fn described(entry: &ErrorCode) -> String {
    format!("\nWhat happened: {}\n\nWhat to do: {}\n", entry.meaning, entry.remedy)
}
