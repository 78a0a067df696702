//! Coordinators over HTTP: who looks after a run, under which policy, and what becomes of them.

use std::collections::BTreeMap;

use super::graphs::{NOBODY, graph};
use super::hands::{ask, claim, complete, done, reply, start_phases};
use super::idempotency::post;
use super::ladders::journal;
use super::*;

const MINUTE_MS: i64 = 60_000;

async fn act(server: &Server, run: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/coordinator"), &body).await
}

/// Coordinates a run, and gives the lease.
async fn register(server: &Server, run: &str, agent: &str, policy: Option<&str>) -> Value {
    let mut body = json!({ "kind": "register", "agent": agent, "supervisor": "ops" });
    if let Some(policy) = policy {
        body["suspensionPolicy"] = json!(policy);
    }
    let (status, leases) = act(server, run, body).await;
    assert_eq!(status, StatusCode::OK, "{leases}");
    held(&leases)
}

/// The lease that somebody has.
fn held(leases: &Value) -> Value {
    let over = |lease: &&Value| !["failed_over", "completed"].contains(&lease["status"].as_str().unwrap());
    leases["coordinators"].as_array().unwrap().iter().find(over).cloned().unwrap_or_default()
}

/// The leases of a run.
async fn leases(server: &Server, run: &str) -> Value {
    let (status, leases) = server.get(&format!("/v1/runs/{run}/coordinator")).await;
    assert_eq!(status, StatusCode::OK, "{leases}");
    leases
}

/// What a journal says of one type.
async fn said(server: &Server, run: &str, kind: &str) -> Vec<Value> {
    let events = journal(server, run).await;
    events.into_iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
}

#[tokio::test]
async fn a_policy_is_shown_as_it_was_given_is_isolate_unless_told_and_is_one_of_three() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    assert_eq!(leases(&server, &run).await, json!({ "runId": run, "coordinators": [] }));
    for (given, shown) in [
        (None, "isolate"),
        (Some("isolate"), "isolate"),
        (Some("block_dependents"), "block_dependents"),
        (Some("escalate"), "escalate"),
    ] {
        let lease = register(&server, &run, "lead", given).await;
        assert_eq!((&lease["suspensionPolicy"], &lease["status"]), (&json!(shown), &json!("active")));
        assert_eq!((&lease["agent"], &lease["supervisor"]), (&json!("lead"), &json!("ops")));
        assert_eq!(lease["heartbeatIntervalMs"], MINUTE_MS);
        assert_eq!(held(&leases(&server, &run).await), lease);
        assert_eq!(graph(&server, &run).await["coordinators"], leases(&server, &run).await["coordinators"]);
        let done = json!({ "kind": "complete", "coordinatorId": lease["coordinatorId"] });
        assert_eq!(held(&act(&server, &run, done).await.1), Value::Null);
    }
    let before = site.rows();
    for policy in ["ignore", "", "Isolate", "block-dependents"] {
        let body = json!({ "kind": "register", "agent": "lead", "suspensionPolicy": policy });
        let details = refusal(act(&server, &run, body).await, "validation_error");
        assert_eq!(details["field"], "suspensionPolicy");
    }
    assert_eq!(site.rows(), before);
    let lease = register(&server, &run, "lead", None).await;
    let set = |policy: &str| json!({ "kind": "setPolicy", "coordinatorId": lease["coordinatorId"], "suspensionPolicy": policy });
    assert_eq!(held(&act(&server, &run, set("escalate")).await.1)["suspensionPolicy"], "escalate");
    refusal(act(&server, &run, set("ignore")).await, "validation_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_who_want_to_coordinate_a_run_one_does() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let bodies = (0..20).map(|at| json!({ "kind": "register", "agent": format!("agent-{at}") }));
    let told = futures_util::future::join_all(bodies.map(|body| act(&server, &run, body))).await;
    let taken: Vec<Value> =
        told.iter().filter(|(status, _)| *status == StatusCode::OK).map(|(_, leases)| held(leases)).collect();
    assert_eq!(taken.len(), 1, "{told:?}");
    for refused in told.iter().filter(|(status, _)| *status != StatusCode::OK) {
        assert_eq!(refusal(refused.clone(), "run_coordinated")["agent"], taken[0]["agent"]);
    }
}

