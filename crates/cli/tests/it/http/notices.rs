//! People are told what waits for them, through the real binary: over every kind of channel, across kills, and what can
//! be seen of that and done about it.

mod kills;
mod mail;
mod seen;

use super::ladders::journal;
use super::*;
use crate::receiver::{Post, Receiver};

/// What signs messages to the webhook.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A node that asks why, under this ladder.
fn asking(id: &str, ladder: &Value) -> Value {
    let questions = json!([{ "id": "why", "question": "Why?" }]);
    let gate = node(
        "ask",
        "core.clarificationGate",
        json!({ "questions": questions }),
        json!({}),
        json!({ "abide": { "ladder": ladder } }),
    );
    workflow(id, &[gate], &[], json!([]))
}

/// People are told three times, an hour apart.
fn hourly() -> Value {
    json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 } })
}

/// A webhook channel's settings.
pub(super) fn hook(name: &str, url: &str) -> String {
    format!("[channels.{name}]\ntype = 'webhook'\nurl = '{url}'\nsecret = '{SECRET}'\n")
}

/// A site whose servers have these channels.
fn site_with(settings: &str) -> Site {
    let site = Site::new();
    site.workflow(&asking("plain", &json!({}))).workflow(&asking("hourly", &hourly()));
    std::fs::write(site.path("abide.toml"), settings).unwrap();
    site
}

fn start(site: &Site, more: &[&str]) -> Server {
    let config = site.path("abide.toml");
    site.start(&[&["--test-clock", "--config", config.to_str().unwrap()], more].concat())
}

/// The messages, oldest first, when they are as the test wants them.
async fn until(server: &Server, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let (status, page) = server.get("/v1/notices?limit=500").await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let mut notices = page["notices"].as_array().unwrap().clone();
        notices.reverse();
        if is_so(&notices) {
            return notices;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {notices:?}");
        tokio::task::yield_now().await;
    }
}

/// The messages, when they stand so and nothing more is said about what was closed.
async fn until_states(server: &Server, states: &[&str]) -> Vec<Value> {
    let so = |notices: &[Value]| {
        notices.iter().map(|one| one["state"].as_str().unwrap()).eq(states.iter().copied())
            && notices.iter().all(|one| one.get("followUpPending").is_none())
    };
    until(server, &format!("{states:?}"), so).await
}

