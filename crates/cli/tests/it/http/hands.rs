//! Nodes that are done by hand, over HTTP: who has one, who is refused, and what has to come of it.

use std::collections::BTreeMap;

use super::graphs::{NOBODY, graph};
use super::idempotency::post;
use super::ladders::journal;
use super::*;

/// Two phases as OpenIntent writes them: the second takes what the first gives.
fn phases() -> Value {
    json!({
        "openintent": "1.0", "info": { "name": "flow" },
        "workflow": {
            "first": { "title": "First", "assign": "ada", "outputs": { "sum": "number" } },
            "second": {
                "title": "Second", "assign": "bob", "depends_on": ["first"],
                "inputs": { "sum": "first.sum", "who": "$trigger.who" }, "outputs": { "done": "boolean" },
            },
            "third": {
                "title": "Third", "assign": "eve", "depends_on": ["first"],
                "inputs": { "who": "$trigger.who" },
            },
        },
    })
}

/// One node that anybody may do by hand.
pub(super) fn by_hand() -> Value {
    workflow("by-hand", &[node("self", "core.byHand", json!({}), json!({}), json!({}))], &[], json!([]))
}

/// Starts the phases, and gives the run with those of its phases by their names.
pub(super) async fn start_phases(site: &Site, server: &Server) -> (String, BTreeMap<String, String>) {
    let request = server.request(Method::PUT, "/v1/workflows/flow").json(&phases());
    let (status, pushed) = answer(request).await.unwrap();
    assert!(status.is_success(), "{pushed}");
    let flow = server.start_run("flow", json!({ "who": "us" })).await;
    site.settle(server).await;
    let seen = graph(server, &flow).await;
    let named = |phase: &Value| {
        let word = |key: &str| phase[key].as_str().unwrap().to_owned();
        (word("phaseName"), word("runId"))
    };
    (flow, seen["phases"].as_array().unwrap().iter().map(named).collect())
}

/// Does something about the only node of a run that is done by hand.
pub(super) async fn hand(server: &Server, run: &str, agent: &str, op: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/hand"), &json!({ "agent": agent, "op": op })).await
}

/// The same, which has to be taken.
pub(super) async fn done(server: &Server, run: &str, agent: &str, op: Value) -> Value {
    let (status, body) = hand(server, run, agent, op).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

pub(super) fn claim() -> Value {
    json!({ "kind": "claim" })
}

pub(super) fn complete(outputs: &Value) -> Value {
    json!({ "kind": "complete", "outputs": outputs })
}

/// Asks something that takes any text. Without an interval it waits for ever.
pub(super) fn ask(interval_seconds: Option<u64>) -> Value {
    let questions = json!([{ "id": "answer", "question": "Well?" }]);
    let mut op =
        json!({ "kind": "ask", "payload": { "kind": "clarification", "data": { "questions": questions } } });
    if let Some(seconds) = interval_seconds {
        op["ladder"] = json!({ "retry_policy": { "max_attempts": 2, "interval_seconds": seconds } });
    }
    op
}

/// Answers what a run asks by hand.
pub(super) async fn reply(server: &Server, run: &str) -> (StatusCode, Value) {
    let value = json!({ "resumeValue": { "answers": { "answer": "so" } } });
    server.post(&format!("/v1/runs/{run}/interrupts/self"), &value).await
}

/// What a journal says of one type.
async fn said(server: &Server, run: &str, kind: &str) -> Vec<Value> {
    let events = journal(server, run).await;
    events.into_iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
}

#[tokio::test]
async fn a_node_is_claimed_given_back_asked_about_and_done() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &by_hand()).await;
    let run = server.start_run("by-hand", json!({})).await;
    assert_eq!(shown(&server, &run).await["nodeStates"]["self"]["status"], "waiting");
    let claimed = done(&server, &run, "ada", claim()).await;
    let expected = json!({
        "runId": run, "nodeId": "self", "runStatus": "running", "status": "running", "agent": "ada", "inputs": {},
    });
    assert_eq!(claimed, expected);
    assert_eq!(done(&server, &run, "ada", claim()).await, expected, "whoever has it has it");
    let details = refusal(hand(&server, &run, "bob", claim()).await, "node_claimed");
    assert_eq!(details, json!({ "agent": "ada" }));
    for op in [json!({ "kind": "release" }), complete(&json!({})), ask(None)] {
        refusal(hand(&server, &run, "bob", op).await, "node_claimed");
    }
    let free = done(&server, &run, "ada", json!({ "kind": "release" })).await;
    assert_eq!((&free["status"], free.get("agent")), (&json!("waiting"), None));
    refusal(hand(&server, &run, "ada", complete(&json!({}))).await, "node_not_claimed");
    done(&server, &run, "bob", claim()).await;

    let asked = done(&server, &run, "bob", ask(None)).await;
    assert_eq!((&asked["status"], &asked["runStatus"]), (&json!("suspended"), &json!("waiting-input")));
    let inbox = server.get("/v1/interrupts").await.1["interrupts"].clone();
    assert_eq!((&inbox[0]["runId"], &inbox[0]["interruptId"]), (&json!(run), &asked["interruptId"]));
    for op in [complete(&json!({})), json!({ "kind": "release" }), ask(None)] {
        refusal(hand(&server, &run, "bob", op).await, "node_asking");
    }
    let (status, answered) = reply(&server, &run).await;
    assert_eq!((status, &answered["status"]), (StatusCode::OK, &json!("running")));
    refusal(reply(&server, &run).await, "interrupt_already_resolved");
    let through = done(&server, &run, "bob", complete(&json!({ "any": ["thing"] }))).await;
    assert_eq!((&through["status"], &through["runStatus"]), (&json!("completed"), &json!("completed")));
    let seen = shown(&server, &run).await;
    assert_eq!(seen["nodeStates"]["self"]["outputs"], json!({ "any": ["thing"] }));
    refusal(hand(&server, &run, "bob", claim()).await, "run_over");
}

