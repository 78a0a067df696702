//! Every file of the fuzzers' corpus, fed to the functions that the fuzzers call.

#[expect(unreachable_pub, reason = "the fuzz targets call these functions from outside of their crate")]
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::path::Path;

/// Feeds every file of one target's corpus to its function.
#[expect(
    clippy::disallowed_methods,
    reason = "a test reads its cases from files; the core itself reads none"
)]
fn feed(target: &str, function: fn(&[u8]), at_least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(folder).expect("the corpus is part of the repository");
    let files: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    assert!(files.len() >= at_least, "the corpus of {target} has only {} files", files.len());
    for file in files {
        let bytes = std::fs::read(&file).expect("the file can be read");
        let fed = std::panic::catch_unwind(|| function(&bytes));
        assert!(fed.is_ok(), "{} breaks {target}", file.display());
    }
}

#[test]
fn answers_are_taken_or_refused() {
    feed("answer", fuzz::answer, 20);
}

#[test]
fn definitions_are_read_or_refused() {
    feed("definition", fuzz::definition, 10);
}

#[test]
fn expressions_give_one_value_or_none() {
    feed("expression", fuzz::expression, 10);
}

#[test]
fn runs_end_whatever_goes_in() {
    feed("ports", fuzz::ports, 10);
}
