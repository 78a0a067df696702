//! Every file of the corpus of the fuzz target `token`, fed to the function that the fuzzer calls.

#[expect(unreachable_pub, reason = "the fuzz target calls this function from outside of its file")]
#[path = "../../../fuzz/src/token.rs"]
mod token;

use std::path::Path;

#[test]
fn hostile_tokens_are_refused_whatever_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/token");
    let files = std::fs::read_dir(folder).expect("the corpus is part of the repository");
    let files: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    assert!(files.len() >= 20, "the corpus has only {} files", files.len());
    for file in files {
        let bytes = std::fs::read(&file).expect("the file can be read");
        let fed = std::panic::catch_unwind(|| token::token(&bytes));
        let read = fed.unwrap_or_else(|_| panic!("{} breaks it", file.display()));
        let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
        assert_eq!(read, name.starts_with("genuine"), "{name}");
    }
}