#[tokio::test]
async fn whoever_gives_a_node_up_fails_it_with_their_words() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &by_hand()).await;
    for (op, code) in [
        (json!({ "kind": "fail", "message": "no luck" }), "node_execution_failed"),
        (json!({ "kind": "fail", "message": "no luck", "code": "too_hard" }), "too_hard"),
    ] {
        let run = server.start_run("by-hand", json!({})).await;
        refusal(hand(&server, &run, "ada", op.clone()).await, "node_not_claimed");
        done(&server, &run, "ada", claim()).await;
        let failed = done(&server, &run, "ada", op).await;
        assert_eq!((&failed["status"], &failed["runStatus"]), (&json!("failed"), &json!("failed")));
        let error = shown(&server, &run).await["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!("no luck")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_who_claim_a_node_at_once_one_has_it() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &by_hand()).await;
    for _ in 0..5 {
        let run = server.start_run("by-hand", json!({})).await;
        let agents: Vec<String> = (0..20).map(|at| format!("agent-{at}")).collect();
        let claims = agents.iter().map(|agent| hand(&server, &run, agent, claim()));
        let told = futures_util::future::join_all(claims).await;
        let winners: Vec<&Value> = told
            .iter()
            .filter(|(status, _)| *status == StatusCode::OK)
            .map(|(_, body)| &body["agent"])
            .collect();
        assert_eq!(winners.len(), 1, "{told:?}");
        for refused in told.iter().filter(|(status, _)| *status != StatusCode::OK) {
            assert_eq!(&refusal(refused.clone(), "node_claimed")["agent"], winners[0]);
        }
        assert_eq!(said(&server, &run, "node.claimed").await.len(), 1);
    }
}

#[tokio::test]
async fn a_claim_is_refused_while_its_input_waits_for_people_and_granted_when_that_is_through() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (flow, runs) = start_phases(&site, &server).await;
    let (first, second) = (&runs["first"], &runs["second"]);
    let details = refusal(hand(&server, second, "bob", claim()).await, "unresolvable_input");
    assert_eq!(details["error"], "UnresolvableInputError");
    assert_eq!(details["unresolvable"], json!(["first.sum"]));
    done(&server, first, "ada", claim()).await;
    done(&server, first, "ada", ask(None)).await;
    site.settle(&server).await;

    let task = graph(&server, &flow).await["phases"].clone();
    let status = |phases: &Value| {
        let of = phases.as_array().unwrap().iter().find(|phase| phase["phaseName"] == "second").cloned();
        of.unwrap()["status"].clone()
    };
    assert_eq!(status(&task), "pending");
    let details = refusal(hand(&server, second, "bob", claim()).await, "upstream_intent_suspended");
    let expected = json!({
        "error": "UpstreamIntentSuspendedError", "reason": "upstream_intent_suspended", "task_id": "second",
        "phase_name": "first", "suspended_intent_id": first, "expected_resume_at": null,
    });
    assert_eq!(details, expected, "for ever, so there is no time");
    refusal(hand(&server, second, "bob", claim()).await, "upstream_intent_suspended");
    refusal(hand(&server, second, "cyd", claim()).await, "upstream_intent_suspended");
    assert_eq!(status(&graph(&server, &flow).await["phases"]), "pending", "a refusal changes nothing");
    let refused = said(&server, second, "claim.deferred").await;
    assert_eq!(refused, [json!({ "agent": "bob" }), json!({ "agent": "cyd" })], "each is remembered once");

    assert_eq!(reply(&server, first).await.0, StatusCode::OK);
    site.settle(&server).await;
    // The answer alone is not enough.
    refusal(hand(&server, second, "bob", claim()).await, "unresolvable_input");
    done(&server, first, "ada", complete(&json!({ "sum": 3 }))).await;
    site.settle(&server).await;
    // Whoever was refused first has it, without asking again, and the next one waits for them.
    let claimed = said(&server, second, "node.claimed").await;
    assert_eq!(claimed, [json!({ "agent": "bob", "inputs": { "sum": 3, "who": "us" } })]);
    assert_eq!(status(&graph(&server, &flow).await["phases"]), "running");
    let has = done(&server, second, "bob", claim()).await;
    assert_eq!((&has["inputs"], &has["waiting"]), (&json!({ "sum": 3, "who": "us" }), &json!(["cyd"])));
    done(&server, second, "bob", json!({ "kind": "release" })).await;
    assert_eq!(done(&server, second, "cyd", claim()).await["agent"], "cyd", "they had it already");
}

