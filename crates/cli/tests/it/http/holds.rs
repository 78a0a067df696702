//! Holds by people, and many answers at once.

use super::*;

fn pay(id: &str, config: &Value) -> Value {
    let gate = node("gate", "core.approvalGate", config.clone(), json!({}), json!({}));
    let after = node("after", "core.noop", json!({}), json!({}), json!({}));
    workflow(id, &[gate, after], &[("gate", "after")], json!([]))
}

async fn asking(server: &Server, id: &str, config: Value) -> String {
    push(server, &pay(id, &config)).await;
    server.start_run(id, json!({})).await
}

async fn ask(server: &Server, run: &str, verb: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}{verb}"), &body).await
}

async fn accept(server: &Server, run: &str) -> (StatusCode, Value) {
    ask(server, run, "/interrupts/gate", json!({ "resumeValue": { "action": "accept" } })).await
}

#[tokio::test]
async fn a_pause_of_a_waiting_run_tells_how_it_stands_and_its_question_still_resolves() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = asking(&server, "pay", json!({ "title": "Pay?" })).await;
    let (status, body) = ask(&server, &run, ":pause", json!({})).await;
    assert_eq!((status, &body["error"]), (StatusCode::CONFLICT, &json!("run_not_pausable")), "{body}");
    assert_eq!(body["details"]["runStatus"], "waiting-approval");
    assert_eq!(shown(&server, &run).await["interrupts"].as_array().unwrap().len(), 1);
    assert_eq!(accept(&server, &run).await.1["status"], "completed");
}

#[tokio::test]
async fn a_hold_is_told_repeated_refused_and_lifted() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = asking(&server, "pay", json!({ "title": "Pay?", "timeoutMs": 3_600_000 })).await;
    let deadline = shown(&server, &run).await["interrupts"][0]["deadline"].clone();
    let path = format!("/v1/runs/{run}:hold");
    let body = json!({ "mode": "stop", "reason": "audit" });
    let hold = || answer(server.request(Method::POST, &path).header("Idempotency-Key", "k").json(&body));
    let (status, held) = hold().await.unwrap();
    assert_eq!(status, StatusCode::ACCEPTED, "{held}");
    assert_eq!((&held["status"], &held["hold"]["mode"]), (&json!("paused"), &json!("stop")));
    assert_eq!((&held["hold"]["by"], &held["hold"]["reason"]), (&json!("dev"), &json!("audit")));
    assert_eq!(hold().await.unwrap(), (status, held.clone()), "a repeat is answered alike");
    let (status, refused) = ask(&server, &run, ":hold", json!({ "mode": "stop" })).await;
    assert_eq!((status, &refused["error"]), (StatusCode::CONFLICT, &json!("run_not_holdable")), "{refused}");
    assert_eq!(
        (&refused["details"]["runStatus"], &refused["details"]["hold"]),
        (&json!("paused"), &json!("stop"))
    );
    let snapshot = shown(&server, &run).await;
    assert_eq!((&snapshot["hold"], snapshot["interrupts"][0].get("deadline")), (&held["hold"], None));
    let (_, inbox) = server.get("/v1/interrupts").await;
    assert_eq!(inbox["interrupts"][0].get("deadline"), None, "{inbox}");
    server.advance(7_200_000).await;
    let (status, released) = ask(&server, &run, ":release", json!({ "reason": "done" })).await;
    assert_eq!(
        (status, &released["status"]),
        (StatusCode::ACCEPTED, &json!("waiting-approval")),
        "{released}"
    );
    let moved = shown(&server, &run).await["interrupts"][0]["deadline"].clone();
    assert_eq!(millis(&moved), millis(&deadline) + 7_200_000);
    let (_, inbox) = server.get("/v1/interrupts").await;
    assert_eq!(inbox["interrupts"][0]["deadline"], moved);
    let (status, refused) = ask(&server, &run, ":release", json!({})).await;
    assert_eq!((status, &refused["error"]), (StatusCode::CONFLICT, &json!("run_not_held")), "{refused}");
    let (status, _) = ask(&server, &run, ":hold", json!({ "mode": "freeze" })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    // An answer under a pause is kept, over a kill as well, and the node goes on after the release.
    ask(&server, &run, ":hold", json!({ "mode": "pause" })).await;
    assert_eq!(accept(&server, &run).await.1["status"], "paused");
    server.kill();
    let server = site.start(&["--test-clock"]);
    assert_eq!(shown(&server, &run).await["nodeStates"]["after"]["status"], "pending");
    assert_eq!(ask(&server, &run, ":resume", json!({})).await.0, StatusCode::ACCEPTED);
    let events = server.events(&run).await;
    let told: Vec<&str> = types(&events).into_iter().filter(|kind| kind.starts_with("run.")).collect();
    let expected = ["run.started", "run.paused", "run.resumed", "run.paused", "run.resumed", "run.completed"];
    assert_eq!(told, expected);
    verified(&site, server);
}

async fn bulk(server: &Server, key: &str, body: &Value) -> (StatusCode, Value) {
    server.ask_as(key, Method::POST, "/v1/interrupts:bulk-resolve", Some(body)).await
}

fn outcomes(body: &Value) -> Vec<String> {
    let results = body["results"].as_array().unwrap();
    let told = |one: &Value| match one["ok"] == true {
        true => one["status"].as_str().unwrap().to_owned(),
        false => one["error"]["code"].as_str().unwrap().to_owned(),
    };
    results.iter().map(told).collect()
}

