//! Pausing and resuming, with and without work in flight.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::*;

/// A server of the test's own that answers each request when it is told to.
struct Peer {
    url: String,
    arrived: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl Peer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (arrived, answers) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let peer = Self { url, arrived: arrived.clone(), answers: answers.clone() };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (arrived, answers) = (arrived.clone(), answers.clone());
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let _ = stream.read(&mut head).await;
                    arrived.add_permits(1);
                    answers.acquire().await.unwrap().forget();
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                });
            }
        });
        peer
    }

    /// Waits for a request.
    async fn hear(&self) {
        let heard = tokio::time::timeout(PATIENCE, self.arrived.acquire()).await;
        heard.expect("a request comes").unwrap().forget();
    }

    /// Answers one request.
    fn answer(&self) {
        self.answers.add_permits(1);
    }
}

/// Asks the peer, and then does one thing more.
fn asking(peer: &Peer) -> Value {
    let ask = node("ask", "core.http.request", json!({ "url": peer.url }), json!({}), json!({}));
    let next = node("next", "core.noop", json!({}), json!({}), json!({}));
    workflow("asking", &[ask, next], &[("ask", "next")], json!([]))
}

/// A run whose request is under way.
async fn under_way(peer: &Peer, server: &Server) -> String {
    push(server, &asking(peer)).await;
    let run = server.start_run("asking", json!({})).await;
    peer.hear().await;
    run
}

const ALLOWED: [&str; 3] = ["--test-clock", "--allow-net", "127.0.0.1/32"];

async fn pause(server: &Server, run: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}:pause"), &body).await
}

async fn resume(server: &Server, run: &str) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}:resume"), &json!({})).await
}