#[tokio::test]
async fn a_refused_claim_tells_until_when_it_waits_at_the_latest() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, runs) = start_phases(&site, &server).await;
    done(&server, &runs["first"], "ada", claim()).await;
    let now = server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap();
    done(&server, &runs["first"], "ada", ask(Some(60))).await;
    site.settle(&server).await;
    let refused = hand(&server, &runs["second"], "bob", claim()).await;
    assert_eq!(refused.0, StatusCode::UNPROCESSABLE_ENTITY);
    let details = refusal(refused, "upstream_intent_suspended");
    assert_eq!(
        (&details["error"], &details["reason"]),
        (&json!("UpstreamIntentSuspendedError"), &json!("upstream_intent_suspended"))
    );
    assert_eq!(millis(&details["expected_resume_at"]), now + 120_000, "two attempts of a minute each");
}

#[tokio::test]
async fn phases_that_wait_for_people_are_listed_as_long_as_they_do() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (flow, runs) = start_phases(&site, &server).await;
    let first = &runs["first"];
    done(&server, first, "ada", claim()).await;
    let listed = async || graph(&server, &flow).await["suspended_phases"].clone();
    assert_eq!(listed().await, json!([]), "a list that is there even if nothing waits");
    for (interval_seconds, lasts_ms) in [(None, None), (Some(60), Some(120_000))] {
        server.advance(1000).await;
        let now = server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap();
        done(&server, first, "ada", ask(interval_seconds)).await;
        site.settle(&server).await;
        let phases = listed().await;
        assert_eq!(phases.as_array().map(Vec::len), Some(1), "{phases}");
        let phase = &phases[0];
        assert_eq!((&phase["phase_name"], &phase["intent_id"]), (&json!("first"), &json!(first)));
        assert_eq!(millis(&phase["suspended_since"]), now);
        match lasts_ms {
            Some(lasts_ms) => assert_eq!(millis(&phase["expires_at"]), now + lasts_ms),
            None => assert_eq!(phase.get("expires_at"), Some(&Value::Null), "for ever, so there is no time"),
        }
        assert_eq!(reply(&server, first).await.0, StatusCode::OK);
        site.settle(&server).await;
        assert_eq!(listed().await, json!([]));
    }
}

