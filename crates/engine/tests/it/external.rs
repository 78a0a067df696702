//! Events from elsewhere: given to those that wait for them, once, whoever comes first and whatever dies.

use abide_core::{Json, Key, Rejection, Status, sha256};
use abide_engine::{Error, Received, limits};
use abide_store::{EventRow, NewEvent, Put, Store, Target};
use serde_json::{Value, json};

use crate::asked::{asked, order, outcome, start};
use crate::support::{Rig, START, TENANT, within};

async fn receive(rig: &Rig, id: &str, payload: &Value) -> Result<Received, Error> {
    let (id, kind, by) = (id.to_owned(), "order.paid".to_owned(), "shop".to_owned());
    rig.engine.receive_event(TENANT, id, kind, Json::of(payload), by).await
}

async fn target(rig: &Rig, run: Key) -> Target {
    let interrupt_id = asked(&rig.engine, run).await;
    Target { run_id: run.id, node_id: "ask".to_owned(), interrupt_id }
}

/// An event as a server keeps it, before it looks for those that wait.
fn kept(id: &str, payload: &Value) -> NewEvent {
    NewEvent {
        tenant: TENANT,
        id: id.to_owned(),
        event_type: "order.paid".to_owned(),
        digest: sha256(Json::of(&("order.paid", payload)).text().as_bytes()),
        payload: Json::of(payload),
        sender: "shop".to_owned(),
        at: START,
        expires_at: START + limits::EVENT_KEPT_MS,
    }
}