#[tokio::test]
async fn many_answers_are_listed_first_and_then_given_each_by_itself() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = asking(&server, "pay", json!({ "title": "Pay one?" })).await;
    let second = server.start_run("pay", json!({})).await;
    let theirs = asking(&server, "theirs", json!({ "title": "Theirs?", "approversList": ["bob"] })).await;
    push(&server, &pay("other", &json!({ "title": "Other?" }))).await;
    let value = json!({ "action": "accept" });
    let list = json!({ "resumeValue": value, "filter": { "kind": "approval" }, "dryRun": true });
    let (status, listed) = bulk(&server, &server.key, &list).await;
    assert_eq!(status, StatusCode::OK, "{listed}");
    assert_eq!(outcomes(&listed), ["completed", "completed", "forbidden"]);
    assert_eq!((&listed["dryRun"], &listed["nextCursor"]), (&json!(true), &Value::Null));
    assert_eq!(listed["results"][0]["title"], "Pay one?");
    assert_eq!(shown(&server, &first).await["status"], "waiting-approval", "a list changes nothing");
    // What is asked after the list is left alone; somebody else was faster with one of them.
    let later = server.start_run("other", json!({})).await;
    accept(&server, &second).await;
    let named = |one: &Value| json!({ "runId": one["runId"], "interruptId": one["interruptId"] });
    let mut named: Vec<Value> = listed["results"].as_array().unwrap().iter().map(named).collect();
    named.push(json!({ "runId": "run-1", "interruptId": "nothing" }));
    named.push(named[0].clone());
    let body = json!({ "resumeValue": value, "interrupts": named });
    let ask = || {
        let request = server.request(Method::POST, "/v1/interrupts:bulk-resolve");
        answer(request.header("Idempotency-Key", "batch").json(&body))
    };
    let done = ask().await.unwrap();
    let expected =
        ["completed", "interrupt_already_resolved", "forbidden", "interrupt_not_found", "completed"];
    assert_eq!(outcomes(&done.1), expected, "{}", done.1);
    assert_eq!(ask().await.unwrap(), done, "a repeat is answered alike");
    // So a kill in the middle leaves it: the answers have receipts of their own, and the request has none.
    assert_eq!(site.change("DELETE FROM receipts WHERE endpoint = 'bulkResolveInterrupts'"), 1);
    assert_eq!(outcomes(&ask().await.unwrap().1), expected, "what was done is told as done");
    assert_eq!(shown(&server, &later).await["status"], "waiting-approval");
    assert_eq!(shown(&server, &theirs).await["status"], "waiting-approval");
    let received = server.events(&first).await;
    assert_eq!(types(&received).iter().filter(|kind| **kind == "approval.received").count(), 1);
    verified(&site, server);
}

#[tokio::test]
async fn a_filter_only_lists_and_a_request_names_a_hundred_at_most() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &pay("pay", &json!({ "title": "Pay?" }))).await;
    let tagged = json!({ "workflowId": "pay", "tags": ["batch-7"] });
    let (_, run) = server.post("/v1/runs", &tagged).await;
    server.start_run("pay", json!({})).await;
    let value = json!({ "action": "reject" });
    let found = |filter: Value| {
        let body = json!({ "resumeValue": value, "filter": filter, "dryRun": true });
        let server = &server;
        async move { bulk(server, &server.key, &body).await.1["results"].as_array().unwrap().clone() }
    };
    let batch = found(json!({ "tag": "batch-7", "nodeId": "gate", "workflowId": "pay" })).await;
    assert_eq!((batch.len(), &batch[0]["runId"], &batch[0]["status"]), (1, &run["runId"], &json!("failed")));
    assert_eq!(found(json!({ "nodeId": "after" })).await.len(), 0);
    assert_eq!(found(json!({ "olderThanMs": 5_000 })).await.len(), 0);
    assert_eq!(found(json!({ "approver": "dev", "title": "PAY" })).await.len(), 2);
    // Of what names somebody, only theirs.
    asking(&server, "sign", json!({ "title": "Sign?", "approversList": ["ann"] })).await;
    assert_eq!(found(json!({ "approver": "ann", "workflowId": "sign" })).await.len(), 1);
    assert_eq!(found(json!({ "approver": "bob", "workflowId": "sign" })).await.len(), 0);
    let one = json!({ "runId": run["runId"], "interruptId": batch[0]["interruptId"] });
    for wrong in [
        json!({ "resumeValue": value, "filter": {} }),
        json!({ "resumeValue": value }),
        json!({ "resumeValue": value, "interrupts": [] }),
        json!({ "resumeValue": value, "interrupts": vec![one.clone(); 101] }),
        json!({ "resumeValue": value, "interrupts": [one], "filter": {}, "dryRun": true }),
    ] {
        let (status, body) = bulk(&server, &server.key, &wrong).await;
        assert_eq!(
            (status, &body["error"]),
            (StatusCode::BAD_REQUEST, &json!("validation_error")),
            "{wrong}"
        );
    }
}

/// What was derived is what the journals say.
fn verified(site: &Site, server: Server) {
    server.kill();
    assert!(crate::support::verify(&site.data()) > 0);
}
