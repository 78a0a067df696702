//! GET /v1/runs/{run}/events/poll.

use std::collections::BTreeSet;

use super::*;

async fn poll(server: &Server, run: &str, query: &str) -> (Vec<Value>, bool) {
    let (status, page) = server.get(&format!("/v1/runs/{run}/events/poll?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let keys: Vec<&String> = page.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["events", "isComplete"]);
    (page["events"].as_array().unwrap().clone(), page["isComplete"].as_bool().unwrap())
}

/// What polls of 60 seconds answer, none of which may end only because its time is over.
async fn untimed<T>(polls: impl Future<Output = T>) -> T {
    let patience = std::time::Duration::from_secs(abide_server::limits::POLL_SECONDS_MAX);
    tokio::time::timeout(patience, polls).await.expect("they are told, not timed out")
}

fn sequences(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn an_event_has_the_keys_of_the_envelope_and_no_others() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let required = ["eventId", "runId", "type", "payload", "timestamp", "sequence"];
    let optional = ["nodeId", "schemaVersion", "engineVersion", "causationId"];
    for workflow in ["kinds", "fan", "failing", "strange"] {
        let run = server.start_run(workflow, json!({ "it": 1 })).await;
        server.advance(1000).await;
        let events = server.events(&run).await;
        let ids: BTreeSet<&str> = events.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), events.len(), "ids are unique");
        for event in &events {
            let object = event.as_object().unwrap();
            assert!(required.iter().all(|key| object.contains_key(*key)), "{event}");
            let known = |key: &&String| required.iter().chain(&optional).any(|known| known == key);
            assert_eq!(object.keys().find(|key| !known(key)), None, "{event}");
            assert_eq!(event["runId"], run);
            assert!(event["payload"].is_object(), "{event}");
            assert!(event["timestamp"].as_str().unwrap().ends_with('Z'), "{event}");
            assert!(object.get("nodeId").is_none_or(Value::is_string), "{event}");
            assert!(object.get("schemaVersion").is_none_or(Value::is_u64), "{event}");
            if let Some(cause) = object.get("causationId") {
                assert!(ids.contains(cause.as_str().unwrap()), "{event}");
            }
        }
    }
}

#[tokio::test]
async fn sequences_start_at_zero_and_the_last_event_alone_is_terminal() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for (workflow, last) in [("noop", "run.completed"), ("failing", "run.failed")] {
        let run = server.start_run(workflow, json!({})).await;
        let (events, complete) = poll(&server, &run, "timeout=60").await;
        assert!(complete);
        assert_eq!(sequences(&events), (0..events.len() as u64).collect::<Vec<_>>());
        assert_eq!(events[0]["type"], "run.started");
        let terminal = ["run.completed", "run.failed", "run.cancelled"];
        let ends: Vec<&str> = types(&events).into_iter().filter(|kind| terminal.contains(kind)).collect();
        assert_eq!(ends, [last]);
        assert_eq!(events.last().unwrap()["type"], last);
    }
}

#[tokio::test]
async fn a_poll_gives_what_comes_after_the_last_sequence() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("noop", json!({})).await;
    for (query, expected) in [
        ("", vec![0, 1, 2, 3]),
        ("lastSequence=-1", vec![0, 1, 2, 3]),
        ("lastSequence=0", vec![1, 2, 3]),
        ("lastSequence=2", vec![3]),
        ("lastSequence=3", vec![]),
        ("lastSequence=1000", vec![]),
        ("lastSequence=9223372036854775806", vec![]),
        ("since=-1", vec![0, 1, 2, 3]),
        ("since=1", vec![2, 3]),
        ("since=0&lastSequence=2", vec![3]),
    ] {
        let (events, complete) = poll(&server, &run, query).await;
        assert_eq!(sequences(&events), expected, "{query}");
        assert!(complete, "{query}");
    }
}

#[tokio::test]
async fn an_ended_run_is_answered_at_once() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("noop", json!({})).await;
    for query in ["timeout=60", "timeout=60&lastSequence=3", "timeout=60&lastSequence=99"] {
        assert!(untimed(poll(&server, &run, query)).await.1);
    }
}

#[tokio::test]
async fn a_waiting_run_s_events_are_given_at_once_and_it_is_not_complete() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (events, complete) = poll(&server, &run, "timeout=60").await;
    assert_eq!((types(&events), complete), (vec!["run.started", "node.started"], false));
}

