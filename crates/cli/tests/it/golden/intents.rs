//! What came with the twelfth release: intents that are suspended, with a record or before it, and what waits for them.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Server, answer};

/// What Abide calls the definition of every intent.
const INTENT: &str = "abide-intent";

async fn oi(server: &Server, method: Method, path: &str, body: &Value) -> Value {
    let request = server.request(method.clone(), &format!("/api/v1/{path}")).header("X-Agent-ID", "ann");
    let request = if method == Method::GET { request } else { request.json(body) };
    let (status, told) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{path}: {told}");
    told
}

/// Changes an intent in the version that it has.
async fn change(server: &Server, intent: &str, rest: &str, body: &Value) {
    let shown = oi(server, Method::GET, &format!("intents/{intent}"), &json!({})).await;
    let request = server.request(Method::POST, &format!("/api/v1/intents/{intent}{rest}"));
    let request = request.header("X-Agent-ID", "ann").header("If-Match", shown["version"].to_string());
    let (status, told) = answer(request.json(body)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{rest}: {told}");
}

async fn made(server: &Server, body: &Value) -> String {
    oi(server, Method::POST, "intents", body).await["id"].as_str().unwrap().to_owned()
}

/// One intent waits for an answer, one has not said what for, one depends on the first, and one is under way with a lease,
/// an agent, and somebody who wants to hear of it.
pub(super) async fn freeze(server: &Server) {
    let suspended = json!({ "status": "suspended_awaiting_input" });
    let record = json!({
        "id": "kept", "question": "Sign off?", "response_type": "choice", "fallback_policy": "fail",
        "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }],
        "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 },
    });
    let asks = made(server, &json!({ "title": "kept: asks", "status": "active", "state": { "n": 1 } })).await;
    change(server, &asks, "/status", &suspended).await;
    let patch = json!({ "op": "set", "path": "_suspension", "value": record });
    change(server, &asks, "/state", &json!({ "patches": [patch] })).await;
    let silent = made(server, &json!({ "title": "kept: silent", "status": "active" })).await;
    change(server, &silent, "/status", &suspended).await;
    let waits = json!({ "title": "kept: waits", "status": "active", "depends_on": [asks] });
    made(server, &waits).await;
    let works = made(server, &json!({ "title": "kept: works", "status": "active" })).await;
    let lease = json!({ "scope": "all", "duration_seconds": 600 });
    oi(server, Method::POST, &format!("intents/{works}/leases"), &lease).await;
    let event = json!({ "event_type": "comment", "actor": "ann", "payload": { "n": 1 } });
    oi(server, Method::POST, &format!("intents/{works}/events"), &event).await;
    let agent = json!({ "agent_id": "ben" });
    oi(server, Method::POST, &format!("intents/{works}/agents"), &agent).await;
    let hears = json!({ "intent_id": works, "webhook_url": "http://127.0.0.1:9/kept" });
    oi(server, Method::POST, "subscriptions", &hears).await;
}

/// Whether a run is an intent: those are driven by their client.
pub(super) async fn is_intent(server: &Server, run: &str) -> bool {
    server.get(&format!("/v1/runs/{run}")).await.1["workflowId"] == INTENT
}

/// Answers what intents ask and completes them, whoever waits for others last.
pub(super) async fn finish(server: &Server, runs: &[(String, String)]) {
    let mut left = Vec::new();
    for (run, _) in runs {
        if is_intent(server, run).await {
            left.push(run.strip_prefix("run-").unwrap_or(run).to_owned());
        }
    }
    for intent in &left {
        let shown = oi(server, Method::GET, &format!("intents/{intent}"), &json!({})).await;
        if shown["status"] == "suspended_awaiting_input" {
            let value = json!({ "suspension_id": "kept", "value": "yes" });
            oi(server, Method::POST, &format!("intents/{intent}/suspend/respond"), &value).await;
        }
        if shown["status"] != "blocked" {
            change(server, intent, "/status", &json!({ "status": "completed" })).await;
        }
    }
    server.settle().await;
    for intent in &left {
        change(server, intent, "/status", &json!({ "status": "completed" })).await;
    }
}

/// What the intents were about is there at their end.
pub(super) async fn demand(server: &Server) {
    let page = oi(server, Method::GET, "intents?limit=100", &json!({})).await;
    let intents = page.as_array().or_else(|| page["intents"].as_array()).unwrap();
    let kept: Vec<&Value> = intents
        .iter()
        .filter(|intent| intent["title"].as_str().is_some_and(|title| title.starts_with("kept: ")))
        .collect();
    if kept.is_empty() {
        return;
    }
    assert_eq!(kept.len(), 4, "{page}");
    let answers: Vec<&Value> = kept
        .iter()
        .map(|intent| &intent["state"]["_suspension"]["response"])
        .filter(|it| **it == "yes")
        .collect();
    assert_eq!(answers.len(), 2, "both answers stand where their agents look: {page}");
    assert!(kept.iter().any(|intent| intent["state"]["n"] == 1), "{page}");
    let hears = oi(server, Method::GET, "subscriptions", &json!({})).await;
    assert_eq!(hears["subscriptions"][0]["webhook_url"], "http://127.0.0.1:9/kept", "{hears}");
    let works = hears["subscriptions"][0]["intent_id"].as_str().unwrap();
    let events = oi(server, Method::GET, &format!("intents/{works}/events"), &json!({})).await;
    let told: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["event_type"]).collect();
    assert!(["comment", "agent_assigned"].iter().all(|kind| told.contains(&&json!(kind))), "{told:?}");
}
