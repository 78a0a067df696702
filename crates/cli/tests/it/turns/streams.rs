//! `provider-retry` on its way to whoever follows a run: shown where it belongs, and with all its fields.

use super::*;
use crate::receiver::Receiver;
use crate::stream::{Frame, Stream};

/// A run that was retried twice, once with a status and once without.
async fn retried(drill: &Drill) -> String {
    drill.provider.script([Step::overloaded(429), Step::Reset]);
    let run = drill.run("ask").await;
    for (attempt, seconds) in [5, 10].into_iter().enumerate() {
        drill.await_retry(&run, attempt).await;
        drill.server.advance(seconds * SECOND_MS).await;
    }
    drill.demand_completed(&run, "ok").await;
    run
}

async fn frames(drill: &Drill, path: &str) -> Vec<Frame> {
    Stream::open(&drill.server, path, None).await.rest().await
}

/// Demands of events that each retry is among them once, with every field as it was recorded.
fn demand_retries(run: &str, place: &str, events: &[Value]) {
    let logged = events.iter().filter(|event| {
        event["type"] == "provider-retry" || event["payload"]["data"]["journalType"] == "provider-retry"
    });
    let told: Vec<Entry> = logged
        .map(|event| match event["type"].as_str().unwrap() {
            "log.appended" => Entry::of(event),
            _ => Entry { kind: "provider-retry".to_owned(), at: 0, payload: event["payload"].clone() },
        })
        .collect();
    assert_eq!(told.len(), 2, "{place}: {events:#?}");
    let mut wanted = json!({
        "type": "provider-retry", "conversationId": run, "turnId": format!("{run}:ask:1"), "attempt": 0,
        "delayMs": 5000, "message": OVERLOADED, "code": "429",
    });
    assert_eq!(told[0].payload, wanted, "{place}");
    let message = told[1].payload["message"].as_str().unwrap();
    assert!(!message.is_empty(), "{place}");
    wanted["attempt"] = json!(1);
    wanted["delayMs"] = json!(10_000);
    wanted["message"] = json!(message);
    wanted.as_object_mut().unwrap().remove("code");
    assert_eq!(told[1].payload, wanted, "{place}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_debug_mode_of_a_stream_shows_retries_and_as_entries_of_the_log() {
    let drill = Drill::begin();
    let run = retried(&drill).await;
    for mode in ["updates", "messages", "values", "updates,messages"] {
        let shown = frames(&drill, &format!("/v1/runs/{run}/events?streamMode={mode}")).await;
        let text = format!("{shown:?}");
        assert!(!shown.is_empty() && !text.contains("provider-retry"), "{mode}: {text}");
        assert!(!text.contains("overloaded"), "{mode}: {text}");
    }
    let shown = frames(&drill, &format!("/v1/runs/{run}/events?streamMode=debug")).await;
    let told: Vec<Value> = shown.iter().map(|frame| frame.data.clone()).collect();
    demand_retries(&run, "debug", &told);
    let retries =
        shown.iter().filter(|frame| frame.data["payload"]["data"]["journalType"] == "provider-retry");
    assert!(retries.clone().all(|frame| frame.event == "log.appended") && retries.count() == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_consumer_of_a_runs_events_takes_retries_with_all_their_fields() {
    let receiver = Receiver::start().await;
    let drill = Drill::begin();
    let hook = json!({ "url": receiver.url, "events": ["*"], "secret": "a secret of the receiver's own" });
    let (status, added) = drill.server.post("/v1/webhooks", &hook).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    let run = retried(&drill).await;
    let polled = drill.server.events(&run).await;
    assert!(
        polled.iter().all(|event| event["type"] != "log.appended"),
        "a poll tells what OpenWOP has a name for"
    );
    for path in [format!("/v1/runs/{run}/events?streamMode=debug"), format!("/v1/runs/{run}/journal")] {
        let told: Vec<Value> = frames(&drill, &path).await.into_iter().map(|frame| frame.data).collect();
        demand_retries(&run, &path, &told);
        let request = drill.server.request(reqwest::Method::GET, &path).header("accept", "application/json");
        let (_, document) = answer(request).await.unwrap();
        assert_eq!(document["events"].as_array().unwrap(), &told, "{path} as one document");
    }
    // A receiver gets what a poll tells, and is not kept from it by what it does not get.
    let sent = receiver.await_posts(polled.len()).await;
    let sent: Vec<Value> = sent.iter().map(|post| post.json()["event"]["type"].clone()).collect();
    assert_eq!(sent, polled.iter().map(|event| event["type"].clone()).collect::<Vec<_>>());
    for args in [&["run", "events", "--json", &run][..], &["run", "events", "--follow", "--json", &run]] {
        let output = drill.server.cli(args);
        assert!(output.status.success(), "{output:?}");
        let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
        let told: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        demand_retries(&run, &args.join(" "), &told);
    }
    for args in [&["run", "events", &run][..], &["run", "show", "--watch", &run], &["run", "show", &run]] {
        let output = drill.server.cli(args);
        assert!(output.status.success(), "{output:?}");
    }
    let (status, bundle) = drill.server.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    assert_eq!(status, StatusCode::OK);
    demand_retries(&run, "bundle", bundle["log"].as_array().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_told_before_the_wait_begins() {
    let drill = Drill::begin();
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let mut stream = Stream::open(&drill.server, &path, None).await;
    // The clock stands: whoever follows hears of the retry while it is still to come.
    loop {
        let frame = stream.next().await.unwrap();
        if frame.data["payload"]["data"]["journalType"] == "provider-retry" {
            break;
        }
    }
    assert_eq!(drill.await_retry(&run, 0).await["delayMs"], 5_000);
    drill.await_asked(1);
}
