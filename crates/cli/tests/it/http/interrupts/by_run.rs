//! Answers by run and node.

use super::*;

#[tokio::test]
async fn an_answer_goes_to_the_node_and_the_caller_hears_how_the_run_stands() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let id = shown(&server, &run).await["interrupt"]["interruptId"].clone();
    let body = resolve(&server, &run, &accept()).await;
    let told = json!({ "runId": run, "nodeId": "gate", "interruptId": id, "status": "completed" });
    assert_eq!(body, told);
    let outputs = shown(&server, &run).await["nodeStates"]["gate"]["outputs"].clone();
    assert_eq!(outputs["action"], "accept");
}

#[tokio::test]
async fn answering_takes_the_scope_for_it_and_no_other_will_do() {
    let site = Site::new();
    let all = abide_server::Scope::ALL.iter().map(|(_, name)| *name);
    let others: Vec<&str> = all.filter(|scope| *scope != "approvals:respond").collect();
    let able = site.key("default").scopes(&others.join(",")).make();
    let reader = site.key("default").scopes("runs:read").make();
    let responder = site.key("default").scopes("approvals:respond").make();
    let (server, run) = waiting(&site).await;
    for key in [&able, &reader] {
        let details = refusal(answer_as(&server, key, &run, &accept()).await, "forbidden");
        assert_eq!(details, json!({ "scopeRequired": "approvals:respond" }));
    }
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
    assert_eq!(answer_as(&server, &responder, &run, &accept()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn who_is_not_known_is_not_heard() {
    let site = Site::new();
    let expired = site.key("default").expires_in("1s").make();
    let (server, run) = waiting(&site).await;
    server.advance(2_000).await;
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({ "resumeValue": accept() });
    let missing = answer(server.anonymous(Method::POST, &path).json(&body)).await.unwrap();
    refusal(missing, "unauthenticated");
    for key in ["nonsense", "abk_nobody_0000"] {
        refusal(answer_as(&server, key, &run, &accept()).await, "unauthenticated");
    }
    let (status, body) = answer_as(&server, &expired, &run, &accept()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn a_body_has_the_value_and_nothing_beside_it() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let before = site.rows();
    for body in
        [json!({}), json!({ "resumeValue": accept(), "more": 1 }), json!({ "action": "accept" }), json!([])]
    {
        refusal(server.post(&path, &body).await, "validation_error");
    }
    refusal(answer(server.request(Method::POST, &path)).await.unwrap(), "validation_error");
    assert_eq!(site.rows(), before);
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn a_request_that_is_repeated_gets_the_first_answer_and_not_a_refusal() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let ask = async |key: &str, value: &Value| {
        let request = server.request(Method::POST, &path).header("Idempotency-Key", key);
        let response = request.json(&json!({ "resumeValue": value })).send().await.unwrap();
        let replayed = response.headers().get("openwop-idempotent-replay").cloned();
        (response.status(), replayed, response.text().await.unwrap())
    };
    let first = ask("k-1", &accept()).await;
    assert_eq!((first.0, first.1.unwrap().to_str().unwrap()), (StatusCode::OK, "false"), "{}", first.2);
    let again = ask("k-1", &accept()).await;
    assert_eq!((again.0, again.1.unwrap().to_str().unwrap(), &again.2), (StatusCode::OK, "true", &first.2));
    let other = ask("k-1", &json!({ "action": "reject" })).await;
    refusal((other.0, serde_json::from_str(&other.2).unwrap()), "idempotency_key_mismatch");
    let late = ask("k-2", &accept()).await;
    refusal((late.0, serde_json::from_str(&late.2).unwrap()), "interrupt_already_resolved");
    let events = server.events(&run).await;
    assert_eq!(of_type(&events, "interrupt.resolved").len(), 1);
}

#[tokio::test]
async fn what_another_tenant_waits_for_looks_like_what_never_was() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let (server, run) = waiting(&site).await;
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    for tail in ["interrupts", "approvals"] {
        let ask = async |id: &str| {
            let body = if tail == "approvals" { accept() } else { json!({ "resumeValue": accept() }) };
            let path = format!("/v1/runs/{id}/{tail}/gate");
            let (status, body) = server.ask_as(&stranger, Method::POST, &path, Some(&body)).await;
            (status, body.to_string().replace(id, "<run>"))
        };
        let (theirs, nobodys) = (ask(&run).await, ask(unknown).await);
        assert_eq!(theirs, nobodys, "{tail}");
        assert_eq!(theirs.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_refused_with_its_places_and_a_good_one_is_taken_then() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let schema =
        json!({ "type": "object", "properties": { "size": { "type": "integer" } }, "required": ["size"] });
    let data = json!({ "customKind": "measure", "payload": null });
    let run = ask(&server, "custom", &data, &json!({ "resumeSchema": schema })).await;
    let before = events_so_far(&server, &run).await;
    let details = refusal(answer_gate(&server, &run, &json!({ "size": "big" })).await, "validation_error");
    assert_eq!(details["field"], "resumeValue");
    assert_eq!(details["problems"][0]["path"], "/size", "{details}");
    assert_eq!(events_so_far(&server, &run).await, before);
    assert_eq!(resolve(&server, &run, &json!({ "size": 3 })).await["status"], "completed");
}

#[tokio::test]
async fn an_action_that_is_not_offered_is_refused_with_those_that_are() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    for action in ["refine", "edit-accept", "ask", "approve"] {
        let details =
            refusal(answer_gate(&server, &run, &json!({ "action": action })).await, "validation_error");
        assert_eq!(details["actions"], json!(["accept", "reject"]), "{action}");
        assert_eq!(details["problems"][0]["path"], "/action", "{action}");
    }
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn what_was_never_asked_is_not_found() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let body = json!({ "resumeValue": accept() });
    let own = shown(&server, &run).await["interrupt"]["interruptId"].as_str().unwrap().to_owned();
    let other = format!("int-{}", "0".repeat(36));
    for path in [
        "interrupts/nowhere".to_owned(),
        "interrupts/after".to_owned(),
        format!("interrupts/gate?interruptId={other}"),
        format!("interrupts/after?interruptId={own}"),
    ] {
        refusal(server.post(&format!("/v1/runs/{run}/{path}"), &body).await, "interrupt_not_found");
    }
    let path = format!("/v1/runs/{run}/interrupts/gate?interruptId=nonsense");
    assert_eq!(refusal(server.post(&path, &body).await, "validation_error")["field"], "interruptId");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn whoever_is_late_hears_that_it_is_answered() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let id = shown(&server, &run).await["interrupt"]["interruptId"].as_str().unwrap().to_owned();
    resolve(&server, &run, &accept()).await;
    refusal(answer_gate(&server, &run, &accept()).await, "interrupt_already_resolved");
    let path = format!("/v1/runs/{run}/interrupts/gate?interruptId={id}");
    refusal(server.post(&path, &json!({ "resumeValue": accept() })).await, "interrupt_already_resolved");
}

#[tokio::test]
async fn an_answer_to_a_cancelled_run_is_told_so_by_its_own_word() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    cancel(&server, &run).await;
    refusal(answer_gate(&server, &run, &accept()).await, "interrupt_cancelled");
    // The other path is raced with cancellations by clients that know of no such word.
    let path = format!("/v1/runs/{run}/approvals/gate");
    refusal(server.post(&path, &accept()).await, "interrupt_already_resolved");
}

#[tokio::test]
async fn the_other_path_takes_the_bare_value() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let path = format!("/v1/runs/{run}/approvals/gate");
    refusal(server.post(&path, &json!({ "resumeValue": accept() })).await, "validation_error");
    let (status, body) = server.post(&path, &accept()).await;
    assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("completed")), "{body}");
    assert_eq!((&body["runId"], &body["nodeId"]), (&json!(run), &json!("gate")));
}

