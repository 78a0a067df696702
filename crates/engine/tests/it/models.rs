//! Calls of models: what becomes of one whose run is ended meanwhile.

use std::sync::Arc;

use abide_core::{Graph, Status, TenantId};
use abide_engine::{Engine, EngineOptions, Secrets, TestClock};
use abide_model::scripted::{ScriptedProvider, Step};
use abide_model::{Protocol, ProviderConfig, Providers};
use abide_store::{Sqlite, SqliteOptions};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Rig, START, within};
use crate::tapped::Tapped;

/// Secrets that are looked up for as long as the test likes.
struct Slow {
    asked: Semaphore,
    let_go: Semaphore,
}

impl Secrets for Slow {
    fn get<'a>(&'a self, _: TenantId, _: &'a str) -> abide_engine::Lookup<'a> {
        Box::pin(async move {
            self.asked.add_permits(1);
            self.let_go.acquire().await.unwrap().forget();
            Ok(Some("key".to_owned()))
        })
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_just_before_its_model_is_called_does_not_wait_for_it() {
    let provider = ScriptedProvider::start();
    provider.usually(Step::Hang);
    let url = provider.base_url(Protocol::OpenAi);
    let config = json!({ "main": { "kind": "openai", "base-url": url, "model": "small", "key": "key" } });
    let config: std::collections::BTreeMap<String, ProviderConfig> = serde_json::from_value(config).unwrap();
    let ask = json!({
        "id": "ask", "name": "ask", "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {},
        "settings": {},
        "nodes": [{ "id": "turn", "typeId": "core.llm.chat", "name": "turn", "position": {}, "inputs": {},
            "config": { "prompt": "Say something." } }],
    });
    let dir = tempfile::tempdir().unwrap();
    let store = Tapped::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
    let secrets = Arc::new(Slow { asked: Semaphore::new(0), let_go: Semaphore::new(0) });
    let engine = Engine::start(EngineOptions {
        secrets: secrets.clone(),
        providers: Arc::new(Providers::from_config(config).unwrap()),
        workflows: vec![Graph::admit(ask.to_string().as_bytes()).unwrap()],
        ..EngineOptions::new(store.clone(), clock.clone())
    });
    let rig = Rig { engine, store, clock };
    let run = rig.start("ask").await;
    within("the key to be asked for", secrets.asked.acquire()).await.unwrap().forget();
    rig.engine.cancel(run, None, None).await.unwrap();
    secrets.let_go.add_permits(1);
    assert_eq!(rig.end_of(run).await, Status::Cancelled);
    assert_eq!(provider.count(), 0, "nobody was asked");
    rig.close().await;
}
