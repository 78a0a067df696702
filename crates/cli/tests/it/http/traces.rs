//! Traces as a collector gets them: a run is one trace, however long it lasts and whoever goes on with it.

use super::collector::{Collector, Told};
use super::outgoing::{ALLOWED, Peer, asks, await_events, header_of};
use super::telemetry::{PARENT, TRACE, metrics, parts, start_traced, traced, value};
use super::*;
use crate::support::abide;

const DAY_MS: i64 = 24 * HOUR_MS;

/// The trace of whoever answers, and their place in it.
const ANSWERING: &str = "00-11111111111111111111111111111111-2222222222222222-01";

/// When an event of a run happened.
async fn when(server: &Server, run: &str, name: &str, node: &str) -> i64 {
    let events = server.events(run).await;
    let of_node = |event: &&Value| node.is_empty() || event["nodeId"] == node;
    let found = events.iter().filter(|event| event["type"] == name).find(of_node);
    millis(&found.unwrap_or_else(|| panic!("no {name} in {events:?}"))["timestamp"])
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_the_request_over_run_node_and_attempt_to_the_peer() {
    let collector = Collector::start().await;
    let peer = Peer::start(|_, _| (200, "pong".to_owned())).await;
    let site = Site::new();
    let server = site.start(&[&ALLOWED[..], &["--otlp-endpoint", &collector.url]].concat());
    push(&server, &asks("ask", json!({ "method": "GET", "url": format!("{}/x", peer.url) }), json!({})))
        .await;
    let request = server.request(Method::POST, "/v1/runs").header("traceparent", PARENT);
    let response = request.json(&json!({ "workflowId": "ask" })).send().await.unwrap();
    let answered = parts(response.headers()["traceparent"].to_str().unwrap());
    let run = response.json::<Value>().await.unwrap()["runId"].as_str().unwrap().to_owned();
    server.events(&run).await;
    server.get("/healthz").await;
    // What waits is sent before the end.
    server.stop();
    let of = |name: &str| collector.span(TRACE, name);
    let http = of("POST /v1/runs");
    assert_eq!((http.parent.as_deref(), &http.id), (Some("00f067aa0ba902b7"), &answered.1));
    assert_eq!((http.said("http.response.status_code"), http.kind), ("201", 2));
    let commit = of("abide.commit");
    assert!(commit.is_below(&http), "somebody waited for the first commit, and for no other");
    let whole = of("openwop.run");
    assert!(whole.is_below(&http));
    for (name, said) in
        [("abide.run.id", run.as_str()), ("abide.workflow.id", "ask"), ("openwop.run_id", &run)]
    {
        assert_eq!(whole.said(name), said);
    }
    let node = of("openwop.node.core.http.request");
    let attempt = of("openwop.node.core.http.request.attempt");
    assert!(node.is_below(&whole) && attempt.is_below(&node));
    assert_eq!((node.said("abide.node.id"), attempt.said("abide.attempt"), attempt.kind), ("ask", "1", 3));
    let sent = parts(header_of(&peer.heard()[0], "traceparent").unwrap());
    assert_eq!(sent, (TRACE.to_owned(), attempt.id), "what the peer does is below the attempt");
    let all = collector.spans();
    assert!(all.iter().all(|span| span.service == "abide" && span.began <= span.ended));
    assert!(all.iter().any(|span| span.trace != TRACE), "requests without a trace of their own begin one");
    assert!(!all.iter().any(|span| span.name.contains("healthz")), "machines ask for that all day");
}

/// Asks a peer, then a person, then has a child do something.
fn long(peer: &Peer) -> Value {
    let config = json!({
        "method": "PUT", "url": format!("{}/x?k={{{{ secrets.CRM }}}}", peer.url),
        "headers": { "Authorization": "Bearer {{ secrets.CRM }}" }, "body": "{{ secrets.CRM }} {{ inputs.pw }}",
    });
    let retry =
        json!({ "abide": { "retry": { "strategy": "fixed", "maxRetries": 1, "baseDelayMs": 1000 } } });
    let mut ask = node("ask", "core.http.request", config, json!({}), retry);
    ask["inputs"] = json!({ "pw": { "type": "variable", "variableName": "pw" } });
    let asked = json!({ "kind": "custom", "data": { "customKind": "vote", "payload": "payload-xyzzy4711" } });
    let nodes = [
        ask,
        node("gate", "core.interrupt", asked, json!({}), json!({})),
        node("call", "core.subWorkflow", json!({ "workflowId": "child" }), json!({}), json!({})),
    ];
    let variables = json!([{ "name": "pw", "type": "string", "sensitive": true }]);
    workflow("long", &nodes, &[("ask", "gate"), ("gate", "call")], variables)
}

/// Begins the run of [`long`], has its first attempt fail and its second succeed, and kills the server in the wait.
async fn until_killed(site: &Site, args: &[&str], collector: &Collector, peer: &Peer) -> String {
    let server = site.start(args);
    set_secret(&server, "CRM", "crm-xyzzy4711").await;
    push(&server, &chain("child", "core.noop", 1, &json!({}))).await;
    push(&server, &long(peer)).await;
    let request = server.request(Method::POST, "/v1/runs").header("traceparent", PARENT);
    let body = json!({ "workflowId": "long", "inputs": { "pw": "pw-xyzzy4711" } });
    let run = answer(request.json(&body)).await.unwrap().1["runId"].as_str().unwrap().to_owned();
    await_events(&server, &run, "node.retried", 1).await;
    server.advance(1000).await;
    await_events(&server, &run, "interrupt.requested", 1).await;
    collector.await_span("openwop.node.core.http.request").await;
    server.kill();
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waited_for_days_and_went_on_in_another_process_is_one_trace() {
    let collector = Collector::start().await;
    let peer = Peer::start(|number, request| (if number == 0 { 503 } else { 200 }, request.to_owned())).await;
    let site = Site::new();
    let args = [&ALLOWED[..], &["--otlp-endpoint", &collector.url]].concat();
    let run = until_killed(&site, &args, &collector, &peer).await;
    let server = site.start(&args);
    server.advance(3 * DAY_MS).await;
    let request = server.request(Method::POST, &format!("/v1/runs/{run}/interrupts/gate"));
    let request =
        request.header("traceparent", ANSWERING).json(&json!({ "resumeValue": "answer-xyzzy4711" }));
    let (status, answering) = traced(request).await;
    assert_eq!(status, StatusCode::OK);
    let began = when(&server, &run, "run.started", "").await;
    let asked = when(&server, &run, "interrupt.requested", "gate").await;
    let ended = when(&server, &run, "run.completed", "").await;
    assert!(ended - asked >= 3 * DAY_MS);
    server.stop();

    let of = |name: &str, node: &str| {
        let all = collector.spans();
        let of_node = |span: &Told| span.attributes.get("abide.node.id").is_some_and(|id| id == node);
        let found: Vec<Told> = all.into_iter().filter(|span| span.name == name && of_node(span)).collect();
        assert!(found.iter().all(|span| span.trace == TRACE));
        found
    };
    let runs: Vec<Told> = collector.spans().into_iter().filter(|span| span.name == "openwop.run").collect();
    let whole = runs.iter().find(|span| span.said("abide.run.id") == run).unwrap();
    assert_eq!((whole.began, whole.ended, whole.trace.as_str()), (began, ended, TRACE));
    let [gate, wait] = [("openwop.node.core.interrupt", "gate"), ("openwop.interrupt", "gate")]
        .map(|(name, node)| of(name, node).pop().unwrap());
    assert!(gate.is_below(whole) && wait.is_below(&gate));
    assert_eq!(
        (wait.began, wait.ended),
        (asked, ended),
        "three days, though nobody was there for all of them"
    );
    assert_eq!(wait.links, [parts(&answering)], "the wait leads to the request that ended it");
    let attempts = of("openwop.node.core.http.request.attempt", "ask");
    assert_eq!(attempts.iter().map(|span| span.failed).collect::<Vec<_>>(), [true, false]);
    assert!(attempts[1].began - attempts[0].ended >= 1000, "between them it waited");
    let call = of("openwop.node.core.subWorkflow", "call").pop().unwrap();
    let child = runs.iter().find(|span| span.said("abide.run.id") != run).unwrap();
    assert!(child.is_below(&call) && runs.len() == 2, "a child is below the node that it stands for");
    assert_eq!(child.said("abide.parent.run.id"), run);
    let mut ids: Vec<_> = collector.spans().into_iter().map(|span| (span.trace, span.id)).collect();
    ids.sort();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "nothing is told twice");
    assert!(peer.heard()[1].matches("crm-xyzzy4711").count() == 3, "they were used: {}", peer.heard()[1]);
    let bytes = collector.bytes();
    assert!(!bytes.windows(9).any(|window| window == b"xyzzy4711"), "secrets, inputs and answers stay here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_comes_back_gets_what_it_could_not_take() {
    let collector = Collector::answering(|number| if number < 2 { 503 } else { 200 }).await;
    let site = site();
    let server = site.start(&["--otlp-endpoint", &collector.url]);
    let run = start_traced(&server, "noop").await;
    server.events(&run).await;
    collector.await_span("openwop.run").await;
    let (_, text) = metrics(&server).await;
    assert_eq!(value(&text, "abide_spans_dropped_total"), 0.0);
    assert!(value(&text, "abide_spans_exported_total") >= 3.0);
    server.stop();
    collector.span(TRACE, "openwop.run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_will_never_take_is_dropped_and_counted() {
    let collector = Collector::answering(|_| 400).await;
    let site = site();
    let server = site.start(&["--otlp-endpoint", &collector.url]);
    let run = start_traced(&server, "noop").await;
    server.events(&run).await;
    let dropped = async { while value(&metrics(&server).await.1, "abide_spans_dropped_total") < 3.0 {} };
    tokio::time::timeout(PATIENCE, dropped).await.expect("they are counted");
    assert_eq!(value(&metrics(&server).await.1, "abide_spans_exported_total"), 0.0);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_notices_a_collector_that_is_down_or_silent_or_a_trace_that_is_not_sampled() {
    let site = site();
    // It takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for nobody in ["http://127.0.0.1:9", &silent] {
        let server = site.start(&["--otlp-endpoint", nobody]);
        for _ in 0..20 {
            let run = server.start_run("payload", json!({})).await;
            server.events(&run).await;
        }
        let (_, text) = metrics(&server).await;
        assert_eq!(value(&text, "abide_runs_started_total"), 20.0);
        assert!(server.stop().success(), "nor does the end wait for it");
        if nobody != silent {
            assert!(site.said().contains("the trace collector takes no spans"), "{}", site.said());
        }
    }
    let collector = Collector::start().await;
    let server = site.start(&["--otlp-endpoint", &collector.url]);
    let quiet = PARENT.replace("-01", "-00");
    let request = server.request(Method::POST, "/v1/runs").header("traceparent", &quiet);
    let (_, header) = traced(request.json(&json!({ "workflowId": "payload" }))).await;
    assert!(header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-00"), "{header}");
    server.stop();
    assert!(collector.spans().iter().all(|span| span.trace != TRACE));
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_at_the_start() {
    let site = site();
    assert!(site.try_start(&["--otlp-endpoint", "localhost:4318"]).is_err());
    assert!(site.said().contains("--otlp-endpoint"), "{}", site.said());
    assert!(
        site.try_start(&["--otlp-endpoint", "http://localhost:4317", "--otlp-protocol", "grpc"]).is_err()
    );
    assert!(site.said().contains("4318"), "{}", site.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_variables_of_opentelemetry_are_honoured() {
    let collector = Collector::start().await;
    let site = site();
    let key = site.new_key("default");
    let mut command = abide();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(site.data());
    command.arg("--workflows").arg(site.path("workflows"));
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/intake", collector.url))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20xyzzy4711")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .env("OTEL_SERVICE_NAME", "abide-prod");
    let server = Server::launch(command, &site.path("said"), &key);
    let run = start_traced(&server, "failing").await;
    server.events(&run).await;
    server.stop();
    let heads = collector.heads();
    assert!(heads.iter().all(|head| head.starts_with("POST /intake ")), "{heads:?}");
    assert_eq!(header_of(&heads[0], "authorization"), Some("Basic xyzzy4711"));
    let (whole, node) =
        (collector.span(TRACE, "openwop.run"), collector.span(TRACE, "openwop.node.core.fail"));
    assert_eq!((whole.service.as_str(), whole.failed, node.failed), ("abide-prod", true, true));
    assert!(node.is_below(&whole) && whole.is_below(&collector.span(TRACE, "POST /v1/runs")));
    assert_eq!((whole.said("abide.run.id"), node.said("openwop.node_attempt")), (run.as_str(), "0"));
    assert!(!site.said().contains("xyzzy4711"), "{}", site.said());
}
