//! X-Dedup: one run under way for each workflow and scope.

use super::*;

async fn create(server: &Server, workflow: &str, scope: Option<&str>) -> (StatusCode, Value) {
    let request = server.request(Method::POST, "/v1/runs").header("X-Dedup", "enforce");
    answer(request.json(&json!({ "workflowId": workflow, "scopeId": scope }))).await.unwrap()
}

#[tokio::test]
async fn of_many_at_once_one_starts_and_the_others_hear_which() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let asked = (0..12).map(|_| create(&server, "parked", Some("order-7")));
    let told = futures_util::future::join_all(asked).await;
    let (started, refused): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!((started.len(), refused.len()), (1, 11));
    let run = &started[0].1["runId"];
    for answer in refused {
        let details = refusal(answer, "run_already_active");
        assert_eq!((&details["activeRunId"], &details["activeHost"]), (run, &json!("cloud")));
        assert!(details["retryAfter"].as_u64().unwrap() > 0);
    }
    assert_eq!(site.rows()["aggregates"], 1);
    assert_eq!(shown(&server, run.as_str().unwrap()).await["scopeId"], "order-7");
}

#[tokio::test]
async fn a_scope_is_free_again_when_its_run_has_ended() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, first) = create(&server, "parked", None).await;
    let run = first["runId"].as_str().unwrap();
    refusal(create(&server, "parked", None).await, "run_already_active");
    server.post(&format!("/v1/runs/{run}:pause"), &json!({})).await;
    refusal(create(&server, "parked", None).await, "run_already_active");
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    let (status, second) = create(&server, "parked", None).await;
    assert_eq!(status, StatusCode::CREATED);
    server.advance(2 * HOUR_MS).await;
    server.events(second["runId"].as_str().unwrap()).await;
    assert_eq!(create(&server, "parked", None).await.0, StatusCode::CREATED);
    assert_eq!(site.rows()["claims"], 1);
}

#[tokio::test]
async fn other_scopes_other_workflows_and_those_who_do_not_ask_are_not_held_up() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    assert_eq!(create(&server, "parked", Some("a")).await.0, StatusCode::CREATED);
    assert_eq!(create(&server, "parked", Some("b")).await.0, StatusCode::CREATED);
    assert_eq!(create(&server, "parked", None).await.0, StatusCode::CREATED);
    assert_eq!(create(&server, "payload", Some("a")).await.0, StatusCode::CREATED);
    server.start_run("parked", json!({})).await;
    assert_eq!(start_as(&server, &stranger, "parked").await.0, StatusCode::CREATED);
    let request = server.request_as(&stranger, Method::POST, "/v1/runs").header("X-Dedup", "enforce");
    let (status, _) = answer(request.json(&json!({ "workflowId": "parked", "scopeId": "a" }))).await.unwrap();
    assert_eq!(status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_run_that_did_not_ask_holds_up_nobody() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    server.start_run("parked", json!({})).await;
    assert_eq!(create(&server, "parked", None).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn a_claim_outlives_a_kill() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (_, first) = create(&server, "parked", Some("x")).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let details = refusal(create(&server, "parked", Some("x")).await, "run_already_active");
    assert_eq!(details["activeRunId"], first["runId"]);
}

#[tokio::test]
async fn a_repeated_request_gets_its_answer_and_not_its_own_run_in_the_way() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let ask = async |key: &'static str| {
        let request = server.request(Method::POST, "/v1/runs").header("X-Dedup", "enforce");
        answer(request.header("Idempotency-Key", key).json(&json!({ "workflowId": "parked" }))).await.unwrap()
    };
    let first = ask("one").await;
    assert_eq!(first.0, StatusCode::CREATED);
    assert_eq!(ask("one").await, first);
    refusal(ask("two").await, "run_already_active");
    assert_eq!(site.rows()["receipts"], 1, "a refusal is not kept");
}

#[tokio::test]
async fn what_else_the_header_says_is_refused() {
    let site = site();
    let server = site.start(&[]);
    for value in ["", "true", "Enforce", "enforce, please"] {
        let request = server.request(Method::POST, "/v1/runs").header("X-Dedup", value);
        let refused = answer(request.json(&json!({ "workflowId": "noop" }))).await.unwrap();
        assert_eq!(refusal(refused, "validation_error"), json!({ "field": "X-Dedup" }), "{value:?}");
    }
    for scope in [json!(""), json!("x".repeat(129)), json!(7)] {
        let body = json!({ "workflowId": "noop", "scopeId": scope });
        assert_eq!(refusal(server.post("/v1/runs", &body).await, "validation_error")["field"], "scopeId");
    }
    assert_eq!(site.rows()["aggregates"], 0);
}
