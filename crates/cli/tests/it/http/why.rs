//! GET /v1/runs/{run}/why: what a run waits for, in each of its states.

use super::*;

async fn why(server: &Server, run: &str) -> Value {
    let (status, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert_eq!(status, StatusCode::OK, "{why}");
    assert_eq!(why["runId"], run);
    why
}

#[tokio::test]
async fn a_delay_is_told_with_its_time() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("payload", json!({ "delayMs": 5000 })).await;
    let told = why(&server, &run).await;
    assert_eq!((&told["status"], &told["finished"]), (&json!("running"), &json!(false)));
    let reason = &told["reasons"][0];
    assert_eq!((&reason["kind"], &reason["nodeId"]), (&json!("delay"), &json!("wait")));
    assert_eq!(millis(&reason["until"]) - millis(&reason["since"]), 5000);
    assert!(!reason["what"].as_str().unwrap().is_empty() && !reason["next"].as_str().unwrap().is_empty());
    assert_eq!(told["summary"], "it is running and waits for a delay");
    assert_eq!(told["reasons"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_end_is_told_with_its_reason() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let done = server.start_run("noop", json!({})).await;
    let failed = server.start_run("failing", json!({})).await;
    let cancelled = server.start_run("parked", json!({})).await;
    server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await;
    for (run, status, word) in [
        (done, "completed", "completed"),
        (failed, "failed", "[node_execution_failed]"),
        (cancelled, "cancelled", "cancelled"),
    ] {
        let told = why(&server, &run).await;
        assert_eq!((&told["status"], &told["finished"]), (&json!(status), &json!(true)));
        assert_eq!(told["reasons"], json!([]));
        assert!(told["summary"].as_str().unwrap().contains(word), "{told}");
    }
}

#[tokio::test]
async fn a_child_is_told_with_its_id_and_a_limit_with_its_time() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let calls = node("call", "core.subWorkflow", json!({ "workflowId": "parked" }), json!({}), json!({}));
    push(&server, &workflow("calls", &[calls], &[], json!([]))).await;
    let body = json!({ "workflowId": "calls", "configurable": { "runTimeoutMs": 9000 } });
    let (status, started) = server.post("/v1/runs", &body).await;
    assert_eq!(status, StatusCode::CREATED, "{started}");
    let run = started["runId"].as_str().unwrap();
    let told = why(&server, run).await;
    let kinds: Vec<_> = told["reasons"].as_array().unwrap().iter().map(|reason| &reason["kind"]).collect();
    assert_eq!(kinds, ["child", "timeout"]);
    assert_eq!(told["reasons"][0]["childRunId"], shown(&server, run).await["childRuns"][0]["runId"]);
    assert!(told["reasons"][1].get("nodeId").is_none());
    server.advance(9000).await;
    server.events(run).await;
    let told = why(&server, run).await;
    assert!(told["summary"].as_str().unwrap().contains("[run_timeout]"), "{told}");
}

#[tokio::test]
async fn a_run_that_never_was_has_no_reasons() {
    let site = site();
    let server = site.start(&[]);
    for run in ["run-00000000-0000-7000-8000-000000000000", "nonsense", "%FF"] {
        refusal(server.get(&format!("/v1/runs/{run}/why")).await, "run_not_found");
    }
    refusal(answer(server.anonymous(Method::GET, "/v1/runs/x/why")).await.unwrap(), "unauthenticated");
}