/// Waits until a run stands so.
async fn await_status(server: &Server, run: &str, status: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let snapshot = shown(server, run).await;
        if snapshot["status"] == status {
            return snapshot;
        }
        assert!(began.elapsed() < PATIENCE, "{snapshot}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_parked_run_is_paused_at_once_and_its_delay_ends_without_anything_starting() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("kinds", json!({})).await;
    let (status, body) = pause(&server, &run, json!({ "reason": "lunch" })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    let at = body["pausedAt"].clone();
    assert_eq!(body, json!({ "runId": run, "status": "paused", "pausedAt": at }));
    let snapshot = shown(&server, &run).await;
    assert_eq!((&snapshot["status"], &snapshot["pausedAt"]), (&json!("paused"), &at));
    server.advance(2000).await;
    let began = std::time::Instant::now();
    while shown(&server, &run).await["nodeStates"]["wait"]["status"] != "completed" {
        assert!(began.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    assert_eq!(shown(&server, &run).await["nodeStates"]["fail"]["status"], "pending");
    let (status, body) = resume(&server, &run).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let resumed_at = body["resumedAt"].clone();
    assert!(millis(&resumed_at) >= millis(&at) + 2000);
    assert_eq!(body, json!({ "runId": run, "status": "running", "resumedAt": resumed_at }));
    let events = server.events(&run).await;
    let told: Vec<&str> = types(&events).into_iter().skip(6).collect();
    let expected =
        ["run.paused", "node.completed", "run.resumed", "node.started", "node.failed", "run.failed"];
    assert_eq!(told, expected);
    assert_eq!(events[6]["payload"], json!({ "reason": "lunch", "by": "dev" }));
    assert_eq!(shown(&server, &run).await.get("pausedAt"), None);
}

#[tokio::test]
async fn work_in_flight_ends_before_the_run_is_paused() {
    let (site, peer) = (site(), Peer::start().await);
    let server = site.start(&ALLOWED);
    let run = under_way(&peer, &server).await;
    let (status, body) = pause(&server, &run, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    assert_eq!((&body["status"], &body["draining"]), (&json!("paused"), &json!(true)));
    let draining = shown(&server, &run).await;
    assert_eq!((&draining["status"], draining.get("pausedAt")), (&json!("running"), None));
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert_eq!(why["reasons"][0]["kind"], "pausing", "{why}");
    let details = refusal(pause(&server, &run, json!({})).await, "run_not_pausable");
    assert_eq!(details, json!({ "runStatus": "running", "pausedAt": body["pausedAt"] }));
    peer.answer();
    await_status(&server, &run, "paused").await;
    let events = events_so_far(&server, &run).await;
    assert_eq!(types(&events), ["run.started", "node.started", "node.completed", "run.paused"]);
    resume(&server, &run).await;
    assert_eq!(
        types(&server.events(&run).await)[4..],
        ["run.resumed", "node.started", "node.completed", "run.completed"]
    );
}

#[tokio::test]
async fn an_immediate_pause_does_not_wait() {
    let (site, peer) = (site(), Peer::start().await);
    let server = site.start(&ALLOWED);
    let run = under_way(&peer, &server).await;
    let (status, body) = pause(&server, &run, json!({ "drainPolicy": "immediate" })).await;
    assert_eq!((status, body.get("draining")), (StatusCode::ACCEPTED, None), "{body}");
    assert_eq!(shown(&server, &run).await["status"], "paused");
    peer.answer();
    let began = std::time::Instant::now();
    while events_so_far(&server, &run).await.len() < 4 {
        assert!(began.elapsed() < PATIENCE);
    }
    let events = events_so_far(&server, &run).await;
    assert_eq!(types(&events), ["run.started", "node.started", "run.paused", "node.completed"]);
    assert_eq!(shown(&server, &run).await["nodeStates"]["next"]["status"], "pending");
}

#[tokio::test]
async fn whoever_can_not_wait_may_pause_at_once_after_all() {
    let (site, peer) = (site(), Peer::start().await);
    let server = site.start(&ALLOWED);
    let run = under_way(&peer, &server).await;
    pause(&server, &run, json!({ "drainPolicy": "drain-current-node" })).await;
    let (status, body) = pause(&server, &run, json!({ "drainPolicy": "immediate" })).await;
    assert_eq!((status, body.get("draining")), (StatusCode::ACCEPTED, None), "{body}");
    assert_eq!(shown(&server, &run).await["status"], "paused");
    peer.answer();
}

#[tokio::test]
async fn a_resume_withdraws_a_pause_that_waits_and_a_cancel_goes_first() {
    let (site, peer) = (site(), Peer::start().await);
    let server = site.start(&ALLOWED);
    let run = under_way(&peer, &server).await;
    pause(&server, &run, json!({})).await;
    assert_eq!(resume(&server, &run).await.0, StatusCode::ACCEPTED);
    peer.answer();
    let events = server.events(&run).await;
    let told = types(&events);
    assert!(!told.contains(&"run.paused") && told.ends_with(&["run.completed"]), "{told:?}");

    let run = under_way(&peer, &server).await;
    pause(&server, &run, json!({})).await;
    let (_, cancelled) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(cancelled["status"], "cancelling");
    let details = refusal(resume(&server, &run).await, "run_not_paused");
    assert_eq!(details["runStatus"], "cancelling");
    peer.answer();
    let events = server.events(&run).await;
    assert_eq!(types(&events), ["run.started", "node.started", "node.completed", "run.cancelled"]);
}

#[tokio::test]
async fn a_pause_that_waits_outlives_a_kill() {
    let (site, peer) = (site(), Peer::start().await);
    let server = site.start(&ALLOWED);
    let run = under_way(&peer, &server).await;
    pause(&server, &run, json!({ "reason": "before the kill" })).await;
    server.kill();
    let server = site.start(&ALLOWED);
    // Nobody knows how the request ended, but it is not under way any more: the pause that waited for it is complete.
    await_status(&server, &run, "paused").await;
    let events = events_so_far(&server, &run).await;
    assert_eq!(events.last().unwrap()["payload"]["reason"], "before the kill");
    resume(&server, &run).await;
    // A GET may be sent again, so the run is resumed and the peer asked once more.
    peer.hear().await;
    peer.answer();
    peer.answer();
    server.events(&run).await;
    server.stop();
    crate::support::verify(&site.data());
}

#[tokio::test]
async fn what_can_not_be_paused_or_resumed_is_told_with_its_status() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    assert_eq!(refusal(resume(&server, &run).await, "run_not_paused"), json!({ "runStatus": "running" }));
    let (_, first) = pause(&server, &run, json!({})).await;
    server.advance(5).await;
    let before = site.rows();
    let details =
        refusal(pause(&server, &run, json!({ "drainPolicy": "immediate" })).await, "run_not_pausable");
    assert_eq!(details, json!({ "runStatus": "paused", "pausedAt": first["pausedAt"] }));
    assert_eq!(site.rows(), before);
    let ended = server.start_run("noop", json!({})).await;
    for (code, answer) in [
        ("run_not_pausable", pause(&server, &ended, json!({})).await),
        ("run_not_paused", resume(&server, &ended).await),
    ] {
        assert_eq!(refusal(answer, code), json!({ "runStatus": "completed" }));
    }
    server.post(&format!("/v1/runs/{ended}/erase"), &json!({})).await;
    assert_eq!(refusal(resume(&server, &ended).await, "run_not_paused"), json!({ "runStatus": "completed" }));
    refusal(pause(&server, "run-0", json!({})).await, "run_not_found");
    refusal(resume(&server, "run-00000000-0000-7000-8000-000000000000").await, "run_not_found");
}

#[tokio::test]
async fn a_body_that_is_none_of_these_is_refused() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let before = site.rows();
    for body in [
        json!({ "drainPolicy": "later" }),
        json!({ "drain": "immediate" }),
        json!({ "reason": 7 }),
        json!({ "reason": "x".repeat(10_000) }),
    ] {
        refusal(pause(&server, &run, body).await, "validation_error");
    }
    refusal(server.post(&format!("/v1/runs/{run}:resume"), &json!({ "at": 1 })).await, "validation_error");
    assert_eq!(site.rows(), before);
}