#[tokio::test]
async fn one_who_is_not_heard_from_is_missed_and_given_up_and_another_takes_over() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let lease = register(&server, &run, "lead", Some("escalate")).await;
    let id = &lease["coordinatorId"];
    let beat = json!({ "kind": "heartbeat", "coordinatorId": id });
    let status = async || leases(&server, &run).await["coordinators"][0]["status"].clone();
    server.advance(MINUTE_MS).await;
    assert_eq!(act(&server, &run, beat.clone()).await.0, StatusCode::OK);
    server.advance(MINUTE_MS).await;
    site.settle(&server).await;
    assert_eq!(status().await, "active", "heard a minute ago");
    server.advance(MINUTE_MS).await;
    await_status(&server, &run, "unresponsive").await;
    let taken = json!({ "kind": "register", "agent": "other" });
    refusal(act(&server, &run, taken.clone()).await, "run_coordinated");
    assert_eq!(held(&act(&server, &run, beat.clone()).await.1)["status"], "active", "there again");
    server.advance(2 * MINUTE_MS).await;
    await_status(&server, &run, "unresponsive").await;
    server.advance(MINUTE_MS).await;
    await_status(&server, &run, "failed_over").await;
    refusal(act(&server, &run, beat.clone()).await, "validation_error");
    let failed = said(&server, &run, "coordinator.failed_over").await;
    assert_eq!(failed[0]["change"]["failed_over"], json!({ "reason": "heartbeat", "supervisor": "ops" }));
    let over = json!({ "kind": "takeOver", "coordinatorId": id, "agent": "ops" });
    let taken = held(&act(&server, &run, over).await.1);
    assert_eq!(taken["agent"], "ops");
    assert_eq!(taken["suspensionPolicy"], "escalate", "under the same policy");
    // Whoever was replaced and comes back has a lease that is no more, and keeps nobody's alive.
    assert_ne!(&taken["coordinatorId"], id);
    refusal(act(&server, &run, beat).await, "coordinator_not_found");
    server.advance(2 * MINUTE_MS).await;
    await_status(&server, &run, "unresponsive").await;
    server.advance(MINUTE_MS).await;
    await_status(&server, &run, "failed_over").await;
}

