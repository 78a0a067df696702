//! GET /v1/runs/{run}.

use super::*;

/// The snapshot of a run, with its id and every timestamp as the number of milliseconds since the run began.
async fn related(server: &Server, run: &str) -> Value {
    let (status, mut snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(status, StatusCode::OK, "{snapshot}");
    assert_eq!(snapshot["runId"], run);
    snapshot["runId"] = json!("<run>");
    assert_eq!(snapshot["engineVersion"], env!("CARGO_PKG_VERSION"));
    snapshot["engineVersion"] = json!("<version>");
    let hash = snapshot["definitionHash"].as_str().expect("the definition is named").to_owned();
    assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    snapshot["definitionHash"] = json!("<hash>");
    let began = millis(&snapshot["startedAt"]);
    relate(&mut snapshot, began);
    snapshot
}

fn relate(value: &mut Value, began: i64) {
    let Some(object) = value.as_object_mut() else {
        return;
    };
    for (name, value) in object {
        match name.as_str() {
            "startedAt" | "endedAt" | "completedAt" | "until" => *value = json!(millis(value) - began),
            _ => relate(value, began),
        }
    }
}

#[tokio::test]
async fn a_waiting_run_shows_what_it_waits_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = json!({
        "workflowId": "payload", "inputs": { "payload": { "a": 1 }, "delayMs": 5000 },
        "tags": ["x"], "metadata": { "m": true },
    });
    let (_, created) = server.post("/v1/runs", &body).await;
    server.advance(1000).await;
    let expected = json!({
        "runId": "<run>",
        "workflowId": "payload",
        "workflowVersion": "1.0",
        "status": "running",
        "currentNodeId": "wait",
        "startedAt": 0,
        "inputs": { "payload": { "a": 1 }, "delayMs": 5000 },
        "variables": { "payload": { "a": 1 }, "delayMs": 5000 },
        "nodeStates": {
            "carry": {
                "status": "completed", "typeId": "core.identity", "execution": 1,
                "startedAt": 0, "endedAt": 0, "outputs": { "payload": { "a": 1 } },
            },
            "wait": {
                "status": "waiting", "typeId": "core.delay", "execution": 1, "startedAt": 0, "until": 5000,
            },
        },
        "tags": ["x"],
        "metadata": { "m": true },
        "engineVersion": "<version>",
        "definitionHash": "<hash>",
        "eventLogSchemaVersion": 1,
        "sequence": 3,
    });
    assert_eq!(related(&server, created["runId"].as_str().unwrap()).await, expected);
}

#[tokio::test]
async fn a_completed_run_shows_when_and_with_what() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("payload", json!({ "delayMs": 20 })).await;
    server.advance(25).await;
    server.events(&run).await;
    let expected = json!({
        "runId": "<run>",
        "workflowId": "payload",
        "workflowVersion": "1.0",
        "status": "completed",
        "startedAt": 0,
        "completedAt": 25,
        "inputs": { "delayMs": 20 },
        "variables": { "delayMs": 20 },
        "nodeStates": {
            "carry": {
                "status": "completed", "typeId": "core.identity", "execution": 1,
                "startedAt": 0, "endedAt": 0, "outputs": {},
            },
            "wait": {
                "status": "completed", "typeId": "core.delay", "execution": 1, "startedAt": 0, "endedAt": 25,
            },
        },
        "tags": [],
        "engineVersion": "<version>",
        "definitionHash": "<hash>",
        "eventLogSchemaVersion": 1,
        "sequence": 5,
    });
    assert_eq!(related(&server, &run).await, expected);
}

#[tokio::test]
async fn a_failed_run_shows_why_and_what_never_started() {
    let site = Site::new();
    site.workflow(&workflow(
        "halts",
        &[
            node("bad", "core.fail", json!({ "message": "no luck" }), json!({}), json!({})),
            node("after", "core.noop", json!({}), json!({}), json!({})),
            node("beside", "core.delay", json!({ "ms": 1000 }), json!({}), json!({})),
        ],
        &[("bad", "after")],
        json!([]),
    ));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("halts", json!({})).await;
    let error = json!({ "code": "node_execution_failed", "message": "no luck" });
    let expected = json!({
        "runId": "<run>",
        "workflowId": "halts",
        "workflowVersion": "1.0",
        "status": "failed",
        "startedAt": 0,
        "completedAt": 0,
        "error": error,
        "inputs": {},
        "variables": {},
        "nodeStates": {
            "bad": {
                "status": "failed", "typeId": "core.fail", "execution": 1,
                "startedAt": 0, "endedAt": 0, "error": error,
            },
            "after": { "status": "pending", "typeId": "core.noop" },
            "beside": { "status": "pending", "typeId": "core.delay" },
        },
        "tags": [],
        "engineVersion": "<version>",
        "definitionHash": "<hash>",
        "eventLogSchemaVersion": 1,
        "sequence": 3,
    });
    assert_eq!(related(&server, &run).await, expected);
}

