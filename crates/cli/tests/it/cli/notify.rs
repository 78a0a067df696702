//! `abide notify`: channels are tried, messages listed, and what was given up sent again.

use serde_json::Value;

use super::*;
use crate::receiver::Receiver;

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_tried_and_messages_listed_and_sent_again() {
    let receiver = Receiver::answering(|n, _| if n == 1 { 400 } else { 204 }).await;
    let site = site();
    let gate = node(
        "ask",
        "core.clarificationGate",
        json!({ "questions": [{ "id": "why", "question": "Why?" }] }),
        json!({}),
        json!({ "abide": { "ladder": { "channel_hint": "sms" } } }),
    );
    site.workflow(&workflow("asking", &[gate], &[], json!([])));
    let config = site.path("abide.toml");
    let secret = "0123456789abcdef0123456789abcdef";
    let settings =
        format!("[channels.hook]\ntype = 'webhook'\nurl = '{}'\nsecret = '{secret}'\n", receiver.url);
    std::fs::write(&config, settings).unwrap();
    let server = site.start(&["--test-clock", "--config", config.to_str().unwrap()]);
    insta::assert_snapshot!("no_notices", told(&server.cli(&["notify", "list"])));
    insta::assert_snapshot!("notify_channels", told(&server.cli(&["notify", "test"])));
    insta::assert_snapshot!("notify_test", told(&server.cli(&["notify", "test", "hook"])));
    insta::assert_snapshot!(
        "notify_test_refused",
        told(&server.cli(&["notify", "test", "hook", "--to", "eve@evil.example"]))
    );
    insta::assert_snapshot!("notify_test_unknown", told(&server.cli(&["notify", "test", "smoke"])));
    let run = server.start_run("asking", json!({})).await;
    receiver.await_posts(2).await;
    let dead = || server.cli(&["notify", "list", "--state", "dead", "--json"]);
    let listed = || serde_json::from_str::<Value>(stdout(&dead())).unwrap();
    while listed()["notices"].as_array().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let id = listed()["notices"][0]["deliveryId"].as_str().unwrap().to_owned();
    // The last column is the id, which differs each time.
    let shown = told(&server.cli(&["notify", "list", "--run", &run]));
    let shown: Vec<&str> =
        shown.lines().map(|line| line.rsplit_once("  ").map_or(line, |(rest, _)| rest.trim_end())).collect();
    insta::assert_snapshot!("notices", shown.join("\n"));
    insta::assert_snapshot!("notice_resent", told(&server.cli(&["notify", "resend", &id])));
    receiver.await_posts(3).await;
    let gone = told(&server.cli(&["notify", "resend", "00"]));
    insta::assert_snapshot!("notice_gone", gone);
}