async fn await_status(server: &Server, run: &str, status: &str) {
    let began = std::time::Instant::now();
    while leases(server, run).await["coordinators"][0]["status"] != status {
        assert!(began.elapsed() < PATIENCE, "it is not {status}: {}", leases(server, run).await);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn block_dependents_holds_back_what_comes_after_until_it_has_completed() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (flow, runs) = start_phases(&site, &server).await;
    register(&server, &flow, "lead", Some("block_dependents")).await;
    done(&server, &runs["first"], "ada", claim()).await;
    done(&server, &runs["first"], "ada", ask(None)).await;
    site.settle(&server).await;
    let ordered = async |phase: &str| said(&server, &runs[phase], "run.ordered").await;
    for phase in ["second", "third"] {
        let orders = ordered(phase).await;
        assert_eq!((orders.len(), &orders[0]["order"]), (1, &json!("hold")), "{phase}: {orders:?}");
    }
    let remove = async |phase: &str| {
        let edge = format!("/v1/runs/{}/dependencies/{}", runs[phase], runs["first"]);
        answer(server.request(Method::DELETE, &edge)).await.unwrap()
    };
    assert_eq!(refusal(remove("second").await, "validation_error"), json!({ "field": "upstreamId" }));
    // Nobody claims it, even if somebody takes the dependency itself away.
    assert_eq!(remove("third").await.0, StatusCode::OK);
    let blocked = graph(&server, &runs["third"]).await["blocked"].clone();
    assert_eq!((&blocked["reason"], &blocked["by"]), (&json!("coordinator_blocked"), &json!([flow])));
    reply(&server, &runs["first"]).await;
    site.settle(&server).await;
    assert_eq!(graph(&server, &runs["third"]).await["status"], "blocked", "an answer alone is not enough");
    done(&server, &runs["first"], "ada", complete(&json!({ "sum": 1 }))).await;
    site.settle(&server).await;
    assert_eq!(ordered("third").await.len(), 2);
    assert_eq!(graph(&server, &runs["third"]).await["status"], "running");
}

/// Coordinates a workflow under a policy and has its first phase wait for people.
async fn suspended(site: &Site, server: &Server, policy: Option<&str>) -> (String, BTreeMap<String, String>) {
    let (flow, runs) = start_phases(site, server).await;
    register(server, &flow, "lead", policy).await;
    done(server, &runs["first"], "ada", claim()).await;
    done(server, &runs["first"], "ada", ask(None)).await;
    site.settle(server).await;
    (flow, runs)
}

/// What people are asked about a run at the moment.
async fn asked_of(server: &Server, run: &str) -> Vec<Value> {
    let inbox = server.get("/v1/interrupts").await.1["interrupts"].clone();
    inbox.as_array().unwrap().iter().filter(|asked| asked["runId"] == *run).cloned().collect()
}

#[tokio::test]
async fn isolate_does_nothing_and_is_what_is_done_unless_told() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for policy in [None, Some("isolate")] {
        let (flow, runs) = suspended(&site, &server, policy).await;
        let seen = graph(&server, &flow).await;
        assert_eq!(
            seen["aggregateStatus"]["by_status"]["suspended_awaiting_input"], 1,
            "the aggregates tell"
        );
        assert_eq!(seen["suspended_phases"][0]["intent_id"], runs["first"]);
        let own = journal(&server, &flow).await;
        let changed = own.iter().filter(|event| event["type"].as_str().unwrap().starts_with("coordinator."));
        assert_eq!(changed.count(), 1, "that it is coordinated, and nothing after that");
        for run in runs.values() {
            assert!(said(&server, run, "run.ordered").await.is_empty(), "nobody is held back");
        }
        assert_eq!(asked_of(&server, &flow).await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn escalate_asks_people_on_the_coordinators_own_run_as_long_as_the_phase_waits() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (flow, runs) = suspended(&site, &server, Some("escalate")).await;
    let required = said(&server, &flow, "coordinator.escalation_required").await;
    assert_eq!(required.len(), 1, "{required:?}");
    let about = &required[0]["change"]["escalation_required"];
    assert_eq!((&about["suspendedIntentId"], &about["phaseName"]), (&json!(runs["first"]), &json!("first")));
    assert_eq!(graph(&server, &flow).await["status"], "running", "what it asks does not stop it");
    let asked = asked_of(&server, &flow).await;
    assert_eq!((asked.len(), &asked[0]["interruptId"]), (1, &about["interruptId"]));
    reply(&server, &runs["first"]).await;
    site.settle(&server).await;
    assert_eq!(asked_of(&server, &flow).await.len(), 0, "nobody has to look at what is answered");
}

#[tokio::test]
async fn what_a_coordinator_does_about_a_phase_is_told_by_the_run_that_it_coordinates_alone() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (flow, runs) = suspended(&site, &server, Some("escalate")).await;
    assert_eq!(said(&server, &flow, "coordinator.escalation_required").await.len(), 1);
    for run in runs.values() {
        let kinds = journal(&server, run).await;
        let of_coordinator = |event: &&Value| event["type"].as_str().unwrap().starts_with("coordinator.");
        assert_eq!(kinds.iter().filter(of_coordinator).count(), 0, "none of it is the phase's to tell");
    }
    // Whoever reads events in OpenWOP's words meets none that those do not have.
    for run in runs.values().chain([&flow]) {
        let (status, page) = server.get(&format!("/v1/runs/{run}/events/poll?timeout=1")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let of_coordinator = |event: &Value| event["type"].as_str().unwrap().starts_with("coordinator.");
        assert!(!page["events"].as_array().unwrap().iter().any(of_coordinator), "{page}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_lease_is_told_and_changes_nothing() {
    let site = site();
    let stranger = site.new_key("strangers");
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let ended = server.start_run("noop", json!({})).await;
    let before = site.rows();
    let path = format!("/v1/runs/{run}/coordinator");
    for body in [
        "",
        "{",
        "[]",
        "{}",
        "null",
        r#"{"kind":"sing"}"#,
        r#"{"kind":"register"}"#,
        r#"{"kind":"register","agent":7}"#,
        r#"{"kind":"register","agent":""}"#,
        r#"{"kind":"register","agent":"a\u0007"}"#,
        r#"{"kind":"register","agent":"ada","supervisor":""}"#,
        r#"{"kind":"register","agent":"ada","heartbeatIntervalMs":999}"#,
        r#"{"kind":"register","agent":"ada","heartbeatIntervalMs":86400001}"#,
        r#"{"kind":"register","agent":"ada","heartbeatIntervalMs":1.5}"#,
        r#"{"kind":"register","agent":"ada","until":"x"}"#,
        r#"{"kind":"heartbeat"}"#,
        r#"{"kind":"setPolicy","coordinatorId":"x"}"#,
    ] {
        refusal(post_raw(&server, &path, body.to_owned()).await, "validation_error");
    }
    for kind in ["heartbeat", "pause", "resume", "complete"] {
        let body = json!({ "kind": kind, "coordinatorId": "coord-none" });
        refusal(act(&server, &run, body).await, "coordinator_not_found");
    }
    let body = json!({ "kind": "register", "agent": "ada" });
    refusal(act(&server, NOBODY, body.clone()).await, "run_not_found");
    refusal(server.get(&format!("/v1/runs/{NOBODY}/coordinator")).await, "run_not_found");
    refusal(server.ask_as(&stranger, Method::POST, &path, Some(&body)).await, "run_not_found");
    refusal(server.ask_as(&stranger, Method::GET, &path, None).await, "run_not_found");
    refusal(act(&server, &ended, body.clone()).await, "run_over");
    assert_eq!(site.rows(), before);
    let first = post(&server, &path, "mine", &body).await;
    assert_eq!(first.status, StatusCode::OK);
    post(&server, &path, "mine", &body).await.is_replay_of(&first);
    let id = held(&first.json())["coordinatorId"].clone();
    let paused = act(&server, &run, json!({ "kind": "pause", "coordinatorId": id, "reason": "lunch" })).await;
    assert_eq!(held(&paused.1)["status"], "paused");
    refusal(act(&server, &run, json!({ "kind": "pause", "coordinatorId": id })).await, "validation_error");
    server.advance(10 * MINUTE_MS).await;
    site.settle(&server).await;
    assert_eq!(held(&leases(&server, &run).await)["status"], "paused", "who is at lunch is not missed");
}
