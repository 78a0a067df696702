//! What people say about a run is told to those who follow it, and is no part of what is told again.

use super::*;

#[tokio::test]
async fn an_annotation_is_told_live_and_never_again() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events");
    let mut stream = Stream::open(&server, &path, None).await;
    assert_eq!(stream.next().await.unwrap().event, "run.started");
    let body = json!({ "signal": { "kind": "rating", "rating": 5 }, "note": "go on" });
    let (status, said) = server.post(&format!("/v1/runs/{run}/annotations"), &body).await;
    assert_eq!(status, StatusCode::CREATED, "{said}");
    let told = stream.next().await.unwrap();
    assert_eq!((told.id, told.event.as_str()), (None, "run.annotated"), "it is no place to go on from");
    assert_eq!(told.data["payload"], said);
    assert_eq!((&told.data["type"], &told.data["runId"]), (&json!("run.annotated"), &json!(run)));
    assert_eq!((&told.data["eventId"], &told.data["timestamp"]), (&said["annotationId"], &said["createdAt"]));
    assert!(told.data["sequence"].is_u64(), "a client drops what has none");
    server.advance(HOUR_MS).await;
    let rest: Vec<String> = stream.rest().await.into_iter().map(|frame| frame.event).collect();
    assert_eq!(rest, ["node.completed", "run.completed"]);
    let again = Stream::open(&server, &path, None).await.rest().await;
    assert!(again.iter().all(|frame| frame.event != "run.annotated"), "{again:?}");
}
