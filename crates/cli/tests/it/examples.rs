//! The examples that people copy: each runs to its end, and the guide shows one of them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Server, Site, abide};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("examples/workflows")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn examples() -> Vec<Value> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        // JSON is YAML too.
        serde_saphyr::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    };
    files().into_iter().map(read).collect()
}

/// A server with all examples, which may reach a service on this machine.
fn example_server(site: &Site) -> Server {
    let folder = root().join("examples/workflows");
    site.start(&["--test-clock", "--allow-net", "127.0.0.1", "--workflows", folder.to_str().unwrap()])
}

/// Moves the clock until a run has ended, and gives it.
async fn ended(server: &Server, run: &str) -> Value {
    for _ in 0..100 {
        server.settle().await;
        let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
        if snapshot["completedAt"].is_string() {
            return snapshot;
        }
        server.advance(86_400_000).await;
    }
    panic!("{run} has no end");
}

/// Answers whatever a run asks, as somebody would who agrees with everything.
async fn answer_all(server: &Server, run: &str) {
    server.settle().await;
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    for open in snapshot["interrupts"].as_array().into_iter().flatten() {
        let value = match open["kind"].as_str().unwrap() {
            "approval" => json!({ "action": "accept" }),
            _ => json!({ "answers": { "size": "M", "count": 2, "gift": true, "note": "" } }),
        };
        answer(server, run, open["nodeId"].as_str().unwrap(), &value).await;
    }
}

async fn answer(server: &Server, run: &str, node: &str, value: &Value) {
    let path = format!("/v1/runs/{run}/interrupts/{node}");
    let (status, body) = server.post(&path, &json!({ "resumeValue": value })).await;
    assert_eq!(status, 200, "{body}");
}

/// A service whose job is done when it is asked for the third time. The first question gets no answer at all.
fn job_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jobs/17", listener.local_addr().unwrap());
    let working = r#"{"state":"working"}"#;
    let answers = ["", working, working, r#"{"state":"done","result":42}"#];
    std::thread::spawn(move || {
        for body in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            assert!(head.take_while(|line| !line.is_empty()).count() > 0, "a request was sent");
            if !body.is_empty() {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length";
                write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        }
    });
    url
}

#[test]
fn every_example_is_valid() {
    let output = abide().args(["workflow", "validate"]).args(files()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn every_example_runs_to_its_end() {
    let site = Site::new();
    let server = example_server(&site);
    let examples = examples();
    assert!(examples.len() >= 8);
    let service = job_service();
    let mut runs = Vec::new();
    for example in &examples {
        let asks = example["variables"].as_array().unwrap().iter().any(|variable| variable["name"] == "url");
        let inputs = if asks { json!({ "url": service }) } else { json!({}) };
        runs.push(server.start_run(example["id"].as_str().unwrap(), inputs).await);
    }
    for (run, example) in runs.iter().zip(&examples) {
        answer_all(&server, run).await;
        let end = ended(&server, run).await;
        assert_eq!(end["status"], "completed", "{}: {end:#}", example["id"]);
    }
}

#[tokio::test]
async fn a_refund_takes_the_way_of_its_size() {
    let site = Site::new();
    let server = example_server(&site);
    let states = |end: &Value| {
        ["size", "refuse", "hold", "settle", "receipt"]
            .map(|node| end["nodeStates"][node]["status"].as_str().unwrap_or("-").to_owned())
    };
    let large = server.start_run("refund", json!({ "amount": 1000 })).await;
    let large = ended(&server, &large).await;
    assert_eq!(states(&large), ["completed", "skipped", "completed", "completed", "completed"]);
    assert_eq!(large["variables"]["receipt"], "We paid back 990 EUR.");
    let small = server.start_run("refund", json!({ "amount": 40, "currency": "usd" })).await;
    let small = ended(&server, &small).await;
    assert_eq!(states(&small), ["completed", "skipped", "skipped", "completed", "completed"]);
    assert_eq!(small["variables"]["receipt"], "We paid back 40 USD.");
    let nothing = server.start_run("refund", json!({ "amount": 0 })).await;
    let nothing = ended(&server, &nothing).await;
    assert_eq!(nothing["error"]["code"], "nothing_to_refund");
}

#[tokio::test]
async fn a_refund_is_paid_or_explained_as_somebody_decides() {
    let site = Site::new();
    let server = example_server(&site);
    let mut replies = Vec::new();
    for decision in [json!({ "action": "accept" }), json!({ "action": "reject", "feedback": "It was worn." })]
    {
        let run = server.start_run("refund-approval", json!({ "amount": 1000, "order": "B-7" })).await;
        let (_, asked) = server.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(asked["status"], "waiting-approval");
        let data = &asked["interrupt"]["data"];
        assert_eq!(data["title"], "Refund of 990 EUR for order B-7");
        assert_eq!(data["artifactData"], json!({ "order": "B-7", "amount": 990.0, "currency": "EUR" }));
        answer(&server, &run, "approve", &decision).await;
        let end = ended(&server, &run).await;
        assert_eq!(end["status"], "completed", "{end:#}");
        replies.push(end["variables"]["reply"].clone());
    }
    assert_eq!(replies, ["We paid back 990 EUR.", "We can not pay it back. It was worn."]);
}

#[tokio::test]
async fn a_customers_answers_have_to_fit() {
    let site = Site::new();
    let server = example_server(&site);
    let run = server.start_run("ask-customer", json!({})).await;
    let path = format!("/v1/runs/{run}/interrupts/ask");
    let answers = |count: i64| json!({ "size": "L", "count": count, "gift": true, "note": "" });
    let (status, refused) = server.post(&path, &json!({ "resumeValue": { "answers": answers(11) } })).await;
    assert_eq!((status.as_u16(), &refused["error"]), (400, &json!("validation_error")), "{refused}");
    assert_eq!(refused["details"]["problems"][0]["path"], "/answers/count", "{refused}");
    answer(&server, &run, "ask", &json!({ "answers": answers(3) })).await;
    let end = ended(&server, &run).await;
    assert_eq!(end["variables"]["line"], "3 x shirt L, wrapped", "{end:#}");
}

#[tokio::test]
async fn a_job_is_asked_for_until_it_is_done() {
    let site = Site::new();
    let server = example_server(&site);
    let run = server.start_run("poll", json!({ "url": job_service() })).await;
    let end = ended(&server, &run).await;
    assert_eq!(end["variables"]["result"], "42", "{end:#}");
    assert_eq!(end["nodeStates"]["ask"]["execution"], 3, "{end:#}");
}

#[test]
fn the_workflow_in_the_guide_is_the_one_among_the_examples() {
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let block = guide.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown: Value = serde_json::from_str(block).unwrap();
    assert!(
        examples().contains(&shown),
        "docs/guide.md shows {}, which differs from the example",
        shown["id"]
    );
}
