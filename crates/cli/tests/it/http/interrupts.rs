//! Nodes that ask, and whoever answers: what is shown, what is taken, and what is refused.

mod approvals;
mod asked;
mod by_run;
mod duties;
mod elsewhere;
mod impostors;
mod inbox;
mod ladder;
mod race;
mod respondents;
mod rotated;
mod status;
mod tokens;
mod watched;

use super::*;

/// Asks for a decision, then does nothing more.
fn review(config: &Value) -> Value {
    let mut whole = json!({ "title": "Release 1.2?" });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    gated("review", node("gate", "core.approvalGate", whole, json!({}), json!({})))
}

/// A node `gate` that asks, and one behind it.
fn gated(id: &str, gate: Value) -> Value {
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    workflow(id, &[gate, after], &[("gate", "after")], json!([]))
}

/// Asks for anything.
fn asking(id: &str, config: Value) -> Value {
    gated(id, node("gate", "core.interrupt", config, json!({}), json!({})))
}

/// What each kind that this version does asks for, what it is answered with, and how its run is shown.
fn kinds() -> Vec<(&'static str, Value, Value, &'static str)> {
    let approval = json!({
        "artifactId": "a-1", "artifactType": "letter", "title": "Send it?", "artifactData": { "to": ["ada"] },
        "actions": ["accept", "reject"],
    });
    let questions = json!([{ "id": "colour", "question": "Which colour?" }]);
    let event = json!({ "eventType": "paid", "correlation": { "order": 7 } });
    let odd = json!({ "customKind": "vote", "payload": [1, null] });
    let unsure = json!({ "agentId": "planner", "threshold": 0.7, "observed": 0.5 });
    vec![
        ("approval", approval, json!({ "action": "accept" }), "waiting-approval"),
        (
            "clarification",
            json!({ "questions": questions }),
            json!({ "answers": { "colour": "red" } }),
            "waiting-input",
        ),
        ("external-event", event, json!({ "eventPayload": { "order": 7 } }), "waiting-external"),
        ("custom", odd, json!({ "for": 3 }), "waiting-input"),
        ("low-confidence", unsure, json!({ "ratified": true }), "waiting-approval"),
    ]
}

/// Starts a run that asks for this kind of thing.
async fn ask(server: &Server, kind: &str, data: &Value, more: &Value) -> String {
    let mut config = json!({ "kind": kind, "data": data });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    push(server, &asking("asking", config)).await;
    server.start_run("asking", json!({})).await
}

/// A server with `review`, and a run of it that waits.
async fn waiting(site: &Site) -> (Server, String) {
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({}))).await;
    let run = server.start_run("review", json!({})).await;
    (server, run)
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

/// Answers the node `gate` of a run with a key.
async fn answer_as(server: &Server, key: &str, run: &str, value: &Value) -> (StatusCode, Value) {
    let path = format!("/v1/runs/{run}/interrupts/gate");
    server.ask_as(key, Method::POST, &path, Some(&json!({ "resumeValue": value }))).await
}

/// Answers the node `gate` of a run.
async fn answer_gate(server: &Server, run: &str, value: &Value) -> (StatusCode, Value) {
    answer_as(server, &server.key, run, value).await
}

/// Answers, which has to be taken.
async fn resolve(server: &Server, run: &str, value: &Value) -> Value {
    let (status, body) = answer_gate(server, run, value).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

/// The token that a run shows to whoever has this key.
async fn token_as(server: &Server, key: &str, run: &str) -> String {
    let (status, shown) = server.ask_as(key, Method::GET, &format!("/v1/runs/{run}"), None).await;
    assert_eq!(status, StatusCode::OK, "{shown}");
    let token = shown["interrupt"]["interruptToken"].as_str().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(shown["interrupt"]["callbackUrl"], format!("/v1/interrupts/{token}"));
    token.to_owned()
}

async fn token(server: &Server, run: &str) -> String {
    token_as(server, &server.key, run).await
}

/// Looks through a token, with nothing else.
async fn look(server: &Server, token: &str) -> (StatusCode, Value) {
    answer(server.anonymous(Method::GET, &format!("/v1/interrupts/{token}"))).await.unwrap()
}

/// Answers by a token, with nothing else.
async fn answer_by(server: &Server, token: &str, value: &Value) -> (StatusCode, Value) {
    let request = server.anonymous(Method::POST, &format!("/v1/interrupts/{token}"));
    answer(request.json(&json!({ "resumeValue": value }))).await.unwrap()
}

/// The events of this type.
fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// The only event of this type.
fn the<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let found = of_type(events, kind);
    assert_eq!(found.len(), 1, "{kind} in {:?}", types(events));
    found[0]
}

/// What is in the payload of an event, by name.
fn members(event: &Value) -> Vec<&str> {
    event["payload"].as_object().unwrap().keys().map(String::as_str).collect()
}

async fn cancel(server: &Server, run: &str) {
    let (status, body) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("cancelled")), "{body}");
}
