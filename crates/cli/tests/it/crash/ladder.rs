//! The timeline of a question that is answered in the second attempt, event by event and message by message; and the
//! same with the server killed between every two of its rows.

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::support::{PATIENCE, Server, Site, node, verify, workflow};

/// An hour.
const HOUR: i64 = 3_600_000;

/// Fetch, have somebody review, report.
fn compliance() -> Value {
    let question = json!({ "question": "Should we proceed?", "responseType": "confirm" });
    let policy = json!({
        "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail",
        "escalation_ladder": [{ "attempt": 2, "channel_hint": "email", "notify_to": null }],
    });
    let ladder = json!({ "abide": { "ladder": { "channel_hint": "chat", "retry_policy": policy } } });
    let nodes = [
        node("fetch_data", "core.noop", json!({}), json!({}), json!({})),
        node("compliance_review", "core.hitl.ask-user", question, json!({}), ladder),
        node("generate_report", "core.noop", json!({}), json!({}), json!({})),
    ];
    let edges = [("fetch_data", "compliance_review"), ("compliance_review", "generate_report")];
    workflow("compliance", &nodes, &edges, json!([]))
}

/// A site whose questions are told to two receivers.
async fn site() -> (Site, Receiver, Receiver) {
    let (chat, email) = (Receiver::start().await, Receiver::start().await);
    let site = Site::new();
    site.workflow(&compliance());
    let channel = |name: &str, url: &str| {
        format!("[channels.{name}]\ntype = \"webhook\"\nurl = \"{url}\"\nsecret = \"{}\"\n", "s".repeat(32))
    };
    let config = format!(
        "[notify]\ndefault = \"chat\"\n{}{}",
        channel("chat", &chat.url),
        channel("email", &email.url)
    );
    std::fs::write(site.path("abide.toml"), config).unwrap();
    (site, chat, email)
}

fn start(site: &Site) -> Server {
    let (config, workflows) = (site.path("abide.toml"), site.path("workflows"));
    site.start(&[
        "--test-clock",
        "--config",
        config.to_str().unwrap(),
        "--workflows",
        workflows.to_str().unwrap(),
    ])
}

/// What the journal says of the question, with the time since it was asked, in seconds.
async fn journal(server: &Server, run: &str, interrupt: &str) -> Vec<(i64, String, Value)> {
    let (_, ladder) = server.get(&format!("/v1/runs/{run}/interrupts/{interrupt}/ladder")).await;
    let events = ladder["events"].as_array().unwrap_or_else(|| panic!("{ladder}"));
    let ms =
        |event: &Value| event["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let asked = ms(&events[0]);
    let told = |event: &Value| {
        let name = event["type"].as_str().unwrap().to_owned();
        ((ms(event) - asked) / 1000, name, event["payload"].clone())
    };
    events.iter().map(told).collect()
}

async fn asked(server: &Server, run: &str) -> String {
    server.settle().await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    shown["interrupt"]["interruptId"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// The rows of the timeline: what is done, and at which second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    /// The question is asked, and people are told.
    Asked,
    /// People are told again, and others are told.
    Reminded,
    /// Somebody answers.
    Answered,
}

const ROWS: [Row; 3] = [Row::Asked, Row::Reminded, Row::Answered];

/// Goes through the timeline, killing the server wherever `kills` says so: before, between and behind the rows.
async fn tell(kills: impl Fn(usize) -> bool) {
    let (site, chat, email) = site().await;
    let mut server = start(&site);
    let (mut run, mut interrupt) = (String::new(), String::new());
    for (at, row) in ROWS.into_iter().enumerate() {
        if kills(at) {
            server.kill();
            server = start(&site);
            // What was sent and not written down is sent again, under its key.
            site.settle_messages(&server).await;
        }
        match row {
            Row::Asked => {
                run = server.start_run("compliance", json!({})).await;
                interrupt = asked(&server, &run).await;
                chat.await_posts(1).await;
            }
            Row::Reminded => {
                server.advance(HOUR).await;
                server.settle().await;
                email.await_posts(1).await;
            }
            Row::Answered => {
                server.advance(HOUR / 2).await;
                let path = format!("/v1/runs/{run}/interrupts/compliance_review");
                let value = json!({ "resumeValue": { "answers": { "answer": "yes" } } });
                let (status, answered) = server.post(&path, &value).await;
                assert_eq!(status, 200, "{answered}");
            }
        }
    }
    if kills(ROWS.len()) {
        server.kill();
        server = start(&site);
    }
    // Each of those who were told of the question is told that it is answered.
    await_messages(&chat, 2).await;
    await_messages(&email, 2).await;
    // And nobody is told anything more, however much time goes by.
    server.advance(10 * HOUR).await;
    server.settle().await;
    check_journal(&journal(&server, &run, &interrupt).await, &interrupt);
    check_messages(&chat, "chat");
    check_messages(&email, "email");
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "completed", "{shown}");
    server.stop();
    assert!(verify(&site.data()) > 0);
}

fn check_journal(events: &[(i64, String, Value)], interrupt: &str) {
    let names: Vec<(i64, &str)> = events.iter().map(|(at, name, _)| (*at, name.as_str())).collect();
    let expected = [
        (0, "intent.suspended"),
        (3600, "intent.suspension_renotified"),
        (3600, "intent.suspension_escalated"),
        (5400, "intent.resumed"),
    ];
    assert_eq!(names, expected, "{events:?}");
    let renotified = &events[1].2;
    assert_eq!(renotified["suspension_id"], interrupt);
    assert_eq!((&renotified["attempt"], &renotified["max_attempts"]), (&json!(2), &json!(3)));
    assert_eq!((&renotified["channel_hint"], &renotified["notify_to"]), (&json!("email"), &Value::Null));
    assert!(renotified["next_attempt_at"].is_string(), "{renotified}");
    let escalated = &events[2].2;
    let expected = json!({
        "suspension_id": interrupt, "attempt": 2, "escalated_to": null, "channel_hint": "email",
    });
    assert_eq!(escalated, &expected);
}

/// What a channel was told, each message once: one whose sender died is sent again, under its key.
fn messages(receiver: &Receiver) -> Vec<String> {
    let mut ids: Vec<String> =
        receiver.heard().iter().map(|post| post.json()["id"].as_str().unwrap().to_owned()).collect();
    ids.dedup();
    ids
}

async fn await_messages(receiver: &Receiver, count: usize) {
    let began = std::time::Instant::now();
    while messages(receiver).len() < count {
        assert!(began.elapsed() < PATIENCE, "it was told {:?}", messages(receiver));
        tokio::task::yield_now().await;
    }
}

/// One message asks and one says that it is answered, however often each was sent.
fn check_messages(receiver: &Receiver, channel: &str) {
    let ids = messages(receiver);
    assert_eq!(ids.len(), 2, "{channel} was told {ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_of_a_question_is_told_event_by_event() {
    tell(|_| false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_is_the_same_with_the_server_killed_between_every_two_rows() {
    tell(|_| true).await;
    for only in 0..=ROWS.len() {
        tell(move |at| at == only).await;
    }
}
