//! `abide inbox` and `abide answer`: what waits is listed, shown, answered and refused in words that help.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc;

use super::terminal::Terminal;
use super::*;

/// A gate for an artifact, with an edge that leads on from a rejection.
fn approval() -> serde_json::Value {
    let config = json!({
        "title": "Refund of {{ inputs.amount }} EUR", "description": "The customer waits.", "artifactType": "refund",
        "artifactId": "refund-17", "timeoutMs": 3_600_000,
    });
    let amount = json!({ "amount": { "type": "variable", "variableName": "amount" } });
    let approve = node("approve", "core.approvalGate", config, amount, json!({}));
    let variables = json!([{ "name": "amount", "type": "number", "defaultValue": 40 }]);
    workflow("refund", &[approve], &[], variables)
}

fn questions() -> serde_json::Value {
    let config = json!({ "questions": [
        { "id": "colour", "question": "Which colour?", "schema": { "enum": ["red", "blue"] } },
        { "id": "count", "question": "How many?", "schema": { "type": "integer", "minimum": 1 } },
        { "id": "code", "question": "Which code?", "schema": { "type": "string" } },
    ] });
    workflow("order", &[node("ask", "core.clarificationGate", config, json!({}), json!({}))], &[], json!([]))
}

/// Waits for an order to be paid, and for a word.
fn others() -> serde_json::Value {
    let paid = json!({ "kind": "external-event", "data": { "eventType": "order.paid", "correlation": { "order": "A1" } } });
    let word = json!({ "kind": "custom", "data": { "customKind": "word", "payload": { "hint": 1 } }, "resumeSchema": { "type": "string" } });
    let both = json!({ "interrupts": [paid, word] });
    workflow("others", &[node("both", "core.interrupt", both, json!({}), json!({}))], &[], json!([]))
}

fn asking() -> Site {
    let site = site();
    site.workflow(&approval()).workflow(&questions()).workflow(&others());
    site
}

/// Starts a run and gives its id.
fn started(server: &Server, workflow: &str) -> String {
    let output = server.cli(&["run", "start", workflow]);
    assert_eq!(code(&output), 0, "{output:?}");
    stdout(&output).trim().to_owned()
}

/// The value of the event that ended an interrupt of a run.
fn recorded(server: &Server, run: &str) -> serde_json::Value {
    let output = server.cli(&["run", "events", run, "--json"]);
    let events = stdout(&output).lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut resolved = events.filter(|event| event["type"] == "interrupt.resolved");
    resolved.next().unwrap_or_else(|| panic!("nothing was resolved: {output:?}"))["payload"].clone()
}

/// What a command printed, with interrupt ids made alike.
fn told_of(output: &Output) -> String {
    let ids = regex::Regex::new("int-[0-9a-f]{36}").unwrap();
    told_with(&ids, output)
}

fn told_with(ids: &regex::Regex, output: &Output) -> String {
    let alike = |bytes: &[u8]| {
        ids.replace_all(std::str::from_utf8(bytes).unwrap(), "int-ID").into_owned().into_bytes()
    };
    told(&Output { status: output.status, stdout: alike(&output.stdout), stderr: alike(&output.stderr) })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_lists_what_waits_oldest_first() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    insta::assert_snapshot!("inbox_empty", told_of(&server.cli(&["inbox"])));
    let run = started(&server, "order");
    server.advance(7_500_000).await;
    started(&server, "refund");
    server.advance(60_000).await;
    insta::assert_snapshot!("inbox", told_of(&server.cli(&["inbox"])));
    insta::assert_snapshot!("inbox_limit", told_of(&server.cli(&["inbox", "--limit", "1"])));
    for (args, count) in [
        (&["--kind", "clarification"][..], 1),
        (&["--run", &run], 1),
        (&["--title", "40 EUR"], 1),
        (&["--title", "nobody"], 0),
        (&["--older-than", "30s"], 2),
        (&["--older-than", "2h"], 1),
        (&["--older-than", "1d"], 0),
    ] {
        let output = server.cli(&[&["inbox", "--json"], args].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(page["interrupts"].as_array().unwrap().len(), count, "{args:?}: {page:#}");
    }
    insta::assert_snapshot!("inbox_none_such", told_of(&server.cli(&["inbox", "--title", "nobody"])));
    assert_eq!(code(&server.cli(&["inbox", "--kind", "riddle"])), 1);
}

#[test]
fn an_approval_is_decided_by_flags() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    let run = started(&server, "refund");
    insta::assert_snapshot!("answer_accept", told_of(&server.cli(&["answer", &run, "approve", "--accept"])));
    assert_eq!(recorded(&server, &run)["resumeValue"]["action"], "accept");
    insta::assert_snapshot!("answer_again", told_of(&server.cli(&["answer", &run, "approve", "--accept"])));
    insta::assert_snapshot!("answer_nothing_open", told_of(&server.cli(&["answer", &run])));
    let run = started(&server, "refund");
    let rejected = server.cli(&["answer", "--reject", "--feedback", "too much", "--as", "ada", "--json"]);
    insta::assert_snapshot!("answer_reject_json", told_of(&rejected));
    let value = &recorded(&server, &run)["resumeValue"];
    assert_eq!((&value["feedback"], &value["decidedBy"]), (&json!("too much"), &json!("ada")));
    let run = started(&server, "refund");
    assert_eq!(code(&server.cli(&["run", "cancel", &run])), 0);
    insta::assert_snapshot!(
        "answer_cancelled",
        told_of(&server.cli(&["answer", &run, "approve", "--accept"]))
    );
}

