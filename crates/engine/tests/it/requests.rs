//! Nodes that send requests: tried again only when that can do no harm, and never twice after a crash by accident.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use abide_core::{Failure, Key, Status};
use serde_json::{Value, json};

use crate::peer::{Act, Peer, answer};
use crate::support::{Rig, TENANT, within};
use crate::tapped::Fate;

/// A workflow of one request, with its own settings.
/// Nobody watches these runs: what may not be resumed fails.
async fn start_request(rig: &Rig, config: &Value, settings: &Value) -> Key {
    start_request_under(rig, config, settings, &json!({ "onRefusal": "fail" })).await
}

async fn start_request_under(rig: &Rig, config: &Value, settings: &Value, resume: &Value) -> Key {
    let definition = json!({
        "id": "request", "name": "request", "version": "1", "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": { "abide": { "resume": resume } },
        "nodes": [{
            "id": "send", "typeId": "core.http.request", "name": "send", "position": {"x": 0, "y": 0},
            "config": config, "inputs": {}, "settings": { "abide": settings },
        }],
    });
    rig.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    rig.start("request").await
}

async fn error_of(rig: &Rig, key: Key) -> Failure {
    rig.engine.read(key, |run| run.error().cloned()).await.unwrap().unwrap()
}

/// Waits until the run has written this event so many times.
async fn told(rig: &Rig, key: Key, event: &str, times: usize) {
    let mut news = rig.engine.subscribe(key);
    while rig.story(key).await.iter().filter(|name| **name == event).count() < times {
        within(event, news.changed()).await;
    }
}

fn keys(peer: &Peer) -> Vec<String> {
    let lines = |request: &String| -> Option<String> {
        let line = request.lines().find(|line| line.to_lowercase().starts_with("idempotency-key:"))?;
        Some(line.to_owned())
    };
    peer.heard().iter().filter_map(lines).collect()
}

/// A peer that refuses so many times and then says yes.
async fn refusing(times: u32) -> Peer {
    let asked = AtomicU32::new(0);
    Peer::start(move |_| {
        let refuses = asked.fetch_add(1, Ordering::Relaxed) < times;
        Act::Say(answer(
            if refuses { 503 } else { 200 },
            "content-type: application/json\r\n",
            r#"{"ok":true}"#,
        ))
    })
    .await
}

const FIXED: &str = r#"{"strategy": "fixed", "maxRetries": 3, "baseDelayMs": 1000, "jitter": false}"#;

fn retrying() -> Value {
    json!({ "retry": serde_json::from_str::<Value>(FIXED).unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_repeated_is_tried_again_under_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let peer = refusing(2).await;
    let key =
        start_request(&rig, &json!({ "method": "PUT", "url": peer.url("/order/7") }), &retrying()).await;
    for attempt in 1..=2 {
        told(&rig, key, "node.retried", attempt).await;
        assert_eq!(peer.heard().len(), attempt, "nothing is sent before its time");
        rig.clock.advance(1000).await.unwrap();
    }
    assert_eq!(rig.end_of(key).await, Status::Completed);
    let keys = keys(&peer);
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let outputs = rig.engine.read(key, |run| run.nodes()[0].outputs.clone()).await.unwrap().unwrap();
    assert!(
        outputs.text().contains(r#""status":200"#) && outputs.text().contains(r#"{"ok":true}"#),
        "{outputs:?}"
    );
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_carried_out_is_not_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let peer = refusing(1).await;
    let key = start_request(&rig, &json!({ "method": "POST", "url": peer.url("/pay") }), &retrying()).await;
    assert_eq!(rig.end_of(key).await, Status::Failed);
    let error = error_of(&rig, key).await;
    assert_eq!(error.code, "http_status");
    assert!(error.message.contains("not marked idempotent"), "{}", error.message);
    assert_eq!(peer.heard().len(), 1);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_end() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let peer = refusing(u32::MAX).await;
    let never = json!({ "onRefusal": "fail", "maxAttempts": 0 });
    let key = start_request_under(&rig, &json!({ "url": peer.url("/") }), &retrying(), &never).await;
    for attempt in 1..=3 {
        told(&rig, key, "node.retried", attempt).await;
        rig.clock.advance(1000).await.unwrap();
    }
    assert_eq!(rig.end_of(key).await, Status::Failed);
    assert_eq!((peer.heard().len(), error_of(&rig, key).await.code.as_str()), (4, "http_status"));
    rig.verify().await;
}

/// A server that stops while a request is under way, and the next one.
async fn stop_in_the_middle(settings: &Value) -> (Rig, Key, Arc<Peer>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let asked = AtomicU32::new(0);
    let peer = Peer::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Act::SayAndHang(Vec::new()),
        _ => Act::Say(answer(200, "", "done")),
    })
    .await;
    let peer = Arc::new(peer);
    let (path, settings, url) = (dir.path().to_owned(), settings.clone(), peer.url("/pay"));
    let watched = peer.clone();
    // A runtime of its own, which takes the request with it when it goes.
    let first = move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let key = runtime.block_on(async {
            let rig = Rig::open(&path).await;
            let key = start_request(&rig, &json!({ "method": "POST", "url": url }), &settings).await;
            watched.hears(1).await;
            // No patience: the task stays on disk, leased to a start of the server that is over.
            rig.engine.drain(Duration::ZERO).await.unwrap();
            key
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        key
    };
    let key = tokio::task::spawn_blocking(first).await.unwrap();
    (Rig::open(dir.path()).await, key, peer, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_a_payment_is_not_sent_twice() {
    let (rig, key, peer, _dir) = stop_in_the_middle(&json!({})).await;
    assert_eq!(rig.end_of(key).await, Status::Failed);
    assert_eq!(error_of(&rig, key).await.code, "outcome_unknown");
    assert_eq!(peer.heard().len(), 1);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_is_marked_idempotent_is_sent_again_under_the_same_key() {
    let (rig, key, peer, _dir) = stop_in_the_middle(&json!({ "idempotent": true })).await;
    assert_eq!(rig.end_of(key).await, Status::Completed);
    let keys = keys(&peer);
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_sent_once_although_its_report_could_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let peer = Peer::saying(answer(200, "", "ok")).await;
    // The start passes; the first report does not.
    rig.store.next(&[Fate::Pass, Fate::Fail]);
    let key = start_request(&rig, &json!({ "method": "POST", "url": peer.url("/pay") }), &json!({})).await;
    assert_eq!(rig.end_of(key).await, Status::Completed);
    assert_eq!(peer.heard().len(), 1);
    rig.verify().await;
}
