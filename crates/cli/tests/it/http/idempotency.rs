//! Idempotency-Key: done once, answered alike.

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;

/// An answer with the header that tells whether it was given before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) status: StatusCode,
    text: String,
    pub(super) replay: Option<String>,
}

impl Told {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn run(&self) -> String {
        self.json()["runId"].as_str().unwrap().to_owned()
    }

    pub(super) fn is_replay_of(&self, first: &Self) {
        assert_eq!(first.replay.as_deref(), Some("false"), "{first:?}");
        assert_eq!(self.replay.as_deref(), Some("true"), "{self:?}");
        assert_eq!((self.status, &self.text), (first.status, &first.text), "byte for byte");
    }
}

async fn tell(request: Ask) -> Told {
    let response = request.send().await.unwrap();
    let replay = response.headers().get("openwop-idempotent-replay");
    let replay = replay.map(|value| value.to_str().unwrap().to_owned());
    Told { status: response.status(), replay, text: response.text().await.unwrap() }
}

pub(super) async fn post(server: &Server, path: &str, key: &str, body: &Value) -> Told {
    tell(server.request(Method::POST, path).header("Idempotency-Key", key).json(body)).await
}

async fn create(server: &Server, key: &str, workflow: &str) -> Told {
    post(server, "/v1/runs", key, &json!({ "workflowId": workflow })).await
}

#[tokio::test]
async fn many_creates_with_one_key_make_one_run_and_are_answered_alike() {
    let site = site();
    let server = site.start(&[]);
    let told = futures_util::future::join_all((0..10).map(|_| create(&server, "order-7", "noop"))).await;
    let (first, replays): (Vec<_>, Vec<_>) =
        told.iter().partition(|told| told.replay.as_deref() == Some("false"));
    assert_eq!((first.len(), replays.len()), (1, 9));
    assert_eq!(first[0].status, StatusCode::CREATED);
    replays.iter().for_each(|replay| replay.is_replay_of(first[0]));
    assert_eq!(site.rows()["aggregates"], 1);
    assert_eq!(site.rows()["receipts"], 1);
}

#[tokio::test]
async fn a_receipt_outlives_a_kill() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = create(&server, "order-7", "parked").await;
    let run = first.run();
    let cancel = format!("/v1/runs/{run}/cancel");
    let cancelled = post(&server, &cancel, "order-7", &json!({})).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    create(&server, "order-7", "parked").await.is_replay_of(&first);
    assert_eq!(first.json()["status"], "running", "as it was then, not as it is");
    post(&server, &cancel, "order-7", &json!({})).await.is_replay_of(&cancelled);
    assert_eq!(site.rows()["aggregates"], 1);
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused_and_the_same_one_is_not_whatever_its_spaces() {
    let site = site();
    let server = site.start(&[]);
    let body = r#"{"workflowId":"payload","inputs":{"a":1,"b":[1,2]},"tags":["x"]}"#;
    let raw = async |text: &'static str| {
        tell(server.request(Method::POST, "/v1/runs").header("Idempotency-Key", "k").body(text)).await
    };
    let first = raw(body).await;
    let spaced = r#" { "tags": ["x"], "inputs": { "b": [1, 2], "a": 1 }, "workflowId": "payload" } "#;
    raw(spaced).await.is_replay_of(&first);
    server.events(&first.run()).await;
    let before = site.rows();
    let other = raw(r#"{"workflowId":"payload","inputs":{"a":2,"b":[1,2]},"tags":["x"]}"#).await;
    refusal((other.status, other.json()), "idempotency_key_mismatch");
    assert_eq!(other.replay, None);
    assert_eq!(site.rows(), before);
    raw(body).await.is_replay_of(&first);
}

#[tokio::test]
async fn a_refusal_is_decided_again() {
    let site = site();
    let server = site.start(&[]);
    for _ in 0..2 {
        let refused = create(&server, "k", "later").await;
        refusal((refused.status, refused.json()), "workflow_not_found");
        assert_eq!(refused.replay, None);
    }
    let refused = post(&server, "/v1/runs", "k", &json!({ "workflow": "noop" })).await;
    refusal((refused.status, refused.json()), "validation_error");
    assert_eq!(site.rows()["receipts"], 0);
    push(&server, &chain("later", "core.noop", 1, &json!({}))).await;
    let first = create(&server, "k", "later").await;
    assert_eq!(first.status, StatusCode::CREATED);
    create(&server, "k", "later").await.is_replay_of(&first);
}

