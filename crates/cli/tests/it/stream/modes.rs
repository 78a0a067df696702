//! What each mode and each mix of modes shows.

use super::*;

/// The types of a run of `varied`, as its journal has them.
const JOURNAL: [&str; 16] = [
    "run.started",
    "node.started",
    "variable.changed",
    "node.completed",
    "node.started",
    "channel.written",
    "node.completed",
    "node.started",
    "node.spawned",
    "child.reported",
    "node.completed",
    "node.started",
    "node.completed",
    "node.started",
    "node.failed",
    "run.failed",
];

fn events(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

#[tokio::test]
async fn every_mode_and_mix_shows_its_events_in_order() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let recorded = Stream::open(&server, &format!("/v1/runs/{run}/journal"), None).await.rest().await;
    assert_eq!(events(&recorded), JOURNAL);
    let is_update =
        |kind: &&str| ["run.started", "node.completed", "node.failed", "run.failed"].contains(kind);
    let updates: Vec<&str> = JOURNAL.into_iter().filter(is_update).collect();
    let shown_as = |kind| match kind {
        "node.spawned" | "child.reported" => "log.appended",
        kind => kind,
    };
    let debug: Vec<&str> = JOURNAL.into_iter().map(shown_as).collect();
    for (query, expected) in [
        ("", &updates),
        ("streamMode=updates", &updates),
        ("streamMode=updates,messages", &updates),
        ("streamMode=messages,updates", &updates),
        ("streamMode=updates%2Cmessages", &updates),
        ("streamMode=messages", &vec![]),
        ("streamMode=debug", &debug),
        ("streamMode=debug,updates", &debug),
        ("streamMode=updates,messages,debug", &debug),
    ] {
        let shown = frames(&server, &run, query, None).await;
        assert_eq!(&events(&shown), expected, "{query}");
        let sequences: Vec<u64> = shown.iter().map(|frame| frame.id.unwrap()).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b), "{query}");
    }
}

#[tokio::test]
async fn payloads_say_what_openwop_asks_for_and_nothing_undeclared() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let shown = frames(&server, &run, "streamMode=debug", None).await;
    let payload =
        |kind: &str| shown.iter().find(|frame| frame.event == kind).unwrap().data["payload"].clone();
    let started = payload("run.started");
    assert_eq!((&started["workflowId"], &started["transport"]), (&json!("varied"), &json!("rest")));
    let begun = json!({ "nodeId": "made", "typeId": "core.transform", "attempt": 0, "execution": 1 });
    assert_eq!(payload("node.started"), begun);
    assert_eq!(payload("node.completed"), json!({ "nodeId": "made", "outputs": { "a": 2 } }));
    assert_eq!(payload("variable.changed"), json!({ "name": "b", "next": 2 }));
    let failed = payload("run.failed");
    assert_eq!((&failed["error"]["message"], &failed["failedNodeId"]), (&json!("as told"), &json!("fail")));
    let entry = payload("log.appended");
    assert_eq!((&entry["level"], &entry["data"]["journalType"]), (&json!("info"), &json!("node.spawned")));
    let schema = schema(&server, "RunEvent").await;
    shown.iter().for_each(|frame| demand_valid(&schema, &frame.data));
    let schema = super::schema(&server, "JournalEvent").await;
    let recorded = Stream::open(&server, &format!("/v1/runs/{run}/journal"), None).await.rest().await;
    recorded.iter().for_each(|frame| demand_valid(&schema, &frame.data));
}

#[tokio::test]
async fn what_is_no_mode_is_refused_before_anything_else() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    for mode in ["all", "", "Updates", "values,updates", "messages,values", "updates,", "debug;updates"] {
        for accept in ["text/event-stream", "application/json", "text/html"] {
            let path = format!("/v1/runs/{run}/events?streamMode={mode}&bufferMs=x");
            let (status, body) = refused(&server, &path, &[("accept", accept)]).await;
            let said = (status, body["error"].as_str().unwrap());
            assert_eq!(said, (StatusCode::BAD_REQUEST, "unsupported_stream_mode"), "{mode}");
            assert_eq!(body["details"]["supported"], json!(["values", "updates", "messages", "debug"]));
        }
    }
}

