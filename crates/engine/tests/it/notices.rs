//! People are told what waits for them: once for each attempt, until it arrives, and not after somebody answered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abide_core::{Answerer, Json, Key};
use abide_engine::{Asked, Engine, EngineOptions, Minted, Minter, Reply, TestClock};
use abide_notify::{ChannelConfig, Channels, ChannelsConfig, NotifyConfig, Secret};
use abide_store::{NoticeDelivery, NoticeState, NoticesQuery, Person, Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

use crate::asked::{asked, start, workflow};
use crate::peer::{Act, Peer, answer, closed_port};
use crate::support::{START, TENANT, within};
use crate::tapped::Tapped;

const HOUR: i64 = 3_600_000;

/// Makes links that tell whom they are for.
struct Links;

impl Minter for Links {
    fn mint(&self, asked: &Asked<'_>) -> Minted {
        let token = format!("for-{}", asked.subject.unwrap_or("nobody"));
        Minted { url: format!("https://here/answer/{token}"), token, expires_at: asked.at }
    }

    fn sign_in(&self, run: Key, id: abide_core::InterruptId) -> Option<String> {
        Some(format!("https://here/inbox/{}/{id}", run.id))
    }
}

struct Desk {
    engine: Engine,
    store: Arc<Sqlite>,
    clock: Arc<TestClock>,
}

impl Desk {
    async fn open(dir: &Path, channels: &Arc<Channels>) -> Self {
        let store = Arc::new(Sqlite::open(&SqliteOptions::new(dir)).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        let options = EngineOptions::new(store.clone(), clock.clone());
        let (minter, channels) = (Some(Arc::new(Links) as Arc<dyn Minter>), channels.clone());
        let engine = Engine::start(EngineOptions { minter, channels, ..options });
        Self { engine, store, clock }
    }

    async fn messages(&self) -> Vec<NoticeDelivery> {
        let query =
            NoticesQuery { tenant: TENANT, state: None, run: None, interrupt: None, after: None, limit: 100 };
        let mut rows = self.store.notices().list(query).await.unwrap().rows;
        rows.reverse();
        rows
    }

    /// Waits until the messages are as the test wants them.
    async fn until(&self, what: &str, is_so: impl Fn(&[NoticeDelivery]) -> bool) -> Vec<NoticeDelivery> {
        within(what, async {
            loop {
                let rows = self.messages().await;
                if is_so(&rows) {
                    return rows;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    async fn until_states(&self, states: &[NoticeState]) -> Vec<NoticeDelivery> {
        let same = |rows: &[NoticeDelivery]| rows.iter().map(|row| row.state).eq(states.iter().copied());
        self.until(&format!("{states:?}"), |rows| same(rows) && rows.iter().all(|row| row.follow.is_none()))
            .await
    }

    async fn resolve(&self, run: Key) {
        let id = asked(&self.engine, run).await;
        let by = Answerer::of("ada");
        let value = Json::of(&json!({ "answers": { "why": "because" } }));
        self.engine.resolve(run, id, value, by, Reply::new(None, |_| Vec::new())).await.unwrap();
    }

    async fn story(&self, run: Key) -> Vec<&'static str> {
        let records = self.engine.events(run, 0, 100).await.unwrap();
        let name = |code| abide_core::EventType::by_code(code).unwrap().name;
        records
            .iter()
            .map(|record| name(record.type_code))
            .filter(|name| !name.starts_with("node."))
            .collect()
    }

    async fn close(self) {
        self.engine.drain(std::time::Duration::from_secs(60)).await.unwrap();
    }
}

fn webhook(url: String) -> ChannelConfig {
    ChannelConfig {
        kind: Some("webhook".to_owned()),
        url: Some(Secret::new(url)),
        secret: Some(Secret::new("a secret of sixteen bytes or more")),
        timeout: Some("1s".to_owned()),
        ..ChannelConfig::default()
    }
}

fn pagerduty(url: String) -> ChannelConfig {
    ChannelConfig {
        kind: Some("pagerduty".to_owned()),
        url: Some(Secret::new(url)),
        routing_key: Some(Secret::new("0123456789abcdef0123456789abcdef")),
        ..ChannelConfig::default()
    }
}

fn channels_with(notify: NotifyConfig, channels: Vec<(&str, ChannelConfig)>) -> Arc<Channels> {
    let default = notify.default.clone().or_else(|| channels.first().map(|(name, _)| (*name).to_owned()));
    let notify = NotifyConfig { default, ..notify };
    let channels: BTreeMap<_, _> =
        channels.into_iter().map(|(name, config)| (name.to_owned(), config)).collect();
    Arc::new(Channels::from_config(ChannelsConfig { notify, channels }).unwrap())
}

fn channels(channels: Vec<(&str, ChannelConfig)>) -> Arc<Channels> {
    channels_with(NotifyConfig::default(), channels)
}

/// A workflow that asks a question with this ladder.
fn question(ladder: &Value) -> Value {
    let questions = json!([{ "id": "why", "question": "Why?" }]);
    let mut asking = workflow("ask", "core.clarificationGate", &json!({ "questions": questions }));
    asking["nodes"][0]["settings"] = json!({ "abide": { "ladder": ladder } });
    asking
}

/// People are reminded every hour, three times in all.
fn hourly() -> Value {
    json!({ "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 } })
}

fn bodies(peer: &Peer) -> Vec<Value> {
    let body = |heard: &String| serde_json::from_str(heard.split_once("\r\n\r\n").unwrap().1).unwrap();
    peer.heard().iter().map(body).collect()
}

fn keys(peer: &Peer) -> Vec<String> {
    bodies(peer).iter().map(|body| body["id"].as_str().unwrap().to_owned()).collect()
}

async fn fine() -> Peer {
    Peer::saying(answer(202, "", "")).await
}

async fn ada(desk: &Desk) {
    let person = Person {
        tenant: TENANT,
        principal: "ada".to_owned(),
        display_name: Some("Ada L.".to_owned()),
        roles: vec![],
        groups: vec!["finance".to_owned()],
        addresses: BTreeMap::from([("hook".to_owned(), "U042".to_owned())]),
        created_at: START,
        updated_at: START,
    };
    desk.store.put_person(person).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_a_channel_reaches_is_told_at_once_what_waits() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let hook = ChannelConfig { internal: Some(true), ..webhook(peer.url("/told")) };
    let desk = Desk::open(dir.path(), &channels(vec![("hook", hook)])).await;
    let run = start(&desk.engine, &question(&hourly())).await;
    let rows = desk.until_states(&[NoticeState::Sent]).await;
    assert_eq!((rows[0].id.attempt, rows[0].tries, rows[0].sent_at), (1, 1, Some(START)));
    let id = asked(&desk.engine, run).await;
    let body = &bodies(&peer)[0];
    let expected = json!({
        "id": format!("{id}/1/hook/"), "type": "interrupt.asked", "title": "Why?", "question": "Why?",
        "attempt": 1, "maxAttempts": 3, "link": "https://here/answer/for-channel:hook",
        "deadline": "1970-01-01T03:16:40.000Z", "nextAttemptAt": "1970-01-01T01:16:40.000Z",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&body[key], value, "{key} of {body}");
    }
    assert_eq!(body["interrupt"]["runId"], run.id.to_string());
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_asks_without_a_ladder_and_without_channels_has_no_messages() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::open(dir.path(), &Arc::default()).await;
    let mut plain = question(&json!({}));
    plain["nodes"][0]["settings"] = json!({});
    let run = start(&desk.engine, &plain).await;
    desk.resolve(run).await;
    assert_eq!(
        (desk.messages().await.len(), desk.store.notices().untold(None, 9, 9).await.unwrap().len()),
        (0, 0)
    );
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_does_not_arrive_is_sent_again_under_the_same_key() {
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU32::new(0);
    let peer = Peer::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Say(answer(503, "", "")),
        1 => Act::Say(answer(429, "retry-after: 600\r\n", "")),
        _ => Act::Say(answer(200, "", "")),
    })
    .await;
    let desk = Desk::open(dir.path(), &channels(vec![("hook", webhook(peer.url("/")))])).await;
    start(&desk.engine, &question(&hourly())).await;
    let tried = |tries| move |rows: &[NoticeDelivery]| rows.first().is_some_and(|row| row.tries == tries);
    let rows = desk.until("a first try", tried(1)).await;
    assert!(rows[0].reason.as_deref().is_some_and(|reason| reason.contains("503")), "{rows:?}");
    desk.clock.advance(5_000).await.unwrap();
    let rows = desk.until("a second try", tried(2)).await;
    assert_eq!(rows[0].due, Some(START + 5_000 + 600_000), "it asked to be left alone for ten minutes");
    desk.clock.advance(600_000).await.unwrap();
    desk.until_states(&[NoticeState::Sent]).await;
    let keys = keys(&peer);
    assert_eq!((keys.len(), &keys[0]), (3, &keys[2]));
    assert_eq!(keys[0], keys[1]);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_hangs_holds_up_no_other() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let hanging = Peer::start(|_| Act::SayAndHang(Vec::new())).await;
    let slow = ChannelConfig { timeout: Some("60s".to_owned()), ..webhook(hanging.url("/")) };
    let desk =
        Desk::open(dir.path(), &channels(vec![("hook", webhook(peer.url("/"))), ("slow", slow)])).await;
    for _ in 0..20 {
        start(&desk.engine, &question(&json!({ "channel_hint": "slow" }))).await;
    }
    hanging.hears(abide_engine::limits::NOTICES_OF_LINE_MAX).await;
    start(&desk.engine, &question(&json!({ "channel_hint": "hook" }))).await;
    peer.hears(1).await;
    let sent = |rows: &[NoticeDelivery]| rows.iter().any(|row| row.state == NoticeState::Sent);
    let rows = desk.until("the other channel", sent).await;
    assert_eq!(rows.iter().filter(|row| row.channel == "slow" && row.tries == 0).count(), 20);
    assert_eq!(hanging.heard().len(), abide_engine::limits::NOTICES_OF_LINE_MAX, "no more at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_refused_is_given_up_and_can_be_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU32::new(0);
    let peer = Peer::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Say(answer(400, "", "no")),
        _ => Act::Say(answer(200, "", "")),
    })
    .await;
    let desk = Desk::open(dir.path(), &channels(vec![("hook", webhook(peer.url("/")))])).await;
    start(&desk.engine, &question(&json!({}))).await;
    let rows = desk.until_states(&[NoticeState::Dead]).await;
    assert!(rows[0].reason.as_deref().is_some_and(|reason| reason.contains("400")), "{rows:?}");
    assert!(desk.engine.resend_notice(TENANT, rows[0].id).await.unwrap());
    desk.until_states(&[NoticeState::Sent]).await;
    assert!(!desk.engine.resend_notice(TENANT, rows[0].id).await.unwrap(), "it was sent");
    assert_eq!(keys(&peer)[0], keys(&peer)[1]);
    assert_eq!(desk.engine.stats().notices_dead, 1);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_who_got_enough_gets_the_rest_later() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let notify = NotifyConfig {
        per_recipient: Some("2/h".to_owned()),
        allow: vec!["*@example.com".to_owned()],
        ..NotifyConfig::default()
    };
    let told = channels_with(notify, vec![("hook", webhook(peer.url("/")))]);
    let desk = Desk::open(dir.path(), &told).await;
    let sent = |count| move |rows: &[NoticeDelivery]| states(rows, NoticeState::Sent) == count;
    for count in 1..=2 {
        start(&desk.engine, &question(&json!({ "notify_to": "bob@example.com" }))).await;
        desk.until("the first two", sent(count)).await;
        desk.clock.advance(1_000).await.unwrap();
    }
    for _ in 0..3 {
        start(&desk.engine, &question(&json!({ "notify_to": "bob@example.com" }))).await;
    }
    let put_off = |rows: &[NoticeDelivery]| {
        rows.iter().filter(|row| row.due.is_some_and(|due| due >= START + HOUR)).count() == 3
    };
    let rows = desk.until("three that wait", put_off).await;
    assert!(rows.iter().filter_map(|row| row.reason.as_deref()).all(|reason| reason.contains("2/h")));
    desk.close().await;

    // It is counted on disk, so another server keeps to it.
    let desk = Desk::open(dir.path(), &told).await;
    desk.clock.advance(HOUR - 3_000).await.unwrap();
    start(&desk.engine, &question(&json!({ "notify_to": "bob@example.com" }))).await;
    desk.until("four that wait", |rows| {
        states(rows, NoticeState::Waiting) == 4 && put_off_until(rows, START + HOUR)
    })
    .await;
    assert_eq!(peer.heard().len(), 2, "nobody got a third");
    for _ in 0..3 {
        start(&desk.engine, &question(&json!({ "channel_hint": "hook" }))).await;
    }
    desk.until("those for nobody in particular", sent(5)).await;
    within("all of them", async {
        while states(&desk.messages().await, NoticeState::Sent) < 9 {
            desk.clock.advance(HOUR).await.unwrap();
        }
    })
    .await;
    desk.close().await;
}

fn states(rows: &[NoticeDelivery], state: NoticeState) -> usize {
    rows.iter().filter(|row| row.state == state).count()
}

fn put_off_until(rows: &[NoticeDelivery], at: i64) -> bool {
    rows.iter().filter_map(|row| row.due).all(|due| due >= at)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_neither_in_the_directory_nor_allowed_is_not_told_and_the_journal_says_so() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let notify = NotifyConfig { allow: vec!["*@example.com".to_owned()], ..NotifyConfig::default() };
    let told = channels_with(notify, vec![("hook", webhook(peer.url("/")))]);
    let desk = Desk::open(dir.path(), &told).await;
    ada(&desk).await;
    let refused = start(&desk.engine, &question(&json!({ "notify_to": "eve@evil.org" }))).await;
    let rows = desk.until_states(&[NoticeState::Refused]).await;
    assert_eq!((rows[0].recipient.as_str(), rows[0].tries), ("eve@evil.org", 0));
    let story = desk.story(refused).await;
    assert_eq!(story.iter().filter(|name| **name == "notice.refused").count(), 1, "{story:?}");
    assert_eq!(peer.heard().len(), 0);
    for name in ["bob@example.com", "ada", "group:finance"] {
        let run = start(&desk.engine, &question(&json!({ "notify_to": name }))).await;
        let is_sent = |rows: &[NoticeDelivery]| {
            rows.iter().any(|row| row.recipient == name && row.state == NoticeState::Sent)
        };
        desk.until(name, is_sent).await;
        assert!(!desk.story(run).await.contains(&"notice.refused"));
    }
    let named: Vec<Value> = bodies(&peer).iter().map(|body| body["mentions"].clone()).collect();
    let ada = json!([{ "name": "ada", "address": "U042", "displayName": "Ada L." }]);
    assert_eq!(named[1..], [ada.clone(), ada]);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_names_no_channel_leads_to_the_default_and_the_message_says_so() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let other = Peer::saying(answer(200, "", "")).await;
    let both = vec![("hook", webhook(peer.url("/"))), ("other", webhook(other.url("/")))];
    let desk = Desk::open(dir.path(), &channels(both)).await;
    start(&desk.engine, &question(&json!({ "channel_hint": "sms" }))).await;
    let rows = desk.until_states(&[NoticeState::Sent]).await;
    assert_eq!((rows[0].channel.as_str(), rows[0].hint.as_deref()), ("hook", Some("sms")));
    start(&desk.engine, &question(&json!({ "channel_hint": "other" }))).await;
    let rows = desk.until_states(&[NoticeState::Sent, NoticeState::Sent]).await;
    assert_eq!((rows[1].channel.as_str(), rows[1].hint.as_deref()), ("other", None));
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_channel_it_is_seen_that_nobody_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::open(dir.path(), &Arc::default()).await;
    start(&desk.engine, &question(&json!({ "channel_hint": "sms" }))).await;
    let rows = desk.until_states(&[NoticeState::Unreachable]).await;
    assert_eq!(rows[0].reason.as_deref(), Some("no channel is configured; add one under [channels]"));
    assert_eq!(desk.engine.stats().notices_unreachable, 1);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_it_is_answered_incidents_are_resolved_and_whoever_was_told_hears_of_it_once() {
    let (dir, peer, pager) = (tempfile::tempdir().unwrap(), fine().await, fine().await);
    let both = vec![("hook", webhook(peer.url("/"))), ("pager", pagerduty(pager.url("/")))];
    let desk = Desk::open(dir.path(), &channels(both)).await;
    let rung = json!([{ "attempt": 3, "channel_hint": "pager" }]);
    let mut ladder = hourly();
    ladder["retry_policy"]["escalation_ladder"] = rung;
    let run = start(&desk.engine, &question(&ladder)).await;
    let id = asked(&desk.engine, run).await.to_string();
    for count in 1..=3 {
        desk.until_states(&vec![NoticeState::Sent; count]).await;
        if count < 3 {
            desk.clock.advance(HOUR).await.unwrap();
        }
    }
    desk.resolve(run).await;
    desk.until_states(&[NoticeState::Sent; 3]).await;
    let heard = bodies(&peer);
    assert_eq!(
        heard.iter().map(|body| body["type"].clone()).collect::<Vec<_>>(),
        ["interrupt.asked", "interrupt.asked", "interrupt.closed"]
    );
    assert_eq!(heard[2]["id"], format!("{id}/2/hook//closed"));
    assert_eq!(
        heard[2]["closed"],
        json!({ "outcome": "resolved", "by": "ada", "at": "1970-01-01T02:16:40.000Z" })
    );
    let events: Vec<Value> =
        bodies(&pager).iter().map(|body| json!([body["event_action"], body["dedup_key"]])).collect();
    assert_eq!(events, [json!(["trigger", id]), json!(["resolve", id])]);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_answer_nothing_more_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let peer = Peer::saying(answer(503, "", "")).await;
    let desk = Desk::open(dir.path(), &channels(vec![("hook", webhook(peer.url("/")))])).await;
    let run = start(&desk.engine, &question(&hourly())).await;
    desk.until("a first try", |rows| rows.first().is_some_and(|row| row.tries == 1)).await;
    desk.resolve(run).await;
    let rows = desk.until_states(&[NoticeState::Withdrawn]).await;
    assert_eq!(rows[0].due, None);
    desk.clock.advance(10 * HOUR).await.unwrap();
    desk.close().await;
    assert_eq!(peer.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_takes_the_place_of_one_that_did_not_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU32::new(0);
    let peer = Peer::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Say(answer(429, "retry-after: 7200\r\n", "")),
        _ => Act::Say(answer(200, "", "")),
    })
    .await;
    let desk = Desk::open(dir.path(), &channels(vec![("hook", webhook(peer.url("/")))])).await;
    start(&desk.engine, &question(&hourly())).await;
    desk.until("a first try", |rows| rows.first().is_some_and(|row| row.tries == 1)).await;
    desk.clock.advance(HOUR).await.unwrap();
    desk.until_states(&[NoticeState::Superseded, NoticeState::Sent]).await;
    assert_eq!(bodies(&peer)[1]["attempt"], 2);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_fell_due_while_nobody_was_there_are_recorded_and_the_last_one_is_told() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let told = channels(vec![("hook", webhook(peer.url("/")))]);
    let desk = Desk::open(dir.path(), &told).await;
    let run = start(&desk.engine, &question(&hourly())).await;
    desk.until_states(&[NoticeState::Sent]).await;
    desk.close().await;
    let store = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    store.set_test_clock(START + 2 * HOUR + 1).await.unwrap();
    drop(store);

    let desk = Desk::open(dir.path(), &told).await;
    let rows = desk.until_states(&[NoticeState::Sent; 2]).await;
    assert_eq!(rows.iter().map(|row| row.id.attempt).collect::<Vec<_>>(), [1, 3]);
    let story = desk.story(run).await;
    assert_eq!(story.iter().filter(|name| **name == "interrupt.renotified").count(), 2, "{story:?}");
    desk.close().await;
    assert_eq!(bodies(&peer).iter().map(|body| body["attempt"].clone()).collect::<Vec<_>>(), [1, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_told_before_a_later_attempt_fell_due_is_not_told_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU32::new(0);
    let peer = Peer::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Say(answer(503, "", "")),
        _ => Act::Say(answer(200, "", "")),
    })
    .await;
    let told = channels(vec![("hook", webhook(peer.url("/")))]);
    let desk = Desk::open(dir.path(), &told).await;
    start(&desk.engine, &question(&hourly())).await;
    desk.until("a first try", |rows| rows.first().is_some_and(|row| row.tries == 1)).await;
    desk.close().await;
    let store = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    store.set_test_clock(START + 2 * HOUR + 1).await.unwrap();
    drop(store);

    let desk = Desk::open(dir.path(), &told).await;
    desk.until_states(&[NoticeState::Superseded, NoticeState::Sent]).await;
    desk.close().await;
    assert_eq!(bodies(&peer).iter().map(|body| body["attempt"].clone()).collect::<Vec<_>>(), [1, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_read_keeps_nobody_else_from_being_told() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let store = Tapped::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
    store.lose_directory();
    let options = EngineOptions::new(store.clone(), clock);
    let told = channels(vec![("hook", webhook(peer.url("/")))]);
    let engine = Engine::start(EngineOptions { channels: told, ..options });
    start(&engine, &question(&json!({ "notify_to": "ada" }))).await;
    start(&engine, &question(&json!({}))).await;
    peer.hears(1).await;
    let query = NoticesQuery {
        tenant: TENANT,
        state: Some(NoticeState::Unreachable),
        run: None,
        interrupt: None,
        after: None,
        limit: 9,
    };
    let lost = store.notices().list(query).await.unwrap().rows;
    assert_eq!(lost.len(), 1, "it stands there that nobody was told");
    engine.drain(std::time::Duration::from_secs(60)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_is_only_for_those_who_answer_the_node_and_the_link_are_told() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let hook = ChannelConfig { internal: Some(true), ..webhook(peer.url("/")) };
    let desk = Desk::open(dir.path(), &channels(vec![("hook", hook)])).await;
    let mut hushed = workflow("hushed", "core.approvalGate", &json!({ "title": "Well?" }));
    hushed["variables"] =
        json!([{ "name": "secret", "type": "string", "defaultValue": "hush-hush", "sensitive": true }]);
    hushed["nodes"][0]["inputs"] =
        json!({ "artifactData": { "type": "variable", "variableName": "secret" } });
    let run = start(&desk.engine, &hushed).await;
    desk.until_states(&[NoticeState::Sent]).await;
    let by = Answerer::of("ada");
    let id = asked(&desk.engine, run).await;
    let accept = Json::of(&json!({ "action": "accept" }));
    desk.engine.resolve(run, id, accept, by, Reply::new(None, |_| Vec::new())).await.unwrap();
    peer.hears(2).await;
    for (body, heard) in bodies(&peer).iter().zip(peer.heard()) {
        assert_eq!((&body["title"], body.get("context"), body.get("question")), (&json!("ask"), None, None));
        assert!(!heard.contains("hush-hush") && !heard.contains("Well?"), "{heard}");
    }
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_answers_goes_to_whoever_may_and_everybody_else_signs_in() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let hook = |link: &str| ChannelConfig { link: Some(link.to_owned()), ..webhook(peer.url("/")) };
    let both = channels(vec![("signed", hook("signed")), ("plain", hook("sign-in"))]);
    let desk = Desk::open(dir.path(), &both).await;
    let approvers = json!({ "title": "Well?", "approversList": ["ada"] });
    let mut restricted = workflow("restricted", "core.approvalGate", &approvers);
    restricted["nodes"][0]["settings"] = json!({ "abide": { "ladder": { "channel_hint": "signed" } } });
    let cases = [
        (question(&json!({ "channel_hint": "signed" })), "https://here/answer/for-channel:signed"),
        (question(&json!({ "channel_hint": "plain" })), "https://here/inbox/"),
        (restricted, "https://here/inbox/"),
    ];
    for (ix, (workflow, link)) in cases.iter().enumerate() {
        start(&desk.engine, workflow).await;
        desk.until_states(&vec![NoticeState::Sent; ix + 1]).await;
        let body = bodies(&peer).pop().unwrap();
        assert!(body["link"].as_str().unwrap().starts_with(link), "{body}");
    }
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_says_whether_a_channel_works() {
    let (dir, peer) = (tempfile::tempdir().unwrap(), fine().await);
    let broken = format!("http://127.0.0.1:{}/", closed_port().await);
    let both = channels(vec![("hook", webhook(peer.url("/"))), ("broken", webhook(broken))]);
    let desk = Desk::open(dir.path(), &both).await;
    desk.engine.test_channel(TENANT, "hook", None).await.unwrap().unwrap();
    assert_eq!(bodies(&peer)[0]["type"], "channel.tested");
    for (channel, to) in [("broken", None), ("nothing", None), ("hook", Some("eve@evil.org"))] {
        let failure = desk.engine.test_channel(TENANT, channel, to).await.unwrap().unwrap_err();
        assert!(!failure.reason.is_empty(), "{channel}");
    }
    assert_eq!((peer.heard().len(), desk.messages().await.len()), (1, 0));
    desk.close().await;
}
