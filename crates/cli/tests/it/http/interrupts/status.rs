//! How runs are shown that wait, and what may be done to them meanwhile.

use super::*;

#[tokio::test]
async fn a_run_is_shown_by_what_it_waits_for() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for (kind, data, _, status) in kinds() {
        let run = ask(&server, kind, &data, &json!({ "timeoutMs": 60_000 })).await;
        let snapshot = shown(&server, &run).await;
        assert_eq!(
            (&snapshot["status"], &snapshot["currentNodeId"]),
            (&json!(status), &json!("gate")),
            "{kind}"
        );
        assert_eq!(snapshot["interrupts"], json!([snapshot["interrupt"]]), "{kind}");
        let interrupt = &snapshot["interrupt"];
        assert_eq!((&interrupt["kind"], &interrupt["data"]), (&json!(kind), &data));
        assert_eq!(millis(&interrupt["deadline"]), millis(&interrupt["requestedAt"]) + 60_000);
        let (_, listed) = server.get(&format!("/v1/runs?status={status}")).await;
        assert!(listed["runs"].as_array().unwrap().iter().any(|listed| listed["runId"] == run), "{kind}");
        let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
        assert_eq!(why["status"], status);
        assert_eq!(why["reasons"][0]["nodeId"], "gate", "{why}");
    }
}

#[tokio::test]
async fn of_several_kinds_a_decision_is_shown_first_then_an_answer_then_an_event() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let wanted = ["external-event", "custom", "approval"];
    let known = kinds();
    let of = |name: &str| known.iter().find(|(kind, ..)| *kind == name).unwrap();
    let mut nodes: Vec<Value> = wanted
        .iter()
        .map(|kind| {
            let config = json!({ "kind": kind, "data": of(kind).1 });
            node(kind, "core.interrupt", config, json!({}), json!({}))
        })
        .collect();
    nodes.push(node("busy", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({})));
    push(&server, &workflow("mixed", &nodes, &[], json!([]))).await;
    let run = server.start_run("mixed", json!({})).await;
    for kind in ["approval", "custom", "external-event"] {
        let (_, _, value, status) = of(kind);
        let snapshot = shown(&server, &run).await;
        assert_eq!((&snapshot["status"], &snapshot["currentNodeId"]), (&json!(status), &json!(kind)));
        assert_eq!(snapshot["nodeStates"]["busy"]["status"], "waiting");
        let path = format!("/v1/runs/{run}/interrupts/{kind}");
        assert_eq!(server.post(&path, &json!({ "resumeValue": value })).await.0, StatusCode::OK);
    }
    assert_eq!(shown(&server, &run).await["status"], "running");
}

/// A chain of runs, the first of which calls the second, and so on to `review`.
async fn family(server: &Server) -> Vec<String> {
    push(server, &review(&json!({}))).await;
    for (id, below) in [("middle", "review"), ("top", "middle")] {
        let call = node("call", "core.subWorkflow", json!({ "workflowId": below }), json!({}), json!({}));
        push(server, &workflow(id, &[call], &[], json!([]))).await;
    }
    let mut runs = vec![server.start_run("top", json!({})).await];
    while runs.len() < 3 {
        let children = shown(server, runs.last().unwrap()).await["childRuns"].clone();
        match children[0]["status"].as_str() {
            Some("pending") | None => tokio::task::yield_now().await,
            Some(_) => runs.push(children[0]["runId"].as_str().unwrap().to_owned()),
        }
    }
    runs
}

#[tokio::test]
async fn a_parent_is_shown_like_the_child_it_waits_for_and_nothing_of_it_is_kept() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let runs = family(&server).await;
    let before = events_so_far(&server, &runs[0]).await;
    let tag = async || {
        let response = server.request(Method::GET, &format!("/v1/runs/{}", runs[0])).send().await.unwrap();
        response.headers()["etag"].clone()
    };
    let waiting = tag().await;
    for run in &runs {
        assert_eq!(shown(&server, run).await["status"], "waiting-approval");
        assert_eq!(server.get(&format!("/v1/runs/{run}/why")).await.1["status"], "waiting-approval");
    }
    let top = shown(&server, &runs[0]).await;
    assert_eq!((&top["interrupt"], &top["currentNodeId"]), (&Value::Null, &json!("call")));
    assert_eq!(events_so_far(&server, &runs[0]).await, before);
    let listed = server.get("/v1/runs?status=waiting-approval").await.1["runs"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "what is kept is how each run stands itself");
    resolve(&server, &runs[2], &accept()).await;
    server.events(&runs[0]).await;
    assert_eq!(shown(&server, &runs[0]).await["status"], "completed");
    assert_ne!(tag().await, waiting);
}

#[tokio::test]
async fn a_cancelled_parent_takes_along_the_child_that_waits() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let runs = family(&server).await;
    let token = token(&server, &runs[2]).await;
    cancel(&server, &runs[0]).await;
    for (run, parent) in runs[1..].iter().zip(&runs) {
        let events = server.events(run).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "run.cancelled");
        assert_eq!(last["payload"], json!({ "reason": "parent-cancelled", "parentRunId": parent }));
    }
    let events = server.events(&runs[2]).await;
    assert_eq!(the(&events, "interrupt.resolved")["payload"]["reason"], "parent-cancelled");
    refusal(answer_gate(&server, &runs[2], &accept()).await, "interrupt_gone");
    refusal(answer_by(&server, &token, &accept()).await, "interrupt_already_resolved");
    let events = server.events(&runs[0]).await;
    assert_eq!(
        the(&events, "run.cancelled")["payload"].get("parentRunId"),
        None,
        "nobody took this one along"
    );
}

#[tokio::test]
async fn a_run_that_waits_is_not_paused_and_waits_on() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for (kind, data, value, status) in kinds() {
        let run = ask(&server, kind, &data, &json!({})).await;
        let id = shown(&server, &run).await["interrupt"]["interruptId"].clone();
        let details =
            refusal(server.post(&format!("/v1/runs/{run}:pause"), &json!({})).await, "run_not_pausable");
        assert_eq!(details["runStatus"], status);
        assert_eq!(shown(&server, &run).await["interrupt"]["interruptId"], id);
        resolve(&server, &run, &value).await;
    }
}
