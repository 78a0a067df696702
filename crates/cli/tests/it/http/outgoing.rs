//! core.http.request, carried out by a real server against a peer on loopback.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

pub(super) const ALLOWED: [&str; 3] = ["--test-clock", "--allow-net", "127.0.0.1/32"];

/// A server of the test's own, which keeps what it hears.
pub(super) struct Peer {
    pub(super) url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// Answers each request with a status, headers and a body, by its number from 0 and its text.
    pub(super) async fn start(answer: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = heard.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = hear(&mut stream).await;
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(request.clone());
                    kept.len() - 1
                };
                let (status, body) = answer(number, &request);
                let head = "content-type: text/plain\r\nconnection: close";
                let text =
                    format!("HTTP/1.1 {status} X\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { url, heard }
    }

    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Reads one request with its body.
async fn hear(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length:").map(|length| length.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}

pub(super) fn header_of<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// A workflow of one request.
pub(super) fn asks(id: &str, config: Value, settings: Value) -> Value {
    let mut asks =
        workflow(id, &[node("ask", "core.http.request", config, json!({}), settings)], &[], json!([]));
    // Nobody watches these runs: what is interrupted fails.
    asks["settings"]["abide"] = json!({ "resume": { "maxAttempts": 0, "onRefusal": "fail" } });
    asks
}

fn retries(most: u32) -> Value {
    json!({ "abide": { "retry": { "strategy": "fixed", "maxRetries": most, "baseDelayMs": 1000 } } })
}

/// Waits until a run has so many events of a type.
pub(super) async fn await_events(server: &Server, run: &str, kind: &str, count: usize) {
    let (mut last, mut found) = (-1, 0);
    while found < count {
        let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={last}");
        let (_, page) = server.get(&path).await;
        let events = page["events"].as_array().unwrap();
        found += events.iter().filter(|event| event["type"] == kind).count();
        last = events.last().map_or(last, |event| event["sequence"].as_i64().unwrap());
        assert!(found >= count || page["isComplete"] != true, "the run ended before: {page}");
    }
}

#[tokio::test]
async fn a_request_is_sent_and_its_answer_becomes_the_outputs() {
    let peer = Peer::start(|_, _| (200, "pong".to_owned())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    let config = json!({
        "method": "POST", "url": format!("{}/ping?q={{{{ run.workflowId }}}}", peer.url),
        "headers": { "X-Who": "{{ configurable.who }}" }, "body": { "n": 1 },
    });
    push(&server, &asks("ask", config, json!({}))).await;
    let body = json!({ "workflowId": "ask", "configurable": { "who": "Ada" } });
    let (_, started) = server.post("/v1/runs", &body).await;
    let run = started["runId"].as_str().unwrap();
    server.events(run).await;
    let snapshot = shown(&server, run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    assert_eq!(snapshot["configurable"], json!({ "who": "Ada" }));
    let outputs = &snapshot["nodeStates"]["ask"]["outputs"];
    assert_eq!((&outputs["status"], &outputs["body"]), (&json!(200), &json!("pong")));
    let heard = peer.heard();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("POST /ping?q=ask "), "{}", heard[0]);
    assert!(heard[0].ends_with(r#"{"n":1}"#), "{}", heard[0]);
    assert_eq!(header_of(&heard[0], "x-who"), Some("Ada"));
    assert!(header_of(&heard[0], "idempotency-key").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_told_and_waited_for() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let peer = Peer::start(move |_, _| {
        tokio::task::block_in_place(|| held.lock().unwrap().recv().unwrap());
        (200, "at last".to_owned())
    })
    .await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    push(&server, &asks("ask", json!({ "url": peer.url }), json!({}))).await;
    let run = server.start_run("ask", json!({})).await;
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert_eq!(why["reasons"][0]["kind"], "executing", "{why}");
    let (_, cancelled) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(cancelled["status"], "cancelling");
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    let kinds: Vec<_> = why["reasons"].as_array().unwrap().iter().map(|reason| &reason["kind"]).collect();
    assert_eq!(why["status"], "cancelling");
    assert_eq!(kinds, ["cancelling", "executing"]);
    refusal(server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await, "run_not_ended");
    let_go.send(()).unwrap();
    let events = server.events(&run).await;
    assert_eq!(types(&events)[2..], ["node.completed", "run.cancelled"]);
}

#[tokio::test]
async fn a_private_address_is_refused_unless_it_is_allowed() {
    let peer = Peer::start(|_, _| (200, String::new())).await;
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &asks("ask", json!({ "url": peer.url }), retries(3))).await;
    let run = server.start_run("ask", json!({})).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["error"]["code"], "http_address_refused");
    assert_eq!(peer.heard(), [""; 0]);
}

#[tokio::test]
async fn a_secret_goes_out_in_a_header_and_is_scrubbed_from_what_comes_back() {
    const VALUE: &str = "s3cr3t-v4lu3-4711";
    let peer = Peer::start(|_, heard| (200, format!("you said: {heard}"))).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    let config = json!({ "url": peer.url, "headers": { "X-Token": "Key {{ secrets.token }}" } });
    push(&server, &asks("ask", config, json!({}))).await;
    let run = server.start_run("ask", json!({})).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["error"]["code"], "secret_missing");
    assert_eq!(peer.heard(), [""; 0]);
    set_secret(&server, "token", VALUE).await;
    let run = server.start_run("ask", json!({})).await;
    server.events(&run).await;
    assert_eq!(header_of(&peer.heard()[0], "x-token"), Some(format!("Key {VALUE}").as_str()));
    let snapshot = shown(&server, &run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    assert!(snapshot["nodeStates"]["ask"]["outputs"]["body"].as_str().unwrap().contains("you said"));
    for tail in ["", "/why", "/events/poll"] {
        assert!(!text_of(&server, &format!("/v1/runs/{run}{tail}")).await.contains(VALUE));
    }
    assert!(server.stop().success());
    assert!(!site.said().contains(VALUE));
    let found = std::fs::read(site.data().join("abide.db")).unwrap();
    assert!(!found.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "it stands in the journal");
}

#[tokio::test]
async fn secrets_of_another_tenant_are_missing() {
    let peer = Peer::start(|_, _| (200, String::new())).await;
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&ALLOWED);
    set_secret(&server, "token", "mine").await;
    let config = json!({ "url": peer.url, "headers": { "X-Token": "{{ secrets.token }}" } });
    push_as(&server, &stranger, &asks("ask", config, json!({}))).await;
    let (_, started) = start_as(&server, &stranger, "ask").await;
    let path =
        format!("/v1/runs/{}/events/poll?timeout=60&lastSequence=1", started["runId"].as_str().unwrap());
    let (_, page) = answer(server.request_as(&stranger, Method::GET, &path)).await.unwrap();
    let last = page["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["payload"]["error"]["code"], "secret_missing", "{page}");
    assert_eq!(peer.heard(), [""; 0]);
}

#[tokio::test]
async fn a_put_is_tried_again_with_the_same_key_until_it_succeeds() {
    let peer =
        Peer::start(|number, _| if number < 2 { (503, "later".into()) } else { (200, "now".into()) }).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    push(&server, &asks("ask", json!({ "method": "PUT", "url": peer.url, "body": "x" }), retries(3))).await;
    let run = server.start_run("ask", json!({})).await;
    await_events(&server, &run, "node.retried", 1).await;
    let waiting = shown(&server, &run).await;
    assert_eq!(waiting["nodeStates"]["ask"]["attempt"], 1);
    assert_eq!(waiting["nodeStates"]["ask"]["status"], "waiting");
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    let reason = &why["reasons"][0];
    assert_eq!((&reason["kind"], &reason["nodeId"]), (&json!("retry"), &json!("ask")));
    assert!(reason["until"].is_string() && why["summary"].as_str().unwrap().contains("attempt"), "{why}");
    server.advance(1000).await;
    await_events(&server, &run, "node.retried", 2).await;
    server.advance(1000).await;
    let events = server.events(&run).await;
    let told: Vec<&str> = types(&events).into_iter().filter(|kind| kind.starts_with("node.")).collect();
    let expected =
        ["node.started", "node.retried", "node.started", "node.retried", "node.started", "node.completed"];
    assert_eq!(told, expected);
    assert_eq!(shown(&server, &run).await["nodeStates"]["ask"]["outputs"]["body"], "now");
    let heard = peer.heard();
    let keys: Vec<_> = heard.iter().map(|request| header_of(request, "idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let other = server.start_run("ask", json!({})).await;
    server.events(&other).await;
    assert_ne!(header_of(&peer.heard()[3], "idempotency-key").unwrap(), keys[0]);
}

#[tokio::test]
async fn a_get_that_never_succeeds_fails_when_its_attempts_are_used_up() {
    let peer = Peer::start(|_, _| (500, "broken".into())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    push(&server, &asks("ask", json!({ "url": peer.url }), retries(2))).await;
    let run = server.start_run("ask", json!({})).await;
    for count in 1..=2 {
        await_events(&server, &run, "node.retried", count).await;
        server.advance(1000).await;
    }
    server.events(&run).await;
    let snapshot = shown(&server, &run).await;
    assert_eq!(snapshot["error"]["code"], "http_status");
    assert_eq!(snapshot["error"]["details"]["status"], 500);
    assert_eq!(peer.heard().len(), 3);
}

#[tokio::test]
async fn a_post_that_may_have_arrived_is_not_sent_again_unless_it_is_idempotent() {
    let peer = Peer::start(|_, _| (503, "later".into())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    let config = json!({ "method": "POST", "url": peer.url, "body": "x" });
    push(&server, &asks("ask", config.clone(), retries(3))).await;
    let run = server.start_run("ask", json!({})).await;
    server.events(&run).await;
    let error = shown(&server, &run).await["error"].clone();
    assert_eq!(error["code"], "http_status");
    assert!(error["message"].as_str().unwrap().contains("not tried again"), "{error}");
    assert_eq!(peer.heard().len(), 1);
    let mut settings = retries(1);
    settings["abide"]["idempotent"] = json!(true);
    push(&server, &asks("ask", config, settings)).await;
    let run = server.start_run("ask", json!({})).await;
    await_events(&server, &run, "node.retried", 1).await;
    server.advance(1000).await;
    server.events(&run).await;
    let heard = peer.heard();
    assert_eq!(heard.len(), 3);
    assert_eq!(header_of(&heard[1], "idempotency-key"), header_of(&heard[2], "idempotency-key"));
}
