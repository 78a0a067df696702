//! An engine with a test clock, and the few workflows the tests need.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_core::{EventType, Graph, Json, Key, Millis, RunId, Status, TenantId};
use abide_engine::{Clock, Engine, EngineOptions, Envelopes, NetPolicy, NewRun, TestClock, verify};
use abide_store::{Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

use crate::tapped::Tapped;

pub(crate) const TENANT: TenantId = TenantId(1);
pub(crate) const START: Millis = 1_000_000;

/// An engine, its store and its clock.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Tapped>,
    pub(crate) clock: Arc<TestClock>,
}

impl Rig {
    pub(crate) async fn open(dir: &Path) -> Self {
        let store = Tapped::new(Sqlite::open(&SqliteOptions::new(dir)).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        let engine = second_engine(&store, &clock);
        Self { engine, store, clock }
    }

    pub(crate) async fn start(&self, workflow: &str) -> Key {
        self.engine.start_run(NewRun::of(TENANT, workflow)).await.unwrap().0.of(TENANT)
    }

    /// A run that waits for `ms`.
    pub(crate) async fn start_waiting(&self, ms: Millis) -> Key {
        let inputs = [("delayMs".to_owned(), Json::of(&ms))].into();
        let new = NewRun { inputs, ..NewRun::of(TENANT, "wait") };
        self.engine.start_run(new).await.unwrap().0.of(TENANT)
    }

    pub(crate) async fn status(&self, key: Key) -> Status {
        self.engine.head(key).await.unwrap().summary.status
    }

    /// Waits until the run has ended.
    pub(crate) async fn end_of(&self, key: Key) -> Status {
        let mut news = self.engine.subscribe(key);
        loop {
            let status = self.status(key).await;
            if status.is_terminal() {
                return status;
            }
            within("a run to end", news.changed()).await;
        }
    }

    /// The names of a run's events, in order.
    pub(crate) async fn story(&self, key: Key) -> Vec<&'static str> {
        let records = self.engine.events(key, 0, usize::MAX).await.unwrap();
        records.iter().map(|record| EventType::by_code(record.type_code).unwrap().name).collect()
    }

    /// Waits until every message is delivered.
    pub(crate) async fn outbox_is_empty(&self) {
        within("the outbox", async {
            while self.engine.store().totals().await.unwrap().outbox > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Everything on disk is as the journals say.
    pub(crate) async fn verify(&self) {
        let report = verify::verify(&*self.store, |_| ()).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }

    /// Stops the engine and lets go of the data directory.
    pub(crate) async fn close(self) {
        self.engine.drain(Duration::from_secs(10)).await.unwrap();
    }
}

/// Another engine on the same store, as another server would be.
pub(crate) fn second_engine(store: &Arc<Tapped>, clock: &Arc<TestClock>) -> Engine {
    engine_with(store, clock, None)
}

/// An engine that tells webhooks of events in these words.
pub(crate) fn engine_with(
    store: &Arc<Tapped>,
    clock: &Arc<TestClock>,
    webhooks: Option<Arc<dyn Envelopes>>,
) -> Engine {
    Engine::start(EngineOptions { webhooks, ..options(store.clone(), clock.clone()) })
}

/// An engine that knows the workflows of the tests and may reach this machine.
pub(crate) fn options(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> EngineOptions {
    let net = NetPolicy::parse(&["127.0.0.0/8"]).unwrap();
    let admitted = |workflow: &Value| Graph::admit(workflow.to_string().as_bytes()).unwrap();
    let workflows = workflows().iter().map(admitted).collect();
    EngineOptions { net, workflows, ..EngineOptions::new(store, clock) }
}

/// Bounds a wait, so that a bug fails a test instead of hanging it; a machine that is busy with other things has time
/// enough.
pub(crate) async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), waiting)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// A run id that belongs to nobody.
pub(crate) fn nobody() -> RunId {
    RunId::from_bytes([9; 16])
}

fn workflows() -> Vec<Value> {
    let delay = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    let durable = json!({ "abide": { "durable": true } });
    let variables = json!([{ "name": "delayMs", "type": "number", "defaultValue": 1000 }]);
    vec![
        workflow("noop", &[node("n", "core.noop", &json!({}), &json!({}))], &json!([]), &json!([])),
        workflow("wait", &[node("n", "core.delay", &delay, &json!({}))], &json!([]), &variables),
        workflow(
            "steps",
            &[node("a", "core.noop", &json!({}), &durable), node("b", "core.noop", &json!({}), &durable)],
            &json!([{ "id": "ab", "sourceNodeId": "a", "targetNodeId": "b" }]),
            &json!([]),
        ),
    ]
}

fn node(id: &str, kind: &str, inputs: &Value, settings: &Value) -> Value {
    json!({ "id": id, "typeId": kind, "name": id, "position": {}, "config": {}, "inputs": inputs, "settings": settings })
}

fn workflow(id: &str, nodes: &[Value], edges: &Value, variables: &Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": variables,
        "metadata": {}, "settings": {},
    })
}
