//! The pages as people meet them: some by plain requests, some in a real Chromium.

mod approvals;
mod chat;
mod chromium;
mod clicks;
mod forms;
mod holds;
mod links;
mod person;
mod runs;
mod runs_live;
mod sessions;
mod turns;

use serde_json::{Value, json};

use crate::support::{Server, Site, node, workflow};

use chromium::Chromium;
use person::Person;

/// A workflow that asks once, with this payload, and then ends.
fn asking(id: &str, payload: Value) -> Value {
    workflow(id, &[node("ask", "core.interrupt", payload, json!({}), json!({}))], &[], json!([]))
}

/// A site with a workflow for each kind of question.
fn site() -> Site {
    let site = Site::new();
    site.workflow(&asking("approval", approval(&json!({}))))
        .workflow(&asking("clarification", clarification()))
        .workflow(&asking(
            "event",
            json!({
                "kind": "external-event",
                "data": { "eventType": "stripe.checkout.completed", "correlation": { "order": 17 } },
            }),
        ))
        .workflow(&asking(
            "custom",
            json!({
                "kind": "custom",
                "data": { "customKind": "acme.moon-phase", "payload": { "phase": ["new", "full"] } },
            }),
        ));
    site
}

/// An approval that people may accept or reject, with this changed.
fn approval(changes: &Value) -> Value {
    let mut data = json!({
        "artifactId": "release-7",
        "artifactType": "Release notes",
        "title": "Publish the release notes of version 7?",
        "description": "They go to the blog and to the mailing list.\nNobody can take them back.",
        "artifactData": { "version": "7.0", "changes": ["Faster start", "Fewer writes"] },
        "actions": ["accept", "reject"],
    });
    for (name, value) in changes.as_object().unwrap() {
        data[name] = value.clone();
    }
    json!({ "kind": "approval", "data": data, "timeoutMs": 86_400_000 })
}

/// Questions of every sort.
fn clarification() -> Value {
    let question =
        |id: &str, text: &str, schema: Value| json!({ "id": id, "question": text, "schema": schema });
    json!({ "kind": "clarification", "data": { "questions": [
        question("region", "Which region?", json!({ "enum": ["eu", "us"] })),
        question("size", "How many seats?", json!({ "type": "integer", "minimum": 1, "maximum": 500 })),
        question("trial", "Is it a trial?", json!({ "type": "boolean" })),
        question("mail", "Who gets the invoice?", json!({ "type": "string", "format": "email" })),
        { "id": "note", "question": "Anything else?" },
        question("limits", "Which limits?", json!({ "type": "object" })),
    ] } })
}

/// Starts a run, waits until it asks, and gives the run and the interrupt.
async fn asked(server: &Server, workflow: &str) -> (String, String) {
    let run = server.start_run(workflow, json!({})).await;
    server.settle().await;
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    let id = snapshot["interrupt"]["interruptId"].as_str().unwrap_or_else(|| panic!("{snapshot:#}"));
    (run, id.to_owned())
}

/// The value that a run's only interrupt was resolved with.
async fn answer_of(server: &Server, run: &str) -> Value {
    let events = server.events(run).await;
    let resolved = events.iter().find(|event| event["type"] == "interrupt.resolved");
    resolved.unwrap_or_else(|| panic!("{events:#?}"))["payload"].clone()
}
