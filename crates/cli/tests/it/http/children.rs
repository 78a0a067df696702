//! Runs that start runs: what goes in, what comes back, and what happens to one when the other ends.

use super::*;

/// A parent that hands `x` down as `given` and takes `back` over as `result`.
fn parent(config: &Value) -> Value {
    let mut whole = json!({
        "workflowId": "child", "inputMapping": { "given": "x" }, "outputMapping": { "result": "back" },
    });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    workflow("parent", &[node("call", "core.subWorkflow", whole, json!({}), json!({}))], &[], json!([]))
}

/// Waits an hour, then doubles what it was given.
fn child() -> Value {
    let doubles = json!({ "expression": "variables.given * 2", "assign": { "back": "variables.given * 2" } });
    workflow(
        "child",
        &[
            node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({})),
            node("double", "core.transform", doubles, json!({}), json!({})),
        ],
        &[("wait", "double")],
        json!([{ "name": "given", "type": "number", "required": true }]),
    )
}

/// The only child of a run, once it has started.
async fn child_of(server: &Server, run: &str) -> String {
    loop {
        let children = shown(server, run).await["childRuns"].clone();
        assert_eq!(children.as_array().map(Vec::len), Some(1), "{children}");
        if children[0]["status"] != "pending" {
            return children[0]["runId"].as_str().unwrap().to_owned();
        }
    }
}

#[tokio::test]
async fn a_child_gets_its_inputs_and_gives_its_outputs_back() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &child()).await;
    push(&server, &parent(&json!({}))).await;
    let run = server.start_run("parent", json!({ "x": 21 })).await;
    let id = child_of(&server, &run).await;
    let waiting = shown(&server, &run).await;
    assert_eq!(waiting["childRuns"], json!([{ "runId": id, "status": "running", "nodeId": "call" }]));
    assert_eq!(waiting["nodeStates"]["call"]["childRunId"], id);
    assert_eq!(waiting["nodeStates"]["call"]["status"], "waiting");
    let below = shown(&server, &id).await;
    assert_eq!((&below["parentRunId"], &below["parentNodeId"]), (&json!(run), &json!("call")));
    assert_eq!(below["inputs"], json!({ "given": 21 }));
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    let done = shown(&server, &run).await;
    assert_eq!((&done["status"], &done["variables"]["result"]), (&json!("completed"), &json!(42)));
    assert_eq!(done["childRuns"][0]["status"], "completed");
    let outputs = json!({ "childRunId": id, "childStatus": "completed" });
    assert_eq!(done["nodeStates"]["call"]["outputs"], outputs);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 2);
}

#[tokio::test]
async fn a_cancelled_parent_takes_its_child_along_unless_told_otherwise() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &child()).await;
    for (propagate, ends) in [(true, "cancelled"), (false, "completed")] {
        push(&server, &parent(&json!({ "propagateCancellation": propagate }))).await;
        let run = server.start_run("parent", json!({ "x": 1 })).await;
        let id = child_of(&server, &run).await;
        let (_, body) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough" })).await;
        assert_eq!(body["status"], "cancelled");
        if propagate {
            let events = server.events(&id).await;
            let last = events.last().unwrap();
            assert_eq!(last["type"], "run.cancelled");
            assert_eq!(last["payload"], json!({ "reason": "parent-cancelled", "parentRunId": run }));
        } else {
            server.advance(HOUR_MS).await;
            server.events(&id).await;
        }
        assert_eq!(shown(&server, &id).await["status"], ends);
        assert_eq!(shown(&server, &run).await["childRuns"][0]["status"], ends);
    }
}

