//! Ways around a gate that says who may not decide, or how many have to: none of them leads anywhere.

use super::*;
use crate::receiver::{ALLOW, Receiver};

/// A gate alone.
fn gate(config: Value, settings: &Value) -> Value {
    let settings = json!({ "abide": settings });
    let gate = node("gate", "core.approvalGate", config, json!({}), settings);
    workflow("review", &[gate], &[], json!([]))
}

fn not_starter() -> Value {
    json!({ "approval": { "notStarter": true } })
}

async fn start_as(server: &Server, key: &str, body: Value) -> String {
    let (status, run) = server.ask_as(key, Method::POST, "/v1/runs", Some(&body)).await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    run["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn whoever_is_barred_decides_in_nobodys_name() {
    let site = Site::new();
    let deputy = site.key("default").principal("deputy").act_as().make();
    let other = site.key("default").principal("other").act_as().make();
    let server = site.start(&["--test-clock"]);
    push(&server, &gate(json!({ "title": "Pay?" }), &not_starter())).await;
    let run = start_as(&server, &deputy, json!({ "workflowId": "review" })).await;
    let as_ann = json!({ "action": "accept", "decidedBy": "ann" });
    let details = refusal(answer_as(&server, &deputy, &run, &as_ann).await, "forbidden");
    assert_eq!(details["principal"], "deputy");
    assert_eq!(answer_as(&server, &other, &run, &as_ann).await.0, StatusCode::OK);
    let journal = text_of(&server, &format!("/v1/runs/{run}/journal")).await;
    assert!(journal.contains(r#""decidedBy":"ann","castBy":"other""#), "{journal}");
}

#[tokio::test]
async fn what_is_sent_to_nobody_in_particular_decides_nothing_where_it_matters_who_does() {
    let site = Site::new();
    let receiver = Receiver::start().await;
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let two = json!({ "title": "Pay?", "requiredApprovals": 2 });
    for (posts, (config, settings)) in
        [(json!({ "title": "Pay?" }), not_starter()), (two, json!({}))].into_iter().enumerate()
    {
        push(&server, &gate(config, &settings)).await;
        let body = json!({ "workflowId": "review", "callbackUrl": receiver.url });
        let run = start_as(&server, &server.key, body).await;
        let told = receiver.await_posts(posts + 1).await[posts].json();
        let token = told["interruptToken"].as_str().unwrap();
        refusal(answer_by(&server, token, &accept()).await, "forbidden");
        let (status, seen) = look(&server, token).await;
        assert_eq!((status, &seen["intent"]), (StatusCode::OK, &json!("inspect")), "{seen}");
        assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
    }
}

#[tokio::test]
async fn two_who_say_the_same_under_one_idempotency_key_have_said_two_things() {
    let site = Site::new();
    let keys = ["ann", "bob", "out"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let config = json!({ "title": "Pay?", "requiredApprovals": 2, "approversList": ["ann", "bob"] });
    push(&server, &gate(config, &json!({}))).await;
    let run = server.start_run("review", json!({})).await;
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let vote = async |key: &str, under: &str| {
        let request = server.anonymous(Method::POST, &path).bearer_auth(key).header("idempotency-key", under);
        answer(request.json(&json!({ "resumeValue": accept() }))).await.unwrap()
    };
    let first = vote(&keys[0], "approve").await;
    assert_eq!((first.0, &first.1["pending"]), (StatusCode::OK, &json!(true)), "{first:?}");
    assert_eq!(vote(&keys[0], "approve").await, first, "whoever repeats hears the same");
    refusal(vote(&keys[1], "approve").await, "idempotency_key_mismatch");
    refusal(vote(&keys[2], "approve").await, "idempotency_key_mismatch");
    assert_eq!(vote(&keys[1], "approve too").await.0, StatusCode::BAD_REQUEST, "a key has no spaces");
    assert_eq!(vote(&keys[1], "approve-2").await.1["status"], "completed");
}

#[tokio::test]
async fn what_is_sensitive_is_shown_to_those_who_may_answer() {
    let site = Site::new();
    let keys = ["ann", "out"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let config = json!({ "title": "Pay?", "actions": ["accept", "ask"], "approversList": ["ann"] });
    let mut defined = gate(config, &json!({ "sensitive": true }));
    defined["variables"] = json!([{ "name": "iban", "type": "string", "sensitive": true }]);
    defined["nodes"][0]["inputs"] = json!({ "artifactData": { "type": "variable", "variableName": "iban" } });
    push(&server, &defined).await;
    let run = server.start_run("review", json!({ "iban": "DE02 1203" })).await;
    answer_as(&server, &keys[0], &run, &json!({ "action": "ask", "question": "Is 1203 right?" })).await;
    let seen = async |key: &str| look(&server, &token_as(&server, key, &run).await).await.1.to_string();
    let (ann, out) = (seen(&keys[0]).await, seen(&keys[1]).await);
    assert!(ann.contains("DE02 1203") && ann.contains("Is 1203 right?"), "{ann}");
    assert!(!out.contains("1203"), "{out}");
}
