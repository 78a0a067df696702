//! Approvals over HTTP: five actions, votes, questions back, and who may decide.

use std::sync::Arc;

use super::*;

const ALL: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];

/// A letter, a gate that offers everything, and what is sent.
fn letter(config: &Value, settings: &Value) -> Value {
    let mut whole = json!({ "title": "Send it?", "actions": ALL });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let made = json!({ "outputs": {
        "letter": "{\"text\": has(inputs.refineFeedback) ? inputs.refineFeedback.text : 'first'}" } });
    let draft = node("draft", "core.transform", made, json!({}), json!({}));
    let artifact = json!({ "artifact": { "type": "connection", "nodeId": "draft", "outputKey": "letter" } });
    let gate = node("gate", "core.approvalGate", whole, artifact, json!({ "abide": settings }));
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    workflow("letter", &[draft, gate, after], &[("draft", "gate"), ("gate", "after")], json!([]))
}

async fn open(server: &Server, config: &Value, settings: Value) -> String {
    push(server, &letter(config, &settings)).await;
    server.start_run("letter", json!({})).await
}

async fn put_person(server: &Server, who: &str, person: &Value) {
    let path = format!("/v1/people/{who}");
    let (status, body) = server.ask_as(&server.key, Method::PUT, &path, Some(person)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

fn act(action: &str) -> Value {
    json!({ "action": action })
}

fn vote(action: &str, voter: &str) -> Value {
    json!({ "action": action, "voter": voter })
}

async fn reply(server: &Server, run: &str, ask: &str, answer: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/interrupts/gate/asks/{ask}"), &json!({ "answer": answer })).await
}

#[tokio::test]
async fn a_letter_is_refined_edited_and_sent() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let schema = json!({ "required": ["text"] });
    let run = open(&server, &json!({}), json!({ "artifactSchema": schema })).await;
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "kinder" } });
    assert_eq!(resolve(&server, &run, &refine).await["status"], "waiting-approval");
    let asked = shown(&server, &run).await["interrupt"].clone();
    assert_eq!(asked["data"]["artifactData"], json!({ "text": "kinder" }));
    let edit = |data: Value| json!({ "action": "edit-accept", "editedArtifactData": data });
    let details = refusal(answer_gate(&server, &run, &edit(json!({}))).await, "validation_error");
    assert_eq!(details["problems"][0]["path"], "/editedArtifactData", "{details}");
    assert_eq!(resolve(&server, &run, &edit(json!({ "text": "mine" }))).await["status"], "completed");
    let events = server.events(&run).await;
    let received = of_type(&events, "approval.received");
    assert_eq!(
        received.iter().map(|event| &event["payload"]["action"]).collect::<Vec<_>>(),
        ["refine", "edit-accept"]
    );
    assert_eq!(
        shown(&server, &run).await["nodeStates"]["gate"]["outputs"]["artifactData"],
        json!({ "text": "mine" })
    );
}

#[tokio::test]
async fn three_voters_of_one_key_make_a_quorum() {
    let site = Site::new();
    let deputy = site.key("default").principal("deputy").act_as().make();
    let own = site.key("default").principal("own").make();
    let server = site.start(&["--test-clock"]);
    let quorum = json!({ "requiredApprovals": 3, "rejectionPolicy": "majority", "approversList": [] });
    let run = open(&server, &quorum, json!({})).await;
    for (voter, approvals) in [("ann", 1), ("ann", 1), ("bob", 2)] {
        let (status, body) = answer_as(&server, &deputy, &run, &vote("accept", voter)).await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("waiting-approval")), "{body}");
        assert_eq!((&body["pending"], &body["quorum"]["approvals"]), (&json!(true), &json!(approvals)));
    }
    // Whoever may not speak for others votes in their own name, whatever they say.
    answer_as(&server, &own, &run, &vote("reject", "ann")).await;
    let seen = shown(&server, &run).await["interrupt"]["quorum"].clone();
    assert_eq!(
        (&seen["approvals"], &seen["rejections"], &seen["required"]),
        (&json!(2), &json!(1), &json!(3))
    );
    assert_eq!(seen["votes"][2]["decidedBy"], "own", "{seen}");
    let listed = server.get("/v1/interrupts").await.1["interrupts"][0].clone();
    assert_eq!(listed["quorum"], json!({ "approvals": 2, "rejections": 1, "required": 3 }), "{listed}");
    let (_, body) = answer_as(&server, &deputy, &run, &vote("accept", "eve")).await;
    assert_eq!((&body["status"], body.get("pending")), (&json!("completed"), None), "{body}");
    let events = server.events(&run).await;
    assert_eq!(the(&events, "approval.received")["payload"]["decidedBy"], "eve");
    assert!(of_type(&events, "approval.voted").is_empty(), "streams of OpenWOP have its own types alone");
    let debug = text_of(&server, &format!("/v1/runs/{run}/events?streamMode=debug")).await;
    assert!(debug.contains("event: log.appended") && !debug.contains("event: approval.voted"), "{debug}");
    let journal = text_of(&server, &format!("/v1/runs/{run}/journal")).await;
    assert!(journal.contains("event: approval.voted") && journal.contains("\"replaces\":true"), "{journal}");
}

