//! POST /v1/runs/{run}/cancel.

use super::*;

async fn cancel(server: &Server, run: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/cancel"), &body).await
}

#[tokio::test]
async fn a_waiting_run_is_cancelled_with_its_reason() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (status, body) = cancel(&server, &run, json!({ "reason": "no longer needed" })).await;
    assert_eq!((status, body), (StatusCode::OK, json!({ "runId": run, "status": "cancelled" })));
    let events = server.events(&run).await;
    assert_eq!(types(&events), ["run.started", "node.started", "node.cancelled", "run.cancelled"]);
    assert_eq!(events[3]["payload"], json!({ "reason": "no longer needed", "cancelledBy": "dev" }));
    server.advance(2 * HOUR_MS).await;
    assert_eq!(server.events(&run).await.len(), 4, "its timer is gone");
    assert_eq!(site.rows()["timers"], 0);
}

#[tokio::test]
async fn a_reason_may_be_left_out() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for body in ["", "{}", r#"{"reason":null}"#] {
        let run = server.start_run("parked", json!({})).await;
        let (status, answer) = post_raw(&server, &format!("/v1/runs/{run}/cancel"), body).await;
        assert_eq!((status, &answer["status"]), (StatusCode::OK, &json!("cancelled")));
        let payload = server.events(&run).await[3]["payload"].clone();
        assert_eq!(payload, json!({ "cancelledBy": "dev" }));
    }
}

#[tokio::test]
async fn cancelling_twice_is_answered_the_same_and_recorded_once() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let first = cancel(&server, &run, json!({ "reason": "first" })).await;
    let before = site.rows();
    assert_eq!(cancel(&server, &run, json!({ "reason": "second" })).await, first);
    assert_eq!(site.rows(), before);
    assert_eq!(server.events(&run).await[3]["payload"]["reason"], "first");
}

#[tokio::test]
async fn a_run_that_has_ended_stays_as_it_ended() {
    let site = site();
    let server = site.start(&[]);
    for (workflow, status) in [("noop", "completed"), ("failing", "failed")] {
        let run = server.start_run(workflow, json!({})).await;
        let before = site.rows();
        let answer = cancel(&server, &run, json!({ "reason": "too late" })).await;
        assert_eq!(answer, (StatusCode::OK, json!({ "runId": run, "status": status })));
        assert_eq!(site.rows(), before);
    }
}

#[tokio::test]
async fn many_cancel_at_once_and_one_is_recorded() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let asked = (0..20).map(|ix| cancel(&server, &run, json!({ "reason": format!("{ix}") })));
    for (status, body) in futures_util::future::join_all(asked).await {
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("cancelled")));
    }
    assert_eq!(server.events(&run).await.len(), 4);
}

#[tokio::test]
async fn a_cancellation_survives_a_kill() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    cancel(&server, &run, json!({ "reason": "for good" })).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "cancelled");
    assert_eq!(server.events(&run).await[3]["payload"]["reason"], "for good");
}

#[tokio::test]
async fn a_reason_has_a_limit_in_characters() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let limit = abide_core::limits::REASON_CHARS_MAX;
    let before = site.rows();
    let refused = cancel(&server, &run, json!({ "reason": "ü".repeat(limit + 1) })).await;
    assert_eq!(refusal(refused, "validation_error")["field"], "reason");
    assert_eq!(site.rows(), before);
    let (status, _) = cancel(&server, &run, json!({ "reason": "ü".repeat(limit) })).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_body_is_refused_and_the_run_goes_on() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/cancel");
    for body in [
        r#"{"reason":7}"#,
        r#"{"why":"x"}"#,
        r#"["because"]"#,
        "[null]",
        "null",
        "{",
        r#"{"reason":"a"} x"#,
        r#"{"reason":"a","reason":"b"}"#,
    ] {
        refusal(post_raw(&server, &path, body).await, "validation_error");
    }
    refusal(
        post_raw(&server, &path, vec![b' '; abide_server::limits::BODY_BYTES_MAX + 1]).await,
        "payload_too_large",
    );
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "running");
}

#[tokio::test]
async fn a_run_that_never_was_can_not_be_cancelled() {
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    refusal(cancel(&server, unknown, json!({})).await, "run_not_found");
    assert_eq!(site.rows(), before);
}