#[tokio::test]
async fn of_several_open_at_one_node_the_one_that_is_named_is_answered() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let one = |name: &str| json!({ "kind": "custom", "data": { "customKind": name, "payload": null } });
    push(&server, &asking("both", json!({ "interrupts": [one("first"), one("second")] }))).await;
    let run = server.start_run("both", json!({})).await;
    let waiting = shown(&server, &run).await;
    let ids: Vec<&str> = waiting["interrupts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["interruptId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    let details = refusal(answer_gate(&server, &run, &json!(1)).await, "validation_error");
    assert_eq!(details, json!({ "field": "interruptId", "interruptIds": ids }));
    for (id, status) in [(ids[1], "waiting-input"), (ids[0], "completed")] {
        let path = format!("/v1/runs/{run}/interrupts/gate?interruptId={id}");
        let (code, body) = server.post(&path, &json!({ "resumeValue": { "of": id } })).await;
        assert_eq!(
            (code, &body["status"], &body["interruptId"]),
            (StatusCode::OK, &json!(status), &json!(id))
        );
    }
    let outputs = shown(&server, &run).await["nodeStates"]["gate"]["outputs"].clone();
    assert_eq!(outputs, json!({ "resumeValues": [{ "of": ids[0] }, { "of": ids[1] }] }));
}

