//! Questions that nobody answers: what the operator, the agent and the question itself say, through the real binary.

mod agents;
mod configured;
mod levels;

use super::*;

/// A node that asks under these settings of ours, in a workflow of this id.
fn asking(id: &str, abide: &Value) -> Value {
    let data = json!({ "customKind": "vote", "payload": [] });
    let gate = node(
        "gate",
        "core.interrupt",
        json!({ "kind": "custom", "data": data }),
        json!({}),
        json!({ "abide": abide }),
    );
    workflow(id, &[gate], &[], json!([]))
}

/// Starts a server whose operator says this in an `openintent.yaml`.
fn start_under(site: &Site, policy: &Value) -> Server {
    let file = site.path("openintent.yaml");
    let text = json!({ "suspension": { "default_retry_policy": policy } }).to_string();
    std::fs::write(&file, text).unwrap();
    site.start(&["--test-clock", "--openintent", file.to_str().unwrap()])
}

/// Starts a run that asks under these settings, and gives its id.
async fn ask(server: &Server, abide: Value) -> String {
    push(server, &asking("asking", &abide)).await;
    server.start_run("asking", json!({})).await
}

/// What a run's journal says so far.
pub(super) async fn journal(server: &Server, run: &str) -> Vec<Value> {
    let request = server.request(Method::GET, &format!("/v1/runs/{run}/journal"));
    let (status, page) = answer(request.header("accept", "application/json")).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{page}");
    page["events"].as_array().unwrap().clone()
}

/// What a run's journal says of this type, when it has said so as often as this.
async fn said(server: &Server, run: &str, kind: &str, count: usize) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let events = journal(server, run).await;
        let found: Vec<Value> = events.iter().filter(|event| event["type"] == kind).cloned().collect();
        if found.len() >= count {
            assert_eq!(found.len(), count, "{events:?}");
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{count} of {kind} in {events:?}");
        tokio::task::yield_now().await;
    }
}

/// The ladder of what a run asks.
async fn ladder(server: &Server, run: &str) -> Value {
    said(server, run, "interrupt.requested", 1).await.remove(0)["payload"]["ladder"].clone()
}

/// Sets an agent's record.
async fn set_agent(server: &Server, name: &str, policy: Value) -> (StatusCode, Value) {
    let body = json!({ "default_human_retry_policy": policy });
    server.ask_as(&server.key, Method::PUT, &format!("/v1/agent-records/{name}"), Some(&body)).await
}

/// What this ladder has of these fields, and where each comes from.
fn from(ladder: &Value, fields: &[&str]) -> Vec<(Value, String)> {
    let field = |name: &&str| (ladder[*name].clone(), ladder["levels"][*name].as_str().unwrap().to_owned());
    fields.iter().map(field).collect()
}

fn given(value: Value, level: &str) -> (Value, String) {
    (value, level.to_owned())
}