#[tokio::test]
async fn a_quorum_refuses_edits_counts_refinements_and_names_what_can_never_be() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let run = open(&server, &json!({ "requiredApprovals": 2 }), json!({})).await;
    let edit = json!({ "action": "edit-accept", "editedArtifactData": 1 });
    refusal(answer_gate(&server, &run, &edit).await, "validation_error");
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "no" } });
    assert_eq!(resolve(&server, &run, &refine).await["status"], "failed");
    let never = letter(&json!({ "requiredApprovals": 3, "approversList": ["ann", "bob"] }), &json!({}));
    let (status, body) =
        answer(server.request(Method::PUT, "/v1/workflows/letter").json(&never)).await.unwrap();
    assert!(
        status.is_client_error() && body.to_string().contains("names 2 who may give one"),
        "{status} {body}"
    );
}

#[tokio::test]
async fn of_two_last_votes_at_once_one_closes() {
    let site = Site::new();
    let keys = ["ann", "bob", "eve"].map(|name| site.key("default").principal(name).make());
    let server = Arc::new(site.start(&["--test-clock"]));
    for _ in 0..10 {
        let run = open(&server, &json!({ "requiredApprovals": 2 }), json!({})).await;
        answer_as(&server, &keys[0], &run, &act("accept")).await;
        let racers = keys[1..].iter().map(|key| {
            let (server, run, key) = (server.clone(), run.clone(), key.clone());
            tokio::spawn(async move { answer_as(&server, &key, &run, &act("accept")).await })
        });
        let done = futures_util::future::join_all(racers).await;
        let taken = done.iter().filter(|done| done.as_ref().unwrap().0 == StatusCode::OK).count();
        assert_eq!(taken, 1, "{done:?}");
        the(&server.events(&run).await, "approval.received");
    }
}

#[tokio::test]
async fn votes_and_questions_back_survive_a_kill() {
    let site = Site::new();
    let keys = ["ann", "bob", "eve"].map(|name| site.key("default").principal(name).make());
    let server = site.start(&["--test-clock"]);
    let run = open(&server, &json!({ "requiredApprovals": 3 }), json!({})).await;
    answer_as(&server, &keys[0], &run, &json!({ "action": "ask", "question": "Why?" })).await;
    answer_as(&server, &keys[0], &run, &act("accept")).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    answer_as(&server, &keys[1], &run, &json!({ "action": "ask", "question": "When?" })).await;
    reply(&server, &run, "ask-1", &json!("So.")).await;
    answer_as(&server, &keys[1], &run, &act("accept")).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let seen = shown(&server, &run).await;
    let told = &seen["variables"]["_askExchanges:gate"];
    assert_eq!((&told[0]["answer"], &told[1]["question"]), (&json!("So."), &json!("When?")), "{told}");
    assert_eq!(seen["interrupt"]["exchanges"][1]["askedBy"], "bob");
    assert_eq!(answer_as(&server, &keys[2], &run, &act("accept")).await.1["status"], "completed");
}

#[tokio::test]
async fn a_question_back_is_answered_and_closes_nothing() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let run = open(&server, &json!({}), json!({})).await;
    let before = shown(&server, &run).await["interrupt"]["interruptId"].clone();
    let body = resolve(&server, &run, &json!({ "action": "ask", "question": "Why?" })).await;
    assert_eq!((&body["status"], &body["askId"]), (&json!("waiting-approval"), &json!("ask-1")), "{body}");
    let token = token(&server, &run).await;
    let (status, body) = answer_by(&server, &token, &json!({ "action": "ask", "question": "And?" })).await;
    assert_eq!((status, &body["askId"]), (StatusCode::OK, &json!("ask-2")), "{body}");
    assert_eq!(look(&server, &token).await.1["exchanges"][1]["question"], "And?");
    refusal(reply(&server, &run, "ask-3", &json!("x")).await, "ask_not_found");
    let (status, body) = reply(&server, &run, "ask-1", &json!({ "because": 1 })).await;
    assert_eq!(
        (status, &body["askId"], &body["status"]),
        (StatusCode::OK, &json!("ask-1"), &json!("waiting-approval"))
    );
    refusal(reply(&server, &run, "ask-1", &json!("late")).await, "ask_already_answered");
    let seen = shown(&server, &run).await;
    assert_eq!(seen["interrupt"]["interruptId"], before);
    assert_eq!(seen["interrupt"]["exchanges"][0]["answer"], json!({ "because": 1 }));
    resolve(&server, &run, &act("accept")).await;
    refusal(reply(&server, &run, "ask-2", &json!("late")).await, "interrupt_already_resolved");
}

