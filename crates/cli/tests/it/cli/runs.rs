//! `abide run`: tables for people, JSON for pipes.

use super::*;

fn json_of(output: &Output) -> serde_json::Value {
    serde_json::from_str(stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn start_prints_the_id_alone() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let output = server.cli(&["run", "start", "hello", "--input", "name=Ada", "--tag", "a", "--tag", "b"]);
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
    let id = stdout(&output).trim();
    let shown = json_of(&server.cli(&["run", "show", id, "--json"]));
    assert_eq!(shown["inputs"], json!({ "name": "Ada" }));
    assert_eq!(shown["tags"], json!(["a", "b"]));
    insta::assert_snapshot!(told(&server.cli(&["run", "start", "quick", "--json"])));
}

#[test]
fn inputs_are_json_where_they_can_be_and_text_otherwise() {
    let site = site();
    let server = site.start(&[]);
    let args = ["run", "start", "quick", "--json", "--wait"];
    let inputs = ["--input", "n=1", "--input", "t=1a", "--input", "o={\"a\":[true]}", "--input", "e=a=b"];
    let output = server.cli(&[&args[..], &inputs[..]].concat());
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json_of(&output)["inputs"], json!({ "n": 1, "t": "1a", "o": { "a": [true] }, "e": "a=b" }));
}

#[test]
fn start_and_wait_shows_a_run_that_completed() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!(told(&server.cli(&["run", "start", "hello", "--wait"])));
}

#[test]
fn start_and_wait_shows_a_run_that_failed_and_says_so() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!(told(&server.cli(&["run", "start", "sad", "--wait"])));
}

#[tokio::test]
async fn start_and_wait_waits_for_the_end() {
    let site = site();
    let server = std::sync::Arc::new(site.start(&["--test-clock"]));
    let waiting = {
        let server = server.clone();
        tokio::task::spawn_blocking(move || server.cli(&["run", "start", "hello", "--wait", "--json"]))
    };
    // The run is there once the list shows it waiting; each look is one request.
    while server.get("/v1/runs?status=running").await.1["runs"] == json!([]) {}
    assert!(!waiting.is_finished());
    server.advance(1000).await;
    let output = waiting.await.unwrap();
    assert_eq!((code(&output), &json_of(&output)["status"]), (0, &json!("completed")));
}

#[test]
fn a_list_has_a_row_for_each_run() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let cancelled = server.cli(&["run", "start", "hello"]);
    server.cli(&["run", "cancel", stdout(&cancelled).trim()]);
    for workflow in ["quick", "sad", "hello"] {
        server.cli(&["run", "start", workflow]);
    }
    insta::assert_snapshot!("list", told(&server.cli(&["run", "list"])));
    insta::assert_snapshot!("list_json", told(&server.cli(&["run", "list", "--json"])));
    insta::assert_snapshot!("list_failed", told(&server.cli(&["run", "list", "--status", "failed"])));
    insta::assert_snapshot!("list_more", told(&server.cli(&["run", "list", "--limit", "1"])));
}

#[test]
fn runs_are_paused_resumed_and_cancelled_together() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let start = || stdout(&server.cli(&["run", "start", "hello"])).trim().to_owned();
    let (one, two) = (start(), start());
    let args = ["run", "pause", &one, "--reason", "lunch"];
    insta::assert_snapshot!("pause", told(&server.cli(&args)));
    insta::assert_snapshot!("pause_again", told(&server.cli(&["run", "pause", &one, "--now"])));
    insta::assert_snapshot!("resume", told(&server.cli(&["run", "resume", &one])));
    insta::assert_snapshot!("resume_again", told(&server.cli(&["run", "resume", &one])));
    insta::assert_snapshot!("pause_json", told(&server.cli(&["run", "pause", &one, "--json"])));
    let done = server.cli(&["run", "start", "quick"]);
    let args = ["run", "cancel", &one, &two, stdout(&done).trim(), "--reason", "enough"];
    insta::assert_snapshot!("cancel_many", told(&server.cli(&args)));
    insta::assert_snapshot!("cancel_unknown", told(&server.cli(&["run", "cancel", &one, "run-0"])));
}

#[test]
fn a_start_may_be_repeated_and_may_be_the_only_one() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let start = ["run", "start", "hello", "--dedup", "--scope", "order-7"];
    let keyed = [&start[..], &["--idempotency-key", "k"]].concat();
    let first = server.cli(&keyed);
    assert_eq!(code(&first), 0, "{first:?}");
    assert_eq!(stdout(&server.cli(&keyed)), stdout(&first));
    insta::assert_snapshot!("start_dedup", told(&server.cli(&start)));
    let listed = json_of(&server.cli(&["run", "list", "--workflow", "hello", "--json"]));
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    insta::assert_snapshot!("list_workflow", told(&server.cli(&["run", "list", "--workflow", "elsewhere"])));
    let refused = server.cli(&["run", "start", "hello", "--idempotency-key", "a\nb"]);
    assert!(stderr(&refused).contains("visible ASCII"), "{refused:?}");
}

#[test]
fn an_empty_list_says_what_to_do() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!(told(&server.cli(&["run", "list"])));
}

