//! POST /v1/runs/{run}/erase: what an ended run said is gone, and its outline stays.

use super::*;

const SAID: &str = "forget-me-4711";

async fn erase(server: &Server, run: &str, body: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/erase"), body).await
}

/// A run that has ended and said something.
async fn ended(server: &Server) -> String {
    let run = server.start_run("payload", json!({ "payload": SAID })).await;
    server.events(&run).await;
    assert_eq!(shown(server, &run).await["status"], "completed");
    run
}

#[tokio::test]
async fn an_erased_run_shows_its_outline_and_nothing_that_it_said() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = ended(&server).await;
    let before = shown(&server, &run).await;
    let events = server.events(&run).await;
    // Asking for its end reads it into memory, where nothing may stay.
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(server.get("/v1/runs").await.1["runs"][0].get("erased"), None);
    let told = erase(&server, &run, &json!({ "reason": "asked to" })).await;
    assert_eq!(told, (StatusCode::OK, json!({ "runId": run, "erased": true, "events": events.len() })));
    let again = erase(&server, &run, &json!({})).await;
    assert_eq!(again, (StatusCode::OK, json!({ "runId": run, "erased": true, "events": 0 })));
    for server in [server] {
        check_outline(&server, &run, &before, &events).await;
        server.kill();
    }
    let server = site.start(&["--test-clock"]);
    check_outline(&server, &run, &before, &events).await;
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 1);
}

async fn check_outline(server: &Server, run: &str, before: &Value, events: &[Value]) {
    let outline = json!({
        "runId": run,
        "workflowId": "payload",
        "status": "completed",
        "startedAt": before["startedAt"],
        "completedAt": before["completedAt"],
        "erased": true,
        "sequence": before["sequence"],
    });
    assert_eq!(shown(server, run).await, outline);
    let erased = server.events(run).await;
    assert_eq!(types(&erased), types(events));
    for (erased, event) in erased.iter().zip(events) {
        assert_eq!(erased["payload"], Value::Null);
        assert_eq!(erased["timestamp"], event["timestamp"]);
    }
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert_eq!((&why["finished"], &why["reasons"]), (&json!(true), &json!([])));
    assert!(why["summary"].as_str().unwrap().contains("its payloads were erased"), "{why}");
    let cancelled = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(cancelled, (StatusCode::OK, json!({ "runId": run, "status": "completed" })));
    let (_, list) = server.get("/v1/runs").await;
    assert_eq!((&list["runs"][0]["runId"], &list["runs"][0]["erased"]), (&json!(run), &json!(true)));
    for tail in ["", "/why", "/events/poll"] {
        assert!(!text_of(server, &format!("/v1/runs/{run}{tail}")).await.contains(SAID));
    }
}

#[tokio::test]
async fn only_a_run_that_has_ended_is_erased() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({ "word": SAID })).await;
    let before = shown(&server, &run).await;
    refusal(erase(&server, &run, &json!({})).await, "run_not_ended");
    assert_eq!(shown(&server, &run).await, before);
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    let (status, body) = erase(&server, &run, &json!({})).await;
    assert_eq!((status, &body["events"]), (StatusCode::OK, &json!(4)));
    assert_eq!(shown(&server, &run).await["status"], "cancelled");
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    refusal(erase(&server, unknown, &json!({})).await, "run_not_found");
    refusal(erase(&server, "nonsense", &json!({})).await, "run_not_found");
}

#[tokio::test]
async fn a_wrong_body_erases_nothing() {
    let site = site();
    let server = site.start(&[]);
    let run = ended(&server).await;
    let before = shown(&server, &run).await;
    let longer = "r".repeat(abide_core::limits::REASON_CHARS_MAX + 1);
    for body in [json!({ "reason": 1 }), json!({ "why": "x" }), json!([]), json!({ "reason": longer })] {
        refusal(erase(&server, &run, &body).await, "validation_error");
    }
    assert_eq!(shown(&server, &run).await, before);
    let (status, _) = post_raw(&server, &format!("/v1/runs/{run}/erase"), "").await;
    assert_eq!(status, StatusCode::OK, "a body may be left out");
}

#[tokio::test]
async fn another_tenants_run_is_not_erased() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    let run = ended(&server).await;
    let before = shown(&server, &run).await;
    let request = server.request_as(&stranger, Method::POST, &format!("/v1/runs/{run}/erase"));
    refusal(answer(request.json(&json!({}))).await.unwrap(), "run_not_found");
    let request = server.request_as(&stranger, Method::GET, &format!("/v1/runs/{run}/why"));
    refusal(answer(request).await.unwrap(), "run_not_found");
    assert_eq!(shown(&server, &run).await, before);
}
