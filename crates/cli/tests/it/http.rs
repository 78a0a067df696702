//! The HTTP surface, request by request.

mod annotations;
mod artifacts;
mod auth;
mod bulk_cancel;
mod bundle;
mod cancel;
mod children;
mod clock;
mod collector;
mod conversations;
mod coordinators;
mod create;
mod dedup;
mod discovery;
mod erase;
mod errors;
mod forks;
mod graphs;
mod groups;
mod hands;
mod holds;
mod idempotency;
mod interrupts;
mod keyring;
mod keys;
mod ladders;
mod list;
mod mask;
mod notices;
mod oidc;
mod openintent;
mod outgoing;
mod pause;
mod people;
mod poll;
mod purge;
mod python;
mod rate;
mod resume;
mod retention;
mod sealed;
mod secrets;
mod show;
mod surface;
mod telemetry;
mod tenants;
mod tls;
mod traces;
pub(crate) mod turns;
mod webhooks;
mod why;
mod workers;
mod workflows;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Ask, PATIENCE, Server, Site, answer, chain, node, workflow};

/// An hour: how long `parked` waits.
const HOUR_MS: i64 = 3_600_000;

/// A site with the workflows that these tests start.
fn site() -> Site {
    let site = Site::new();
    let definitions = [
        chain("noop", "core.noop", 1, &json!({})),
        parked(),
        payload(),
        needy(),
        kinds(),
        fan(),
        failing(),
        workflow(
            "strange",
            &[node("odd", "vendor.unheard-of", json!({}), json!({}), json!({}))],
            &[],
            json!([]),
        ),
        workflow("gated", &[node("work", "core.dispatch", json!({}), json!({}), json!({}))], &[], json!([])),
    ];
    for definition in &definitions {
        site.workflow(definition);
    }
    site
}

/// Waits for an hour.
fn parked() -> Value {
    let waits = node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({}));
    workflow("parked", &[waits], &[], json!([]))
}

/// Gives the input `payload` back, then waits for `delayMs` (no time unless told).
fn payload() -> Value {
    let carried = json!({ "payload": { "type": "variable", "variableName": "payload", "optional": true } });
    let waits = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    workflow(
        "payload",
        &[
            node("carry", "core.identity", json!({}), carried, json!({})),
            node("wait", "core.delay", json!({}), waits, json!({})),
        ],
        &[("carry", "wait")],
        json!([{ "name": "delayMs", "type": "number", "defaultValue": 0 }]),
    )
}

/// Demands inputs.
fn needy() -> Value {
    workflow(
        "needy",
        &[node("only", "core.noop", json!({}), json!({}), json!({}))],
        &[],
        json!([
            { "name": "who", "type": "string", "required": true },
            { "name": "count", "type": "number" },
            { "name": "flag", "type": "boolean" },
            { "name": "parts", "type": "array" },
            { "name": "extra", "type": "object" },
        ]),
    )
}

/// One node of each kind in a row; the failing one is last.
fn kinds() -> Value {
    workflow(
        "kinds",
        &[
            node("nothing", "core.noop", json!({}), json!({}), json!({})),
            node(
                "same",
                "core.identity",
                json!({}),
                json!({ "word": { "type": "static", "value": "hi" } }),
                json!({}),
            ),
            node("wait", "core.delay", json!({ "durationMs": 1000 }), json!({}), json!({})),
            node("fail", "core.fail", json!({ "message": "as told" }), json!({}), json!({})),
        ],
        &[("nothing", "same"), ("same", "wait"), ("wait", "fail")],
        json!([]),
    )
}

/// One node, three beside each other, and one that joins them; the middle one runs under a lease.
fn fan() -> Value {
    let from = |id: &str| json!({ "type": "connection", "nodeId": id, "outputKey": "it" });
    let passes = |id: &str, durable: bool| {
        let settings = json!({ "abide": { "durable": durable } });
        node(id, "core.identity", json!({}), json!({ "it": from("root") }), settings)
    };
    let root = json!({ "it": { "type": "variable", "variableName": "it" } });
    let joined = json!({ "l": from("left"), "m": from("middle"), "r": from("right") });
    workflow(
        "fan",
        &[
            node("root", "core.identity", json!({}), root, json!({})),
            passes("left", false),
            passes("middle", true),
            passes("right", false),
            node("join", "core.identity", json!({}), joined, json!({})),
        ],
        &[
            ("root", "left"),
            ("root", "middle"),
            ("root", "right"),
            ("left", "join"),
            ("middle", "join"),
            ("right", "join"),
        ],
        json!([]),
    )
}

/// Fails at once.
fn failing() -> Value {
    let fails = node("fail", "core.fail", json!({}), json!({}), json!({}));
    workflow("failing", &[fails], &[], json!([]))
}

/// Checks that an answer is this refusal, in the closed envelope and with the status of the table; gives its
/// details.
fn refusal((status, body): (StatusCode, Value), code: &str) -> Value {
    let entry = body["error"].as_str().and_then(abide_core::ErrorCode::find);
    let entry = entry.unwrap_or_else(|| panic!("{body} has no code from the table"));
    assert_eq!((entry.code, entry.status), (code, status.as_u16()), "{body}");
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(keys == ["error", "message"] || keys == ["details", "error", "message"], "{body}");
    assert!(!body["message"].as_str().unwrap().is_empty(), "{body}");
    assert!(body["details"].is_object() || body["details"].is_null(), "{body}");
    body["details"].clone()
}

/// Pushes a workflow, which has to be taken in, and gives the answer.
async fn push(server: &Server, definition: &Value) -> Value {
    push_as(server, &server.key, definition).await
}

/// Pushes a workflow with a key.
async fn push_as(server: &Server, key: &str, definition: &Value) -> Value {
    let path = format!("/v1/workflows/{}", definition["id"].as_str().unwrap());
    let request = server.request_as(key, Method::PUT, &path).json(definition);
    let (status, body) = answer(request).await.unwrap();
    assert!(status.is_success(), "{status} {body}");
    body
}

/// Starts a run with a key.
async fn start_as(server: &Server, key: &str, workflow: &str) -> (StatusCode, Value) {
    let request = server.request_as(key, Method::POST, "/v1/runs");
    answer(request.json(&json!({ "workflowId": workflow }))).await.unwrap()
}

/// Sets a secret.
async fn set_secret(server: &Server, name: &str, value: &str) {
    let request = server.request(Method::PUT, &format!("/v1/secrets/{name}"));
    let (status, body) = answer(request.json(&json!({ "value": value }))).await.unwrap();
    assert_eq!((status, body), (StatusCode::NO_CONTENT, json!("")));
}

/// A run as it is shown.
async fn shown(server: &Server, run: &str) -> Value {
    let (status, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(status, StatusCode::OK, "{snapshot}");
    snapshot
}

/// The text of an answer, byte for byte.
async fn text_of(server: &Server, path: &str) -> String {
    let response = server.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response.text().await.unwrap()
}

/// Posts bytes as they are.
async fn post_raw(server: &Server, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    answer(server.request(Method::POST, path).body(body)).await.unwrap()
}

/// The types of events, in order.
fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The events of a run so far, without waiting for more.
async fn events_so_far(server: &Server, run: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/runs/{run}/events/poll?timeout=1")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    page["events"].as_array().unwrap().clone()
}

/// Milliseconds since 1970 from a timestamp on the wire.
fn millis(timestamp: &Value) -> i64 {
    timestamp.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}
