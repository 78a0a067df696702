//! A server that tells people, killed with -9: one event and one message for each attempt, whatever died in between.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_sent_when_the_server_died_is_sent_again_under_the_same_key() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    let mut server = start(&site, &["--failpoint=effect-report=1"]);
    let run = server.start_run("hourly", json!({})).await;
    server.exit().await;
    assert_eq!(receiver.heard().len(), 1, "it was sent, and nobody wrote that down");
    let server = start(&site, &[]);
    let notices = until_states(&server, &["sent"]).await;
    assert_eq!(notices[0]["tries"], 1);
    let posts = receiver.heard();
    assert_eq!((posts.len(), keys(&posts)[0]), (2, keys(&posts)[1]));
    assert_eq!(posts[0].json()["interrupt"]["runId"], run);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_one_event_and_one_message_across_kills() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    let server = start(&site, &[]);
    let run = server.start_run("hourly", json!({})).await;
    until_states(&server, &["sent"]).await;
    server.kill();
    for attempt in 2..=3 {
        let server = start(&site, &[]);
        server.advance(HOUR_MS).await;
        until_states(&server, &vec!["sent"; attempt]).await;
        server.kill();
    }
    let server = start(&site, &[]);
    server.settle().await;
    assert_eq!(recorded(&server, &run, "interrupt.renotified").await, 2);
    let posts = receiver.heard();
    let attempts: Vec<Value> = posts.iter().map(|post| post.json()["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let mut distinct = keys(&posts);
    distinct.dedup();
    assert_eq!(distinct.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_fell_due_while_no_server_ran_are_recorded_and_the_last_one_is_told() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    let server = start(&site, &[]);
    let run = server.start_run("hourly", json!({})).await;
    until_states(&server, &["sent"]).await;
    server.kill();
    let later = "UPDATE settings SET value = value + 7200001 WHERE name = 'test_clock_ms'";
    assert_eq!(site.change(later), 1);
    let server = start(&site, &[]);
    let notices = until_states(&server, &["sent"; 2]).await;
    assert_eq!([&notices[0]["attempt"], &notices[1]["attempt"]], [&json!(1), &json!(3)]);
    let told: Vec<Value> = journal(&server, &run)
        .await
        .iter()
        .filter(|event| event["type"] == "interrupt.renotified")
        .map(|event| json!([event["payload"]["attempt"], event["payload"]["superseded"]]))
        .collect();
    assert_eq!(told, [json!([2, true]), json!([3, null])]);
    assert_eq!(receiver.heard().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_is_not_lost_when_the_server_dies_with_the_answer() {
    let pager = Receiver::answering(|_, _| 202).await;
    let settings =
        format!("[channels.pager]\ntype = 'pagerduty'\nurl = '{}'\nrouting-key = '{SECRET}'\n", pager.url);
    let site = site_with(&settings);
    let server = start(&site, &[]);
    let run = server.start_run("hourly", json!({})).await;
    until_states(&server, &["sent"]).await;
    server.kill();
    // The answer is on disk when it dies, and nobody was told.
    let mut server = start(&site, &["--failpoint=commit-acknowledge=1"]);
    let body = json!({ "resumeValue": { "answers": { "why": "because" } } });
    let lost =
        answer(server.request(Method::POST, &format!("/v1/runs/{run}/interrupts/ask")).json(&body)).await;
    assert!(lost.is_err(), "{lost:?}");
    server.exit().await;
    let server = start(&site, &[]);
    until_states(&server, &["sent"]).await;
    let events: Vec<Value> = pager.heard().iter().map(|post| post.json()["event_action"].clone()).collect();
    assert_eq!(events, ["trigger", "resolve"]);
}
