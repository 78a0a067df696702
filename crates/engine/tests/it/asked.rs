//! Answers to interrupts: of many, one is taken, with everything that belongs to it.

use abide_core::{Answerer, InterruptId, Json, Key, Payload, Rejection, Run, Status};
use abide_engine::{Engine, Error, NewRun, Reply};
use abide_store::{InboxQuery, Receipt, Store};
use serde_json::{Value, json};

use crate::support::{Rig, START, TENANT, within};

/// A workflow that waits for an event about an order, and then for nothing.
pub(crate) fn order(id: &str, order: u32, more: &Value) -> Value {
    let data = json!({ "eventType": "order.paid", "correlation": { "order": order } });
    let mut config = json!({ "kind": "external-event", "data": data });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    workflow(id, "core.interrupt", &config)
}

/// A workflow of one node.
pub(crate) fn workflow(id: &str, kind: &str, config: &Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {},
        "settings": {},
        "nodes": [{
            "id": "ask", "typeId": kind, "name": "Ask", "position": {}, "config": config, "inputs": {},
        }],
    })
}

/// Starts a run of a workflow that is pushed for it.
pub(crate) async fn start(engine: &Engine, workflow: &Value) -> Key {
    start_told(engine, workflow, None).await
}

/// Starts a run whose interrupts somebody is told of.
pub(crate) async fn start_told(engine: &Engine, workflow: &Value, callback_url: Option<String>) -> Key {
    let pushed = engine.push_workflow(TENANT, workflow.to_string().as_bytes(), None).await.unwrap();
    let new = NewRun { callback_url, ..NewRun::of(TENANT, &pushed.id) };
    engine.start_run(new).await.unwrap().0.of(TENANT)
}

/// The only open interrupt of a run.
pub(crate) async fn asked(engine: &Engine, run: Key) -> InterruptId {
    engine.read(run, |run| run.interrupt_of("ask")).await.unwrap().unwrap()
}

/// What a run's node got in the end.
pub(crate) async fn outcome(engine: &Engine, run: Key) -> Value {
    let records = engine.events(run, 0, 100).await.unwrap();
    let resolved = records.iter().find_map(|record| {
        let name = abide_core::EventType::by_code(record.type_code).unwrap().name;
        (name == "interrupt.resolved").then(|| match &record.payload {
            Payload::Present(bytes) => bytes.to_vec(),
            Payload::Erased(_) => Vec::new(),
        })
    });
    serde_json::from_slice(&resolved.expect("it was resolved")).unwrap()
}

fn approval(timeout_ms: i64) -> Value {
    workflow("approval", "core.approvalGate", &json!({ "title": "Well?", "timeoutMs": timeout_ms }))
}

fn by(name: &str) -> Answerer {
    Answerer { principal: name.to_owned(), may_act_for_others: false, ..Answerer::default() }
}

fn accept() -> Json {
    Json::of(&json!({ "action": "accept" }))
}

fn reply(receipt: Option<Receipt>) -> Reply {
    Reply::new(receipt, |run: &Run| run.status().name().as_bytes().to_vec())
}

fn receipt(byte: u8) -> Receipt {
    let endpoint = "resolveInterrupt".to_owned();
    Receipt { tenant: TENANT, endpoint, key: [byte; 32], digest: [0; 32], status: 200, body: vec![], at: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_answers_one_is_taken_with_its_receipt() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let run = start(&rig.engine, &approval(0)).await;
    let id = asked(&rig.engine, run).await;
    assert_eq!(rig.status(run).await, Status::WaitingApproval);
    let mut answering = tokio::task::JoinSet::new();
    for ix in 0..32 {
        let engine = rig.engine.clone();
        answering.spawn(async move {
            let who = by(&format!("person {ix}"));
            (ix, engine.resolve(run, id, accept(), who, reply(Some(receipt(ix)))).await)
        });
    }
    let answers = within("32 answers", answering.join_all()).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| answer.is_ok());
    assert_eq!((won.len(), lost.len()), (1, 31));
    for (_, answer) in lost {
        assert!(matches!(answer, Err(Error::Rejected(Rejection::AlreadyResolved))), "{answer:?}");
    }
    let winner = won[0].0;
    assert_eq!(outcome(&rig.engine, run).await["resolvedBy"], format!("person {winner}"));
    for ix in 0..32 {
        let Receipt { tenant, endpoint, key, .. } = receipt(ix);
        let kept = rig.store.receipt(tenant, endpoint, key).await.unwrap();
        assert_eq!(kept.map(|kept| kept.body), (ix == winner).then(|| b"completed".to_vec()));
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_with_the_deadline_or_a_cancellation_has_one_end() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    for round in 0..30_i64 {
        let run = start(&rig.engine, &approval(1000)).await;
        let id = asked(&rig.engine, run).await;
        let (engine, clock) = (rig.engine.clone(), rig.clock.clone());
        let canceller = rig.engine.clone();
        let answer = tokio::spawn(async move {
            if round % 3 == 0 {
                tokio::task::yield_now().await;
            }
            engine.resolve(run, id, accept(), by("ada"), reply(None)).await
        });
        let late = tokio::spawn(async move {
            match round % 2 {
                0 => drop(clock.advance(1000).await),
                _ => drop(canceller.cancel(run, None, None).await),
            }
        });
        let answered = within("an answer", answer).await.unwrap();
        within("the rest", late).await.unwrap();
        rig.clock.advance(1000).await.unwrap();
        rig.end_of(run).await;
        let told = rig.story(run).await.into_iter().filter(|name| *name == "interrupt.resolved").count();
        assert_eq!(told, 1, "one end");
        let end = outcome(&rig.engine, run).await;
        assert_eq!(answered.is_ok(), end["outcome"] == "resolved", "{answered:?} {end}");
    }
    assert_eq!(rig.engine.inbox().list(InboxQuery::of(TENANT, 9)).await.unwrap().rows, []);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_in_the_inbox_after_a_restart_and_can_be_answered() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let run = start(&rig.engine, &approval(0)).await;
    let id = asked(&rig.engine, run).await;
    rig.close().await;
    let rig = Rig::open(dir.path()).await;
    let row = rig.engine.inbox().get(run, id).await.unwrap().unwrap();
    assert_eq!(
        (row.open.title.as_str(), row.open.requested_at, &*row.workflow),
        ("Well?", START, "approval")
    );
    let answer = rig.engine.resolve(run, id, accept(), by("ada"), reply(None)).await.unwrap();
    assert_eq!(answer, b"completed");
    assert_eq!(rig.engine.inbox().get(run, id).await.unwrap(), None);
}
