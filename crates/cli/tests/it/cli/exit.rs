//! Exit codes, and the words that go with them.

use std::io::{Read, Write};

use super::*;

/// A server that is not Abide's: answers the first request with these bytes.
fn stranger(answer: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
    });
    url
}

fn list_at(url: &str) -> Output {
    run(abide().args(["run", "list", "--url", url, "--api-key", "abk_a_b"]))
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &["run"][..],
        &["run", "start"],
        &["run", "show"],
        &["run", "list", "--limit", "many"],
        &["run", "events", "x", "--after", "-1"],
        &["run", "start", "x", "--input", "novalue"],
        &["run", "start", "x", "--input", "=value"],
        &["run", "start", "x", "--config", "novalue"],
        &["run", "start", "x", "-f", "x.json"],
        &["run", "list", "--colour"],
        &["run", "why"],
        &["run", "erase"],
        &["workflow"],
        &["workflow", "new"],
        &["workflow", "new", "x", "--template", "helo"],
        &["workflow", "validate"],
        &["workflow", "push"],
        &["workflow", "show", "x", "--version", "one"],
        &["secrets", "set"],
        &["secrets", "set", "NAME", "a value would stand in the history"],
        &["serve", "--listen", "nowhere"],
        &["fly"],
        &["keys", "revoke"],
        &["keys", "rotate"],
        &["people"],
        &["people", "set", "ada", "--address", "novalue"],
        &["serve", "--rate-key", "often"],
        &["inbox", "--older-than", "long"],
        &["answer", "x", "--accept", "--reject"],
        &["answer", "x", "--answer", "novalue"],
        &["answer", "x", "--value", "not JSON"],
        &["answer", "x", "--value", "1", "--feedback", "why"],
        &["event", "send", "x"],
        &["event", "send", "x", "--id", "1", "--payload", "@/nowhere"],
    ] {
        let output = run(abide().args(args).env("ABIDE_API_KEY", "abk_a_b"));
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn an_input_that_is_none_is_named() {
    let output = run(abide().args(["run", "start", "x", "--input", "novalue"]));
    insta::assert_snapshot!(told(&output));
}

#[test]
fn a_server_that_is_not_there_exits_with_3() {
    let output = list_at("http://127.0.0.1:1");
    assert_eq!(code(&output), 3);
    let said = stderr(&output);
    assert!(said.contains("is the server running?") && said.contains("ABIDE_URL"), "{said}");
}

#[test]
fn a_url_or_a_key_that_can_not_be_one_is_wrong_usage() {
    for url in ["nonsense", "ftp://127.0.0.1:1", "127.0.0.1:8787", "localhost:8787", ""] {
        let output = list_at(url);
        assert_eq!(code(&output), 2, "{url}: {output:?}");
        assert!(stderr(&output).contains("write http://host:port"), "{output:?}");
    }
    for key in ["line\nbreak", "schlüssel", "two words", ""] {
        let mut command = abide();
        command.args(["run", "list", "--url", "http://127.0.0.1:1"]).env("ABIDE_API_KEY", key);
        let output = run(&mut command);
        assert_eq!(code(&output), 2, "{key}: {output:?}");
        let said = stderr(&output);
        assert!(said.contains("ABIDE_API_KEY") && (key.is_empty() || !said.contains(key)), "{said}");
    }
}

#[test]
fn what_is_not_there_exits_with_4() {
    let site = site();
    let server = site.start(&[]);
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    for args in [
        &["run", "show", unknown][..],
        &["run", "events", unknown],
        &["run", "events", unknown, "--follow"],
        &["run", "cancel", unknown],
        &["run", "show", "nonsense"],
        &["run", "start", "nowhere"],
        &["run", "why", unknown],
        &["run", "erase", unknown, "--yes"],
        &["workflow", "show", "nowhere"],
        &["workflow", "show", "hello", "--version", "99"],
        &["workflow", "diff", "nowhere"],
        &["workflow", "graph", "nowhere"],
        &["workflow", "graph", "hello", "--run", unknown],
        &["secrets", "rm", "NOWHERE"],
        &["keys", "revoke", "nobody"],
        &["people", "rm", "nobody"],
    ] {
        let output = server.cli(args);
        assert_eq!(code(&output), 4, "{args:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    insta::assert_snapshot!("run_not_found", told(&server.cli(&["run", "show", unknown])));
    insta::assert_snapshot!("workflow_not_found", told(&server.cli(&["run", "start", "nowhere"])));
}

#[test]
fn what_a_user_types_can_not_become_another_request() {
    let site = site();
    let server = site.start(&[]);
    server.cli(&["run", "start", "quick"]);
    for name in ["../runs", "", "?limit=1", "x/../../runs", "#", "%2e%2e", "..", "."] {
        let output = server.cli(&["run", "show", name]);
        assert_eq!(code(&output), 4, "'{name}': {output:?}");
    }
    let output = server.cli(&["run", "list", "--status", "failed&status=completed"]);
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("'status' is one of"), "{output:?}");
}

#[test]
fn a_refusal_is_told_with_its_code_and_what_to_do() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!("refused_limit", told(&server.cli(&["run", "list", "--limit", "0"])));
    let mut stranger = abide();
    stranger.args(["run", "list", "--url", &server.url, "--api-key", "abk_a_b"]);
    insta::assert_snapshot!("refused_key", told(&run(&mut stranger)));
}

#[test]
fn without_a_key_it_says_where_to_get_one() {
    let output = run(abide().args(["run", "list"]));
    insta::assert_snapshot!(told(&output));
}

#[test]
fn a_server_that_is_not_abides_is_told_apart() {
    let page = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let output = list_at(&stranger(page));
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("is the URL right?"), "{output:?}");
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let output = list_at(&stranger(missing));
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("is the URL right?"), "{output:?}");
    let output = list_at(&stranger("this is no HTTP\r\n\r\n"));
    assert_eq!(code(&output), 3, "{output:?}");
}

#[test]
fn following_a_run_on_a_server_that_is_not_abides_ends() {
    let page = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let url = stranger(page);
    let output = run(abide().args(["run", "events", "x", "--follow", "--url", &url, "--api-key", "abk_a_b"]));
    assert_eq!(code(&output), 1, "{output:?}");
}

#[test]
fn a_server_that_dies_while_waited_for_exits_with_3() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let started = server.cli(&["run", "start", "hello"]);
    let mut following = abide();
    following
        .args(["run", "events", "--follow", stdout(&started).trim()])
        .env("ABIDE_URL", &server.url)
        .env("ABIDE_API_KEY", &server.key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut following = following.spawn().unwrap();
    // It has caught up once it has printed what there is; then it waits.
    let mut first = [0; 1];
    following.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    server.kill();
    let output = following.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{output:?}");
}