#[test]
fn a_run_is_shown_node_by_node() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let waiting = server.cli(&["run", "start", "hello"]);
    insta::assert_snapshot!("show_waiting", told(&server.cli(&["run", "show", stdout(&waiting).trim()])));
    let json = server.cli(&["run", "show", "--json", stdout(&waiting).trim()]);
    insta::assert_snapshot!("show_waiting_json", told(&json));
    let failed = server.cli(&["run", "start", "sad"]);
    insta::assert_snapshot!("show_failed", told(&server.cli(&["run", "show", stdout(&failed).trim()])));
}

#[tokio::test]
async fn watching_without_a_terminal_prints_the_end_alone() {
    let site = site();
    let server = std::sync::Arc::new(site.start(&["--test-clock"]));
    let run = server.start_run("hello", json!({})).await;
    let watching = {
        let (server, run) = (server.clone(), run.clone());
        tokio::task::spawn_blocking(move || server.cli(&["run", "show", "--watch", &run]))
    };
    server.advance(1000).await;
    insta::assert_snapshot!("watched", told(&watching.await.unwrap()));
}

#[test]
fn why_tells_what_a_run_waits_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let waiting = server.cli(&["run", "start", "hello"]);
    let id = stdout(&waiting).trim();
    insta::assert_snapshot!("why_waiting", told(&server.cli(&["run", "why", id])));
    insta::assert_snapshot!("why_json", told(&server.cli(&["run", "why", id, "--json"])));
    let failed = server.cli(&["run", "start", "sad"]);
    insta::assert_snapshot!("why_failed", told(&server.cli(&["run", "why", stdout(&failed).trim()])));
}

#[test]
fn an_erased_run_keeps_its_outline() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let started = server.cli(&["run", "start", "quick", "--input", "name=Ada"]);
    let id = stdout(&started).trim();
    insta::assert_snapshot!("erase_unasked", told(&server.cli(&["run", "erase", id])));
    let args = ["run", "erase", id, "--yes", "--reason", "asked for"];
    insta::assert_snapshot!("erase", told(&server.cli(&args)));
    insta::assert_snapshot!("erase_again", told(&server.cli(&["run", "erase", id, "--yes", "--json"])));
    insta::assert_snapshot!("erased_already", told(&server.cli(&["run", "erase", id, "--yes"])));
    insta::assert_snapshot!("show_erased", told(&server.cli(&["run", "show", id])));
    let waiting = server.cli(&["run", "start", "hello"]);
    let refused = server.cli(&["run", "erase", stdout(&waiting).trim(), "--yes"]);
    insta::assert_snapshot!("erase_too_early", told(&refused));
}

#[test]
fn events_are_printed_one_to_a_line() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let started = server.cli(&["run", "start", "sad"]);
    let id = stdout(&started).trim();
    insta::assert_snapshot!("events", told(&server.cli(&["run", "events", id])));
    insta::assert_snapshot!("events_json", told(&server.cli(&["run", "events", id, "--json"])));
    insta::assert_snapshot!("events_after", told(&server.cli(&["run", "events", id, "--after", "2"])));
}

#[test]
fn events_of_a_waiting_run_are_printed_and_not_waited_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let started = server.cli(&["run", "start", "hello"]);
    let output = server.cli(&["run", "events", stdout(&started).trim()]);
    assert_eq!((code(&output), stdout(&output).lines().count()), (0, 4), "{output:?}");
}

#[test]
fn sequences_line_up_however_many_there_are() {
    let site = site();
    site.workflow(&chain("long", "core.noop", 60, &json!({})));
    let server = site.start(&[]);
    let started = server.cli(&["run", "start", "long"]);
    let output = server.cli(&["run", "events", stdout(&started).trim()]);
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), 122);
    let columns: Vec<usize> = lines.iter().map(|line| line.find('T').unwrap()).collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{columns:?}");
}

#[tokio::test]
async fn following_goes_on_until_the_end() {
    let site = site();
    let server = std::sync::Arc::new(site.start(&["--test-clock"]));
    let run = server.start_run("hello", json!({})).await;
    let following = {
        let (server, run) = (server.clone(), run.clone());
        tokio::task::spawn_blocking(move || server.cli(&["run", "events", "--follow", "--json", &run]))
    };
    server.advance(1000).await;
    let output = following.await.unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let types: Vec<String> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].to_string())
        .collect();
    assert_eq!((types.len(), types[5].as_str()), (6, "\"run.completed\""));
}

#[test]
fn cancel_says_how_the_run_stands() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let started = server.cli(&["run", "start", "hello"]);
    let id = stdout(&started).trim();
    let args = ["run", "cancel", id, "--reason", "enough"];
    insta::assert_snapshot!("cancel", told(&server.cli(&args)));
    insta::assert_snapshot!("cancel_json", told(&server.cli(&["run", "cancel", id, "--json"])));
    let events = server.cli(&["run", "events", id]);
    assert!(stdout(&events).contains("\"reason\":\"enough\""), "{events:?}");
}

#[test]
fn the_flags_win_over_the_environment() {
    let site = site();
    let server = site.start(&[]);
    let mut command = abide();
    command
        .args(["run", "list", "--url", &server.url, "--api-key", &server.key])
        .env("ABIDE_URL", "http://127.0.0.1:1")
        .env("ABIDE_API_KEY", "nonsense");
    assert_eq!(code(&run(&mut command)), 0);
    command.arg("--url").arg(format!("{}/", server.url));
    assert_eq!(code(&run(&mut command)), 2, "a flag twice is a mistake");
}
