//! What is told of a question and of its answer: the events, in every mode and after a kill.

use super::*;

/// A run's events in a mode, as far as they go.
async fn events_in(server: &Server, run: &str, mode: &str) -> Vec<Value> {
    let path = format!("/v1/runs/{run}/events?streamMode={mode}");
    let request = server.request(Method::GET, &path).header("accept", "application/json");
    let (status, page) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{page}");
    page["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn asking_is_told_once_with_everything_that_is_asked() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for (kind, data, ..) in kinds() {
        let run = ask(&server, kind, &data, &json!({ "key": "the-key" })).await;
        let events = events_so_far(&server, &run).await;
        let asked = the(&events, "interrupt.requested");
        assert_eq!(members(asked), ["data", "interruptId", "key", "kind", "nodeId", "requestedAt", "runId"]);
        let payload = &asked["payload"];
        assert_eq!((&payload["runId"], &payload["nodeId"]), (&json!(run), &json!("gate")));
        assert_eq!(
            (&payload["kind"], &payload["key"], &payload["data"]),
            (&json!(kind), &json!("the-key"), &data)
        );
        assert_eq!(payload["interruptId"], shown(&server, &run).await["interrupt"]["interruptId"]);
        assert_eq!(payload["requestedAt"], asked["timestamp"]);
        assert!(payload["requestedAt"].as_str().unwrap().ends_with('Z'), "{payload}");
        assert!(millis(&payload["requestedAt"]) > 0);
    }
}

#[tokio::test]
async fn a_timeout_and_a_schema_are_told_if_they_were_given_and_not_otherwise() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "customKind": "vote", "payload": null });
    for (more, told) in [
        (json!({}), json!([null, null])),
        (json!({ "timeoutMs": 0 }), json!([null, null])),
        (json!({ "timeoutMs": 60_000 }), json!([60_000, null])),
        (json!({ "resumeSchema": { "type": "string" } }), json!([null, { "type": "string" }])),
    ] {
        let run = ask(&server, "custom", &data, &more).await;
        let events = events_so_far(&server, &run).await;
        let payload = the(&events, "interrupt.requested")["payload"].as_object().unwrap();
        assert_eq!(payload.contains_key("timeoutMs"), !told[0].is_null(), "{more}");
        assert_eq!(json!([payload.get("timeoutMs"), payload.get("resumeSchema")]), told, "{more}");
    }
}

#[tokio::test]
async fn a_node_that_asks_is_told_to_be_suspended_and_then_to_go_on() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let id = shown(&server, &run).await["interrupt"]["interruptId"].clone();
    assert_eq!(shown(&server, &run).await["nodeStates"]["gate"]["status"], "suspended");
    resolve(&server, &run, &accept()).await;
    let events = server.events(&run).await;
    let suspended = &the(&events, "node.suspended")["payload"];
    let key = the(&events, "interrupt.requested")["payload"]["key"].clone();
    assert_eq!(*suspended, json!({ "nodeId": "gate", "interruptId": id, "kind": "approval", "key": key }));
    assert_eq!(the(&events, "node.resumed")["payload"], json!({ "nodeId": "gate", "interruptId": id }));
    let order =
        ["interrupt.requested", "node.suspended", "approval.received", "interrupt.resolved", "node.resumed"];
    let seen: Vec<&str> = types(&events).into_iter().filter(|kind| order.contains(kind)).collect();
    assert_eq!(seen, order);
}

#[tokio::test]
async fn an_agent_that_is_not_sure_is_told_apart_from_an_approval() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "agentId": "planner", "threshold": 0.7, "observed": 0.5 });
    let run = ask(&server, "low-confidence", &data, &json!({})).await;
    let events = events_so_far(&server, &run).await;
    assert_eq!(the(&events, "node.suspended")["payload"]["reason"], "low-confidence");
}

#[tokio::test]
async fn questions_and_answers_are_seen_in_updates_and_in_debug() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "questions": [{ "id": "colour", "question": "Which?" }] });
    let run = ask(&server, "clarification", &data, &json!({})).await;
    let asked = ["interrupt.requested", "clarification.requested", "node.suspended"];
    let answered = ["clarification.resolved", "interrupt.resolved"];
    for mode in ["updates", "debug"] {
        let events = events_in(&server, &run, mode).await;
        asked.iter().for_each(|kind| assert_eq!(of_type(&events, kind).len(), 1, "{mode} {kind}"));
    }
    resolve(&server, &run, &json!({ "answers": [{ "id": "colour", "answer": "red" }] })).await;
    for mode in ["updates", "debug"] {
        let events = events_in(&server, &run, mode).await;
        answered.iter().for_each(|kind| assert_eq!(of_type(&events, kind).len(), 1, "{mode} {kind}"));
        assert_eq!(of_type(&events, "node.resumed").len(), usize::from(mode == "debug"));
    }
}