/// Answers what a run asks.
async fn resolve(server: &Server, run: &str) {
    let body = json!({ "resumeValue": { "answers": { "why": "because" } } });
    let (status, answer) = server.post(&format!("/v1/runs/{run}/interrupts/ask"), &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

/// How often a run's journal has something of this type.
async fn recorded(server: &Server, run: &str, kind: &str) -> usize {
    journal(server, run).await.iter().filter(|event| event["type"] == kind).count()
}

fn keys(posts: &[Post]) -> Vec<&str> {
    posts.iter().map(|post| post.header("idempotency-key")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_told_with_a_signature_and_a_link_and_hears_of_the_answer() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    let server = start(&site, &[]);
    let run = server.start_run("hourly", json!({})).await;
    until_states(&server, &["sent"]).await;
    resolve(&server, &run).await;
    let posts = receiver.await_posts(2).await;
    until_states(&server, &["sent"]).await;
    for post in &posts {
        let at: i64 = post.header("x-openwop-timestamp").parse().unwrap();
        let signed = abide_core::signature_headers(SECRET.as_bytes(), at * 1000, &post.body);
        assert_eq!(post.header("x-openwop-signature"), signed[1].1);
    }
    let [asked, closed] = [posts[0].json(), posts[1].json()];
    assert_eq!((&asked["type"], &asked["title"]), (&json!("interrupt.asked"), &json!("Why?")));
    let link = asked["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("{}/inbox/{run}/", server.url)), "{link}");
    assert_eq!(
        (&closed["type"], &closed["closed"]["outcome"]),
        (&json!("interrupt.closed"), &json!("resolved"))
    );
    assert_eq!(posts.len(), 2, "nobody is told more than that");
}

#[tokio::test(flavor = "multi_thread")]
async fn rungs_reach_other_channels_and_an_answer_resolves_the_incident() {
    let (hooks, slack, pager) = (
        Receiver::start().await,
        Receiver::answering(|_, _| 200).await,
        Receiver::answering(|_, _| 202).await,
    );
    let settings = format!(
        "[notify]\ndefault = 'hook'\n{}[channels.slack]\ntype = 'slack'\nurl = '{}'\n\
         [channels.pager]\ntype = 'pagerduty'\nurl = '{}'\nrouting-key = '{SECRET}'\n",
        hook("hook", &hooks.url),
        slack.url,
        pager.url
    );
    let site = site_with(&settings);
    let mut ladder = hourly();
    ladder["retry_policy"]["escalation_ladder"] =
        json!([{ "attempt": 2, "channel_hint": "slack" }, { "attempt": 3, "channel_hint": "pager" }]);
    site.workflow(&asking("climbing", &ladder));
    let server = start(&site, &[]);
    let run = server.start_run("climbing", json!({})).await;
    for attempt in 1..=3 {
        let notices = until_states(&server, &vec!["sent"; attempt]).await;
        assert_eq!(notices[attempt - 1]["channel"], ["hook", "slack", "pager"][attempt - 1]);
        if attempt < 3 {
            server.advance(HOUR_MS).await;
        }
    }
    resolve(&server, &run).await;
    until_states(&server, &["sent"; 3]).await;
    assert_eq!((hooks.heard().len(), slack.heard().len()), (2, 2));
    let events: Vec<Value> = pager.heard().iter().map(|post| post.json()["event_action"].clone()).collect();
    assert_eq!(events, ["trigger", "resolve"]);
    let same: Vec<Value> = pager.heard().iter().map(|post| post.json()["dedup_key"].clone()).collect();
    assert_eq!(same[0], same[1]);
    // An hour later somebody would have been told that nobody answered.
    server.advance(10 * HOUR_MS).await;
    server.settle().await;
    assert_eq!((hooks.heard().len(), slack.heard().len(), pager.heard().len()), (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_all_further_reminders() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    let server = start(&site, &[]);
    let run = server.start_run("hourly", json!({})).await;
    until_states(&server, &["sent"]).await;
    server.advance(HOUR_MS).await;
    until_states(&server, &["sent"; 2]).await;
    resolve(&server, &run).await;
    until_states(&server, &["sent"; 2]).await;
    server.advance(10 * HOUR_MS).await;
    server.settle().await;
    let kinds: Vec<Value> = receiver.heard().iter().map(|post| post.json()["type"].clone()).collect();
    assert_eq!(kinds, ["interrupt.asked", "interrupt.asked", "interrupt.closed"]);
    assert_eq!(recorded(&server, &run, "interrupt.renotified").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_outside_the_list_is_not_told_and_the_journal_says_so() {
    let receiver = Receiver::start().await;
    let site = site_with(&format!("[notify]\nallow = ['*@example.com']\n{}", hook("hook", &receiver.url)));
    site.workflow(&asking("outside", &json!({ "notify_to": "eve@evil.example" })));
    site.workflow(&asking("inside", &json!({ "notify_to": "bob@example.com" })));
    let server = start(&site, &[]);
    let outside = server.start_run("outside", json!({})).await;
    let refused = until_states(&server, &["refused"]).await;
    assert_eq!(refused[0]["recipient"], "eve@evil.example");
    assert_eq!((recorded(&server, &outside, "notice.refused").await, receiver.heard().len()), (1, 0));
    let inside = server.start_run("inside", json!({})).await;
    until_states(&server, &["refused", "sent"]).await;
    assert_eq!((recorded(&server, &inside, "notice.refused").await, receiver.heard().len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_names_no_channel_falls_to_the_default_and_says_so() {
    let receiver = Receiver::start().await;
    let site = site_with(&hook("hook", &receiver.url));
    site.workflow(&asking("hinted", &json!({ "channel_hint": "carrier-pigeon" })));
    let server = start(&site, &[]);
    server.start_run("hinted", json!({})).await;
    let notices = until_states(&server, &["sent"]).await;
    assert_eq!(
        (&notices[0]["channel"], &notices[0]["channelHint"]),
        (&json!("hook"), &json!("carrier-pigeon"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_recipient_gets_so_many_an_hour_and_the_rest_later() {
    let receiver = Receiver::start().await;
    let site = site_with(&format!(
        "[notify]\nper-recipient = '1/h'\nallow = ['*@example.com']\n{}",
        hook("hook", &receiver.url)
    ));
    site.workflow(&asking("named", &json!({ "notify_to": "bob@example.com" })));
    let server = start(&site, &[]);
    server.start_run("named", json!({})).await;
    until_states(&server, &["sent"]).await;
    server.start_run("named", json!({})).await;
    let is_put_off = |notices: &[Value]| notices.len() == 2 && notices[1].get("reason").is_some();
    let notices = until(&server, "a second one", is_put_off).await;
    assert_eq!((&notices[1]["state"], &notices[1]["tries"]), (&json!("waiting"), &json!(0)));
    server.advance(HOUR_MS - 1).await;
    server.settle().await;
    assert_eq!(receiver.heard().len(), 1, "it is delayed");
    server.advance(1).await;
    until_states(&server, &["sent"; 2]).await;
}