#[tokio::test]
async fn a_refused_decider_leaves_no_trace_and_a_listed_one_is_taken() {
    let site = Site::new();
    let key = |name: &str| site.key("default").principal(name).make();
    let (ann, out) = (key("ann"), key("out"));
    let server = site.start(&["--test-clock"]);
    put_person(&server, "ann", &json!({ "groups": ["board"], "roles": ["chair"] })).await;
    for (list, name) in
        [("approversList", "ann"), ("approverGroupRefs", "board"), ("approverRoleRefs", "chair")]
    {
        let run = open(&server, &json!({ list: [name] }), json!({})).await;
        let before = (events_so_far(&server, &run).await, shown(&server, &run).await["status"].clone());
        refusal(answer_as(&server, &out, &run, &act("accept")).await, "forbidden");
        refusal(
            answer_as(&server, &out, &run, &json!({ "action": "ask", "question": "?" })).await,
            "forbidden",
        );
        refusal(answer_by(&server, &token_as(&server, &out, &run).await, &act("accept")).await, "forbidden");
        assert_eq!(
            (events_so_far(&server, &run).await, shown(&server, &run).await["status"].clone()),
            before
        );
        let inbox = |who: &str| format!("/v1/interrupts?run={run}&approver={who}");
        assert_eq!(server.get(&inbox("ann")).await.1["interrupts"][0]["runId"], run.as_str(), "{list}");
        assert_eq!(server.get(&inbox("out")).await.1["interrupts"], json!([]), "{list}");
        let (status, body) = answer_as(&server, &ann, &run, &act("accept")).await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("completed")), "{list} {body}");
    }
}

#[tokio::test]
async fn duties_are_separate_where_the_gate_says_so() {
    let site = Site::new();
    let key = |name: &str| site.key("default").principal(name).make();
    let (ann, bob, eve) = (key("ann"), key("bob"), key("eve"));
    let server = site.start(&["--test-clock"]);
    push(&server, &letter(&json!({}), &json!({ "approval": { "notStarter": true } }))).await;
    let (status, run) =
        server.ask_as(&ann, Method::POST, "/v1/runs", Some(&json!({ "workflowId": "letter" }))).await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    let run = run["runId"].as_str().unwrap();
    let details = refusal(answer_as(&server, &ann, run, &act("accept")).await, "forbidden");
    assert_eq!(details["principal"], "ann");
    assert_eq!(answer_as(&server, &bob, run, &act("accept")).await.0, StatusCode::OK);
    for (who, groups) in
        [("ann", json!(["finance", "legal"])), ("bob", json!(["finance"])), ("eve", json!(["legal"]))]
    {
        put_person(&server, who, &json!({ "groups": groups })).await;
    }
    let across = json!({ "approval": { "acrossGroups": ["finance", "legal"] } });
    let run = open(&server, &json!({}), across).await;
    let (_, body) = answer_as(&server, &ann, &run, &act("accept")).await;
    assert_eq!((&body["pending"], &body["quorum"]["required"]), (&json!(true), &json!(2)), "{body}");
    // What entitled somebody counts as it was then.
    put_person(&server, "ann", &json!({ "groups": [] })).await;
    let (_, body) = answer_as(&server, &eve, &run, &act("accept")).await;
    assert_eq!(body["status"], "completed", "{body}");
}

#[tokio::test]
async fn the_same_gate_serves_one_person_without_any_directory() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for (value, status) in [(act("accept"), "completed"), (act("reject"), "failed")] {
        let run = open(&server, &json!({}), json!({})).await;
        let body = resolve(&server, &run, &value).await;
        assert_eq!(body["status"], status, "{body}");
        let events = server.events(&run).await;
        the(&events, "approval.received");
        the(&events, "interrupt.resolved");
    }
}