#[tokio::test]
async fn a_cancelled_run_shows_when_and_what_was_cut_off() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    server.advance(7).await;
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    let expected = json!({
        "runId": "<run>",
        "workflowId": "parked",
        "workflowVersion": "1.0",
        "status": "cancelled",
        "startedAt": 0,
        "completedAt": 7,
        "inputs": {},
        "variables": {},
        "nodeStates": {
            "wait": {
                "status": "cancelled", "typeId": "core.delay", "execution": 1, "startedAt": 0, "endedAt": 7,
            },
        },
        "tags": [],
        "engineVersion": "<version>",
        "definitionHash": "<hash>",
        "eventLogSchemaVersion": 1,
        "sequence": 3,
    });
    assert_eq!(related(&server, &run).await, expected);
}

#[tokio::test]
async fn a_run_looks_the_same_after_a_kill() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut before = Vec::new();
    for workflow in ["parked", "noop", "failing", "kinds"] {
        let run = server.start_run(workflow, json!({})).await;
        let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
        before.push((run, snapshot));
    }
    server.kill();
    let server = site.start(&["--test-clock"]);
    for (run, snapshot) in before {
        assert_eq!(server.get(&format!("/v1/runs/{run}")).await.1, snapshot);
    }
}

#[tokio::test]
async fn a_run_that_never_was_is_not_found() {
    let site = site();
    let server = site.start(&[]);
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    let (status, body) = server.get(&format!("/v1/runs/{unknown}")).await;
    assert_eq!(body["message"], format!("there is no run {unknown}"));
    assert!(refusal((status, body), "run_not_found").is_null());
}

#[tokio::test]
async fn a_name_that_can_not_be_a_run_is_not_found() {
    let site = site();
    let server = site.start(&[]);
    let long = "a".repeat(5000);
    for name in ["nonsense", "run-", "run-123", "%00", "%FF%FE", "run-%c3%28", "..%2f", "%20", &long] {
        for (method, tail) in [(Method::GET, ""), (Method::GET, "/events/poll"), (Method::POST, "/cancel")] {
            let request = server.request(method, &format!("/v1/runs/{name}{tail}"));
            refusal(answer(request).await.unwrap(), "run_not_found");
        }
    }
}

#[tokio::test]
async fn a_run_goes_by_its_bare_uuid_as_well() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (status, snapshot) = server.get(&format!("/v1/runs/{}", &run["run-".len()..])).await;
    assert_eq!((status, &snapshot["runId"]), (StatusCode::OK, &json!(run)));
}

/// Asks for a run with the tag of what is there already; gives the status and the tag of the answer.
async fn asked_again(server: &Server, run: &str, tag: &str) -> (StatusCode, String) {
    let request = server.request(Method::GET, &format!("/v1/runs/{run}"));
    let response = request.header("if-none-match", tag).send().await.unwrap();
    let (status, tag) = (response.status(), response.headers()["etag"].to_str().unwrap().to_owned());
    assert_eq!(response.text().await.unwrap().is_empty(), status == StatusCode::NOT_MODIFIED);
    (status, tag)
}

#[tokio::test]
async fn a_run_is_sent_again_only_when_it_has_changed() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    server.settle().await;
    let (status, waiting) = asked_again(&server, &run, "\"nothing\"").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(asked_again(&server, &run, &waiting).await, (StatusCode::NOT_MODIFIED, waiting.clone()));
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    let (status, ended) = asked_again(&server, &run, &waiting).await;
    assert_eq!(status, StatusCode::OK);
    assert_ne!(ended, waiting);
    let (status, body) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (status, erased) = asked_again(&server, &run, &ended).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(asked_again(&server, &run, &erased).await.0, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn a_run_whose_child_goes_on_has_changed() {
    let site = site();
    let child = json!({ "workflowId": "parked", "waitForCompletion": false });
    let nodes = [
        node("child", "core.subWorkflow", child, json!({}), json!({})),
        node("wait", "core.delay", json!({ "ms": 2 * HOUR_MS }), json!({}), json!({})),
    ];
    site.workflow(&workflow("parent", &nodes, &[("child", "wait")], json!([])));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parent", json!({})).await;
    server.settle().await;
    let before = shown(&server, &run).await;
    let (_, tag) = asked_again(&server, &run, "\"nothing\"").await;
    server.advance(HOUR_MS).await;
    server.settle().await;
    let after = shown(&server, &run).await;
    assert_ne!(before["childRuns"], after["childRuns"]);
    assert_eq!(asked_again(&server, &run, &tag).await.0, StatusCode::OK);
}
