//! What came with the fourth release: runs that wait for an answer, and an event that came early.

use serde_json::{Value, json};

use crate::support::{Server, node, workflow};

/// Each kind of question, alone, in a loop, under a key, sensitive, and with a limit.
pub(super) fn definitions() -> Vec<Value> {
    let gate =
        |id: &str, config: Value, settings: Value| node(id, "core.approvalGate", config, json!({}), settings);
    let ask = |id: &str, config: Value| node(id, "core.interrupt", config, json!({}), json!({}));
    let wait = node("wait", "core.delay", json!({ "ms": 60_000 }), json!({}), json!({}));
    let questions = json!({ "questions": [{ "id": "colour", "question": "Which?", "schema": { "enum": ["red", "blue"] } }] });
    let mut review = workflow(
        "review",
        &[
            node("draft", "core.identity", json!({}), json!({}), json!({})),
            gate("gate", json!({ "title": "Good?", "timeoutMs": 365_i64 * 24 * 3_600_000 }), json!({})),
            node("done", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("draft", "gate"), ("gate", "draft"), ("gate", "done")],
        json!([]),
    );
    review["edges"][1]["condition"] =
        json!({ "type": "expression", "expression": "output.action == 'reject'" });
    review["edges"][2]["condition"] =
        json!({ "type": "expression", "expression": "output.action == 'accept'" });
    let hidden = json!({ "abide": { "sensitive": true } });
    let custom = |key: &str| json!({ "kind": "custom", "key": key, "data": { "customKind": "frozen", "payload": [1] } });
    let event = |order: u32| json!({ "kind": "external-event", "data": { "eventType": "frozen.paid", "correlation": { "order": order } } });
    vec![
        review,
        workflow(
            "asks",
            &[node("ask", "core.clarificationGate", questions, json!({}), json!({}))],
            &[],
            json!([]),
        ),
        workflow(
            "paid",
            &[ask("first", event(1)), ask("second", event(2))],
            &[("first", "second")],
            json!([]),
        ),
        workflow(
            "keyed",
            &[ask("one", custom("k")), ask("other", custom("l")), ask("again", custom("k"))],
            &[("one", "other"), ("other", "again")],
            json!([]),
        ),
        workflow(
            "hushed",
            &[gate("gate", json!({ "title": "Sign?" }), hidden), wait],
            &[("gate", "wait")],
            json!([]),
        ),
        workflow("some", &[ask("both", json!({ "interrupts": [custom("a"), custom("b")] }))], &[], json!([])),
    ]
}

pub(super) async fn freeze(server: &Server) {
    let review = server.start_run("review", json!({})).await;
    let reject = json!({ "resumeValue": { "action": "reject", "feedback": "again" } });
    let (status, answer) = server.post(&format!("/v1/runs/{review}/interrupts/gate"), &reject).await;
    assert_eq!(status, 200, "{answer}");
    server.start_run("asks", json!({})).await;
    server.start_run("paid", json!({})).await;
    let early = json!({ "eventId": "frozen-2", "eventType": "frozen.paid", "eventPayload": { "order": 2 } });
    let (status, answer) = server.post("/v1/external-events", &early).await;
    assert!(status.is_success(), "{answer}");
    let keyed = server.start_run("keyed", json!({})).await;
    let kept = json!({ "resumeValue": { "kept": true } });
    assert_eq!(server.post(&format!("/v1/runs/{keyed}/interrupts/one"), &kept).await.0, 200);
    let hushed = server.start_run("hushed", json!({})).await;
    let accept = json!({ "resumeValue": { "action": "accept", "feedback": "hush" } });
    assert_eq!(server.post(&format!("/v1/runs/{hushed}/interrupts/gate"), &accept).await.0, 200);
    server.start_run("some", json!({})).await;
}

/// Answers everything that a run asks, until it asks no more.
pub(super) async fn answer_all(server: &Server, run: &str) {
    for _ in 0..20 {
        let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
        let open = snapshot["interrupts"].as_array().cloned().unwrap_or_default();
        let Some(asked) = open.first() else { return };
        let value = match asked["kind"].as_str().unwrap() {
            "approval" => json!({ "action": "accept" }),
            "clarification" => {
                let questions = asked["data"]["questions"].as_array().unwrap().iter();
                let answers: serde_json::Map<String, Value> =
                    questions.map(|asked| (asked["id"].as_str().unwrap().to_owned(), json!("red"))).collect();
                json!({ "answers": answers })
            }
            "external-event" => json!({ "eventPayload": asked["data"]["correlation"] }),
            _ => json!({ "said": asked["key"] }),
        };
        let (node, id) = (asked["nodeId"].as_str().unwrap(), asked["interruptId"].as_str().unwrap());
        let path = format!("/v1/runs/{run}/interrupts/{node}?interruptId={id}");
        let (status, answer) = server.post(&path, &json!({ "resumeValue": value })).await;
        // An event that came early may have been given meanwhile.
        assert!(status == 200 || status == 409, "{run}: {answer}");
        server.settle().await;
    }
    panic!("{run} asks on and on");
}

/// Demands that nothing waits any more, and that what was answered before was not asked again.
pub(super) async fn demand(server: &Server) {
    let (_, inbox) = server.get("/v1/interrupts").await;
    assert_eq!(inbox["counts"]["total"], 0, "{inbox}");
    let (_, keyed) = server.get("/v1/runs?workflowId=keyed").await;
    let run = keyed["runs"][0]["runId"].as_str().unwrap();
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["nodeStates"]["again"]["outputs"]["resumeValue"], json!({ "kept": true }));
}
