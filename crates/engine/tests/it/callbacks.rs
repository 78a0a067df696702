//! Whoever started a run is told when it waits for an answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abide_core::{Answerer, Json};
use abide_engine::{Asked, Engine, EngineOptions, Minted, Minter, NetPolicy, Reply, TestClock};
use abide_store::{Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

use crate::asked::{asked, start_told, workflow};
use crate::peer::{Act, Peer, answer};
use crate::support::{START, within};

const HOUR: i64 = 3_600_000;

/// Makes tokens that count.
#[derive(Default)]
struct Counting(AtomicU32);

impl Minter for Counting {
    fn mint(&self, asked: &Asked<'_>) -> Minted {
        let token = format!("token-{}-{}", asked.node, self.0.fetch_add(1, Ordering::SeqCst));
        let expires_at = asked.deadline.unwrap_or(asked.at + HOUR);
        Minted { url: format!("https://here/v1/interrupts/{token}"), token, expires_at }
    }
}

struct Desk {
    engine: Engine,
    store: Arc<Sqlite>,
    clock: Arc<TestClock>,
}

impl Desk {
    async fn open(dir: &Path, minter: Option<Arc<dyn Minter>>) -> Self {
        let store = Arc::new(Sqlite::open(&SqliteOptions::new(dir)).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        let net = NetPolicy::parse(&["127.0.0.0/8"]).unwrap();
        let options = EngineOptions::new(store.clone(), clock.clone());
        let engine = Engine::start(EngineOptions { net, minter, ..options });
        Self { engine, store, clock }
    }

    async fn telling(dir: &Path) -> Self {
        Self::open(dir, Some(Arc::new(Counting::default()))).await
    }

    /// How many are still to be told, and how often that was tried.
    async fn waiting(&self) -> Vec<u32> {
        let (due, _) = self.store.callbacks().due(i64::MAX, 9).await.unwrap();
        due.iter().map(|row| row.attempts).collect()
    }

    async fn until_waiting(&self, attempts: &[u32]) {
        within("a callback", async {
            while self.waiting().await != attempts {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    async fn close(self) {
        self.engine.drain(std::time::Duration::from_secs(60)).await.unwrap();
    }
}

fn question(timeout_ms: i64) -> Value {
    let questions = json!([{ "id": "why", "question": "Why?" }]);
    workflow("ask", "core.clarificationGate", &json!({ "questions": questions, "timeoutMs": timeout_ms }))
}

fn bodies(peer: &Peer) -> Vec<Value> {
    let body = |heard: &String| serde_json::from_str(heard.split_once("\r\n\r\n").unwrap().1).unwrap();
    peer.heard().iter().map(body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_stops_tells_its_callback_url_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::telling(dir.path()).await;
    let peer = Peer::saying(answer(204, "", "")).await;
    let run = start_told(&desk.engine, &question(HOUR), Some(peer.url("/asked"))).await;
    desk.until_waiting(&[]).await;
    let heard = peer.heard();
    assert!(heard[0].starts_with("POST /asked ") && heard[0].contains("application/json"), "{heard:?}");
    let id = asked(&desk.engine, run).await.to_string();
    let expected = json!({
        "runId": run.id.to_string(),
        "nodeId": "ask",
        "interruptId": id,
        "kind": "clarification",
        "key": format!("{}:ask:1:1", run.id),
        "data": { "questions": [{ "id": "why", "question": "Why?" }] },
        "requestedAt": "1970-01-01T00:16:40.000Z",
        "deadline": "1970-01-01T01:16:40.000Z",
        "callbackUrl": "https://here/v1/interrupts/token-ask-0",
        "interruptToken": "token-ask-0",
        "expiresAt": "1970-01-01T01:16:40.000Z",
    });
    assert_eq!(bodies(&peer), [expected]);
    desk.close().await;
    let marker = b"token-ask-0";
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(marker.len()).any(|window| window == marker), "a token is on disk");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_does_not_arrive_is_sent_again_with_a_new_token() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::telling(dir.path()).await;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let peer = Peer::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Say(answer(500, "", "")),
        1 => Act::Say(answer(302, "location: /elsewhere\r\n", "")),
        _ => Act::Say(answer(200, "", "")),
    })
    .await;
    start_told(&desk.engine, &question(0), Some(peer.url("/asked"))).await;
    desk.until_waiting(&[1]).await;
    desk.clock.advance(5_000).await.unwrap();
    desk.until_waiting(&[2]).await;
    desk.clock.advance(30_000).await.unwrap();
    desk.until_waiting(&[]).await;
    let tokens: Vec<Value> = bodies(&peer).iter().map(|body| body["interruptToken"].clone()).collect();
    assert_eq!(tokens, ["token-ask-0", "token-ask-1", "token-ask-2"]);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_before_it_is_told_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = Desk::open(dir.path(), None).await;
    let peer = Peer::saying(answer(204, "", "")).await;
    let url = || Some(peer.url("/asked"));
    let answered = start_told(&quiet.engine, &question(0), url()).await;
    let open = start_told(&quiet.engine, &question(0), url()).await;
    assert_eq!(quiet.waiting().await, [0, 0], "it is on disk before anybody is told");
    let id = asked(&quiet.engine, answered).await;
    let by = Answerer::of("ada");
    let value = Json::of(&json!({ "answers": { "why": "because" } }));
    quiet.engine.resolve(answered, id, value, by, Reply::new(None, |_| Vec::new())).await.unwrap();
    quiet.close().await;

    let desk = Desk::telling(dir.path()).await;
    desk.until_waiting(&[]).await;
    let told: Vec<Value> = bodies(&peer).iter().map(|body| body["runId"].clone()).collect();
    assert_eq!(told, [open.id.to_string()]);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_for_those_who_answer_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::telling(dir.path()).await;
    let peer = Peer::saying(answer(204, "", "")).await;
    let mut hushed = workflow("hushed", "core.approvalGate", &json!({ "title": "Well?" }));
    hushed["variables"] =
        json!([{ "name": "secret", "type": "string", "defaultValue": "hush", "sensitive": true }]);
    hushed["nodes"][0]["inputs"] =
        json!({ "artifactData": { "type": "variable", "variableName": "secret" } });
    start_told(&desk.engine, &hushed, Some(peer.url("/asked"))).await;
    desk.until_waiting(&[]).await;
    let body = &bodies(&peer)[0];
    assert_eq!((&body["sensitive"], body.get("data")), (&json!(true), None));
    assert!(!peer.heard()[0].contains("hush\""), "{:?}", peer.heard());
    desk.close().await;
}