#[tokio::test]
async fn a_key_is_good_for_one_operation_on_one_run() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (one, two) =
        (server.start_run("parked", json!({})).await, server.start_run("parked", json!({})).await);
    let mut answers = Vec::new();
    for path in [
        format!("/v1/runs/{one}:pause"),
        format!("/v1/runs/{one}:resume"),
        format!("/v1/runs/{one}/cancel"),
        format!("/v1/runs/{two}/cancel"),
    ] {
        let first = post(&server, &path, "k", &json!({})).await;
        assert!(first.status.is_success(), "{path} {first:?}");
        answers.push((path, first));
    }
    for (path, first) in &answers {
        post(&server, path, "k", &json!({})).await.is_replay_of(first);
    }
    assert_eq!(site.rows()["receipts"], 4);
    let kinds = |events: &[Value]| types(events).iter().filter(|kind| kind.starts_with("run.")).count();
    assert_eq!(kinds(&server.events(&one).await), 4, "started, paused, resumed, cancelled; once each");
}

#[tokio::test]
async fn a_cancel_of_a_run_that_has_ended_is_kept_too() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("noop", json!({})).await;
    let path = format!("/v1/runs/{run}/cancel");
    let first = post(&server, &path, "k", &json!({ "reason": "too late" })).await;
    assert_eq!((first.status, first.json()["status"].clone()), (StatusCode::OK, json!("completed")));
    post(&server, &path, "k", &json!({ "reason": "too late" })).await.is_replay_of(&first);
    let other = post(&server, &path, "k", &json!({ "reason": "other" })).await;
    refusal((other.status, other.json()), "idempotency_key_mismatch");
}

#[tokio::test]
async fn each_tenant_has_keys_of_its_own() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    let mine = create(&server, "k", "noop").await;
    let request = server.request_as(&stranger, Method::POST, "/v1/runs").header("Idempotency-Key", "k");
    let yours = tell(request.json(&json!({ "workflowId": "noop" }))).await;
    assert_eq!(yours.replay.as_deref(), Some("false"));
    assert_ne!(mine.run(), yours.run());
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_and_a_get_does_not_look_at_it() {
    let site = site();
    let server = site.start(&[]);
    for key in ["", "two words", &"k".repeat(256), "schl\u{fc}ssel"] {
        let refused = create(&server, key, "noop").await;
        let details = refusal((refused.status, refused.json()), "validation_error");
        assert_eq!(details, json!({ "field": "Idempotency-Key" }), "{key:?}");
    }
    assert_eq!(site.rows()["aggregates"], 0);
    assert_eq!(create(&server, &"k".repeat(255), "noop").await.status, StatusCode::CREATED);
    let looked = tell(server.request(Method::GET, "/v1/runs").header("Idempotency-Key", "two words")).await;
    assert_eq!((looked.status, looked.replay), (StatusCode::OK, None));
    let plain = tell(server.request(Method::POST, "/v1/runs").json(&json!({ "workflowId": "noop" }))).await;
    assert_eq!((plain.status, plain.replay), (StatusCode::CREATED, None), "no key, no header");
}

#[tokio::test]
async fn a_receipt_is_kept_for_a_day_and_then_forgotten() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = create(&server, "k", "noop").await;
    server.advance(DAY_MS).await;
    create(&server, "k", "noop").await.is_replay_of(&first);
    server.advance(2 * HOUR_MS).await;
    let began = std::time::Instant::now();
    while site.rows()["receipts"] > 0 {
        assert!(began.elapsed() < PATIENCE, "it is never forgotten");
        tokio::task::yield_now().await;
    }
    let anew = create(&server, "k", "noop").await;
    assert_eq!(anew.replay.as_deref(), Some("false"));
    assert_ne!(anew.run(), first.run(), "a day later the key is a new one");
}

#[tokio::test]
async fn what_was_missed_while_no_server_ran_is_forgotten_at_the_start() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    create(&server, "k", "noop").await;
    server.kill();
    site.change(&format!("UPDATE receipts SET at = at - {}", 2 * DAY_MS));
    let _server = site.start(&["--test-clock"]);
    let began = std::time::Instant::now();
    while site.rows()["receipts"] > 0 {
        assert!(began.elapsed() < PATIENCE, "it is never forgotten");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_key_and_the_request_stand_nowhere_on_disk() {
    let site = site();
    let server = site.serve(&site.new_key("default"), &["--log", "trace"]);
    let body = json!({ "workflowId": "payload", "inputs": { "payload": "a-word-of-its-own" } });
    let key = "the-key-itself-is-nobodys-business";
    post(&server, "/v1/runs", key, &body).await;
    server.stop();
    let files = std::fs::read_dir(site.data()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.chain([site.path("said")]) {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!found, "{}", file.display());
    }
    let bodies: String = site
        .database()
        .query_row("SELECT group_concat(CAST(body AS TEXT)) FROM receipts", [], |row| row.get(0))
        .unwrap();
    assert!(!bodies.contains("a-word-of-its-own"), "{bodies}");
}
