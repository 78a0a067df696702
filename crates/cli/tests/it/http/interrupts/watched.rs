//! What is measured of questions and answers.

use super::super::collector::{Collector, Told};
use super::super::telemetry::start_traced;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn spans_name_the_kind_the_id_and_the_count_of_interrupts() {
    let collector = Collector::start().await;
    let site = Site::new();
    let server = site.start(&["--test-clock", "--otlp-endpoint", &collector.url]);
    let one = |name: &str| json!({ "kind": "custom", "data": { "customKind": name, "payload": null } });
    push(&server, &asking("both", json!({ "interrupts": [one("first"), one("second")] }))).await;
    let run = start_traced(&server, "both").await;
    let ids: Vec<String> = shown(&server, &run).await["interrupts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["interruptId"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        let path = format!("/v1/runs/{run}/interrupts/gate?interruptId={id}");
        assert_eq!(server.post(&path, &json!({ "resumeValue": "hush-4711" })).await.0, StatusCode::OK);
    }
    assert!(server.stop().success());
    for (at, id) in ids.iter().enumerate() {
        let of_id = |span: &Told| span.attributes.get("openwop.interrupt_id") == Some(id);
        let waits: Vec<Told> = collector.spans().into_iter().filter(of_id).collect();
        assert_eq!(waits.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["openwop.interrupt"]);
        let wait = &waits[0];
        assert_eq!(wait.said("openwop.interrupt_kind"), "custom");
        assert_eq!(wait.said("openwop.interrupt_count"), (at + 1).to_string());
        assert_eq!((wait.said("openwop.run_id"), wait.said("abide.status")), (run.as_str(), "resolved"));
    }
    assert!(!collector.bytes().windows(9).any(|window| window == b"hush-4711"));
}

#[tokio::test]
async fn what_waits_is_counted_by_kind_and_age_and_answers_by_how_long_they_took() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    server.advance(90_000).await;
    let metrics = async || text_of(&server, "/metrics").await;
    let text = metrics().await;
    for line in [
        "abide_interrupts_open{kind=\"approval\"} 1",
        "abide_interrupts_open{kind=\"custom\"} 0",
        "abide_interrupts_oldest_seconds{kind=\"approval\"} 90.0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    resolve(&server, &run, &accept()).await;
    let text = metrics().await;
    for line in [
        "abide_interrupts_open{kind=\"approval\"} 0",
        "abide_interrupts_oldest_seconds{kind=\"approval\"} 0.0",
        "abide_interrupt_resolve_seconds_sum{kind=\"approval\"} 90.0",
        "abide_interrupt_resolve_seconds_count{kind=\"approval\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