#[tokio::test]
async fn a_child_that_fails_fails_its_parent_or_is_absorbed() {
    let site = Site::new();
    let server = site.start(&[]);
    let fails =
        node("fail", "core.fail", json!({ "code": "no_luck", "message": "none" }), json!({}), json!({}));
    push(&server, &workflow("child", &[fails], &[], json!([]))).await;
    push(&server, &parent(&json!({}))).await;
    let run = server.start_run("parent", json!({ "x": 1 })).await;
    server.events(&run).await;
    let failed = shown(&server, &run).await;
    assert_eq!(failed["error"]["code"], "child_failed");
    assert_eq!(failed["error"]["details"]["cause"]["code"], "no_luck");
    assert_eq!(failed["error"]["details"]["childRunId"], failed["childRuns"][0]["runId"]);
    push(&server, &parent(&json!({ "onChildFailure": "absorb" }))).await;
    let run = server.start_run("parent", json!({ "x": 1 })).await;
    server.events(&run).await;
    let absorbed = shown(&server, &run).await;
    assert_eq!(absorbed["status"], "completed");
    assert_eq!(absorbed["nodeStates"]["call"]["outputs"]["childStatus"], "failed");
}

#[tokio::test]
async fn a_child_that_can_not_start_fails_its_parent_with_the_reason() {
    let site = Site::new();
    let server = site.start(&[]);
    push(&server, &parent(&json!({}))).await;
    let run = server.start_run("parent", json!({ "x": 1 })).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["error"]["code"], "workflow_not_found");
    push(&server, &child()).await;
    let run = server.start_run("parent", json!({ "x": "no number" })).await;
    server.events(&run).await;
    let error = shown(&server, &run).await["error"].clone();
    assert_eq!(error["code"], "child_refused");
    assert!(error["message"].as_str().unwrap().contains("given"), "{error}");
}

#[tokio::test]
async fn a_child_is_looked_for_in_its_own_tenant_alone() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    push(&server, &child()).await;
    push_as(&server, &stranger, &parent(&json!({}))).await;
    let (status, started) = start_as(&server, &stranger, "parent").await;
    assert_eq!(status, StatusCode::CREATED, "{started}");
    let path = format!("/v1/runs/{}", started["runId"].as_str().unwrap());
    let poll = format!("{path}/events/poll?timeout=60&lastSequence=1");
    let (_, page) = answer(server.request_as(&stranger, Method::GET, &poll)).await.unwrap();
    let last = page["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["payload"]["error"]["code"], "workflow_not_found");
    assert_eq!(server.get("/v1/runs").await.1["runs"], json!([]), "nothing ran here");
}

#[tokio::test]
async fn the_children_of_a_run_are_shown_to_its_tenant_alone() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    push(&server, &child()).await;
    push(&server, &parent(&json!({}))).await;
    let run = server.start_run("parent", json!({ "x": 1 })).await;
    let id = child_of(&server, &run).await;
    for run in [&run, &id] {
        for tail in ["", "/why", "/events/poll"] {
            let request = server.request_as(&stranger, Method::GET, &format!("/v1/runs/{run}{tail}"));
            refusal(answer(request).await.unwrap(), "run_not_found");
        }
    }
}

#[tokio::test]
async fn many_children_are_shown_up_to_a_bound() {
    let site = Site::new();
    let server = site.start(&[]);
    push(&server, &chain("leaf", "core.noop", 1, &json!({}))).await;
    let calls: Vec<Value> = (0..120)
        .map(|ix| {
            let config = json!({ "workflowId": "leaf" });
            node(&format!("c{ix}"), "core.subWorkflow", config, json!({}), json!({}))
        })
        .collect();
    push(&server, &workflow("many", &calls, &[], json!([]))).await;
    let run = server.start_run("many", json!({})).await;
    server.events(&run).await;
    let children = shown(&server, &run).await["childRuns"].as_array().unwrap().clone();
    assert_eq!(children.len(), abide_server::limits::CHILD_RUNS_MAX);
    let ids: Vec<&str> = children.iter().map(|child| child["runId"].as_str().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(children.iter().all(|child| child["status"] == "completed"), "{children:?}");
}