#[tokio::test]
async fn what_is_no_query_is_refused_by_name() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let other = server.start_run("noop", json!({})).await;
    let foreign = server.events(&other).await[0]["eventId"].as_str().unwrap().to_owned();
    let foreign_query = format!("lastEventId={foreign}");
    for (path, query, field) in [
        ("events", "bufferMs=99999", json!("bufferMs")),
        ("events", "bufferMs=5001", json!("bufferMs")),
        ("events", "bufferMs=-1", json!("bufferMs")),
        ("events", "bufferMs=1.5", json!("bufferMs")),
        ("events", "bufferMs=", json!("bufferMs")),
        ("events", "lastEventId=x", json!("lastEventId")),
        ("events", "lastEventId=-1", json!("lastEventId")),
        ("events", &foreign_query, json!("lastEventId")),
        ("events", "mode=updates", Value::Null),
        ("events", "bufferMs=1&bufferMs=2", Value::Null),
        ("journal", "bufferMs=5001", json!("bufferMs")),
        ("journal", "after=-1", json!("after")),
        ("journal", "after=x", json!("after")),
        ("journal", "lastEventId=1e3", json!("lastEventId")),
        ("journal", "streamMode=updates", Value::Null),
    ] {
        let (status, body) = refused(&server, &format!("/v1/runs/{run}/{path}?{query}"), &[]).await;
        let said = (status, body["error"].as_str().unwrap());
        assert_eq!(said, (StatusCode::BAD_REQUEST, "validation_error"), "{query}");
        assert_eq!(body["details"]["field"], field, "{query}");
    }
    for last in ["x", "-1", "", "99999999999999999999", &foreign, "\u{e9}"] {
        let path = format!("/v1/runs/{run}/events");
        let (status, body) = refused(&server, &path, &[("last-event-id", last)]).await;
        let said = (status, body["details"]["field"].as_str());
        assert_eq!(said, (StatusCode::BAD_REQUEST, Some("Last-Event-ID")), "{last}");
    }
    for path in ["events", "journal"] {
        let (status, body) = refused(&server, &format!("/v1/runs/run-{}/{path}", "0".repeat(32)), &[]).await;
        assert_eq!((status, body["error"].as_str()), (StatusCode::NOT_FOUND, Some("run_not_found")));
    }
}

#[tokio::test]
async fn an_annotation_is_told_to_followers_of_updates_and_to_nobody_later() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let mut streams = Vec::new();
    for (mode, hears) in [
        ("updates", true),
        ("debug", true),
        ("updates,messages&bufferMs=5000", true),
        ("messages", false),
        ("values", false),
    ] {
        let path = format!("/v1/runs/{run}/events?streamMode={mode}");
        streams.push((Stream::open(&server, &path, None).await, hears));
    }
    let said = json!({ "signal": { "kind": "rating", "rating": 5 } });
    let (status, kept) = server.post(&format!("/v1/runs/{run}/annotations"), &said).await;
    assert_eq!(status, StatusCode::CREATED, "{kept}");
    server.advance(HOUR_MS).await;
    let schema = schema(&server, "RunEvent").await;
    for (stream, hears) in streams {
        let all = stream.rest().await;
        let heard: Vec<&Frame> = all.iter().filter(|frame| frame.event == "run.annotated").collect();
        assert_eq!(heard.len(), usize::from(hears), "{all:?}");
        for frame in heard {
            assert_eq!((frame.id, &frame.data["payload"]["annotationId"]), (None, &kept["annotationId"]));
            demand_valid(&schema, &frame.data);
        }
    }
    let later = frames(&server, &run, "streamMode=debug", None).await;
    assert!(later.iter().all(|frame| frame.event != "run.annotated"));
}