async fn read(rig: &Rig, id: &str) -> Option<EventRow> {
    rig.store.external_events().get(TENANT, id.to_owned()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_resolves_all_that_wait_for_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let (one, two) = (
        start(&rig.engine, &order("a", 7, &json!({}))).await,
        start(&rig.engine, &order("b", 7, &json!({}))).await,
    );
    let other = start(&rig.engine, &order("c", 8, &json!({}))).await;
    let expected = [target(&rig, one).await, target(&rig, two).await];
    let payload = json!({ "order": 7.0, "by": "card" });
    let received = receive(&rig, "e1", &payload).await.unwrap();
    assert_eq!(received, Received { delivered: expected.to_vec(), kept: false, duplicate: false });
    for run in [one, two] {
        assert_eq!(rig.status(run).await, Status::Completed);
        let end = outcome(&rig.engine, run).await;
        assert_eq!((&end["resumeValue"]["eventPayload"], &end["resolvedBy"]), (&payload, &json!("shop")));
    }
    assert_eq!(rig.status(other).await, Status::WaitingExternal);
    let event = read(&rig, "e1").await.unwrap();
    assert_eq!((event.payload, event.is_kept), (None, false), "what it says is in the journals now");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_told_again_changes_nothing_and_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let run = start(&rig.engine, &order("a", 7, &json!({}))).await;
    let expected = vec![target(&rig, run).await];
    receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    let later = start(&rig.engine, &order("a", 7, &json!({}))).await;
    let again = receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    assert_eq!(again, Received { delivered: expected, kept: false, duplicate: true });
    assert_eq!(rig.status(later).await, Status::WaitingExternal, "it is another's");
    let resolved = rig.story(run).await.into_iter().filter(|name| *name == "interrupt.resolved").count();
    assert_eq!(resolved, 1);

    let early = receive(&rig, "e2", &json!({ "order": 9 })).await.unwrap();
    assert_eq!(early, Received { delivered: vec![], kept: true, duplicate: false });
    let again = receive(&rig, "e2", &json!({ "order": 9 })).await.unwrap();
    assert_eq!(again, Received { delivered: vec![], kept: true, duplicate: true });
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_is_one_event() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    let before = read(&rig, "e1").await;
    let refused = receive(&rig, "e1", &json!({ "order": 8 })).await;
    assert!(matches!(refused, Err(Error::EventConflict(id)) if id == "e1"));
    let kind = rig.engine.receive_event(
        TENANT,
        "e1".to_owned(),
        "order.lost".to_owned(),
        Json::of(&json!({ "order": 7 })),
        "shop".to_owned(),
    );
    assert!(matches!(kind.await, Err(Error::EventConflict(_))));
    assert_eq!(read(&rig, "e1").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_early_is_kept_for_the_first_that_asks() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    assert!(receive(&rig, "other", &json!({ "order": 8 })).await.unwrap().kept);
    assert!(receive(&rig, "e1", &json!({ "order": 7, "by": "card" })).await.unwrap().kept);
    let first = start(&rig.engine, &order("a", 7, &json!({}))).await;
    assert_eq!(rig.end_of(first).await, Status::Completed);
    assert_eq!(outcome(&rig.engine, first).await["resumeValue"]["eventPayload"]["by"], "card");
    let second = start(&rig.engine, &order("a", 7, &json!({}))).await;
    let again = receive(&rig, "e1", &json!({ "order": 7, "by": "card" })).await.unwrap();
    assert_eq!((again.delivered[0].run_id, again.kept, again.duplicate), (first.id, false, true));
    assert_eq!(rig.status(second).await, Status::WaitingExternal);
    assert!(read(&rig, "other").await.unwrap().is_kept);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_kept_only_so_long() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    rig.clock.advance(limits::EVENT_KEPT_MS).await.unwrap();
    let late = start(&rig.engine, &order("a", 7, &json!({}))).await;
    within("the event to be forgotten", async {
        while read(&rig, "e1").await.is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(rig.status(late).await, Status::WaitingExternal);
    let anew = receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    assert_eq!((anew.delivered.len(), anew.duplicate), (1, false), "nothing is left of the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_whoever_waits_for_it_meet_whichever_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    for n in 0..40 {
        let engine = rig.engine.clone();
        let asking = tokio::spawn(async move { start(&engine, &order("a", n, &json!({}))).await });
        let (id, payload) = (format!("e{n}"), json!({ "order": n }));
        let (told, run) = tokio::join!(receive(&rig, &id, &payload), asking);
        told.unwrap();
        assert_eq!(rig.end_of(run.unwrap()).await, Status::Completed);
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_stored_before_a_crash_is_given_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let run = start(&rig.engine, &order("a", 7, &json!({}))).await;
    rig.engine.drain(std::time::Duration::from_secs(60)).await.unwrap();
    drop(rig);
    // The process died when the event was on disk and before it looked for those that wait.
    let store = abide_store::Sqlite::open(&abide_store::SqliteOptions::new(dir.path())).unwrap();
    let put = store.external_events().put(kept("e1", &json!({ "order": 7 })), 9).await.unwrap();
    assert_eq!(put, Put::New);
    drop(store);
    let rig = Rig::open(dir.path()).await;
    assert_eq!(rig.end_of(run).await, Status::Completed);
    let again = receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    assert_eq!((again.delivered[0].run_id, again.duplicate), (run.id, true));
    rig.verify().await;
}

/// Asks for the same event twice, one after the other.
fn twice() -> Value {
    let mut twice = order("twice", 7, &json!({}));
    let mut second = twice["nodes"][0].clone();
    second["id"] = json!("again");
    twice["nodes"].as_array_mut().unwrap().push(second);
    twice["edges"] = json!([{ "id": "e", "sourceNodeId": "ask", "targetNodeId": "again" }]);
    twice
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_being_given_is_given_to_nobody_else_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let waiting = start(&rig.engine, &order("a", 7, &json!({}))).await;
    let (mut targets, run) = (vec![target(&rig, waiting).await], start(&rig.engine, &twice()).await);
    targets.push(target(&rig, run).await);
    // The process died when the second of two had it: that one asks for the next by now.
    let events = rig.store.external_events();
    events.put(kept("e1", &json!({ "order": 7 })), 9).await.unwrap();
    assert!(events.give(TENANT, "e1".to_owned(), targets.clone()).await.unwrap());
    let value = Json::of(&json!({ "eventPayload": { "order": 7 } }));
    let by = abide_core::Answerer::of("shop");
    let reply = abide_engine::Reply::new(None, |_| Vec::new());
    rig.engine.resolve(run, targets[1].interrupt_id, value, by, reply).await.unwrap();
    rig.close().await;

    let rig = Rig::open(dir.path()).await;
    assert_eq!(rig.end_of(waiting).await, Status::Completed, "it was its turn");
    within("the event to be given", async {
        while !rig.store.external_events().being_given(9).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(read(&rig, "e1").await.unwrap().targets, targets);
    assert_eq!(rig.status(run).await, Status::WaitingExternal, "the second question is not answered by it");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_nobody_can_take_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let schema = json!({ "type": "object", "properties": { "eventPayload": { "required": ["by"] } } });
    let picky = start(&rig.engine, &order("a", 7, &json!({ "resumeSchema": schema }))).await;
    let received = receive(&rig, "e1", &json!({ "order": 7 })).await.unwrap();
    assert_eq!(received, Received { delivered: vec![], kept: true, duplicate: false });
    assert_eq!(rig.status(picky).await, Status::WaitingExternal);
    let second = receive(&rig, "e2", &json!({ "order": 7, "by": "card" })).await.unwrap();
    assert_eq!(second.delivered, [Target { run_id: picky.id, ..second.delivered[0].clone() }]);
    assert_eq!(rig.status(picky).await, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let long = "x".repeat(limits::EVENT_BYTES_MAX);
    let refused = receive(&rig, "e1", &json!({ "order": long })).await;
    let Err(Error::Rejected(Rejection::Invalid { field, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!(field, "eventPayload");
    let refused = receive(&rig, &long, &json!({})).await;
    assert!(matches!(refused, Err(Error::Rejected(Rejection::Invalid { field, .. })) if field == "eventId"));
    assert_eq!(rig.store.external_events().get(TENANT, "e1".to_owned()).await.unwrap(), None);
}
