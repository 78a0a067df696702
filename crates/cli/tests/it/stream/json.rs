//! The same events as one JSON document.

use super::*;

async fn document(server: &Server, path: &str, accept: &str) -> Vec<Value> {
    let response = server.request(Method::GET, path).header("accept", accept).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn json_holds_what_the_stream_holds() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    for mode in ["updates", "debug", "values", "messages", "updates&lastEventId=5", "values&lastEventId=5"] {
        let query = format!("streamMode={mode}");
        let shown = frames(&server, &run, &query, None).await;
        let streamed: Vec<Value> = shown.into_iter().map(|frame| frame.data).collect();
        let path = format!("/v1/runs/{run}/events?{query}");
        assert_eq!(document(&server, &path, "application/json").await, streamed, "{mode}");
    }
    let path = format!("/v1/runs/{run}/journal?after=3");
    let shown = Stream::open(&server, &path, None).await.rest().await;
    let streamed: Vec<Value> = shown.into_iter().map(|frame| frame.data).collect();
    assert_eq!(document(&server, &path, "application/json, */*;q=0.1").await, streamed);
}

#[tokio::test]
async fn a_run_under_way_is_answered_at_once() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    assert_eq!(document(&server, &path, "application/json").await.len(), 2);
    let path = format!("/v1/runs/{run}/events?streamMode=debug&lastEventId=1");
    assert_eq!(document(&server, &path, "application/json").await.len(), 0);
}

#[tokio::test]
async fn a_long_journal_is_one_document() {
    let site = site();
    site.workflow(&chain("long", "core.noop", 1500, &json!({})));
    let server = site.start(&[]);
    let run = server.start_run("long", json!({})).await;
    let polled = server.events(&run).await;
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let mut events = document(&server, &path, "application/json").await;
    events.retain(|event| event["type"] != "log.appended");
    assert_eq!(events, polled);
}
