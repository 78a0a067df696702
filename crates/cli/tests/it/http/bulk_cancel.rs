//! POST /v1/runs:bulk-cancel.

use super::*;

async fn cancel(server: &Server, body: Value) -> (StatusCode, Value) {
    server.post("/v1/runs:bulk-cancel", &body).await
}

#[tokio::test]
async fn each_run_is_answered_by_itself_in_the_order_named() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let (_, foreign) = start_as(&server, &stranger, "parked").await;
    let foreign = foreign["runId"].as_str().unwrap().to_owned();
    let waiting = server.start_run("parked", json!({})).await;
    let gone = server.start_run("parked", json!({})).await;
    server.post(&format!("/v1/runs/{gone}/cancel"), &json!({})).await;
    let done = server.start_run("noop", json!({})).await;
    let failed = server.start_run("failing", json!({})).await;
    let nobody = "run-00000000-0000-7000-8000-000000000000";
    let ids = [&done, &waiting, nobody, &gone, &failed, &foreign, "no-run", &waiting];
    let (status, body) = cancel(&server, json!({ "runIds": ids, "reason": "tidying up" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let yes = |run: &str, status: &str| json!({ "runId": run, "ok": true, "status": status });
    let no = |run: &str| {
        let error = json!({ "code": "not_found", "message": format!("there is no run {run}") });
        json!({ "runId": run, "ok": false, "error": error })
    };
    let expected = [
        yes(&done, "completed"),
        yes(&waiting, "cancelled"),
        no(nobody),
        yes(&gone, "cancelled"),
        yes(&failed, "failed"),
        no(&foreign),
        no("no-run"),
        yes(&waiting, "cancelled"),
    ];
    assert_eq!(body, json!({ "results": expected }));
    let events = server.events(&waiting).await;
    assert_eq!(events.last().unwrap()["payload"], json!({ "reason": "tidying up", "cancelledBy": "dev" }));
    assert_eq!(types(&events).iter().filter(|kind| **kind == "run.cancelled").count(), 1);
    let (_, theirs) =
        answer(server.request_as(&stranger, Method::GET, &format!("/v1/runs/{foreign}"))).await.unwrap();
    assert_eq!(theirs["status"], "running", "another tenant's run is none of ours");
}

#[tokio::test]
async fn a_hundred_are_cancelled_at_once_and_repeating_it_changes_nothing() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let starting = (0..100).map(|_| server.start_run("parked", json!({})));
    let runs = futures_util::future::join_all(starting).await;
    let body = json!({ "runIds": runs });
    let ask = || {
        let request = server.request(Method::POST, "/v1/runs:bulk-cancel");
        answer(request.header("Idempotency-Key", "all").json(&body))
    };
    let first = ask().await.unwrap();
    let results = first.1["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["status"] == "cancelled"), "{first:?}");
    let told: Vec<&str> = results.iter().map(|result| result["runId"].as_str().unwrap()).collect();
    assert_eq!(told, runs);
    let before = site.rows();
    assert_eq!(ask().await.unwrap(), first);
    assert_eq!(site.rows(), before);
    assert_eq!(before["receipts"], 1);
}

#[tokio::test]
async fn none_too_many_and_nonsense_are_refused() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let before = site.rows();
    for ids in [json!([]), json!(vec![&run; 101])] {
        let details = refusal(cancel(&server, json!({ "runIds": ids })).await, "validation_error");
        assert_eq!(details, json!({ "field": "runIds", "maxRunIds": 100 }));
    }
    for body in [
        json!({}),
        json!({ "runIds": "x" }),
        json!({ "runIds": [7] }),
        json!({ "runIds": [run], "force": true }),
        json!({ "runIds": [run], "reason": "x".repeat(10_000) }),
    ] {
        refusal(cancel(&server, body).await, "validation_error");
    }
    assert_eq!(site.rows(), before);
}