#[tokio::test]
async fn a_question_that_somebody_heard_of_is_still_asked_after_a_kill() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let heard = events_in(&server, &run, "updates").await;
    let asked = the(&heard, "interrupt.requested").clone();
    server.kill();
    let server = site.start(&["--test-clock"]);
    let found = events_so_far(&server, &run).await;
    assert_eq!(*the(&found, "interrupt.requested"), asked);
    assert_eq!(shown(&server, &run).await["interrupt"]["interruptId"], asked["payload"]["interruptId"]);
    assert_eq!(resolve(&server, &run, &accept()).await["status"], "completed");
}

#[tokio::test]
async fn a_question_is_given_up_on_time_after_a_kill_and_nobody_has_to_ask() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "customKind": "vote" });
    let run = ask(&server, "custom", &data, &json!({ "timeoutMs": 60_000 })).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    server.advance(60_000).await;
    let events = server.events(&run).await;
    let given_up = &the(&events, "interrupt.resolved")["payload"];
    assert_eq!(
        (&given_up["outcome"], &given_up["resolvedBy"]),
        (&json!("timeout"), &json!("system:timeout"))
    );
}

#[tokio::test]
async fn an_answer_is_told_once_with_what_the_node_got_and_who_gave_it() {
    let site = Site::new();
    let ada = site.key("default").principal("ada@example.org").make();
    let server = site.start(&["--test-clock"]);
    for (kind, data, value, _) in kinds() {
        let run = ask(&server, kind, &data, &json!({})).await;
        assert_eq!(answer_as(&server, &ada, &run, &value).await.0, StatusCode::OK);
        let events = server.events(&run).await;
        let resolved = &the(&events, "interrupt.resolved")["payload"];
        assert_eq!(resolved["resolvedBy"], "ada@example.org", "{kind}");
        let outputs = &of_type(&events, "node.completed")[0]["payload"]["outputs"];
        assert_eq!(outputs["resumeValue"], resolved["resumeValue"], "{kind}");
        if kind == "custom" {
            assert_eq!(resolved["resumeValue"], value);
        }
    }
}

#[tokio::test]
async fn every_way_to_end_is_told_in_one_shape() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let shape =
        ["interruptId", "kind", "nodeId", "outcome", "resolvedAt", "resolvedBy", "resumeValue", "runId"];
    let with_reason: Vec<&str> = [&shape[..4], &["reason"], &shape[4..]].concat();
    for (kind, data, value, _) in kinds() {
        let end = async |more: &Value, act: &str| {
            let run = ask(&server, kind, &data, more).await;
            match act {
                "answer" => drop(resolve(&server, &run, &value).await),
                "wait" => server.advance(60_000).await,
                _ => cancel(&server, &run).await,
            }
            let events = server.events(&run).await;
            the(&events, "interrupt.resolved").clone()
        };
        let answered = end(&json!({}), "answer").await;
        assert_eq!(members(&answered), shape, "{kind}");
        assert_eq!(answered["payload"]["outcome"], "resolved");
        assert!(!answered["payload"]["resumeValue"].is_null());
        let late = end(&json!({ "timeoutMs": 60_000 }), "wait").await;
        assert_eq!(members(&late), with_reason, "{kind}");
        let outcome = if kind == "approval" { "rejected" } else { "timeout" };
        let cancelled = end(&json!({}), "cancel").await;
        for (event, outcome, reason, by) in [
            (&late, outcome, "timeout", "system:timeout"),
            (&cancelled, "cancelled", "run-cancelled", "system:run"),
        ] {
            let payload = &event["payload"];
            assert_eq!(
                (&payload["outcome"], &payload["reason"]),
                (&json!(outcome), &json!(reason)),
                "{kind}"
            );
            assert_eq!(
                (&payload["resumeValue"], &payload["resolvedBy"]),
                (&Value::Null, &json!(by)),
                "{kind}"
            );
            assert_eq!(payload["resolvedAt"], event["timestamp"]);
        }
    }
}