#[tokio::test]
async fn a_poll_that_has_nothing_to_say_ends_after_its_timeout() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    for last in [1, 1000] {
        let began = std::time::Instant::now();
        let (events, complete) = poll(&server, &run, &format!("timeout=1&lastSequence={last}")).await;
        assert_eq!((events, complete), (vec![], false));
        assert!(began.elapsed().as_millis() >= 1000);
    }
}

#[tokio::test]
async fn every_poll_that_waits_is_told_when_something_happens() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let waiting = (0..50).map(|_| poll(&server, &run, "timeout=60&lastSequence=1"));
    let told = untimed(futures_util::future::join_all(waiting));
    let (answers, ()) = tokio::join!(told, server.advance(HOUR_MS));
    for (events, complete) in answers {
        assert_eq!((types(&events), complete), (vec!["node.completed", "run.completed"], true));
    }
}

#[tokio::test]
async fn a_poll_that_waits_is_told_of_a_cancellation() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (path, none) = (format!("/v1/runs/{run}/cancel"), json!({}));
    let (told, _) = tokio::join!(poll(&server, &run, "timeout=60&lastSequence=1"), server.post(&path, &none));
    assert_eq!((types(&told.0), told.1), (vec!["node.cancelled", "run.cancelled"], true));
}

#[tokio::test]
async fn what_only_abide_knows_is_not_shown() {
    let site = Site::new();
    // Long enough for a stretch to yield, which OpenWOP has no word for.
    site.workflow(&chain("long", "core.noop", 1200, &json!({})));
    let server = site.start(&[]);
    let run = server.start_run("long", json!({})).await;
    let events = server.events(&run).await;
    let canonical: BTreeSet<&str> =
        abide_core::event_types().iter().filter(|kind| kind.canonical).map(|kind| kind.name).collect();
    assert!(types(&events).iter().all(|kind| canonical.contains(kind)));
    assert_eq!(events.len(), 2 + 2 * 1200);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    let hidden = snapshot["sequence"].as_u64().unwrap() + 1 - events.len() as u64;
    assert_eq!(hidden, 2, "two yields stand in the journal");
    let rising = sequences(&events).windows(2).all(|pair| pair[0] < pair[1]);
    assert!(rising, "hidden events leave gaps, nothing else");
}

#[tokio::test]
async fn a_long_journal_comes_in_pages() {
    let site = Site::new();
    site.workflow(&chain("long", "core.noop", 600, &json!({})));
    let server = site.start(&[]);
    let run = server.start_run("long", json!({})).await;
    server.events(&run).await;
    let (first, complete) = poll(&server, &run, "timeout=60").await;
    assert!(first.len() <= abide_server::limits::POLL_EVENTS_MAX && !complete);
    let last = first.last().unwrap()["sequence"].as_u64().unwrap();
    let (rest, complete) = poll(&server, &run, &format!("timeout=60&lastSequence={last}")).await;
    assert_eq!((first.len() + rest.len(), complete), (2 + 2 * 600, true));
}

#[tokio::test]
async fn what_is_no_whole_number_is_refused_by_name() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    for (query, field) in [
        ("lastSequence=x", json!("lastSequence")),
        ("lastSequence=", json!("lastSequence")),
        ("lastSequence=1.0", json!("lastSequence")),
        ("lastSequence=-2", json!("lastSequence")),
        ("lastSequence=9223372036854775807", json!("lastSequence")),
        ("lastSequence=1e3", json!("lastSequence")),
        ("since=abc", json!("since")),
        ("timeout=0", json!("timeout")),
        ("timeout=61", json!("timeout")),
        ("timeout=-1", json!("timeout")),
        ("timeout=2.5", json!("timeout")),
        ("timeout=soon", json!("timeout")),
        ("after=1", Value::Null),
        ("timeout=1&timeout=2", Value::Null),
    ] {
        let answer = server.get(&format!("/v1/runs/{run}/events/poll?{query}")).await;
        assert_eq!(refusal(answer, "validation_error")["field"], field, "{query}");
    }
}

#[tokio::test]
async fn a_server_that_stops_sends_waiting_polls_home() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence=1");
    let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(answer(server.request(Method::GET, &path)))).collect();
    server.await_waiting(waiting.len()).await;
    let status = tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    assert!(status.success(), "{status}");
    for answered in waiting {
        let (status, page) = answered.await.unwrap().expect("it is not cut off");
        assert_eq!((status, page), (StatusCode::OK, json!({ "events": [], "isComplete": false })));
    }
}