#[tokio::test]
async fn inputs_from_elsewhere_are_not_refused_for_a_question() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, runs) = start_phases(&site, &server).await;
    done(&server, &runs["first"], "ada", claim()).await;
    done(&server, &runs["first"], "ada", ask(None)).await;
    site.settle(&server).await;
    // Its inputs come from the trigger alone, but its run waits for the first all the same.
    let details = refusal(hand(&server, &runs["third"], "eve", claim()).await, "run_blocked");
    assert_eq!(details, json!({ "reason": "dependency_suspended" }));
    reply(&server, &runs["first"]).await;
    done(&server, &runs["first"], "ada", complete(&json!({ "sum": 1 }))).await;
    site.settle(&server).await;
    assert_eq!(done(&server, &runs["third"], "eve", claim()).await["inputs"], json!({ "who": "us" }));
}

#[tokio::test]
async fn what_does_not_fit_is_told_and_keeps_the_claim() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, runs) = start_phases(&site, &server).await;
    let run = &runs["first"];
    done(&server, run, "ada", claim()).await;
    for (outputs, error, missing, wrong) in [
        (json!({}), "MissingOutputError", json!(["sum"]), json!([])),
        (json!(null), "MissingOutputError", json!(["sum"]), json!([])),
        (
            json!({ "sum": "3" }),
            "OutputTypeMismatchError",
            json!([]),
            json!([{ "output": "sum", "expected": "number", "found": "string" }]),
        ),
    ] {
        let details = refusal(hand(&server, run, "ada", complete(&outputs)).await, "outputs_unfit");
        assert_eq!(details, json!({ "error": error, "missing": missing, "type_errors": wrong }));
    }
    refusal(hand(&server, run, "ada", complete(&json!([3]))).await, "validation_error");
    assert_eq!(done(&server, run, "ada", claim()).await["status"], "running", "still theirs");
    assert_eq!(
        done(&server, run, "ada", complete(&json!({ "sum": 3, "more": 1 }))).await["status"],
        "completed"
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_and_changes_nothing() {
    let site = site();
    let stranger = site.new_key("strangers");
    let two = [
        node("a", "core.byHand", json!({}), json!({}), json!({})),
        node("b", "core.byHand", json!({}), json!({}), json!({})),
    ];
    site.workflow(&workflow("two", &two, &[("a", "b")], json!([])));
    let server = site.start(&["--test-clock"]);
    push(&server, &by_hand()).await;
    let run = server.start_run("by-hand", json!({})).await;
    let path = format!("/v1/runs/{run}/hand");
    let before = site.rows();
    for body in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"agent":"ada"}"#,
        r#"{"op":{"kind":"claim"}}"#,
        r#"{"agent":7,"op":{"kind":"claim"}}"#,
        r#"{"agent":"ada","op":"claim"}"#,
        r#"{"agent":"ada","op":{}}"#,
        r#"{"agent":"ada","op":{"kind":"sing"}}"#,
        r#"{"agent":"ada","op":{"kind":7}}"#,
        r#"{"agent":"ada","op":{"kind":"claim","now":true}}"#,
        r#"{"agent":"ada","op":{"kind":"fail"}}"#,
        r#"{"agent":"ada","op":{"kind":"ask"}}"#,
        r#"{"agent":"ada","op":{"kind":"claim"},"why":"so"}"#,
        r#"{"agent":"","op":{"kind":"claim"}}"#,
        r#"{"agent":"a\u0007","op":{"kind":"claim"}}"#,
        r#"{"agent":"ada","nodeId":"other","op":{"kind":"claim"}}"#,
        r#"{"agent":"ada","op":{"kind":"fail","message":"m","code":"Too Hard"}}"#,
    ] {
        refusal(post_raw(&server, &path, body.to_owned()).await, "validation_error");
    }
    refusal(hand(&server, &run, &"a".repeat(257), claim()).await, "validation_error");
    let large = "x".repeat(abide_server::limits::BODY_BYTES_MAX);
    refusal(hand(&server, &run, "ada", complete(&json!({ "x": large }))).await, "payload_too_large");
    assert_eq!(site.rows(), before);
    for unknown in ["run-1", NOBODY] {
        refusal(hand(&server, unknown, "ada", claim()).await, "run_not_found");
    }
    let body = json!({ "agent": "ada", "op": claim() });
    refusal(server.ask_as(&stranger, Method::POST, &path, Some(&body)).await, "run_not_found");

    let parked = server.start_run("parked", json!({})).await;
    assert_eq!(refusal(hand(&server, &parked, "ada", claim()).await, "validation_error")["field"], "runId");
    let two = server.start_run("two", json!({})).await;
    assert_eq!(refusal(hand(&server, &two, "ada", claim()).await, "validation_error")["field"], "nodeId");
    let of = |node: &str| json!({ "agent": "ada", "nodeId": node, "op": claim() });
    let path = format!("/v1/runs/{two}/hand");
    refusal(server.post(&path, &of("b")).await, "run_blocked");
    assert_eq!(server.post(&path, &of("a")).await.1["nodeId"], "a");
    let draft = json!({ "workflowId": "by-hand", "draft": true });
    let draft = server.post("/v1/runs", &draft).await.1["runId"].as_str().unwrap().to_owned();
    let details = refusal(hand(&server, &draft, "ada", claim()).await, "run_blocked");
    assert_eq!(details, json!({ "reason": "draft" }));
    let after = json!({ "workflowId": "by-hand", "dependsOn": [parked] });
    let after = server.post("/v1/runs", &after).await.1["runId"].as_str().unwrap().to_owned();
    let details = refusal(hand(&server, &after, "ada", claim()).await, "run_blocked");
    assert_eq!(details, json!({ "reason": "dependency_incomplete" }));
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_told_and_keeps_the_claim() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &by_hand()).await;
    let run = server.start_run("by-hand", json!({})).await;
    done(&server, &run, "ada", claim()).await;
    let mut short = ask(Some(60));
    short["ladder"]["retry_policy"]["max_attempts"] = json!(0);
    let mut odd = ask(None);
    odd["ladder"] = json!({ "steps": 3 });
    let mut none = ask(None);
    none["payload"] = json!({ "kind": "clarification" });
    let mut unknown = ask(None);
    unknown["payload"]["kind"] = json!("riddle");
    let asked_of = |respondents: Value| {
        let mut asked = ask(None);
        asked["respondents"] = respondents;
        asked
    };
    let nobody = asked_of(json!([]));
    let crowd = asked_of((0..=100).map(|n| format!("user-{n}")).collect());
    let nameless = asked_of(json!([""]));
    for op in [short, odd, none, unknown, nobody, crowd, nameless] {
        refusal(hand(&server, &run, "ada", op).await, "validation_error");
    }
    assert_eq!(done(&server, &run, "ada", claim()).await["status"], "running");
}

