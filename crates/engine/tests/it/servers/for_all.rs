//! What one server does for all, and what one does for another's runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{EventType, Health, Json, Key, Status};
use abide_engine::{EngineOptions, limits};
use abide_model::scripted::{ScriptedProvider, Step};
use abide_model::{Protocol, ProviderConfig, Providers};
use abide_pgtest::Database;
use abide_store::{Added, NewEvent, Put, Role, Store, WebhookKey, WebhookRow};
use serde_json::json;

use super::{Server, node};
use crate::asked::{order, start};
use crate::peer::{Peer, answer};
use crate::support::{TENANT, within};
use crate::webhooks::{Plain, bodies};

fn with_webhooks(database: &Database) -> Server {
    Server::with(database, None, |options| EngineOptions { webhooks: Some(Arc::new(Plain)), ..options })
}

async fn add_webhook(server: &Server, url: String) {
    let row = WebhookRow {
        key: WebhookKey { tenant: TENANT, id: "all".into() },
        url,
        types: vec!["*".to_owned()],
        tags: Vec::new(),
        sealed: [].into(),
        fingerprint: String::new(),
        created_at: server.engine.clock().now(),
        created_by: None,
        health: Health::default(),
        about: None,
    };
    assert_eq!(server.store.webhooks().put(row, 100, None).await.unwrap(), Added::Done);
}

/// What a webhook is to hear of a run.
async fn told_of(server: &Server, run: Key) -> Vec<String> {
    let records = server.engine.events(run, 0, 1000).await.unwrap();
    let canonical = records.iter().filter(|it| EventType::by_code(it.type_code).unwrap().canonical);
    canonical.map(|record| format!("{} {}", run.id, record.sequence)).collect()
}

/// Whoever commits it, each event is sent once, and those of a run in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_hears_each_event_once_and_goes_on_hearing_when_its_server_is_gone() {
    let database = Database::new();
    let one = with_webhooks(&database);
    one.sees(|view| view.holds(Role::Webhooks)).await;
    let two = with_webhooks(&database);
    two.sees(|view| view.servers.len() == 2).await;
    let peer = Peer::saying(answer(200, "", "")).await;
    add_webhook(&two, peer.url("/hook")).await;
    let mut expected = Vec::new();
    for n in 0..10 {
        let server = if n % 2 == 0 { &one } else { &two };
        let run = server.run("noop").await;
        expected.push(told_of(server, run).await);
    }
    let all: usize = expected.iter().map(Vec::len).sum();
    peer.hears(all).await;
    let heard = bodies(&peer);
    for events in &expected {
        let of_run: Vec<&String> = heard.iter().filter(|body| events.contains(body)).collect();
        assert_eq!(of_run, events.iter().collect::<Vec<_>>(), "each once, and in order");
    }
    // What was sent and not written down yet would be sent again.
    within("all that to be written down", async {
        while !two.store.webhooks().busy().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Its lease runs out without a word, and the other sends from then on.
    one.die();
    let run = two.run("noop").await;
    let last = told_of(&two, run).await;
    peer.hears(all + last.len()).await;
    assert_eq!(bodies(&peer)[all..], last);
}

/// An event is kept by one server, and the question that it answers is asked on another.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_who_waits_for_it_find_each_other_across_servers() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let receive = async |server: &Server, id: &str, order: u32| {
        let payload = Json::of(&json!({ "order": order }));
        let (id, kind) = (id.to_owned(), "order.paid".to_owned());
        server.engine.receive_event(TENANT, id, kind, payload, "shop".to_owned()).await.unwrap()
    };
    assert!(receive(&one, "early", 7).await.kept);
    let run = start(&two.engine, &order("a", 7, &json!({}))).await;
    assert_eq!(two.end_of(run).await, Status::Completed);
    let run = start(&two.engine, &order("b", 8, &json!({}))).await;
    assert_eq!(receive(&one, "late", 8).await.delivered[0].run_id, run.id);
    assert_eq!(one.end_of(run).await, Status::Completed);
    // Its server died when the event was on disk, before it looked for those that wait.
    let run = start(&two.engine, &order("c", 9, &json!({}))).await;
    let now = one.engine.clock().now();
    let left = NewEvent {
        tenant: TENANT,
        id: "left".to_owned(),
        event_type: "order.paid".to_owned(),
        digest: [0; 32],
        payload: Json::of(&json!({ "order": 9 })),
        sender: "shop".to_owned(),
        at: now,
        expires_at: now + limits::EVENT_KEPT_MS,
    };
    assert_eq!(one.store.external_events().put(left, 9).await.unwrap(), Put::New);
    assert_eq!(two.end_of(run).await, Status::Completed);
    two.verify().await;
}

/// The call of a model is under way on one server, and its run is cancelled on another.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_model_is_given_up_when_another_server_ends_its_run() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::Hang);
    let url = provider.base_url(Protocol::OpenAi);
    let config = json!({ "main": { "kind": "openai", "base-url": url, "model": "small" } });
    let config: BTreeMap<String, ProviderConfig> = serde_json::from_value(config).unwrap();
    let providers = Arc::new(Providers::from_config(config).unwrap());
    let database = Database::new();
    let server = || {
        let providers = providers.clone();
        Server::with(&database, None, |options| EngineOptions { providers, ..options })
    };
    let (one, two) = (server(), server());
    one.push("ask", json!([node("turn", "core.llm.chat", &json!({ "prompt": "Say something." }))])).await;
    let run = one.run("ask").await;
    within("the model to be called", async {
        while provider.count() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    two.engine.cancel(run, None, None).await.unwrap();
    assert_eq!(two.end_of(run).await, Status::Cancelled);
    assert_eq!(provider.count(), 1);
    two.verify().await;
}
