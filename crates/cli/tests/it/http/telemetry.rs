//! The context of traces, metrics and logs: what belongs together is told together, and nothing that nobody may read is
//! told.

use std::collections::BTreeSet;

use super::outgoing::{ALLOWED, Peer, asks, header_of};
use super::*;

pub(super) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(super) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The trace and the span that a header names, which must be well-formed.
pub(super) fn parts(header: &str) -> (String, String) {
    let parts: Vec<&str> = header.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!((parts[0], lengths), ("00", vec![2, 32, 16, 2]), "{header}");
    assert!(header.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{header}");
    (parts[1].to_owned(), parts[2].to_owned())
}

pub(super) async fn traced(request: Ask) -> (StatusCode, String) {
    let response = request.send().await.unwrap();
    (response.status(), response.headers()["traceparent"].to_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_answer_names_its_trace() {
    let site = site();
    let server = site.start(&[]);
    let cases = [
        (server.request(Method::GET, "/v1/runs"), 200),
        (server.request(Method::GET, "/v1/runs/nonsense"), 404),
        (server.request(Method::GET, "/nowhere"), 404),
        (server.request(Method::DELETE, "/v1/runs"), 405),
        (server.anonymous(Method::GET, "/v1/runs"), 401),
        (server.anonymous(Method::GET, "/healthz"), 200),
        (server.request(Method::POST, "/v1/runs").body("{"), 400),
    ];
    for (request, status) in cases {
        let (given, header) = traced(request.header("traceparent", PARENT)).await;
        assert_eq!(given.as_u16(), status);
        let (trace, span) = parts(&header);
        assert_eq!(trace, TRACE);
        assert_ne!(span, "00f067aa0ba902b7", "it is a span of its own");
    }
}

#[tokio::test]
async fn a_trace_that_makes_no_sense_is_no_error() {
    let site = site();
    let server = site.start(&[]);
    let mut seen = BTreeSet::new();
    for wrong in
        ["", "nonsense", "00-0-0-00", &PARENT.to_uppercase(), &format!("{PARENT}-x"), &"a".repeat(4000)]
    {
        let request = server.request(Method::GET, "/v1/runs").header("traceparent", wrong);
        let (status, header) = traced(request.header("tracestate", "a=\tb")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(seen.insert(parts(&header).0), "each gets a trace of its own");
    }
    let twice =
        server.request(Method::GET, "/v1/runs").header("traceparent", PARENT).header("traceparent", PARENT);
    assert_ne!(parts(&traced(twice).await.1).0, TRACE);
}

/// A request that asks a peer, after a wait.
fn late(peer: &Peer, headers: &Value) -> Value {
    let config = json!({ "method": "GET", "url": format!("{}/x", peer.url), "headers": headers });
    workflow(
        "late",
        &[
            node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({})),
            node("ask", "core.http.request", config, json!({}), json!({})),
        ],
        &[("wait", "ask")],
        json!([]),
    )
}

pub(super) async fn start_traced(server: &Server, workflow: &str) -> String {
    let request = server.request(Method::POST, "/v1/runs").header("traceparent", PARENT);
    let request = request.header("tracestate", "vendor=a").json(&json!({ "workflowId": workflow }));
    answer(request).await.unwrap().1["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_run_asks_for_after_a_wait_and_a_kill_belongs_to_the_trace_it_was_started_in() {
    let peer = Peer::start(|_, _| (200, "pong".to_owned())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    push(&server, &late(&peer, &json!({}))).await;
    let run = start_traced(&server, "late").await;
    server.settle().await;
    server.kill();
    let server = site.start(&ALLOWED);
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    let heard = peer.heard();
    let (trace, span) = parts(header_of(&heard[0], "traceparent").unwrap());
    assert_eq!(trace, TRACE);
    assert_ne!(span, "00f067aa0ba902b7");
    assert_eq!(header_of(&heard[0], "tracestate"), Some("vendor=a"));
}

#[tokio::test]
async fn a_header_of_the_nodes_own_wins() {
    let peer = Peer::start(|_, _| (200, "pong".to_owned())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    let own = "00-11111111111111111111111111111111-2222222222222222-00";
    push(&server, &late(&peer, &json!({ "Traceparent": own }))).await;
    let run = start_traced(&server, "late").await;
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    let heard = peer.heard();
    assert_eq!(header_of(&heard[0], "traceparent"), Some(own));
    assert_eq!(header_of(&heard[0], "tracestate"), None, "a state goes with its parent");
    assert_eq!(heard[0].to_lowercase().matches("traceparent:").count(), 1);
}

#[tokio::test]
async fn a_child_belongs_to_its_parents_trace() {
    let peer = Peer::start(|_, _| (200, "pong".to_owned())).await;
    let site = Site::new();
    let server = site.start(&ALLOWED);
    push(&server, &asks("child", json!({ "method": "GET", "url": format!("{}/x", peer.url) }), json!({})))
        .await;
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "child" }), json!({}), json!({}));
    push(&server, &workflow("parent", &[call], &[], json!([]))).await;
    let run = start_traced(&server, "parent").await;
    server.events(&run).await;
    assert_eq!(parts(header_of(&peer.heard()[0], "traceparent").unwrap()).0, TRACE);
}

pub(super) async fn metrics(server: &Server) -> (StatusCode, String) {
    let response = server.request(Method::GET, "/metrics").send().await.unwrap();
    let status = response.status();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    (status, response.text().await.unwrap())
}

/// The value of a series without labels, or of one that is named with its labels.
pub(super) fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn metrics_count_what_happens() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for workflow in ["noop", "failing", "parked"] {
        server.start_run(workflow, json!({})).await;
    }
    let cancelled = server.start_run("parked", json!({})).await;
    server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await;
    server.settle().await;
    server.get("/v1/runs/nonsense?token=hush").await;
    server.get("/hush/nowhere").await;
    let (status, text) = metrics(&server).await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.ends_with("# EOF\n"), "{text}");
    let expected = [
        ("abide_runs_started_total", 4.0),
        (r#"abide_runs_ended_total{status="completed"}"#, 1.0),
        (r#"abide_runs_ended_total{status="failed"}"#, 1.0),
        (r#"abide_runs_ended_total{status="cancelled"}"#, 1.0),
        (r#"abide_http_requests_total{method="POST",route="/v1/runs",status="201"}"#, 4.0),
        (r#"abide_http_requests_total{method="GET",route="/v1/runs/{runId}",status="404"}"#, 1.0),
        (r#"abide_http_requests_total{method="GET",route="none",status="404"}"#, 1.0),
        (r#"abide_http_request_seconds_count{method="POST",route="/v1/runs"}"#, 4.0),
        ("abide_http_requests_under_way", 1.0),
        ("abide_http_rate_limited_total", 0.0),
        ("abide_http_waiting", 0.0),
        ("abide_http_body_bytes", 0.0),
        ("abide_tasks_under_way", 0.0),
        ("abide_outbox_waiting", 0.0),
        ("abide_timers_overdue_seconds", 0.0),
        (&format!(r#"abide_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION")), 1.0),
    ];
    for (series, count) in expected {
        assert_eq!(value(&text, series), count, "{series}");
    }
    assert!(value(&text, "abide_http_connections") >= 1.0);
    assert!(value(&text, "abide_commits_total") >= value(&text, "abide_transactions_total"));
    assert!(!text.contains("hush") && !text.contains("parked"), "nobody else chooses a label: {text}");
    server.advance(HOUR_MS).await;
    server.settle().await;
    // The run has ended a moment before the timer counts as fired.
    let fired = async { while value(&metrics(&server).await.1, "abide_timers_fired_total") < 1.0 {} };
    tokio::time::timeout(PATIENCE, fired).await.expect("it fires");
    let (_, text) = metrics(&server).await;
    assert_eq!(value(&text, "abide_timers_fired_total"), 1.0);
    assert_eq!(value(&text, r#"abide_runs_ended_total{status="completed"}"#), 2.0);
    refusal(answer(server.anonymous(Method::GET, "/metrics")).await.unwrap(), "unauthenticated");
}

#[tokio::test]
async fn each_request_is_a_line_in_the_log() {
    let site = site();
    let server = site.start(&["--log", "info", "--log-json"]);
    let request = server.request(Method::GET, "/v1/runs?limit=3").header("traceparent", PARENT);
    assert_eq!(traced(request).await.0, StatusCode::OK);
    server.get("/healthz").await;
    server.stop();
    let said = site.said();
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let requests: Vec<&Value> =
        lines.iter().map(|line| &line["fields"]).filter(|fields| fields["message"] == "request").collect();
    let listed =
        requests.iter().find(|fields| fields["trace_id"] == TRACE).unwrap_or_else(|| panic!("{said}"));
    let told = ["method", "route", "status", "tenant", "key"].map(|key| listed[key].clone());
    assert_eq!(told, [json!("GET"), json!("/v1/runs"), json!(200), json!(1), json!("dev")]);
    assert!(listed["ms"].as_f64().is_some());
    assert!(requests.iter().all(|fields| fields["route"] != "/healthz"), "machines ask for that all day");
}

/// Everything that nobody may read, at the most talkative setting there is.
#[tokio::test]
async fn no_secret_gets_into_the_log() {
    let peer = Peer::start(|_, request| (500, request.to_owned())).await;
    let site = site();
    let other = site.new_key("other");
    let server = site.start(&[&ALLOWED[..], &["--log", "trace", "--log-json"]].concat());
    set_secret(&server, "CRM", "crm-secret-xyzzy4711").await;
    let config = json!({
        "method": "POST", "url": format!("{}/x?k={{{{ secrets.CRM }}}}", peer.url),
        "headers": { "Authorization": "Bearer {{ secrets.CRM }}" }, "body": "{{ secrets.CRM }} {{ inputs.pw }}",
    });
    let mut asks = asks("ask", config, json!({}));
    asks["nodes"][0]["inputs"] = json!({ "pw": { "type": "variable", "variableName": "pw" } });
    asks["variables"] = json!([{ "name": "pw", "type": "string", "sensitive": true }]);
    asks["settings"] = json!({ "abide": { "resume": { "onRefusal": "fail" } } });
    push(&server, &asks).await;
    let run = server.start_run("ask", json!({ "pw": "pw-secret-xyzzy4711" })).await;
    server.events(&run).await;
    let note = json!({ "signal": { "kind": "flag" }, "note": "note-xyzzy4711 password=hunter-xyzzy4711" });
    server.post(&format!("/v1/runs/{run}/annotations"), &note).await;
    let quiet = server.request(Method::POST, "/v1/runs/nonsense/cancel?secret=query-xyzzy4711");
    answer(quiet.header("idempotency-key", "idem-xyzzy4711").json(&json!({ "reason": "body-xyzzy4711" })))
        .await
        .unwrap();
    answer(server.request_as("abk_wrong_keyxyzzy4711", Method::GET, "/v1/runs")).await.unwrap();
    answer(server.request_as(&other, Method::GET, "/v1/secrets")).await.unwrap();
    let (key, other_key) = (server.key.clone(), other);
    server.stop();
    let said = site.said();
    assert!(said.contains("\"request\""), "it talks at all: {said}");
    // The welcome shows the key of `abide dev`, on purpose; the log does not.
    let log: String = said.lines().filter(|line| line.starts_with('{')).collect();
    for secret in [key.as_str(), &other_key, "xyzzy4711"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