#[tokio::test]
async fn a_granted_claim_is_kept_under_its_key_and_a_refused_one_is_not() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, runs) = start_phases(&site, &server).await;
    let path = |phase: &str| format!("/v1/runs/{}/hand", runs[phase]);
    let body = |agent: &str, op: Value| json!({ "agent": agent, "op": op });
    let first = post(&server, &path("first"), "mine", &body("ada", claim())).await;
    assert_eq!(first.status, StatusCode::OK);
    done(&server, &runs["first"], "ada", ask(None)).await;
    site.settle(&server).await;
    post(&server, &path("first"), "mine", &body("ada", claim())).await.is_replay_of(&first);
    let other = post(&server, &path("first"), "mine", &body("bob", claim())).await;
    refusal((other.status, other.json()), "idempotency_key_mismatch");

    let refused = post(&server, &path("second"), "later", &body("bob", claim())).await;
    refusal((refused.status, refused.json()), "upstream_intent_suspended");
    reply(&server, &runs["first"]).await;
    let through = post(&server, &path("first"), "done", &body("ada", complete(&json!({ "sum": 1 })))).await;
    assert_eq!(through.status, StatusCode::OK);
    post(&server, &path("first"), "done", &body("ada", complete(&json!({ "sum": 1 }))))
        .await
        .is_replay_of(&through);
    site.settle(&server).await;
    let granted = post(&server, &path("second"), "later", &body("bob", claim())).await;
    assert_eq!((granted.status, granted.json()["agent"].as_str()), (StatusCode::OK, Some("bob")));
}