#[tokio::test]
async fn a_key_that_was_used_for_one_of_several_is_not_good_for_another() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let one = |name: &str| json!({ "kind": "custom", "data": { "customKind": name, "payload": null } });
    push(&server, &asking("both", json!({ "interrupts": [one("first"), one("second")] }))).await;
    let run = server.start_run("both", json!({})).await;
    let waiting = shown(&server, &run).await;
    let ask = async |at: usize| {
        let id = waiting["interrupts"][at]["interruptId"].as_str().unwrap();
        let path = format!("/v1/runs/{run}/interrupts/gate?interruptId={id}");
        let request = server.request(Method::POST, &path).header("Idempotency-Key", "k");
        answer(request.json(&json!({ "resumeValue": 1 }))).await.unwrap()
    };
    assert_eq!(ask(0).await.0, StatusCode::OK);
    refusal(ask(1).await, "idempotency_key_mismatch");
    assert_eq!(ask(0).await.0, StatusCode::OK);
    assert_eq!(shown(&server, &run).await["interrupts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_those_whom_a_gate_names_may_decide() {
    let site = Site::new();
    let ada = site.key("default").principal("ada").make();
    let bob = site.key("default").principal("bob").make();
    let deputy = site.key("default").principal("deputy").act_as().make();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({ "approversList": ["ada"] }))).await;
    let start = async || server.start_run("review", json!({})).await;
    let run = start().await;
    let details = refusal(answer_as(&server, &bob, &run, &accept()).await, "forbidden");
    assert_eq!(details, json!({ "principal": "bob" }));
    // A name is not taken from those who may not act for others.
    let as_ada = json!({ "action": "accept", "decidedBy": "ada" });
    refusal(answer_as(&server, &bob, &run, &as_ada).await, "forbidden");
    let token = token_as(&server, &bob, &run).await;
    refusal(answer_by(&server, &token, &accept()).await, "forbidden");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
    assert_eq!(answer_as(&server, &ada, &run, &accept()).await.0, StatusCode::OK);
    let run = start().await;
    refusal(answer_as(&server, &deputy, &run, &accept()).await, "forbidden");
    refusal(
        answer_as(&server, &deputy, &run, &json!({ "action": "accept", "decidedBy": "bob" })).await,
        "forbidden",
    );
    assert_eq!(answer_as(&server, &deputy, &run, &as_ada).await.0, StatusCode::OK);
    let events = server.events(&run).await;
    assert_eq!(the(&events, "approval.received")["payload"]["decidedBy"], "ada");
}

#[tokio::test]
async fn an_event_about_something_else_is_refused_and_still_waited_for() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let data = json!({ "eventType": "paid", "correlation": { "order": 7 } });
    let run = ask(&server, "external-event", &data, &json!({})).await;
    for wrong in [json!({ "order": 8 }), json!({ "eventPayload": { "order": "7" } })] {
        let (status, body) = answer_gate(&server, &run, &wrong).await;
        assert_eq!(
            (status, &body["error"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("validation_error")),
            "{body}"
        );
    }
    assert_eq!(shown(&server, &run).await["status"], "waiting-external");
    resolve(&server, &run, &json!({ "order": 7, "more": true })).await;
}

#[tokio::test]
async fn what_is_said_about_a_run_answers_nothing() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let before = shown(&server, &run).await["interrupt"]["interruptId"].clone();
    let said = json!({
        "signal": { "kind": "label", "label": "accept" }, "target": { "nodeId": "gate" }, "note": "action: accept",
    });
    let (status, annotation) = server.post(&format!("/v1/runs/{run}/annotations"), &said).await;
    assert_eq!(status, StatusCode::CREATED, "{annotation}");
    assert!(!annotation.to_string().contains("oken"), "{annotation}");
    let after = shown(&server, &run).await;
    assert_eq!((&after["status"], &after["interrupt"]["interruptId"]), (&json!("waiting-approval"), &before));
}
