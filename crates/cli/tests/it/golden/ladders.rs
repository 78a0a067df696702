//! What came with the fifth release: questions in the middle of their ladders, messages that nobody has taken yet, an
//! agent's own policy, and a parent whose time stands still.

use serde_json::{Value, json};

use crate::support::{Server, Site, node, workflow};

/// The workflow whose question nobody answers, so that its ladder has to end.
const UNANSWERED: &str = "unanswered";

fn ladder(more: &Value) -> Value {
    let policy = json!({
        "max_attempts": 3, "interval_seconds": 3600,
        "escalation_ladder": [
            { "attempt": 2, "channel_hint": "pager", "notify_to": null },
            { "attempt": 3, "channel_hint": "desk", "notify_to": "nobody@example.com" } ],
    });
    let mut ladder = json!({ "retry_policy": policy });
    ladder.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "abide": { "ladder": ladder, "respondents": ["dev", "group:frozen"] } })
}

pub(super) fn definitions() -> Vec<Value> {
    let colour = json!({ "questions": [{ "id": "colour", "question": "Which?", "responseType": "choice",
        "choices": [{ "value": "red", "label": "Red" }, { "value": "blue", "label": "Blue" }] }] });
    let confirm = json!({ "question": "Go on?", "responseType": "confirm", "context": { "order": 7 } });
    let fallback = json!({ "fallback_policy": "use_default_and_continue", "fallback_value": "no" });
    let agent = json!({ "abide": { "agent": "frozen-agent" } });
    let mut above = workflow(
        "above",
        &[node("call", "core.subWorkflow", json!({ "workflowId": "below" }), json!({}), json!({}))],
        &[],
        json!([]),
    );
    above["settings"] = json!({ "timeout": 60_000 });
    let gate = json!({ "title": "Below?" });
    vec![
        workflow(
            "reminded",
            &[node("ask", "core.clarificationGate", colour, json!({}), ladder(&json!({})))],
            &[],
            json!([]),
        ),
        workflow(
            UNANSWERED,
            &[node("ask", "core.hitl.ask-user", confirm, json!({}), ladder(&fallback))],
            &[],
            json!([]),
        ),
        workflow("below", &[node("gate", "core.approvalGate", gate, json!({}), agent)], &[], json!([])),
        above,
    ]
}

/// A server that has channels, of which nobody takes anything.
pub(super) fn configure(site: &Site, more: &str) -> String {
    let channel = |name: &str| {
        let secret = "s".repeat(32);
        format!(
            "[channels.{name}]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\nsecret = \"{secret}\"\n"
        )
    };
    let path = site.path("abide.toml");
    let channels = channel("desk") + &channel("pager");
    std::fs::write(&path, format!("[notify]\ndefault = \"desk\"\n{channels}{more}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Two questions in their second attempt, and one below a parent. Time passes, so it comes before anything else.
pub(super) async fn freeze(server: &Server) {
    let policy = json!({ "default_human_retry_policy": { "max_attempts": 2, "interval_seconds": 86_400 } });
    let put = server.request(reqwest::Method::PUT, "/v1/agent-records/frozen-agent").json(&policy);
    assert!(crate::support::answer(put).await.unwrap().0.is_success());
    for workflow in ["reminded", UNANSWERED, "above"] {
        server.start_run(workflow, json!({})).await;
    }
    server.settle().await;
    server.advance(3_600_000).await;
    server.settle().await;
}

/// Whether nobody answers what this run asks.
pub(super) async fn is_left_alone(server: &Server, run: &str) -> bool {
    server.get(&format!("/v1/runs/{run}")).await.1["workflowId"] == UNANSWERED
}

/// Demands that the ladder went on to its end, each attempt once, and that the agent's policy is known.
pub(super) async fn demand(server: &Server) {
    let (_, runs) = server.get(&format!("/v1/runs?workflowId={UNANSWERED}")).await;
    let Some(run) = runs["runs"][0]["runId"].as_str() else { return };
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["nodeStates"]["ask"]["outputs"], json!({ "answer": "no" }));
    let (_, agent) = server.get("/v1/agent-records/frozen-agent").await;
    assert_eq!(agent["default_human_retry_policy"]["max_attempts"], 2, "{agent}");
    let events = server.events(run).await;
    let asked = events.iter().find(|event| event["type"] == "interrupt.requested").unwrap();
    let id = asked["payload"]["interruptId"].as_str().unwrap();
    let (_, ladder) = server.get(&format!("/v1/runs/{run}/interrupts/{id}/ladder")).await;
    let of_type = |wanted: &str| {
        let events = ladder["events"].as_array().unwrap().iter();
        let of_type = events.filter(|event| event["type"] == wanted);
        of_type.map(|event| event["payload"]["attempt"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_type("intent.suspension_renotified"), [json!(2), json!(3)], "{ladder}");
    assert_eq!(of_type("intent.suspension_expired").len(), 1, "{ladder}");
    assert_eq!(ladder["suspension"]["resolution"], "expired", "{ladder}");
}