#[test]
fn answers_are_read_as_their_questions_want_them() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    let run = started(&server, "order");
    insta::assert_snapshot!("answer_wrong_form", told_of(&server.cli(&["answer", &run, "--accept"])));
    let some = ["answer", &run, "--answer", "colour=green"];
    insta::assert_snapshot!("answer_misfit", told_of(&server.cli(&some)));
    let some = ["answer", &run, "--answer", "colour=red", "--answer", "count=0", "--answer", "code=7"];
    assert_eq!(code(&server.cli(&some)), 1);
    let some = ["answer", &run, "--answer", "colour=red", "--answer", "count=3"];
    insta::assert_snapshot!("answer_missing", told_of(&server.cli(&some)));
    insta::assert_snapshot!("answer_no_terminal", told_of(&server.cli(&["answer", &run])));
    let all = ["answer", &run, "--answer", "colour=red", "--answer", "count=3", "--answer", "code=7"];
    assert_eq!(code(&server.cli(&all)), 0);
    let answers = json!({ "colour": "red", "count": 3, "code": "7" });
    assert_eq!(recorded(&server, &run)["resumeValue"]["answers"], answers);
}

#[test]
fn the_one_that_is_meant_has_to_be_named() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    insta::assert_snapshot!("answer_empty_inbox", told_of(&server.cli(&["answer", "--accept"])));
    let run = started(&server, "others");
    insta::assert_snapshot!(
        "answer_several_at_once",
        told_of(&server.cli(&["answer", &run, "--value", "1"]))
    );
    let several = told_of(&server.cli(&["answer", "--value", "1"]));
    assert!(several.contains("several wait for an answer"), "{several}");
    let shown = server.cli(&["run", "show", &run, "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let open = shown["interrupts"].as_array().unwrap();
    let id = |kind: &str| {
        let open = open.iter().find(|entry| entry["kind"] == kind).unwrap();
        open["interruptId"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(&server.cli(&["answer", &id("custom"), "--value", "7"])), 1, "it has to be text");
    assert_eq!(code(&server.cli(&["answer", &id("custom"), "--value", "\"yes\""])), 0);
    let wrong = r#"{ "eventPayload": { "order": "B2" } }"#;
    insta::assert_snapshot!(
        "answer_mismatch",
        told_of(&server.cli(&["answer", &run, &id("external-event"), "--value", wrong]))
    );
    let file = site.path("paid.json");
    std::fs::write(&file, r#"{ "eventPayload": { "order": "A1", "sum": 3 } }"#).unwrap();
    let right = format!("@{}", file.display());
    assert_eq!(code(&server.cli(&["answer", &run, &id("external-event"), "--value", &right])), 0);
    insta::assert_snapshot!(
        "answer_unknown_id",
        told_of(&server.cli(&["answer", &id("custom"), "--value", "1"]))
    );
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    assert_eq!(code(&server.cli(&["answer", unknown, "approve", "--accept"])), 4);
}

#[test]
fn on_a_terminal_it_shows_asks_and_checks() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    let run = started(&server, "refund");
    let mut terminal = Terminal::start(&server, &["answer"], |_| {});
    terminal.await_text("accept or reject? ");
    terminal.types("maybe\n");
    terminal.await_text("how it begins");
    terminal.types("rej\n");
    terminal.await_text("anything to say");
    terminal.types("too much\n");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    for shown in
        ["Refund of 40 EUR", "The customer waits.", "refund refund-17", "\"amount\": 40", "is rejected"]
    {
        assert!(seen.contains(shown), "'{shown}' in {seen}");
    }
    assert_eq!(recorded(&server, &run)["resumeValue"]["feedback"], "too much");
    let run = started(&server, "order");
    let mut terminal = Terminal::start(&server, &["answer", &run], |_| {});
    for (question, typed) in [
        ("Which colour? (one of red, blue) ", "green\n"),
        ("does not fit", "blue\n"),
        ("How many? ", "0\n"),
        ("less than the minimum", "2\n"),
        ("Which code? ", "007\n"),
    ] {
        terminal.await_text(question);
        terminal.types(typed);
    }
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    let answers = json!({ "colour": "blue", "count": 2, "code": "007" });
    assert_eq!(recorded(&server, &run)["resumeValue"]["answers"], answers);
}

#[test]
fn whoever_may_not_answer_is_told_so() {
    let site = asking();
    let named = json!({ "title": "Only Ada", "approversList": ["ada"] });
    site.workflow(&workflow(
        "named",
        &[node("approve", "core.approvalGate", named, json!({}), json!({}))],
        &[],
        json!([]),
    ));
    let reader = site.key("default").scopes("runs:create,runs:read").principal("bob").make();
    let bob = site.key("default").principal("bob").make();
    let server = site.start(&["--test-clock"]);
    let run = started(&server, "named");
    let as_somebody = |key: &str| {
        let mut command = abide();
        command
            .args(["answer", &run, "approve", "--accept"])
            .env("ABIDE_URL", &server.url)
            .env("ABIDE_API_KEY", key);
        super::run(command.stdin(Stdio::null()))
    };
    insta::assert_snapshot!("answer_not_named", told_of(&as_somebody(&bob)));
    let output = as_somebody(&reader);
    assert!(code(&output) == 1 && stderr(&output).contains("approvals:respond"), "{output:?}");
    let output = server.cli(&["answer", &run, "approve", "--accept", "--as", "ada"]);
    assert_eq!(code(&output), 0, "{output:?}");
}

#[test]
fn an_event_is_told_once_to_all_who_wait() {
    let site = asking();
    let server = site.start(&["--test-clock"]);
    let run = started(&server, "others");
    let send = |id: &str, order: &str| {
        let payload = json!({ "order": order }).to_string();
        server.cli(&["event", "send", "order.paid", "--id", id, "--payload", &payload])
    };
    insta::assert_snapshot!("event_early", told_of(&send("e1", "B2")));
    insta::assert_snapshot!("event_delivered", told_of(&send("e2", "A1")));
    insta::assert_snapshot!("event_again", told_of(&send("e2", "A1")));
    assert_eq!(recorded(&server, &run)["resumeValue"]["eventPayload"], json!({ "order": "A1" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_event_is_kept_as_long_as_the_server_was_told() {
    let site = asking();
    let server = site.start(&["--test-clock", "--event-retention", "1m"]);
    let payload = json!({ "order": "A1" }).to_string();
    let send = |id: &str| {
        let output = server.cli(&["event", "send", "order.paid", "--id", id, "--payload", &payload]);
        assert!(stderr(&output).contains("it is kept"), "{output:?}");
    };
    send("late");
    server.advance(61_000).await;
    let run = started(&server, "others");
    server.settle().await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["interrupts"].as_array().unwrap().len(), 2, "its time was over: {shown:#}");
    assert_eq!(code(&server.cli(&["run", "cancel", &run])), 0);
    send("early");
    server.advance(59_000).await;
    let run = started(&server, "others");
    let (_, page) = server.get(&format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence=5")).await;
    assert_eq!(page["events"][0]["type"], "interrupt.resolved", "{page:#}");
}

/// A server that shows a run with an open gate, loses its first answer to a post, and gives the second. It tells under
/// which keys it was asked.
fn forgetful() -> (String, mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (told, keys) = mpsc::channel();
    let open = json!({ "interruptId": "int-1", "nodeId": "gate", "kind": "approval", "requestedAt": "2026-01-01T00:00:00Z",
        "data": { "title": "t", "artifactId": "a", "artifactType": "b", "actions": ["accept"] } });
    let shown = json!({ "interrupts": [open] });
    let done = json!({ "runId": "run-1", "nodeId": "gate", "interruptId": "int-1", "status": "completed" });
    std::thread::spawn(move || {
        for body in [Some(shown), None, Some(done)] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                let head = line.to_lowercase();
                if let Some(key) = head.strip_prefix("idempotency-key:") {
                    told.send(key.trim().to_owned()).unwrap();
                }
                if let Some(value) = head.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            if let Some(body) = body.map(|body| body.to_string()) {
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
                write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        }
    });
    (url, keys)
}

#[test]
fn an_answer_whose_receipt_is_lost_is_sent_again_under_the_same_key() {
    let (url, keys) = forgetful();
    let args = ["answer", "run-1", "gate", "--accept", "--url", &url, "--api-key", "abk_a_b"];
    let output = run(abide().args(args));
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stderr(&output).contains("sending it once more"), "{output:?}");
    let keys: Vec<String> = keys.iter().collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0].len() > 32, "{keys:?}");
}
