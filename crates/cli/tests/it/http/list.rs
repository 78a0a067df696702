//! GET /v1/runs.

use super::*;

async fn page(server: &Server, query: &str) -> (Vec<String>, Value) {
    let (status, body) = server.get(&format!("/v1/runs?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["nextCursor", "runs"]);
    let runs = body["runs"].as_array().unwrap();
    let ids = runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned());
    (ids.collect(), body["nextCursor"].clone())
}

#[tokio::test]
async fn an_empty_server_lists_nothing() {
    let site = site();
    let server = site.start(&[]);
    let (status, body) = server.get("/v1/runs").await;
    assert_eq!((status, body), (StatusCode::OK, json!({ "runs": [], "nextCursor": null })));
}

#[tokio::test]
async fn a_run_in_the_list_has_its_columns() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("payload", json!({ "delayMs": 100 })).await;
    server.advance(100).await;
    let events = server.events(&run).await;
    let (_, body) = server.get("/v1/runs").await;
    let expected = json!([{
        "runId": run,
        "workflowId": "payload",
        "status": "completed",
        "startedAt": events[0]["timestamp"],
        "updatedAt": events.last().unwrap()["timestamp"],
        "events": events.len(),
    }]);
    assert_eq!(body["runs"], expected);
}

#[tokio::test]
async fn a_list_can_be_narrowed_to_a_workflow_and_a_status_and_paged() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut parked = Vec::new();
    for _ in 0..3 {
        parked.insert(0, server.start_run("parked", json!({})).await);
        server.start_run("noop", json!({})).await;
    }
    server.post(&format!("/v1/runs/{}:pause", parked[1]), &json!({})).await;
    assert_eq!(page(&server, "workflowId=parked").await.0, parked);
    assert_eq!(page(&server, "workflowId=parked&status=paused").await.0, parked[1..2]);
    assert_eq!(page(&server, "workflowId=noop&status=paused").await.0, [""; 0]);
    assert_eq!(page(&server, "workflowId=elsewhere").await.0, [""; 0]);
    let (first, cursor) = page(&server, "workflowId=parked&limit=2").await;
    assert_eq!(first, parked[..2]);
    let rest = page(&server, &format!("workflowId=parked&limit=2&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!(rest, (parked[2..].to_vec(), Value::Null));
}

#[tokio::test]
async fn pages_follow_each_other_newest_first_whatever_begins_meanwhile() {
    let site = site();
    let server = site.start(&[]);
    let mut started = Vec::new();
    for _ in 0..7 {
        started.push(server.start_run("noop", json!({})).await);
    }
    started.reverse();
    let (first, cursor) = page(&server, "limit=3").await;
    assert_eq!(first, started[..3]);
    server.start_run("noop", json!({})).await;
    let (second, cursor) = page(&server, &format!("limit=3&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!(second, started[3..6]);
    let (third, cursor) = page(&server, &format!("limit=3&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!((third, cursor), (started[6..].to_vec(), Value::Null));
}

#[tokio::test]
async fn a_page_that_ends_with_the_list_has_no_cursor() {
    let site = site();
    let server = site.start(&[]);
    for _ in 0..3 {
        server.start_run("noop", json!({})).await;
    }
    assert_eq!(page(&server, "limit=3").await.1, Value::Null);
    assert_eq!(page(&server, "limit=4").await.1, Value::Null);
    let (last, cursor) = page(&server, "limit=2").await;
    assert_eq!(cursor, *last[1]);
}

#[tokio::test]
async fn a_page_has_fifty_runs_unless_told_otherwise() {
    let site = site();
    let server = site.start(&[]);
    for _ in 0..51 {
        server.start_run("noop", json!({})).await;
    }
    let (runs, cursor) = page(&server, "").await;
    assert_eq!((runs.len(), cursor), (50, json!(runs[49])));
    assert_eq!(page(&server, "limit=500").await.0.len(), 51);
}

#[tokio::test]
async fn a_status_filters_and_its_pages_hold_no_others() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut by_status = [
        ("completed", Vec::new()),
        ("failed", Vec::new()),
        ("cancelled", Vec::new()),
        ("running", Vec::new()),
    ];
    for _ in 0..2 {
        let cancelled = server.start_run("parked", json!({})).await;
        server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await;
        by_status[0].1.push(server.start_run("noop", json!({})).await);
        by_status[1].1.push(server.start_run("failing", json!({})).await);
        by_status[2].1.push(cancelled);
        by_status[3].1.push(server.start_run("parked", json!({})).await);
    }
    for (status, mut runs) in by_status {
        runs.reverse();
        assert_eq!(page(&server, &format!("status={status}")).await.0, runs, "{status}");
        let (first, cursor) = page(&server, &format!("status={status}&limit=1")).await;
        let next = format!("status={status}&limit=1&cursor={}", cursor.as_str().unwrap());
        assert_eq!([first, page(&server, &next).await.0].concat(), runs, "{status}");
    }
    for status in ["pending", "paused", "cancelling"] {
        assert!(page(&server, &format!("status={status}")).await.0.is_empty(), "{status}");
    }
}

#[tokio::test]
async fn bad_parameters_are_refused_by_name() {
    let site = site();
    let server = site.start(&[]);
    for (query, field) in [
        ("limit=0", json!("limit")),
        ("limit=501", json!("limit")),
        ("limit=-1", json!("limit")),
        ("limit=1.5", json!("limit")),
        ("limit=", json!("limit")),
        ("limit=99999999999999999999", json!("limit")),
        ("status=asleep", json!("status")),
        ("status=Running", json!("status")),
        ("cursor=nonsense", json!("cursor")),
        ("cursor=", json!("cursor")),
        ("order=up", Value::Null),
        ("limit=1&limit=2", Value::Null),
    ] {
        let details = refusal(server.get(&format!("/v1/runs?{query}")).await, "validation_error");
        assert_eq!(details["field"], field, "{query}");
    }
}
