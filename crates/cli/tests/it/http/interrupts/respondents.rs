//! Who may answer, where a node names them: by name, by group and by role, and by whichever way they answer.

use super::*;

/// A gate of any kind that only these may answer.
fn limited(kind: &str, config: Value, respondents: &[&str]) -> Value {
    gated(
        "limited",
        node("gate", kind, config, json!({}), json!({ "abide": { "respondents": respondents } })),
    )
}

fn question() -> Value {
    json!({ "question": "Which one?", "responseType": "text" })
}

async fn put_person(server: &Server, who: &str, person: &Value) {
    let (status, body) =
        server.ask_as(&server.key, Method::PUT, &format!("/v1/people/{who}"), Some(person)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

#[tokio::test]
async fn only_those_who_are_named_may_answer_whatever_is_asked() {
    let site = Site::new();
    let key = |name: &str| site.key("default").principal(name).make();
    let (ada, bob) = (key("ada"), key("bob"));
    let server = site.start(&["--test-clock"]);
    let event = json!({ "kind": "custom", "data": { "customKind": "vote", "payload": 1 } });
    for (kind, config, value) in [
        ("core.approvalGate", json!({ "title": "?" }), accept()),
        ("core.hitl.ask-user", question(), json!({ "answers": { "answer": "this" } })),
        ("core.interrupt", event, json!(1)),
    ] {
        push(&server, &limited(kind, config, &["ada", "carol"])).await;
        let run = server.start_run("limited", json!({})).await;
        let refused = answer_as(&server, &bob, &run, &value).await;
        assert_eq!(refused.1["details"]["principal"], "bob", "{kind} {refused:?}");
        refusal(refused, "forbidden");
        let by_token = token_as(&server, &bob, &run).await;
        refusal(answer_by(&server, &by_token, &value).await, "forbidden");
        let approvals = format!("/v1/runs/{run}/approvals/gate");
        refusal(server.ask_as(&bob, Method::POST, &approvals, Some(&json!({}))).await, "forbidden");
        let (status, body) = answer_as(&server, &ada, &run, &value).await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("completed")), "{kind} {body}");
    }
}

#[tokio::test]
async fn groups_and_roles_are_those_of_the_directory_and_roles_those_of_the_key_too() {
    let site = Site::new();
    let key = |name: &str| site.key("default").principal(name);
    let (ada, bob) = (key("ada").make(), key("bob").roles("auditor").make());
    let server = site.start(&["--test-clock"]);
    put_person(&server, "ada", &json!({ "groups": ["finance"], "roles": ["manager"] })).await;
    for (named, by_ada, by_bob) in [
        ("group:finance", true, false),
        ("role:manager", true, false),
        ("role:auditor", false, true),
        ("group:auditor", false, false),
        ("group:manager", false, false),
    ] {
        push(&server, &limited("core.approvalGate", json!({ "title": "?" }), &[named])).await;
        for (who, may) in [(&ada, by_ada), (&bob, by_bob)] {
            let run = server.start_run("limited", json!({})).await;
            let (status, body) = answer_as(&server, who, &run, &accept()).await;
            let expected = if may { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(status, expected, "{named} {body}");
        }
    }
    // A link proves who it was made for, and nothing about the key that it was read with.
    push(&server, &limited("core.approvalGate", json!({ "title": "?" }), &["role:auditor"])).await;
    let run = server.start_run("limited", json!({})).await;
    refusal(answer_by(&server, &token_as(&server, &bob, &run).await, &accept()).await, "forbidden");
    put_person(&server, "bob", &json!({ "roles": ["auditor"] })).await;
    assert_eq!(answer_by(&server, &token_as(&server, &bob, &run).await, &accept()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn whoever_speaks_for_another_has_to_name_one_who_may_answer() {
    let site = Site::new();
    let deputy = site.key("default").principal("deputy").roles("manager").act_as().make();
    let server = site.start(&["--test-clock"]);
    push(&server, &limited("core.approvalGate", json!({ "title": "?" }), &["ada", "role:manager"])).await;
    let run = server.start_run("limited", json!({})).await;
    let named = |who: &str| json!({ "action": "accept", "decidedBy": who });
    refusal(answer_as(&server, &deputy, &run, &named("bob")).await, "forbidden");
    let (status, body) = answer_as(&server, &deputy, &run, &named("ada")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let run = server.start_run("limited", json!({})).await;
    assert_eq!(answer_as(&server, &deputy, &run, &accept()).await.0, StatusCode::OK, "in their own name");
}