#[tokio::test]
async fn whatever_is_closed_by_no_person_is_closed_by_a_system() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let clock = server.get("/v1/dev/clock").await.1["now"].as_str().unwrap().to_owned();
    let then = clock.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_secs(60);
    let data = json!({ "eventType": format!("scheduled-time:{then}"), "correlation": {} });
    let scheduled = ask(&server, "external-event", &data, &json!({})).await;
    let data = json!({ "customKind": "vote", "payload": null });
    let late = ask(&server, "custom", &data, &json!({ "timeoutMs": 60_000 })).await;
    server.advance(60_000).await;
    for (run, by) in [(scheduled, "system:schedule"), (late, "system:timeout")] {
        let events = server.events(&run).await;
        assert_eq!(the(&events, "interrupt.resolved")["payload"]["resolvedBy"], by);
    }
}

#[tokio::test]
async fn a_decision_is_told_with_who_made_it_and_when() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    resolve(&server, &run, &json!({ "action": "reject", "feedback": "not yet" })).await;
    let events = server.events(&run).await;
    let received = the(&events, "approval.received");
    assert_eq!(
        received["payload"],
        json!({
            "nodeId": "gate", "interruptId": received["payload"]["interruptId"], "action": "reject",
            "decidedBy": "dev", "decidedAt": received["timestamp"], "feedback": "not yet",
        })
    );
    let failed = &the(&events, "run.failed")["payload"]["error"];
    assert_eq!(failed["code"], "approval_rejected");
}

#[tokio::test]
async fn sensitive_questions_and_answers_are_masked_outward_and_reach_the_node() {
    const SECRET: &str = "hunter2-4711";
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let settings = json!({ "abide": { "sensitive": true } });
    let gate = node("gate", "core.approvalGate", json!({ "title": "Release?" }), json!({}), settings);
    push(&server, &gated("hush", gate)).await;
    let mut shown_anywhere = String::new();
    for action in ["accept", "reject"] {
        let run = server.start_run("hush", json!({})).await;
        resolve(&server, &run, &json!({ "action": action, "feedback": SECRET })).await;
        for mode in ["updates", "debug", "values"] {
            shown_anywhere += &json!(events_in(&server, &run, mode).await).to_string();
        }
        shown_anywhere += &text_of(&server, &format!("/v1/runs/{run}")).await;
        shown_anywhere += &text_of(&server, &format!("/v1/runs/{run}/journal")).await;
        let events = server.events(&run).await;
        assert_eq!(the(&events, "approval.received")["payload"]["feedback"], "[masked]");
        assert_eq!(the(&events, "interrupt.resolved")["payload"]["resumeValue"], "[masked]");
    }
    assert!(!shown_anywhere.contains(SECRET), "{shown_anywhere}");
    // What is sensitive before it is asked about is shown to those who answer, and to nobody else.
    let inputs = json!({ "artifact": { "type": "variable", "variableName": "pw" } });
    let gate = node("gate", "core.approvalGate", json!({}), inputs, json!({}));
    let mut definition = gated("shown", gate);
    definition["variables"] = json!([{ "name": "pw", "type": "string", "sensitive": true }]);
    push(&server, &definition).await;
    let run = server.start_run("shown", json!({ "pw": SECRET })).await;
    let token = token(&server, &run).await;
    let (_, seen) = look(&server, &token).await;
    assert_eq!(seen["data"]["artifactData"], SECRET);
    let snapshot = shown(&server, &run).await;
    assert!(!snapshot.to_string().contains(SECRET), "{snapshot}");
    assert!(!json!(events_in(&server, &run, "debug").await).to_string().contains(SECRET));
}

#[tokio::test]
async fn webhooks_hear_of_questions_and_answers_and_get_no_token() {
    let receiver = crate::receiver::Receiver::start().await;
    let site = Site::new();
    let allow = crate::receiver::ALLOW;
    let server = site.start(&["--test-clock", allow[0], allow[1]]);
    let events = ["interrupt.requested", "node.suspended", "approval.received", "interrupt.resolved"];
    let (status, body) = server.post("/v1/webhooks", &json!({ "url": receiver.url, "events": events })).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    push(&server, &review(&json!({}))).await;
    let run = server.start_run("review", json!({})).await;
    let token = token(&server, &run).await;
    resolve(&server, &run, &accept()).await;
    let posts = receiver.await_posts(4).await;
    let told: Vec<Value> = posts.iter().map(|post| post.json()["event"].clone()).collect();
    assert_eq!(types(&told), events);
    let recorded = server.events(&run).await;
    for event in &told {
        assert!(recorded.contains(event), "{event}");
    }
    let all: Vec<u8> = posts.iter().flat_map(|post| post.body.clone()).collect();
    let mac = token.split_once('.').unwrap().1;
    assert!(!String::from_utf8(all).unwrap().contains(mac));
}
