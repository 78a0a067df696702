//! `abide secrets`: values go in and never come out.

use std::io::Write;
use std::process::Stdio;

use super::*;

/// `abide secrets set` with a value on standard input.
fn set(server: &Server, name: &str, value: &[u8]) -> Output {
    let mut command = abide();
    command.args(["secrets", "set", name]).env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A value that is too long is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(value);
    child.wait_with_output().unwrap()
}

#[test]
fn secrets_are_set_listed_and_removed() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    insta::assert_snapshot!("no_secrets", told(&server.cli(&["secrets", "list"])));
    insta::assert_snapshot!("secret_set", told(&set(&server, "CRM_TOKEN", b"s3cret\n")));
    set(&server, "other.key-2", b"s3cret");
    insta::assert_snapshot!("secrets_list", told(&server.cli(&["secrets", "list"])));
    let json = server.cli(&["secrets", "list", "--json"]);
    insta::assert_snapshot!("secrets_list_json", told(&json));
    assert!(!stdout(&json).contains("s3cret"));
    insta::assert_snapshot!("secret_removed", told(&server.cli(&["secrets", "rm", "CRM_TOKEN"])));
    insta::assert_snapshot!("secret_not_found", told(&server.cli(&["secrets", "rm", "CRM_TOKEN"])));
    assert!(!stdout(&server.cli(&["secrets", "list"])).contains("CRM_TOKEN"));
}

#[test]
fn a_value_that_can_not_be_one_is_refused_and_not_repeated() {
    let site = site();
    let server = site.start(&[]);
    for value in [&b""[..], b"\n", b"abc\r\n", b"s3cret\xff", &b"s3cret".repeat(2000)] {
        let output = set(&server, "TOKEN", value);
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(output.stdout.is_empty() && !stderr(&output).contains("s3cret"), "{output:?}");
    }
    let output = set(&server, "no name", b"s3cret");
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(!stderr(&output).contains("s3cret"), "{output:?}");
}
